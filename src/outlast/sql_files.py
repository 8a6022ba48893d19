"""SQL statements from ``.sql`` files, grouped by subject.

A file consists of blocks. ``-- name: x`` begins a statement, ``-- part: x`` a fragment that the statements and parts of
the same file include as ``{x}``. Other placeholders, such as ``{schema}``, are values of the caller. Braces around
anything but a name, such as the literal ``'{}'``, stay as they are. Comment lines are removed, so that they are not
sent to the server with every call.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

_BLOCK = re.compile(r"^-- (name|part):(.*)$", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*--.*\n?", re.MULTILINE)
_CREATE_TABLE = re.compile(r"^CREATE TABLE (?:[^ (]+\.)?(\w+)", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{([a-z]\w*)\}")


@cache
def load_statements(package: str, folder: str = "queries", **values: str) -> dict[str, str]:
    """Return the statements of a package's folder by name, with all placeholders filled in.

    Args:
        package: The package that contains the folder.
        folder: The folder of the ``.sql`` files.
        values: The values of placeholders that are not parts.

    Raises:
        ValueError: If a name is used twice, or a placeholder is neither a part of its file nor among the values.
    """
    statements: dict[str, str] = {}
    for file, text in _read(package, folder):
        for name, statement in parse_statements(file, text, values).items():
            if name in statements:
                raise ValueError(f"{file}: the statement {name} is also in another file")
            statements[name] = statement
    return statements


@cache
def load_migrations(package: str, **values: str) -> dict[int, str]:
    """Return the migrations of a package by number, which is the schema version after it, in ascending order.

    Comments stay: SQLite keeps them with the table.
    """
    return {int(file.partition("_")[0]): _fill(text, values, file) for file, text in _read(package, "migrations")}


def created_tables(migrations: Mapping[int, str]) -> list[str]:
    """Return the names of the tables that migrations create."""
    return [name for script in migrations.values() for name in _CREATE_TABLE.findall(script)]


def parse_statements(file: str, text: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return the statements of one file by name, with all placeholders filled in.

    Args:
        file: Its name, for error messages.
        text: Its contents.
        values: The values of placeholders that are not parts.

    Raises:
        ValueError: If a name is used twice, or a placeholder is unknown.
    """
    known, names = dict(values), []
    for kind, name, body in _blocks(file, text):
        if name in known or name in names:
            raise ValueError(f"{file}: the name {name} is used twice")
        known[name] = body
        if kind == "name":
            names.append(name)
    parts = {name: body for name, body in known.items() if name not in names}
    return {name: _fill(known[name], parts, f"{file}, {name}") for name in names}


def _blocks(file: str, text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, the name and the text of each block, without comments."""
    before, *found = _BLOCK.split(text)
    if _COMMENT.sub("", before).strip():
        raise ValueError(f"{file}: there is text before the first block")
    for kind, name, text_of_block in zip(found[::3], map(str.strip, found[1::3]), found[2::3], strict=True):
        body = _COMMENT.sub("", text_of_block).strip()
        if not name.isidentifier() or not body:
            raise ValueError(f"{file}: the {kind} {name!r} is not a name, or has no text")
        yield kind, name, body


def _fill(text: str, values: Mapping[str, str], where: str, within: tuple[str, ...] = ()) -> str:
    """Replace the placeholders of a text; a part may include others."""

    def value_of(placeholder: re.Match[str]) -> str:
        name = placeholder[1]
        if name not in values or name in within:
            problem = "includes itself" if name in within else "is neither a part of this file nor a known value"
            raise ValueError(f"{where}: {{{name}}} {problem}")
        return _fill(values[name], values, where, (*within, name))

    return _PLACEHOLDER.sub(value_of, text)


def _read(package: str, folder: str) -> list[tuple[str, str]]:
    """Return the files of a folder by name, in order."""
    found = files(package).joinpath(folder)
    return sorted((entry.name, entry.read_text("utf-8")) for entry in found.iterdir() if entry.name.endswith(".sql"))
