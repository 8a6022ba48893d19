"""The one place where psycopg is imported, so that its absence is said in words that help."""

from outlast.errors import ConfigError

try:
    import psycopg
    import psycopg_pool
except ImportError as error:
    _message = "PostgreSQL needs psycopg; run: pip install 'outlast[postgres]'"
    raise ConfigError(_message) from error

__all__ = ["psycopg", "psycopg_pool"]
