"""Locks of jobs and workers on files next to a SQLite file. The operating system releases them when a process dies.

Each job has one file, named by a hash because a job name may contain any character. The file contains the holder. It is
never removed: two processes could hold the lock if one removed the file while the other waits for it.
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
from outlast.private_files import make_folder, private_opener

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


_TRIES = 200
_LOCK_OFFSET = 1 << 30  # beyond the content, because Windows blocks reading of locked bytes
_MAX_HOLDER_BYTES = 4000
_open_lock = threading.Lock()


class FileLock:
    """A lock on a job; see `JobLock`.

    It also excludes other threads of this process, and other containers that share the folder. A forked child does not
    hold it.

    Args:
        path: Path of the file, which is created.
    """

    def __init__(self, path: Path) -> None:
        make_folder(path.parent)
        with _open_lock:
            self._file: int | None = private_opener(str(path), os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0))
            after_fork(self.drop)  # an inherited descriptor would hold the lock for as long as the child lives

    def take(self, holder: str) -> bool:
        """Lock the file and write the holder into it; return whether it was free."""
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
        """Whether it has not been released."""
        return self._file is not None

    def held(self) -> bool:
        """Return whether the lock is still held: not if its file was removed, and never in a child process."""
        return self._file is not None and os.fstat(self._file).st_nlink > 0

    def release(self) -> None:
        """Release the lock, even if a child process has inherited the file for a moment."""
        file, self._file = self._file, None
        if file is not None:
            os.ftruncate(file, 0)
            _unlock(file)
            os.close(file)

    def drop(self) -> None:
        """Close the file without releasing the lock, which belongs to another process or to the parent of this one."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def lock_file(folder: Path, job: str, holder: str) -> FileLock | None:
    """Lock a job; return None if somebody else holds the lock."""
    path = _lock_path(folder, job)
    for _ in range(_TRIES):
        lock = FileLock(path)
        if lock.take(holder):
            return lock
        lock.drop()
        if _is_held(path):
            return None
        time.sleep(random.uniform(0.0005, 0.005))  # noqa: S311  # jitter, not security
    return None  # each time, another process was checking the holder


def lock_holder(folder: Path, job: str) -> str | None:
    """Return who holds the lock of a job, empty if unknown; None if nobody does."""
    path = _lock_path(folder, job)
    for _ in range(_TRIES):
        if not _is_held(path):
            return None
        text = path.read_bytes()[:_MAX_HOLDER_BYTES].decode("utf-8", "replace")
        if text:
            return text
        time.sleep(0.001)  # the holder is being written
    return ""


def _lock_path(folder: Path, job: str) -> Path:
    return folder / hashlib.sha256(job.encode("utf-8", "replace")).hexdigest()[:32]


def _is_held(path: Path) -> bool:
    """Return whether somebody holds a lock. The shared lock does not disturb other checks."""
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


# Workers use locks and not process ids, which mean nothing between containers that share a folder.


def hold_worker_lock(path: Path) -> IO[bytes]:
    """Create a file and lock it. The lock ends when the returned file is closed or the process dies.

    Raises:
        OSError: If it is already locked or cannot be created.
    """
    make_folder(path.parent)
    file = open(path, "ab", opener=private_opener)  # noqa: SIM115  # the caller closes it
    if not _try_lock(file.fileno()):
        file.close()
        raise BlockingIOError(f"{path} is already locked")
    return file


def is_worker_lock_free(path: Path) -> bool:
    """Return whether the file exists and nobody holds its lock, which means that its worker is dead."""
    try:
        with path.open("r+b") as file:
            return _try_lock(file.fileno())
    except OSError:
        return False
