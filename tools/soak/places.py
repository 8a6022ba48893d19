"""Where the long run takes place: an SQLite file or a PostgreSQL server, on a small disk if one can be had."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_TESTS = Path(__file__).resolve().parents[2] / "tests"
_MEGABYTE = 1024 * 1024


class SmallDisk:
    """A file system in memory that can be filled up; without the right to mount one, `is_real` is False.

    Args:
        folder: Where it is mounted.
        size: Bytes.
    """

    def __init__(self, folder: Path, size: int) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        self.is_real = done.returncode == 0
        self.why_not = done.stderr.strip()

    def fill(self) -> None:
        """Leave no byte free."""
        file = os.open(self.folder / "ballast", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for size in (_MEGABYTE, 4096, 1):
                with contextlib.suppress(OSError):
                    while os.write(file, b"x" * size) == size:
                        pass
        finally:
            os.close(file)

    def clear(self) -> None:
        """Make room again."""
        (self.folder / "ballast").unlink(missing_ok=True)

    def end(self) -> None:
        """Take it away."""
        if self.is_real:
            subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)


class Place:
    """A database, and what can be done to it.

    Attributes:
        name: ``sqlite`` or ``postgres``.
        url: For an app.
        notes: What cannot be done here, for people.
        environment: That processes need besides.
    """

    name = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self.notes: list[str] = []
        self.environment: dict[str, str] = {}

    @property
    def restarts(self) -> bool:
        """Whether the database can be restarted."""
        return False

    @property
    def fills(self) -> bool:
        """Whether the disk can be filled."""
        return False

    def restart(self, pause: float) -> None:
        """End the database at once, and have it back after so many seconds."""

    def fill(self) -> None:
        """Leave no room."""

    def clear(self) -> None:
        """Make room, and have the database back if it has given up."""

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """Ask the database itself, past Outlast."""
        raise NotImplementedError

    def end(self) -> None:
        """Take all of it away."""


class SqlitePlace(Place):
    """A file."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._disk = SmallDisk(folder / "disk", 300 * _MEGABYTE)
        self._file = self._disk.folder / "outlast.db"
        self._flag = folder / "full"
        self.url = f"sqlite:///{self._file}"
        if not self._disk.is_real:
            self.notes.append(f"no small disk ({self._disk.why_not}): a full one is SQLite's own limit of its size")
            self.environment = {"SOAK_FULL": str(self._flag)}

    @property
    def fills(self) -> bool:
        """It always can."""
        return True

    def fill(self) -> None:
        """Leave no room."""
        if self._disk.is_real:
            self._disk.fill()
        else:
            self._flag.touch()

    def clear(self) -> None:
        """Make room."""
        self._disk.clear()
        self._flag.unlink(missing_ok=True)

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """Ask the file itself."""
        with contextlib.closing(sqlite3.connect(self._file)) as connection:
            return connection.execute(statement).fetchall()

    def end(self) -> None:
        """Take the disk away."""
        self._disk.end()


class PostgresPlace(Place):
    """A server of its own, from the wheel that the tests use."""

    name = "postgres"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        sys.path.append(str(_TESTS))
        from servers.postgres import PostgresServer  # noqa: PLC0415  # of the tests

        self._disk = SmallDisk(folder / "disk", 700 * _MEGABYTE)
        settings = {"synchronous_commit": "on", "max_wal_size": "64MB", "min_wal_size": "32MB"}
        self._server = PostgresServer(self._disk.folder / "postgres", max_connections=80, settings=settings)
        if self._disk.is_real:
            before, tempfile.tempdir = tempfile.tempdir, str(self._disk.folder)  # as root its data stand there
            folder.chmod(0o755)
        else:
            before = tempfile.tempdir
            self.notes.append(f"no small disk ({self._disk.why_not}): the disk is not filled here")
        try:
            self._server.start()
        finally:
            tempfile.tempdir = before
        self.url = self._server.url

    @property
    def restarts(self) -> bool:
        """It can."""
        return True

    @property
    def fills(self) -> bool:
        """Where there is a small disk."""
        return self._disk.is_real

    def restart(self, pause: float) -> None:
        """End the server without a checkpoint, and have it recover from its log."""
        self._server.stop_hard()
        import time  # noqa: PLC0415  # for this alone

        time.sleep(pause)
        self._server.restart()

    def fill(self) -> None:
        """Leave no room: statements fail, and where the log cannot grow the server gives up."""
        self._disk.fill()

    def clear(self) -> None:
        """Make room, and start a server that has given up."""
        self._disk.clear()
        if self._server.pid is None:
            self._server.restart()
            return
        with contextlib.suppress(Exception):
            self.rows("SELECT 1")
            return
        self._server.stop_hard()  # it is there and answers nobody
        self._server.restart()

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """Ask the server itself."""
        with self._server.connect() as connection:
            return connection.execute(statement).fetchall()

    def end(self) -> None:
        """End the server, and take its disk away."""
        self._server.stop()
        self._disk.end()


PLACES = {each.name: each for each in (SqlitePlace, PostgresPlace)}
