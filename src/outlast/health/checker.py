"""The health checker, its checks and their findings.

It runs all checks at the same time, each in a thread with a timeout, caches the result briefly, and never raises.
"""

import inspect
import logging
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from outlast import clock
from outlast.async_backends import in_trio
from outlast.decide.backoff import check_count
from outlast.errors import ConfigError
from outlast.forks import after_fork
from outlast.ports.rows import DeadLetterFilter

if TYPE_CHECKING:
    from outlast.ports.store import Store

READY_CHECKS = ("database", "scheduler", "loop")
"""The checks that decide about readiness, as far as a checker has them."""
CHECK_TIMEOUT = 2.0
"""Seconds for the checks. It is shorter than the timeout of clients (3 s), so that they learn which check hangs."""
MIB = 1024 * 1024
_LOG_EVERY = 60.0  # seconds between two log records of one check
_DETAIL_LIMIT = 300  # characters
_OPEN_TIMEOUT = 1.0  # seconds to wait for a lock
_READ_FILE_QUERY = "SELECT 1 FROM sqlite_master LIMIT 1"  # SELECT 1 would not read the file
log = logging.getLogger("outlast.health")


class HealthStatus(StrEnum):
    """The status in the public result."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class HealthCheckResult:
    """The public result, without reasons and error messages.

    Attributes:
        status: Healthy if every check is True.
        checks: Whether each check passed, by name.
    """

    status: HealthStatus
    checks: dict[str, bool]

    def to_dict(self) -> dict[str, object]:
        """Return the result as a dict for JSON."""
        return {"status": self.status.value, "checks": dict(self.checks)}


@dataclass(frozen=True, slots=True)
class Finding:
    """A detailed result that a check may return instead of True or False.

    Attributes:
        ok: Whether the check passed.
        detail: A text for authorized clients. Secrets are redacted, but do not put any there.
        degraded: Whether the check passed but needs attention.
    """

    ok: bool
    detail: str
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The detailed result, for clients that send the token.

    Attributes:
        checks: The finding of each check, by name.
    """

    checks: Mapping[str, Finding]

    @property
    def status(self) -> str:
        """``unhealthy`` if a check is not ok, else ``degraded`` if one is degraded, else ``healthy``."""
        if not all(finding.ok for finding in self.checks.values()):
            return "unhealthy"
        return "degraded" if any(finding.degraded for finding in self.checks.values()) else "healthy"

    @property
    def result(self) -> HealthCheckResult:
        """The public result. A degraded check counts as healthy there."""
        checks = {name: finding.ok for name, finding in self.checks.items()}
        return HealthCheckResult(HealthStatus.HEALTHY if all(checks.values()) else HealthStatus.UNHEALTHY, checks)

    def to_dict(self) -> dict[str, object]:
        """Return the result as a dict for JSON."""
        return {"status": self.status, "checks": {name: asdict(finding) for name, finding in self.checks.items()}}


CheckFunction = Callable[[], bool | Finding]


class Heartbeat:
    """A check that a loop is alive. The loop calls `beat` in every round.

    Args:
        limit: Seconds. If the last beat is older, the loop hangs or has ended, and the check fails.
    """

    def __init__(self, limit: float = 30.0) -> None:
        self._limit = _check_positive("limit", limit)
        self._beaten_at = clock.monotonic()  # a program that starts has `limit` seconds until its first beat

    def beat(self) -> None:
        """Record a beat. May be called from any thread."""
        self._beaten_at = clock.monotonic()

    @property
    def age(self) -> float:
        """Seconds since the last beat."""
        return clock.monotonic() - self._beaten_at

    def __call__(self) -> Finding:
        """Return whether the last beat is within the limit."""
        age = self.age
        return Finding(age < self._limit, f"last beat {age:.1f} s ago, the limit is {self._limit:g} s")


class OldestReadyTask:
    """A check that ready tasks do not wait too long. Otherwise it is degraded: more workers may be needed.

    Args:
        store: The store with the tasks.
        limit: The longest wait, in seconds.
        queues: The queues to check, or a function that returns them.
    """

    def __init__(
        self,
        store: "Store",
        limit: float = 300.0,
        queues: Sequence[str] | Callable[[], Sequence[str]] = ("default",),
    ) -> None:
        self._store = store
        self._limit = _check_positive("limit", limit)
        self._queues = queues if callable(queues) else lambda: queues

    def __call__(self) -> Finding:
        """Return whether the oldest ready task has waited longer than the limit."""
        age = self._store.oldest_ready(tuple(self._queues()))
        if age is None:
            return Finding(ok=True, detail="no ready task is waiting")
        detail = f"the oldest ready task has waited {age:.0f} s, the limit is {self._limit:g} s"
        return Finding(ok=True, detail=detail, degraded=age > self._limit)


class DeadLetterGrowth:
    """A check that there are not too many new dead letters. Otherwise it is degraded.

    It reads only the newest dead letters, so its cost does not depend on their number, and the result is the same in
    every process and after a restart. Dead letters that were replayed or discarded do not count.

    Args:
        store: The store with the dead letters.
        limit: The number of dead letters within the window that is still acceptable.
        window: The window, in seconds.
    """

    def __init__(self, store: "Store", limit: int = 10, window: float = 3600.0) -> None:
        self._store, self._limit = store, check_count("limit", limit, 0)
        self._window = _check_positive("window", window)

    def __call__(self) -> Finding:
        """Return whether there are more than `limit` dead letters within the window."""
        newest = self._store.dead_letters(DeadLetterFilter(limit=self._limit + 1))
        since = self._store.now() - timedelta(seconds=self._window)
        new = sum(dead_letter.moved_to_dlq_at > since for dead_letter in newest)
        is_over = new > self._limit
        count = f"more than {self._limit}" if is_over else str(new)
        return Finding(ok=True, detail=f"{count} new dead letters within {self._window:g} s", degraded=is_over)


class DiskSpace:
    """A check of free disk space. Without free space, nothing can be recorded.

    Args:
        path: A folder or file on the disk.
        least: Bytes that must be free for this user.
    """

    def __init__(self, path: str | PathLike[str], least: int = 100 * MIB) -> None:
        self._path, self._least = path, _check_positive("least", least)

    def __call__(self) -> Finding:
        """Return whether enough space is free."""
        free = shutil.disk_usage(self._path).free
        return Finding(free >= self._least, f"{free / MIB:.0f} MiB free, the minimum is {self._least / MIB:.0f} MiB")


def _check_positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ConfigError(f"{name} is {value!r}; give a number above 0")
    return value


class DatabaseProtocol(Protocol):
    """A connection of sqlite3, psycopg or a similar library."""

    def execute(self, query: str, /) -> object:
        """Run a query."""


def _database_check(db: Any) -> CheckFunction:
    """Return the check for a database.

    Args:
        db: A connection with ``execute``, preferably one that is not used elsewhere; a store; or an app.

    Raises:
        ConfigError: If `db` is not one of these, or its ``execute`` is async.
    """
    store = getattr(db, "store", db)
    if callable(getattr(store, "next_due", None)) and callable(getattr(store, "now", None)):
        return partial(_check_store, store)
    execute = getattr(db, "execute", None)
    kind = f"{type(db).__module__}.{type(db).__qualname__}"
    if not callable(execute):
        raise ConfigError(f"db is {kind}; give an App, a store, or a connection that has execute(query)")
    if inspect.iscoroutinefunction(execute):
        raise ConfigError(f"db is {kind}, whose execute is async; give a synchronous connection, an App or a store")
    return _sqlite_check(db) if isinstance(db, sqlite3.Connection) else partial(_check_connection, db)


def _check_store(store: "Store") -> bool:
    """Check a store: its clock, which is the clock of the server if there is one, and the table of tasks."""
    store.now()
    store.next_due(("default",))  # a file has no clock of its own, so `now` does not read it
    return True


def _check_connection(db: Any) -> bool:
    """Check a connection of psycopg or a similar library."""
    was_idle = _is_idle(db)
    db.execute("SELECT 1")
    if was_idle and not _is_idle(db):
        # The query opened a transaction, which would stay open and hold up VACUUM. A rollback could lose a
        # statement of another thread, so it is committed.
        db.commit()
    return True


def _is_idle(db: Any) -> bool:
    status = getattr(getattr(db, "info", None), "transaction_status", None)
    return getattr(status, "name", "") == "IDLE"


def _sqlite_check(db: sqlite3.Connection) -> CheckFunction:
    """Return the check for a connection of sqlite3. It opens the file itself if that belongs to another thread."""
    file = ""
    with suppress(sqlite3.Error):
        file = next((row[2] for row in _fetch_rows(db, "PRAGMA database_list") if row[1] == "main"), "")

    def check() -> bool:
        _ = db.total_changes  # raises if the connection is closed; works in any thread
        try:
            _fetch_rows(db, _READ_FILE_QUERY)
        except sqlite3.ProgrammingError as error:
            if "thread" not in str(error):
                raise
            if file:
                uri = f"{Path(file).as_uri()}?mode=ro"
                with closing(sqlite3.connect(uri, uri=True, timeout=_OPEN_TIMEOUT)) as connection:
                    connection.execute(_READ_FILE_QUERY).fetchone()
        return True

    return check


def _fetch_rows(db: sqlite3.Connection, query: str) -> list[Any]:
    """Return plain rows, even if the connection has its own row factory."""
    cursor = db.cursor()
    cursor.row_factory = None
    return cursor.execute(query).fetchall()


class _CheckResult(NamedTuple):
    """The result of a check. The log may show more than the finding."""

    finding: Finding
    log_text: str
    keys: Mapping[str, Any] = MappingProxyType({})


class _CheckRunner:
    """Runs one check in a thread of its own.

    Args:
        name: The name of the check.
        function: The check.
        timeout: Seconds for the check, as shown in texts; `finding` gets the deadline itself.
    """

    def __init__(self, name: str, function: CheckFunction, timeout: float) -> None:
        self.name = name
        self._function = function
        self._timeout = timeout
        self._call: Future[_CheckResult] | None = None
        self._is_late = False
        self._logged_at: float | None = None
        self._logged_problem = False

    def start(self) -> None:
        """Run the check, unless the last run still hangs: there is at most one thread per check."""
        if self._call is not None and not self._call.done():
            return
        self._call, self._is_late = Future(), False
        try:
            threading.Thread(
                target=self._run, args=(self._call,), name=f"outlast-health-{self.name}", daemon=True
            ).start()
        except RuntimeError as error:  # no more threads
            self._call.set_result(_failed_result(error))

    def forget(self) -> None:
        """Forget a run under way, because its thread is in another process."""
        self._call = None

    def finding(self, until: float) -> Finding:
        """Return the finding. Waits for it until this time on the real monotonic clock."""
        call = self._call
        if call is None:
            return Finding(ok=False, detail="not run")
        detail = f"no answer within {self._timeout:g} s"
        result = _CheckResult(Finding(ok=False, detail=detail), detail)
        if not self._is_late:
            try:
                result = call.result(max(0.0, until - time.monotonic()))
            except TimeoutError:
                self._is_late = True  # a later result would be out of date
        self._log_result(result)
        return result.finding

    def _run(self, call: "Future[_CheckResult]") -> None:
        try:
            finding = self._to_finding(self._function())
            result = _CheckResult(finding, finding.detail)
        except BaseException as error:  # noqa: BLE001  # any error means that the check failed
            result = _failed_result(error)
        call.set_result(result)

    @staticmethod
    def _to_finding(value: object) -> Finding:
        """Return the result of a check as a finding.

        Raises:
            TypeError: If it is neither a bool nor a finding. A method instead of a property would always be true.
        """
        if isinstance(value, bool):
            return Finding(value, "ok" if value else "not ok")
        if isinstance(value, Finding):
            return Finding(value.ok is True, _safe_detail(value.detail), degraded=value.degraded is True)
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError(f"a check must return True, False or a Finding, not a {type(value).__name__}")

    def _log_result(self, result: _CheckResult) -> None:
        """Log a problem, at most once per minute, and its end."""
        finding = result.finding
        is_problem = not finding.ok or finding.degraded
        if not is_problem and not self._logged_problem:
            return
        now = clock.monotonic()
        if is_problem and self._logged_at is not None and now - self._logged_at < _LOG_EVERY:
            return
        self._logged_problem = is_problem
        try:
            if not is_problem:
                log.info("check %s: recovered", self.name, extra={"check": self.name})
                return
            self._logged_at = now
            level = logging.ERROR if not finding.ok else logging.WARNING
            log.log(level, "check %s: %s", self.name, result.log_text, extra={"check": self.name, **result.keys})
        except Exception:  # noqa: BLE001  # a log handler that raises must not change the finding
            return


def _failed_result(error: BaseException) -> _CheckResult:
    """Return the result for an error: the finding shows its category, only the log shows its redacted text."""
    try:
        from outlast.classify import classify  # noqa: PLC0415  # only needed for errors
        from outlast.failure import first_line  # noqa: PLC0415  # only needed for errors

        failure = classify(error)
        text = f"failed ({failure.category})"
        log_text = f"{text}: {failure.exception_name}: {first_line(failure.message)}"
        return _CheckResult(Finding(ok=False, detail=text), log_text, failure.log_keys())
    except BaseException:  # noqa: BLE001  # an error that cannot be read
        return _CheckResult(Finding(ok=False, detail="failed"), "failed")


def _safe_detail(detail: object) -> str:
    """Return a detail as one line, redacted and truncated."""
    from outlast.classify import default_classifier  # noqa: PLC0415  # redacts the patterns of the user too
    from outlast.failure import first_line  # noqa: PLC0415  # as above
    from outlast.redact import safe_text  # noqa: PLC0415  # as above

    return safe_text(first_line(default_classifier().redact(str(detail))), _DETAIL_LIMIT)


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
        db: "DatabaseProtocol | Store | HealthApp | None" = None,
        scheduler: SchedulerProtocol | None = None,
        checks: Mapping[str, CheckFunction] | None = None,
        cache: float = 1.0,
        timeout: float = CHECK_TIMEOUT,
    ) -> None:
        self._cache = _check_seconds("cache", cache, least=0.0)
        timeout = _check_seconds("timeout", timeout, least=0.001)
        functions: dict[str, CheckFunction] = {}
        if db is not None:
            functions["database"] = _database_check(db)
        if scheduler is not None:
            functions["scheduler"] = lambda: scheduler.running  # it may raise, like any other check
        for name, function in (checks or {}).items():
            functions[_check_name(name, functions)] = _check_function(name, function)
        self._timeout = timeout
        self._runners = [_CheckRunner(name, function, timeout) for name, function in functions.items()]
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
        own: dict[str, CheckFunction] = {"database": _database_check(store)}
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
        raise ConfigError(f"{name!r} is not a valid name for a check; give a printable text that is not empty")
    if name in taken:
        raise ConfigError(f"the check {name!r} already exists; give this one another name")
    return name


def _check_function(name: str, function: Any) -> CheckFunction:
    if not callable(function):
        raise ConfigError(f"the check {name!r} is {function!r}; give a function that returns True, False or a Finding")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004  # iscoroutinefunction needs the method
        raise ConfigError(
            f"the check {name!r} is async; give a plain function, which may block: it runs in its own thread"
        )
    checked: CheckFunction = function
    return checked


def _check_seconds(name: str, value: object, *, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= threading.TIMEOUT_MAX:
        raise ConfigError(f"{name} is {value!r}; give seconds, {least:g} or more")
    return float(value)
