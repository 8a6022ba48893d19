"""The only place that imports psycopg, so that a missing driver raises a helpful error."""

from outlast.errors import ConfigError

try:
    import psycopg
    import psycopg_pool
except ImportError as error:
    _message = "PostgreSQL needs psycopg; run: pip install 'outlast[postgres]'"
    raise ConfigError(_message) from error

__all__ = ["psycopg", "psycopg_pool"]
