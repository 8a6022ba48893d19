"""The health checker: asks all checks at once, keeps the answer for a moment, and never raises."""

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
"""What has to be well for taking work; what is missing among a checker's checks is not asked."""
CHECK_TIMEOUT = 2.0
"""Seconds that checks have. Whoever asks waits longer (a HEALTHCHECK 3 s), and is told which check hangs."""


class SchedulerProtocol(Protocol):
    """Something that knows whether it runs."""

    @property
    def running(self) -> bool:
        """Whether it does."""


class HealthApp(Protocol):
    """An app, as far as its health goes."""

    @property
    def store(self) -> Any:
        """Where its tasks are."""


class HealthChecker:
    """Looks at what a program depends on.

    Each check has a thread of its own. One that raises is False, and so is one that takes longer than `timeout`; while
    it hangs, it stays False and is not asked again. What went wrong is told to the log ``outlast.health``, redacted
    and at most once a minute per check, and never to whoever asks.

    Args:
        db: A connection with ``execute``, a store, or an app: the check ``database``.
        scheduler: Something with ``running``: the check ``scheduler``.
        checks: Further ones by name; each returns True, False or a `Finding`.
        cache: Seconds for which an answer holds. Whoever asks while checks run gets their answer.
        timeout: Seconds that the checks have, all at the same time.

    Raises:
        ConfigError: If something given cannot be used.
    """

    def __init__(
        self,
        db: DatabaseProtocol | HealthStore | HealthApp | None = None,
        scheduler: SchedulerProtocol | None = None,
        checks: Mapping[str, CheckFunction] | None = None,
        cache: float = 1.0,
        timeout: float = CHECK_TIMEOUT,
    ) -> None:
        """Check what was given; nothing is asked yet."""
        self._cache = _check_seconds("cache", cache, least=0.0)
        timeout = _check_seconds("timeout", timeout, least=0.001)
        asked: dict[str, CheckFunction] = {}
        if db is not None:
            asked["database"] = database_check(db)
        if scheduler is not None:
            asked["scheduler"] = lambda: scheduler.running  # it may raise, like any other
        for name, ask in (checks or {}).items():
            asked[_check_name(name, asked)] = _check_function(name, ask)
        self._timeout = timeout
        self._probes = [CheckRunner(name, ask, timeout) for name, ask in asked.items()]
        self._stopping = False
        self._lock = threading.Lock()
        self._latest: Future[HealthReport] | None = None
        self._seen_at = 0.0
        after_fork(self._begin_anew)

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

        Its checks are ``database``, ``loop`` where there is a heartbeat, ``oldest_ready``, ``dead_letters``, and
        ``disk`` where the store is a file, except for ``memory://``.

        Args:
            app: Its store is looked at.
            loop: What the worker's or monitor's loop beats.
            queues: Whose oldest task matters; by default those that the app's tasks name.
            checks: Further ones by name; one of the names above replaces ours.
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
        """Return what everybody may know; waits for the checks where no answer is at hand, and never raises."""
        return self.report().result

    def ready(self) -> HealthCheckResult:
        """Return whether work can be taken: database and loop are well, and it is not stopping."""
        return self.readiness(self.report()).result

    def report(self) -> HealthReport:
        """Return what was found in detail, for people who may know it."""
        return self.begin().result()

    async def report_async(self) -> HealthReport:
        """Return the same without blocking the event loop, under asyncio or trio."""
        future = self.begin()
        if future.done():
            return future.result()
        if in_trio():
            import trio  # noqa: PLC0415  # loaded already

            return await trio.to_thread.run_sync(future.result, abandon_on_cancel=True)
        import asyncio  # noqa: PLC0415  # loaded already

        return await asyncio.wrap_future(future)

    def readiness(self, report: HealthReport) -> HealthReport:
        """Return the part of a report that tells whether work can be taken."""
        checks = {name: found for name, found in report.checks.items() if name in READY_CHECKS}
        if self._stopping:
            checks["accepting"] = Finding(ok=False, detail="stopping")
        return HealthReport(checks)

    def stopping(self) -> None:
        """Say that no more work is taken: from now on it is not ready, though it may be healthy until its end."""
        self._stopping = True

    def begin(self) -> "Future[HealthReport]":
        """Return the answer at hand or on its way; the checks are asked where there is none."""
        with self._lock:
            latest = self._latest
            if latest is not None and (not latest.done() or clock.monotonic() - self._seen_at < self._cache):
                return latest
            self._latest = future = Future[HealthReport]()
            future.set_running_or_notify_cancel()  # whoever stops waiting does not cancel it for the others
        try:
            threading.Thread(target=self._look, args=(future,), name="outlast-health", daemon=True).start()
        except RuntimeError:  # no more threads; then no check can be asked either
            self._keep(future, self._nothing_known())
        return future

    def _begin_anew(self) -> None:
        """Forget what is under way; after a fork, its threads and who held the lock are in the parent alone."""
        self._lock, self._latest = threading.Lock(), None
        for probe in self._probes:
            probe.forget()

    def _look(self, future: "Future[HealthReport]") -> None:
        try:
            until = time.monotonic() + self._timeout
            for probe in self._probes:
                probe.begin()
            report = HealthReport(MappingProxyType({probe.name: probe.found(until) for probe in self._probes}))
        except BaseException:  # noqa: BLE001  # out of memory, say: those who wait get an answer all the same
            report = self._nothing_known()
        self._keep(future, report)

    def _keep(self, future: "Future[HealthReport]", report: HealthReport) -> None:
        self._seen_at = clock.monotonic()
        future.set_result(report)

    def _nothing_known(self) -> HealthReport:
        return HealthReport({probe.name: Finding(ok=False, detail="could not be asked") for probe in self._probes})


def _queues_of(app: HealthApp) -> Callable[[], Sequence[str]]:
    """Return what tells the queues that an app's tasks name; tasks may be added later."""

    def queues() -> Sequence[str]:
        tasks: Mapping[str, Any] = getattr(app, "tasks_by_name", {})
        return list(dict.fromkeys(["default", *(each.queue for each in tasks.values())]))

    return queues


def _check_name(name: object, taken: Mapping[str, object]) -> str:
    if not isinstance(name, str) or not name.isprintable() or not name.strip():
        message = f"a check is called {name!r}; give it a name in plain text"
        raise ConfigError(message)
    if name in taken:
        message = f"there is a check {name!r} already; give the other one another name"
        raise ConfigError(message)
    return name


def _check_function(name: str, ask: Any) -> CheckFunction:
    if not callable(ask):
        message = f"the check {name!r} is {ask!r}; give a function that returns True, False or a Finding"
        raise ConfigError(message)
    if inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(getattr(ask, "__call__", None)):  # noqa: B004  # its kind matters
        message = f"the check {name!r} has to be awaited; give a plain function, which may block: it has its own thread"
        raise ConfigError(message)
    checked: CheckFunction = ask
    return checked


def _check_seconds(name: str, value: object, *, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= threading.TIMEOUT_MAX:
        message = f"{name} is {value!r}; give seconds, {least:g} or more"
        raise ConfigError(message)
    return float(value)
