"""Finds the current attempt on the call stack, because the loops keep no record of a first attempt."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType
    from typing import Any


_MOST_FRAMES = 1000
_BLOCK = "outlast.run.block"
_LOOPS = frozenset({"outlast.run.loops", "outlast.run.watched", "outlast.run.again", "outlast.run.guarded"})
_COURSE = "outlast.http.request_attempts"  # a request through a transport: the loop is in the transport itself
_WITHIN = frozenset({"outlast.run.stack", "outlast.run.report", "outlast.run.call_state", _BLOCK, _COURSE})
_AGAIN = "outlast.run.again"


def attempting_locals() -> "Mapping[str, Any] | None":
    """Return the variables of the nearest attempt loop above the caller, a block's as its `state`; None without one."""
    block: Any = sys.modules.get(_BLOCK)
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # the stack is what we look at
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        if frame.f_globals.get("__name__") in _LOOPS:
            known = frame.f_locals
            if "marks" in known or "state" in known or "own" in known:
                return known
        elif block is not None and frame.f_code.co_exceptiontable:  # who has no such table is not inside a `with`
            attempt = block.running_in(list(frame.f_locals.values()))
            if attempt is not None:
                return {"state": attempt.state}
        frame = frame.f_back
    return None


def frames_of_call() -> "list[FrameType]":
    """Return the frames of the attempt loop that is deciding on an error: what tries again, then what was called."""
    frame: FrameType = sys._getframe(1)  # noqa: SLF001  # the stack is what we look at
    found = []
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__")
        if module == _AGAIN:
            found.append(frame)
        elif module not in _WITHIN:
            break
        frame = frame.f_back
    return [*found, frame]


def number_of(frame: "FrameType") -> int:
    """Return a number that no other call has as long as that of this frame goes on.

    A frame becomes an object only when somebody asks for it, and may then come to lie where another's was before. The
    keyword arguments of an attempt loop are there from its beginning.
    """
    given = frame.f_locals.get("kwargs") if frame.f_globals.get("__name__") in _LOOPS else None
    return id(frame if given is None else given)
