"""From the two URLs of a move to its sides; in words that help where one cannot be."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from outlast.errors import ConfigError
from outlast.stores.moving.source import Source
from outlast.stores.moving.target import Target
from outlast.stores.opening import open_store, spool_for

__all__ = ["open_source", "open_target"]

_POSTGRES = {"postgresql", "postgres"}
_BACK = "a move goes from SQLite to PostgreSQL and not back"


@contextmanager
def open_source(url: str) -> Iterator[Source]:
    """Open the file of a URL.

    Raises:
        ConfigError: If it names none.
    """
    scheme = _scheme(url, "first")
    if scheme in _POSTGRES:
        message = f"the first URL is that of a PostgreSQL database: {_BACK}; give sqlite:///file.db first"
        raise ConfigError(message)
    if scheme != "sqlite":
        message = f"the first URL has the scheme {scheme!r}, and only a file can be moved; give sqlite:///file.db"
        raise ConfigError(message)
    _, path = open_store(url)
    assert path is not None  # noqa: S101  # for the type checker
    source = Source(path, spool_for(url, path))
    try:
        yield source
    finally:
        source.close()


@contextmanager
def open_target(url: str) -> Iterator[Target]:
    """Connect to the database of a URL.

    Raises:
        ConfigError: If it names none.
    """
    scheme = _scheme(url, "second")
    if scheme not in _POSTGRES:
        message = f"the second URL has the scheme {scheme!r}: {_BACK}; give postgresql://user@host/database"
        raise ConfigError(message)
    target = Target(url)
    try:
        yield target
    finally:
        target.close()


def _scheme(url: str, place: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError as error:  # of the URL itself nothing is shown: it may hold a password
        message = f"the {place} URL cannot be read: {error}; give sqlite:///file.db and postgresql://user@host/database"
        raise ConfigError(message) from None
