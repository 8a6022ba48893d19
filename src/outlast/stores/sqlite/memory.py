"""The store of ``memory://``: a SQLite file in a temporary folder, removed with the store."""

import os
import shutil
import sqlite3
import tempfile
import weakref
from contextlib import closing
from functools import cache
from pathlib import Path

from outlast.errors import ConfigError
from outlast.private_files import create_file
from outlast.stores.sqlite.connection import SqliteDatabase
from outlast.stores.sqlite.schema import prepare_schema
from outlast.stores.sqlite.store import SqliteStore


class _TemporaryDatabase(SqliteDatabase):
    """A file that nobody needs after a power cut."""

    syncs_to_disk = False


class MemoryStore(SqliteStore):
    """All protocols for one process, in a private temporary folder.

    The data stays after `close`. The folder is removed when the store is garbage-collected or the process exits. An
    exit that skips Python's cleanup leaves it behind: ``kill -9``, a signal without a handler, `os._exit`. A forked
    child uses the same file and does not remove it.

    Raises:
        ConfigError: If no temporary folder is writable.
    """

    in_process = True

    _database = _TemporaryDatabase

    def __init__(self) -> None:
        folder = _new_folder()
        try:
            super().__init__(folder / "outlast.db")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self.location = "memory"
        weakref.finalize(self, _remove, self.db, folder, os.getpid())


def _new_folder() -> Path:
    """Return a new folder with an empty database; it is made at once, so that a forked child does not make it too."""
    folder = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="outlast-"))
        create_file(folder / "outlast.db")
        (folder / "outlast.db").write_bytes(_empty_database())
    except OSError as error:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise ConfigError(
            f"memory:// cannot create its temporary file: {error}; set TMPDIR to a folder that is writable"
        ) from error
    return folder


def _remove(database: SqliteDatabase, folder: Path, creator: int) -> None:
    """Remove the folder, unless this is a forked child of the process that created it."""
    if os.getpid() == creator:
        database.close_unless_busy()  # a finalizer may run anywhere, also during a fork: it must not wait
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _empty_database() -> bytes:
    """Return the file of a database with empty tables; copying it is several times faster than the migrations."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        prepare_schema(connection)
        return connection.serialize()
