"""The health checker: runs all checks at the same time, caches the result briefly, and never raises."""

import inspect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from outlast import clock
from outlast.async_backends import in_trio
from outlast.errors import ConfigError
from outlast.forks import after_fork
from outlast.health.checks import (
    CheckFunction,
    CheckRunner,
    DatabaseProtocol,
    DeadLetterGrowth,
    DiskSpace,
    Finding,
    HealthCheckResult,
    HealthReport,
    HealthStore,
    Heartbeat,
    OldestReadyTask,
    database_check,
)

READY_CHECKS = ("database", "scheduler", "loop")
"""The checks that decide about readiness, as far as a checker has them."""
CHECK_TIMEOUT = 2.0
"""Seconds for the checks. It is shorter than the timeout of clients (3 s), so that they learn which check hangs."""


class SchedulerProtocol(Protocol):
    """A scheduler that knows whether it runs."""

    @property
    def running(self) -> bool:
        """Whether the scheduler runs."""


class HealthApp(Protocol):
    """The attributes of an app that health checks need."""

    @property
    def store(self) -> Any:
        """The store with its tasks."""


class HealthChecker:
    """Checks what a program depends on.

    Each check runs in its own thread. A check that raises, or takes longer than `timeout`, is False. While it hangs, it
    stays False and does not run again. Errors are logged under ``outlast.health``, redacted and at most once per minute
    and check. Responses do not contain them.

    Args:
        db: A connection with ``execute``, a store, or an app; adds the check ``database``.
        scheduler: An object with ``running``; adds the check ``scheduler``.
        checks: Further checks by name. Each returns True, False or a `Finding`.
        cache: Seconds to reuse a result. Callers that ask while the checks run share the result.
        timeout: Seconds for the checks, which run at the same time.

    Raises:
        ConfigError: If an argument is not valid.
    """

    def __init__(
        self,
        db: DatabaseProtocol | HealthStore | HealthApp | None = None,
        scheduler: SchedulerProtocol | None = None,
        checks: Mapping[str, CheckFunction] | None = None,
        cache: float = 1.0,
        timeout: float = CHECK_TIMEOUT,
    ) -> None:
        self._cache = _check_seconds("cache", cache, least=0.0)
        timeout = _check_seconds("timeout", timeout, least=0.001)
        functions: dict[str, CheckFunction] = {}
        if db is not None:
            functions["database"] = database_check(db)
        if scheduler is not None:
            functions["scheduler"] = lambda: scheduler.running  # it may raise, like any other check
        for name, function in (checks or {}).items():
            functions[_check_name(name, functions)] = _check_function(name, function)
        self._timeout = timeout
        self._runners = [CheckRunner(name, function, timeout) for name, function in functions.items()]
        self._stopping = False
        self._lock = threading.Lock()
        self._latest: Future[HealthReport] | None = None
        self._finished_at = 0.0
        after_fork(self._reset)

    @classmethod
    def for_app(
        cls,
        app: HealthApp,
        *,
        loop: Heartbeat | None = None,
        queues: Sequence[str] | None = None,
        checks: Mapping[str, CheckFunction] | None = None,
        cache: float = 1.0,
        timeout: float = CHECK_TIMEOUT,
    ) -> "HealthChecker":
        """Return a checker for a worker or monitor of an app.

        Its checks are ``database``, ``loop`` (if `loop` is given), ``oldest_ready``, ``dead_letters``, and ``disk`` (if
        the store is a file, but not for ``memory://``).

        Args:
            app: The app whose store is checked.
            loop: The heartbeat of the worker's or monitor's loop.
            queues: The queues for ``oldest_ready``; by default those of the app's tasks.
            checks: Further checks by name. One of the names above replaces the built-in check.
            cache: As for the class.
            timeout: As for the class.
        """
        store = app.store
        own: dict[str, CheckFunction] = {"database": database_check(store)}
        if loop is not None:
            own["loop"] = loop
        own["oldest_ready"] = OldestReadyTask(store, queues=_queues_of(app) if queues is None else tuple(queues))
        own["dead_letters"] = DeadLetterGrowth(store)
        file = getattr(getattr(store, "db", None), "path", None)
        if isinstance(file, Path) and not getattr(store, "in_process", False):
            own["disk"] = DiskSpace(file.parent)
        return cls(checks={**own, **(checks or {})}, cache=cache, timeout=timeout)

    def check(self) -> HealthCheckResult:
        """Return the public result. Waits for the checks if there is no cached result; never raises."""
        return self.report().result

    def ready(self) -> HealthCheckResult:
        """Return whether the program accepts work: its `READY_CHECKS` pass and it is not stopping."""
        return self.readiness(self.report()).result

    def report(self) -> HealthReport:
        """Return the detailed findings, for authorized clients."""
        return self.begin().result()

    async def report_async(self) -> HealthReport:
        """Return the same as `report` without blocking the event loop of asyncio or trio."""
        future = self.begin()
        if future.done():
            return future.result()
        if in_trio():
            import trio  # noqa: PLC0415  # loaded already

            return await trio.to_thread.run_sync(future.result, abandon_on_cancel=True)
        import asyncio  # noqa: PLC0415  # loaded already

        return await asyncio.wrap_future(future)

    def readiness(self, report: HealthReport) -> HealthReport:
        """Return the part of a report that decides about readiness."""
        checks = {name: finding for name, finding in report.checks.items() if name in READY_CHECKS}
        if self._stopping:
            checks["accepting"] = Finding(ok=False, detail="stopping")
        return HealthReport(checks)

    def stopping(self) -> None:
        """Report not ready from now on, because the program stops. It may stay healthy until its end."""
        self._stopping = True

    def begin(self) -> "Future[HealthReport]":
        """Return the cached or pending report. Starts the checks if there is none."""
        with self._lock:
            latest = self._latest
            if latest is not None and (not latest.done() or clock.monotonic() - self._finished_at < self._cache):
                return latest
            self._latest = future = Future[HealthReport]()
            future.set_running_or_notify_cancel()  # a caller that stops waiting must not cancel it for the others
        try:
            threading.Thread(target=self._run_checks, args=(future,), name="outlast-health", daemon=True).start()
        except RuntimeError:  # no more threads, so no check can run
            self._finish(future, self._failed_report())
        return future

    def _reset(self) -> None:
        """Forget checks under way. After a fork, their threads and the holder of the lock exist only in the parent."""
        self._lock, self._latest = threading.Lock(), None
        for runner in self._runners:
            runner.forget()

    def _run_checks(self, future: "Future[HealthReport]") -> None:
        try:
            until = time.monotonic() + self._timeout
            for runner in self._runners:
                runner.start()
            report = HealthReport(MappingProxyType({runner.name: runner.finding(until) for runner in self._runners}))
        except BaseException:  # noqa: BLE001  # out of memory, for example: callers must still get a report
            report = self._failed_report()
        self._finish(future, report)

    def _finish(self, future: "Future[HealthReport]", report: HealthReport) -> None:
        self._finished_at = clock.monotonic()
        future.set_result(report)

    def _failed_report(self) -> HealthReport:
        return HealthReport({runner.name: Finding(ok=False, detail="could not run") for runner in self._runners})


def _queues_of(app: HealthApp) -> Callable[[], Sequence[str]]:
    """Return a function that returns the queues of an app's tasks. Tasks may be added later."""

    def queues() -> Sequence[str]:
        tasks: Mapping[str, Any] = getattr(app, "tasks_by_name", {})
        return list(dict.fromkeys(["default", *(each.queue for each in tasks.values())]))

    return queues


def _check_name(name: object, taken: Mapping[str, object]) -> str:
    if not isinstance(name, str) or not name.isprintable() or not name.strip():
        message = f"{name!r} is not a valid name for a check; give a printable text that is not empty"
        raise ConfigError(message)
    if name in taken:
        message = f"the check {name!r} already exists; give this one another name"
        raise ConfigError(message)
    return name


def _check_function(name: str, function: Any) -> CheckFunction:
    if not callable(function):
        message = f"the check {name!r} is {function!r}; give a function that returns True, False or a Finding"
        raise ConfigError(message)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004  # iscoroutinefunction needs the method
        message = f"the check {name!r} is async; give a plain function, which may block: it runs in its own thread"
        raise ConfigError(message)
    checked: CheckFunction = function
    return checked


def _check_seconds(name: str, value: object, *, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= threading.TIMEOUT_MAX:
        message = f"{name} is {value!r}; give seconds, {least:g} or more"
        raise ConfigError(message)
    return float(value)
