"""What a call may take of a machine's memory: a limit that a child sets itself, and takes off again after the call."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

__all__ = ["Allowance", "limited", "machine_memory", "wants_memory"]

_PROC = Path("/proc/self")
_GROUPS = Path("/sys/fs/cgroup")
_FIRST = 1000  # the process with the highest number is the first to go when the machine has no memory left
_DATA = 5  # place in statm
_NO_THREAD = "can't start new thread"  # what Python says


class Allowance:
    """What a call may take.

    Args:
        before: Bytes that the process had when the call began.
        most: Bytes that it may take beyond that.

    Attributes:
        is_over: Whether the limit is off again. It cannot be taken off where the call has made it the process's own.
    """

    def __init__(self, before: int, most: int) -> None:
        """Begin with nothing taken."""
        self.most, self.is_over = most, False
        self._before = before

    def taken(self) -> int:
        """Return how many bytes the call has by now."""
        return max(0, _taken() - self._before)


@contextmanager
def limited(memory: float | None) -> Iterator[Allowance | None]:
    """Limit what this process may take while the block runs; beyond it there is a `MemoryError`, or C code gives up.

    What it has already, the modules that it has loaded before all, is not counted. Where a machine is out of memory all
    the same, this process is ended before others. Only Linux counts what is taken; elsewhere nothing happens.

    Args:
        memory: Bytes; up to 1, a share of what the machine has. None for no limit.

    Yields:
        What may be taken, None where there is no limit.
    """
    if memory is None or sys.platform != "linux":
        yield None
        return
    import resource  # noqa: PLC0415  # Windows has none

    most = int(memory * machine_memory() if memory <= 1 else memory)
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)  # not RLIMIT_AS: many reserve addresses and never use them
    score = None
    try:
        taken = _taken()
        soft = taken + most if hard == resource.RLIM_INFINITY else min(taken + most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        score = _first_to_go(_FIRST)
    except (OSError, ValueError, IndexError):  # a system that only looks like Linux; its tasks are to run all the same
        yield None
        return
    allowance = Allowance(taken, max(0, soft - taken))
    try:
        yield allowance
    finally:
        with suppress(OSError, ValueError):  # the call has lowered the limit that nobody can raise again
            resource.setrlimit(resource.RLIMIT_DATA, (before, hard))
            allowance.is_over = True
        _first_to_go(score)


def wants_memory(error: BaseException) -> bool:
    """Tell whether an error, or one that it came from, is a want of memory; a thread needs memory as well."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        if isinstance(each, MemoryError) or (isinstance(each, OSError) and each.errno == errno.ENOMEM):
            return True
        if isinstance(each, RuntimeError) and _NO_THREAD in str(each):
            return True
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
    return False


def _taken() -> int:
    """Return the bytes that this process has, of those that are counted."""
    return int((_PROC / "statm").read_text().split()[_DATA]) * os.sysconf("SC_PAGE_SIZE")


def machine_memory() -> int:
    """Return the bytes that the machine has, or the container or service that this process is part of."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    lines = []
    with suppress(OSError):
        lines = (_PROC / "cgroup").read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base, name = (_GROUPS / "memory", "memory.limit_in_bytes") if controllers else (_GROUPS, "memory.max")
        inner = PurePosixPath(path)
        for group in (inner, *inner.parents):
            with suppress(OSError, ValueError):  # not to be seen from within a container; "max" is no number
                most = min(most, int((base / str(group).lstrip("/") / name).read_text()))
    return most


def _first_to_go(score: int | None) -> int | None:
    """Set how soon this process is ended where memory runs out; return what it was, None where that is not known."""
    if score is None:
        return None
    with suppress(OSError, ValueError):
        file = _PROC / "oom_score_adj"
        before = int(file.read_text())
        file.write_text(str(score))
        return before
    return None
