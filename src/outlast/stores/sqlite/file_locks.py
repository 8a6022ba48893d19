"""Locks on jobs beside a SQLite file: by the operating system, so that a process that dies lets go at once.

One file for each job, named by a digest, for a job may be called anything; in it stands who holds it. The files stay:
one that were removed while somebody waits for its lock would be held by two.
"""

import hashlib
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import IO

from outlast.forks import after_fork, around_fork

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


_TRIES = 200
_LOCK_OFFSET = 1 << 30  # where nothing is written: Windows lets nobody read what is locked
_MAX_HOLDER_BYTES = 4000
_open_lock = threading.Lock()


class FileLock:
    """A job that nobody else runs, once it is taken; see `JobLock`.

    It excludes the threads of this process as it does others, and other containers that share the folder. A child that
    is forked has no part in it.

    Args:
        path: Of the file, which is created.
    """

    def __init__(self, path: Path) -> None:
        """Open the file."""
        path.parent.mkdir(exist_ok=True)
        with _open_lock:
            self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
            after_fork(self.drop)  # a copy of the file would hold the lock for as long as the child lives

    def take(self, holder: str) -> bool:
        """Lock it and write down who does; tell whether it was free."""
        if self._file is None or not _try_lock(self._file):
            return False
        if not self.held():  # the file was removed after it was opened
            return False
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, holder.encode("utf-8", "replace")[:_MAX_HOLDER_BYTES])
        return True

    @property
    def is_open(self) -> bool:
        """Whether it was not released yet."""
        return self._file is not None

    def held(self) -> bool:
        """Tell whether it is still ours: not once somebody has removed its file, and never in a child process."""
        return self._file is not None and os.fstat(self._file).st_nlink > 0

    def release(self) -> None:
        """Let others run it, also where a child has a copy of the file for a moment."""
        file, self._file = self._file, None
        if file is not None:
            os.ftruncate(file, 0)
            _unlock(file)
            os.close(file)

    def drop(self) -> None:
        """Close the file and leave the lock to whoever has it: somebody else, or the parent of this process."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def lock_file(folder: Path, job: str, holder: str) -> FileLock | None:
    """Keep a job to oneself; None if somebody else has it."""
    path = _lock_path(folder, job)
    for _ in range(_TRIES):
        lock = FileLock(path)
        if lock.take(holder):
            return lock
        lock.drop()
        if _is_held(path):
            return None
        time.sleep(random.uniform(0.0005, 0.005))  # noqa: S311  # spreads waits, guards no secret
    return None  # somebody looked who holds it, each time


def lock_holder(folder: Path, job: str) -> str | None:
    """Return who holds a job; None if nobody does."""
    path = _lock_path(folder, job)
    for _ in range(_TRIES):
        if not _is_held(path):
            return None
        text = path.read_bytes()[:_MAX_HOLDER_BYTES].decode("utf-8", "replace")
        if text:
            return text
        time.sleep(0.001)  # it is being written
    return ""


def _lock_path(folder: Path, job: str) -> Path:
    return folder / hashlib.sha256(job.encode("utf-8", "replace")).hexdigest()[:32]


def _is_held(path: Path) -> bool:
    """Tell whether somebody has a lock; whoever only looks keeps none of the others who look from it."""
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        if not _try_lock(file, shared=True):
            return True
        _unlock(file)
        return False
    finally:
        os.close(file)


def _try_lock(file: int, *, shared: bool = False) -> bool:
    if sys.platform == "win32":
        os.lseek(file, _LOCK_OFFSET, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
    else:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _unlock(file: int) -> None:
    if sys.platform == "win32":
        os.lseek(file, _LOCK_OFFSET, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_UN)


around_fork(before=_open_lock.acquire, in_parent=_open_lock.release, in_child=_open_lock.release)


# A lock that a process holds for as long as it lives, however it dies; by the operating system, not by number.
#
# Numbers of processes mean nothing between containers that share a folder.

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def hold_worker_lock(path: Path) -> IO[bytes]:
    """Create a file and lock it; the lock ends when the returned file is closed, by us or by the system.

    Raises:
        OSError: If it is locked already or cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("ab")
    try:
        _lock_or_raise(file)
    except OSError:
        file.close()
        raise
    return file


def is_worker_lock_free(path: Path) -> bool:
    """Tell whether a file is there and nobody holds its lock: then whoever made it is dead."""
    try:
        file = path.open("r+b")
    except OSError:
        return False
    with file:
        try:
            _lock_or_raise(file)
        except OSError:
            return False
        return True


def _lock_or_raise(file: IO[bytes]) -> None:
    if sys.platform == "win32":
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
