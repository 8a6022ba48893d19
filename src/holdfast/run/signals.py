"""SIGTERM and Ctrl-C for what runs until it is told to stop: the first one stops, a second one ends at once."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["stopped_by_signals"]

_SAME_SIGNAL = 0.3  # seconds within which two signals are one


@contextmanager
def stopped_by_signals(
    loop: asyncio.AbstractEventLoop, first: Callable[[], None], second: Callable[[], None]
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
            return  # sent to the process and to its group, as some supervisors do
        if signalled_at:
            second()
            os._exit(1)
        signalled_at = now
        first()

    main = threading.current_thread() is threading.main_thread()
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)} if main else {}
    for each in before:
        with suppress(NotImplementedError):  # Windows has no such handlers; Ctrl-C raises there
            loop.add_signal_handler(each, signalled)
    try:
        yield
    finally:
        for each, handler in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(each)
                if handler is not None and not _is_a_loops(handler):
                    signal.signal(each, handler)


def _is_a_loops(handler: object) -> bool:
    """Tell whether a handler is what asyncio sets beside its own; by itself it would ignore the signal."""
    return getattr(handler, "__name__", "") == "_sighandler_noop"
