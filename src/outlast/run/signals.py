"""SIGTERM and Ctrl-C for services and job runs: the first signal stops, the second one ends at once."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SAME_SIGNAL = 0.3  # seconds; some supervisors send one signal to the process and to its group


class _Run(Protocol):
    stopped: bool

    @property
    def reader(self) -> int: ...


@contextmanager
def stop_on_signals(
    loop: "asyncio.AbstractEventLoop", first: Callable[[], None], second: Callable[[], None]
) -> Iterator[None]:
    """Within the block, in the main thread, signals call these functions; after the second the process ends.

    Args:
        loop: The event loop that runs.
        first: Has it stop.
        second: Says that it ends at once.
    """
    signalled_at = 0.0

    def signalled() -> None:
        nonlocal signalled_at
        now = time.monotonic()
        if signalled_at and now - signalled_at < _SAME_SIGNAL:
            return
        if signalled_at:
            second()
            os._exit(1)
        signalled_at = now
        first()

    before = {each: signal.getsignal(each) for each in _SIGNALS} if _in_main_thread() else {}
    for each in before:
        with suppress(NotImplementedError):  # Windows has no such handlers; Ctrl-C raises there
            loop.add_signal_handler(each, signalled)
    try:
        yield
    finally:
        for each, handler in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(each)
                if handler is not None and not _is_asyncio_handler(handler):
                    signal.signal(each, handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _is_asyncio_handler(handler: object) -> bool:
    """Tell whether a handler is what asyncio sets beside its own; by itself it would ignore the signal."""
    return getattr(handler, "__name__", "") == "_sighandler_noop"


_runs: list[_Run] = []
"""Runs of the main thread: one inside a handler of another, or several on one event loop."""
_before: dict[signal.Signals, Any] = {}
_signalled_at = 0.0


@contextmanager
def run_stopped_by_signals(run: _Run) -> Iterator[None]:
    """Within the block, in the main thread, the first signal stops a run, a second one raises KeyboardInterrupt.

    A run may have no event loop, or one that is not ours. The last run to leave restores the handlers from before.

    Args:
        run: Its `stopped` is set; it has to look.
    """
    if not _in_main_thread():
        yield
        return
    if not _runs:
        for each in _SIGNALS:
            found = signal.getsignal(each)
            if found not in {signal.SIG_IGN, None}:  # a program that ignores signals goes on doing so
                _before[each] = signal.signal(each, _stop_runs)
    _runs.append(run)
    try:
        yield
    finally:
        _runs.remove(run)
        if not _runs:
            for each, old in _before.items():
                signal.signal(each, old)
            _before.clear()


def _stop_runs(*_: object) -> None:
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
