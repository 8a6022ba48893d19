"""The SQL of this store, made ready for one schema."""

import re
from collections.abc import Mapping
from functools import cache

from outlast.errors import ConfigError
from outlast.stores.books import FAILURES
from outlast.stores.postgres.walks import walks
from outlast.stores.queries import migrations, queries

__all__ = ["scripts", "statements"]

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_PARTS = {
    "--which--": "which_dead_letters",
    "--meant--": "meant_dead_letters",
    "--replay--": "replay_columns",
    "--group--": "group_columns",
    "--open--": "open_group",
    "--recent--": "recent_deltas",
    "--counts--": "counts",
    "--count_rows--": "count_rows",
}
"""Marks in the queries, and the files that stand for them."""
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


@cache
def statements(schema: str | None) -> dict[str, bytes]:
    """Return the queries by name; without comments, which would travel to the server with every call."""
    prefix, texts = _prefix(schema), queries(__package__)
    filled = {name: _filled(text, texts) for name, text in texts.items()}
    filled |= walks(filled)
    return {name: _COMMENT.sub("", text).replace("outlast.", prefix).encode() for name, text in filled.items()}


def _filled(text: str, texts: Mapping[str, str]) -> str:
    """Put in what several queries share; a part may have parts."""
    for mark, part in _PARTS.items():
        text = text.replace(mark, texts[part].rstrip())
    return text.replace("--failures--", ", ".join(f"'{event}'" for event in FAILURES))


@cache
def scripts(schema: str | None) -> dict[int, bytes]:
    """Return the migrations by the versions that they lead to."""
    prefix = _prefix(schema)
    return {number: text.replace("outlast.", prefix).encode() for number, text in migrations(__package__).items()}


def _prefix(schema: str | None) -> str:
    """Return what stands for ``outlast.`` in the files: a schema by name, or whatever the search path finds.

    Names are written out, not left to a setting of the session: a caller's own connection has another one, and behind
    a pooler sessions change hands.
    """
    if schema is None:
        return ""
    if not _SCHEMA.fullmatch(schema):
        message = f"schema is {schema!r}; choose lower-case letters, digits and underscores, 63 at most"
        raise ConfigError(message)
    return f'"{schema}".'
