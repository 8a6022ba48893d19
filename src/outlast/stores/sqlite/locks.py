"""A lock that a process holds for as long as it lives, however it dies; by the operating system, not by number.

Numbers of processes mean nothing between containers that share a folder.
"""

import sys
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["hold", "is_free"]


def hold(path: Path) -> IO[bytes]:
    """Create a file and lock it; the lock ends when the returned file is closed, by us or by the system.

    Raises:
        OSError: If it is locked already or cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("ab")
    try:
        _lock(file)
    except OSError:
        file.close()
        raise
    return file


def is_free(path: Path) -> bool:
    """Tell whether a file is there and nobody holds its lock: then whoever made it is dead."""
    try:
        file = path.open("r+b")
    except OSError:
        return False
    with file:
        try:
            _lock(file)
        except OSError:
            return False
        return True


def _lock(file: IO[bytes]) -> None:
    if sys.platform == "win32":
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
