"""Signal handlers of ours. SIGTERM and Ctrl-C stop services and job runs: a second signal ends them at once."""

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from outlast.forks import after_fork

if TYPE_CHECKING:
    import asyncio

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SAME_SIGNAL = 0.3  # seconds; some supervisors send one signal to the process and to its group


class _Run(Protocol):
    stopped: bool

    @property
    def reader(self) -> int: ...


_replaced: list[dict[int, Any]] = []
"""The handlers that ours replace, by signal, the outermost first."""


def set_handlers(
    numbers: Collection[int],
    handler: Callable[..., object],
    install: Callable[[int, Callable[..., object]], object] = signal.signal,
) -> dict[int, Any]:
    """Handle some signals in this process, from its main thread, and return the handlers from before.

    Forked processes get those back: with ours they could not be ended.

    Args:
        numbers: The signals.
        handler: The handler to set.
        install: Sets the handler of one signal.
    """
    replaced = {each: signal.getsignal(each) for each in numbers}
    _replaced.append(replaced)
    for each in numbers:
        install(each, handler)
    return replaced


@contextmanager
def restored_after(replaced: dict[int, Any]) -> Iterator[None]:
    """Restore the handlers that `set_handlers` returned, after the block."""
    try:
        yield
    finally:
        if replaced in _replaced:  # a forked process has them back already
            _replaced.remove(replaced)
            _restore(replaced)


def _restore(replaced: dict[int, Any]) -> None:
    for number, handler in replaced.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _restore_in_child() -> None:
    if _replaced:
        signal.set_wakeup_fd(-1)  # it wakes the event loop of the parent
    while _replaced:
        _restore(_replaced.pop())
    _runs.clear()


after_fork(_restore_in_child)


@contextmanager
def stop_on_signals(
    loop: "asyncio.AbstractEventLoop", first: Callable[[], None], second: Callable[[], None]
) -> Iterator[None]:
    """Handle SIGTERM and Ctrl-C within the block: the first signal stops the program, a second one ends it at once.

    Works in the main thread only; in others the block runs without it.

    Args:
        loop: The running event loop.
        first: Called at the first signal; it starts the stop.
        second: Called at a second signal, just before the process ends with exit code 1.
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

    numbers: tuple[int, ...] = ()
    if _in_main_thread():
        with suppress(NotImplementedError):  # Windows has no such handlers; Ctrl-C raises there
            for each in _SIGNALS:
                loop.remove_signal_handler(each)  # else it would be restored without its loop, and ignore the signal
            numbers = _SIGNALS
    with restored_after(set_handlers(numbers, signalled, loop.add_signal_handler)):
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


_runs: list[_Run] = []
"""Runs of the main thread: one inside a handler of another, or several on one event loop."""
_run_handlers = ExitStack()
_signalled_at = 0.0


@contextmanager
def run_stopped_by_signals(run: _Run) -> Iterator[None]:
    """Within the block, in the main thread, the first signal stops a run, a second one raises KeyboardInterrupt.

    A run may have no event loop, or one that is not ours. The last run to leave restores the handlers from before.

    Args:
        run: The run. The first signal sets its `stopped`, which the run must check.
    """
    if not _in_main_thread():
        yield
        return
    if not _runs:
        # a program that ignores signals continues to do so
        numbers = [each for each in _SIGNALS if signal.getsignal(each) not in {signal.SIG_IGN, None}]
        _run_handlers.enter_context(restored_after(set_handlers(numbers, _stop_runs)))
    _runs.append(run)
    try:
        yield
    finally:
        if run in _runs:  # not in a forked process
            _runs.remove(run)
        if not _runs:
            _run_handlers.close()


def _stop_runs(*_: object) -> None:
    """Set flags, and nothing else: taking a lock could wait for the code that the signal has interrupted."""
    global _signalled_at  # noqa: PLW0603  # there is one process
    now, here = time.monotonic(), threading.get_ident()
    waiting = [run for run in _runs if not run.stopped]
    if not waiting and now - _signalled_at < _SAME_SIGNAL:
        return
    _signalled_at = now
    for run in waiting:
        run.stopped = True
    if not waiting or any(run.reader == here for run in waiting):  # it may wait for its iterable forever
        raise KeyboardInterrupt
