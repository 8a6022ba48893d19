"""The SQL of this store for one schema."""

import re
from functools import cache

from outlast.errors import ConfigError
from outlast.sql_files import load_migrations, load_statements

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@cache
def statements(schema: str | None) -> dict[str, bytes]:
    """Return the statements by name."""
    return {name: text.encode() for name, text in load_statements(__package__, schema=_prefix(schema)).items()}


@cache
def scripts(schema: str | None) -> dict[int, bytes]:
    """Return the migrations by the schema version after each."""
    return {number: text.encode() for number, text in load_migrations(__package__, schema=_prefix(schema)).items()}


def _prefix(schema: str | None) -> str:
    """Return the value of ``{schema}``: a quoted name with a dot, or nothing to use the search path.

    The name is written into every statement. A session setting would not work: a caller's connection may have another
    one, and behind a pooler a session serves several clients.
    """
    if schema is None:
        return ""
    if not _SCHEMA.fullmatch(schema):
        raise ConfigError(f"schema is {schema!r}; choose lower-case letters, digits and underscores, 63 at most")
    return f'"{schema}".'
