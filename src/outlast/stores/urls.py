"""From a URL to the store that it names; the store's driver is imported only then."""

import hashlib
from pathlib import Path
from urllib.parse import urlsplit

from outlast.errors import ConfigError
from outlast.ports.store import Store


def open_store(url: str) -> tuple[Store, Path | None]:
    """Return the store of a URL, and its file if it is one."""
    try:
        parts = urlsplit(url)
    except ValueError as error:  # of the URL itself nothing is shown: it may hold a password
        message = f"the URL cannot be read: {error}; choose sqlite:///file.db, postgresql://… or memory://"
        raise ConfigError(message) from None
    if parts.scheme == "sqlite":
        from outlast.stores.sqlite.store import SqliteStore  # noqa: PLC0415  # the store that is asked for

        name = parts.path.removeprefix("/")
        if parts.netloc or not name:
            message = f"{url!r} names no file; give sqlite:///relative.db or sqlite:////absolute.db"
            raise ConfigError(message)
        path = Path(name).absolute()
        return SqliteStore(path), path
    if parts.scheme in {"postgresql", "postgres"}:
        from outlast.stores.postgres.store import PostgresStore  # noqa: PLC0415  # the store that is asked for

        return PostgresStore(url), None
    if parts.scheme == "memory":
        from outlast.stores.sqlite.memory import MemoryStore  # noqa: PLC0415  # the store that is asked for

        store = MemoryStore()
        return store, store.db.path
    message = f"the URL's scheme is {parts.scheme!r}; choose sqlite:///file.db, postgresql://… or memory://"
    raise ConfigError(message)


def spool_folder(url: object, file: Path | None) -> Path:
    """Return the folder for outcomes that could not be stored: beside a file, else in the user's home."""
    if file is not None:
        return file.with_name(f"{file.name}-spool")
    digest = hashlib.sha256(str(url).encode()).hexdigest()[:16]
    return Path.home() / ".outlast" / "spool" / digest
