"""Ctrl-C and SIGTERM for runs of jobs: the first one stops them, a second one interrupts."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

__all__ = ["stopped_by_signals"]

_SAME_SIGNAL = 0.3  # seconds within which two signals are one, sent to the process and to its group
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Run(Protocol):
    stopped: bool

    @property
    def reader(self) -> int: ...


_runs: list[_Run] = []
"""Runs of the main thread: one inside a handler of another, or several on one event loop."""
_before: dict[signal.Signals, Any] = {}
_signalled_at = 0.0


@contextmanager
def stopped_by_signals(run: _Run) -> Iterator[None]:
    """Within the block, in the main thread, signals stop a run. The last one to leave puts back what was there before.

    Args:
        run: Its `stopped` is set; it has to look.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _runs:
        for each in _SIGNALS:
            found = signal.getsignal(each)
            if found not in {signal.SIG_IGN, None}:  # whoever ignores them goes on doing so
                _before[each] = signal.signal(each, _signalled)
    _runs.append(run)
    try:
        yield
    finally:
        _runs.remove(run)
        if not _runs:
            for each, old in _before.items():
                signal.signal(each, old)
            _before.clear()


def _signalled(*_: object) -> None:
    """Set flags, and nothing else: whatever takes a lock could wait for the code that the signal has interrupted."""
    global _signalled_at  # noqa: PLW0603  # there is one process
    now, here = time.monotonic(), threading.get_ident()
    waiting = [run for run in _runs if not run.stopped]
    if not waiting and now - _signalled_at < _SAME_SIGNAL:
        return
    _signalled_at = now
    for run in waiting:
        run.stopped = True
    if not waiting or any(run.reader == here for run in waiting):  # an iterable may wait for ever
        raise KeyboardInterrupt
