"""The SQL of this store for one schema."""

import re
from functools import cache

from outlast.errors import ConfigError
from outlast.sql_files import created_tables, load_migrations, load_statements

DEFAULT_SCHEMA = "outlast"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@cache
def statements(schema: str) -> dict[str, bytes]:
    """Return the statements by name."""
    return {name: text.encode() for name, text in load_statements(__package__, schema=_prefix(schema)).items()}


@cache
def scripts(schema: str) -> dict[int, bytes]:
    """Return the migrations by the schema version after each."""
    return {number: text.encode() for number, text in load_migrations(__package__, schema=_prefix(schema)).items()}


def tables_until(version: int) -> list[str]:
    """Return the tables that the migrations up to a version create."""
    migrations = load_migrations(__package__, schema="")
    return created_tables({number: text for number, text in migrations.items() if number <= version})


def _prefix(schema: str) -> str:
    """Return the value of ``{schema}``: a quoted name with a dot.

    The name is written into every statement. A session setting would not work: a caller's connection may have another
    one, and behind a pooler a session serves several clients.
    """
    if not _SCHEMA.fullmatch(schema):
        raise ConfigError(f"schema is {schema!r}; choose lower-case letters, digits and underscores, 63 at most")
    return f'"{schema}".'
