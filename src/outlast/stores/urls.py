"""Opens the store of a URL. The store's driver is imported only when it is needed."""

import hashlib
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from outlast.errors import ConfigError
from outlast.ports.store import Store

_FILE_ENDINGS = (".db", ".sqlite", ".sqlite3")


def open_store(url: str) -> tuple[Store, Path | None]:
    """Return the store of a URL, and its file if it has one."""
    try:
        parts = urlsplit(url)
    except ValueError as error:  # the message does not show the URL, which may contain a password
        raise ConfigError(
            f"the URL is not valid: {error}; use sqlite:///file.db, postgresql://… or memory://"
        ) from None
    if parts.scheme == "sqlite":
        from outlast.stores.sqlite.store import SqliteStore  # noqa: PLC0415  # only the store that is used

        name = parts.path.removeprefix("/")
        if parts.netloc or not name:
            raise ConfigError(f"{url!r} has no file name; use sqlite:///relative.db or sqlite:////absolute.db")
        path = Path(name).absolute()
        return SqliteStore(path), path
    if parts.scheme in {"postgresql", "postgres"}:
        from outlast.stores.postgres.store import PostgresStore  # noqa: PLC0415  # only the store that is used

        return PostgresStore(url), None
    if parts.scheme == "memory":
        from outlast.stores.sqlite.memory import MemoryStore  # noqa: PLC0415  # only the store that is used

        store = MemoryStore()
        return store, store.db.path
    file = url if "://" not in url and url.endswith(_FILE_ENDINGS) else "file.db"
    raise ConfigError(
        f"the URL scheme {parts.scheme!r} is not supported; use sqlite:///{file}, postgresql://… or memory://"
    )


def spool_folder(url: object, file: Path | None) -> Path:
    """Return the folder for outcomes that could not be stored: next to the file, or in the user's home folder."""
    if file is not None:
        return file.with_name(f"{file.name}-spool")
    parts = urlsplit(str(url))  # without the password, which may change
    login, _, server = parts.netloc.rpartition("@")
    options = sorted(pair for pair in parse_qsl(parts.query) if pair[0] != "password")
    database = (parts.scheme, login.partition(":")[0], server, parts.path, options)
    digest = hashlib.sha256(repr(database).encode()).hexdigest()[:16]
    return Path.home() / ".outlast" / "spool" / digest
