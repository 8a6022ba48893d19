"""A child ends with its parent, also while it computes in C code and no thread of Python runs there.

The parent holds one end of a pipe in which nothing is ever written. When it is gone, by `kill -9` too, the system
closes that end, and sends the signal that the child has asked for on the other one. Linux alone does; elsewhere, and
beside it, a timer in C ends a call whose time has long been up.
"""

import faulthandler
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

__all__ = ["hold_on", "lifeline", "overdue_ends"]

_MARGIN = 60.0  # seconds; the parent, which says that time is up, may be slow
_MOST = 10 * 365 * 86400.0  # seconds; the timer takes no more than some hundred years


@contextmanager
def lifeline() -> Iterator[tuple[tuple[IO[bytes], ...], tuple[int, ...]]]:
    """Open a pipe for the start of a child.

    Yields:
        The parent's end, to be closed after the child's end, and the number of the child's. Both are empty where the
        system sends no signal.
    """
    if sys.platform != "linux":
        yield (), ()
        return
    theirs, ours = os.pipe()
    end = open(ours, "wb", buffering=0)  # noqa: PTH123, SIM115  # a file number; the caller closes it
    try:
        yield (end,), (theirs,)
    except BaseException:
        end.close()
        raise
    finally:
        os.close(theirs)


def hold_on(numbers: Sequence[str]) -> bool:
    """In the child: have this process, and all that it starts, killed when the parent is gone.

    Args:
        numbers: What `lifeline` gave for the child.

    Returns:
        Whether the parent is there.
    """
    if sys.platform != "linux":
        return True
    import fcntl  # noqa: PLC0415  # Windows has none

    for number in map(int, numbers):
        with suppress(OSError):  # a system that only looks like Linux
            os.set_inheritable(number, False)  # noqa: FBT003  # it takes no names
            os.set_blocking(number, False)
            fcntl.fcntl(number, fcntl.F_SETOWN, -os.getpgrp())
            fcntl.fcntl(number, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | os.O_ASYNC)
        with suppress(BlockingIOError):
            return os.read(number, 1) != b""  # gone before it was asked for
    return True


@contextmanager
def overdue_ends(seconds: float | None) -> Iterator[None]:
    """End this process if the block runs for much longer than it may, whatever it does; None for no limit."""
    if seconds is None:
        yield
        return
    faulthandler.dump_traceback_later(min(seconds, _MOST) + _MARGIN, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
