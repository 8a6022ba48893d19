"""Files and folders that only this user can use, whatever the umask is. What exists keeps its mode."""

import os
import threading
from contextlib import suppress
from pathlib import Path

from outlast.forks import around_fork

_create_lock = threading.Lock()


def private_opener(path: str, flags: int) -> int:
    """Open a file for `open(…, opener=…)`; a new file can only be used by this user."""
    return os.open(path, flags, 0o600)


def create_file(path: Path) -> None:
    """Create an empty file, unless it exists.

    Closing a file releases all locks of this process on it, those of SQLite too. So an existing file is not opened, and
    no thread that has called this uses a new file before it is closed here.
    """
    with _create_lock, suppress(FileExistsError):
        os.close(private_opener(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


around_fork(before=_create_lock.acquire, in_parent=_create_lock.release, in_child=_create_lock.release)
