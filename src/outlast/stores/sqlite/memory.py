"""The store of ``memory://``: a SQLite file in a temporary folder, removed with the store."""

import os
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

from outlast.errors import ConfigError
from outlast.stores.sqlite.connection import SqliteDatabase
from outlast.stores.sqlite.schema import prepare_schema
from outlast.stores.sqlite.store import SqliteStore


class _TemporaryDatabase(SqliteDatabase):
    """A file that is not needed after a crash: it is not synced, and starts as a copy of an empty database."""

    def __init__(
        self, path: str | Path, prepare: Callable[[sqlite3.Connection], object], synchronous: str = "NORMAL"
    ) -> None:
        super().__init__(path, prepare, synchronous)
        self._synchronous = "OFF"  # not a choice of users: a power cut would corrupt the file
        self._creating = threading.Lock()

    def _open(self) -> sqlite3.Connection:
        with self._creating:
            if self.path.parent.is_dir() and not self.path.exists():
                self.path.write_bytes(_empty_database())
        return super()._open()


class MemoryStore(SqliteStore):
    """All protocols for one process, in a private temporary folder.

    The data stays after `close`. The folder is removed when the store is garbage-collected or the process exits;
    ``kill -9`` leaves it behind. A forked child uses the same file and does not remove it.

    Raises:
        ConfigError: If no temporary folder is writable.
    """

    in_process = True

    _database = _TemporaryDatabase

    def __init__(self) -> None:
        folder = _new_folder()
        super().__init__(folder / "outlast.db")
        weakref.finalize(self, _remove, self.db, folder, os.getpid())


def _new_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="outlast-"))
    except OSError as error:
        message = f"memory:// cannot create a temporary folder: {error}; set TMPDIR to a folder that is writable"
        raise ConfigError(message) from error


def _remove(database: SqliteDatabase, folder: Path, creator: int) -> None:
    """Remove the folder, unless this is a forked child of the process that created it."""
    if os.getpid() == creator:
        database.close()
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _empty_database() -> bytes:
    """Return the file of a database with empty tables; copying it is several times faster than the migrations."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        prepare_schema(connection)
        return connection.serialize()
