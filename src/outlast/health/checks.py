"""Health checks, their findings, and the thread that runs each check with a timeout."""

import inspect
import logging
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from outlast import clock
from outlast.errors import ConfigError
from outlast.ports.rows import DeadLetter, DeadLetterFilter


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
        checks = {
            name: {"ok": finding.ok, "degraded": finding.degraded, "detail": finding.detail}
            for name, finding in self.checks.items()
        }
        return {"status": self.status, "checks": checks}


CheckFunction = Callable[[], bool | Finding]

_LOG_EVERY = 60.0  # seconds between two log records of one check
_DETAIL_LIMIT = 300  # characters
log = logging.getLogger("outlast.health")


class _CheckCall:
    """One run of a check. `log_text` may show more than the finding."""

    __slots__ = ("done", "finding", "keys", "late", "log_text")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.late = False
        self.finding = Finding(ok=False, detail="no answer")
        self.log_text = ""
        self.keys: dict[str, Any] = {}


class CheckRunner:
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
        self._call: _CheckCall | None = None
        self._logged_at: float | None = None
        self._logged_problem = False

    def start(self) -> None:
        """Run the check, unless the last run still hangs: there is at most one thread per check."""
        call = self._call
        if call is not None and not call.done.is_set():
            return
        self._call = call = _CheckCall()
        try:
            threading.Thread(target=self._run, args=(call,), name=f"outlast-health-{self.name}", daemon=True).start()
        except RuntimeError as error:  # no more threads
            self._set_error(call, error)
            call.done.set()

    def forget(self) -> None:
        """Forget a run under way, because its thread is in another process."""
        self._call = None

    def finding(self, until: float) -> Finding:
        """Return the finding. Waits for it until this time on the real monotonic clock."""
        call = self._call
        if call is None:
            return Finding(ok=False, detail="not run")
        if call.late or not call.done.wait(max(0.0, until - time.monotonic())):
            call.late = True  # a later result would be out of date
            finding = Finding(ok=False, detail=f"no answer within {self._timeout:g} s")
            self._log_finding(finding, finding.detail, {})
            return finding
        self._log_finding(call.finding, call.log_text, call.keys)
        return call.finding

    def _run(self, call: _CheckCall) -> None:
        try:
            call.finding = self._to_finding(self._function())
            call.log_text = call.finding.detail
        except BaseException as error:  # noqa: BLE001  # any error means that the check failed
            self._set_error(call, error)
        finally:
            call.done.set()

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
        message = f"a check must return True, False or a Finding, not a {type(value).__name__}"
        raise TypeError(message)

    @staticmethod
    def _set_error(call: _CheckCall, error: BaseException) -> None:
        """Store an error: the finding shows its category, only the log shows its redacted text."""
        call.finding, call.log_text = Finding(ok=False, detail="failed"), "failed"
        try:
            from outlast.classify import classify  # noqa: PLC0415  # only needed for errors
            from outlast.record.log_text import failure_keys, first_line  # noqa: PLC0415  # only needed for errors

            failure = classify(error)
            call.finding = Finding(ok=False, detail=f"failed ({failure.category})")
            call.log_text = f"failed ({failure.category}): {failure.exception_name}: {first_line(failure.message)}"
            call.keys = failure_keys(failure)
        except BaseException:  # noqa: BLE001  # an error that cannot be read
            return

    def _log_finding(self, finding: Finding, text: str, keys: dict[str, Any]) -> None:
        """Log a problem, at most once per minute, and its end."""
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
            log.log(level, "check %s: %s", self.name, text, extra={"check": self.name, **keys})
        except Exception:  # noqa: BLE001  # a log handler that raises must not change the finding
            return


def _safe_detail(detail: object) -> str:
    """Return a detail as one line, redacted and truncated."""
    from outlast.classify import default_classifier  # noqa: PLC0415  # redacts the patterns of the user too
    from outlast.record.log_text import first_line  # noqa: PLC0415  # as above
    from outlast.redact import safe_text  # noqa: PLC0415  # as above

    return safe_text(first_line(default_classifier().redact(str(detail))), _DETAIL_LIMIT)


MIB = 1024 * 1024


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


class OldestReadyStore(Protocol):
    """The method of a store that `OldestReadyTask` needs."""

    def oldest_ready(self, queues: Sequence[str], /) -> float | None:
        """Return the seconds that the oldest ready task has waited; None if there is none."""


class OldestReadyTask:
    """A check that ready tasks do not wait too long. Otherwise it is degraded: more workers may be needed.

    Args:
        store: The store with the tasks.
        limit: The longest wait, in seconds.
        queues: The queues to check, or a function that returns them.
    """

    def __init__(
        self,
        store: OldestReadyStore,
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


class DeadLetterStore(Protocol):
    """The methods of a store that `DeadLetterGrowth` needs."""

    def now(self) -> datetime:
        """Return the current time of the store's clock."""

    def dead_letters(self, which: DeadLetterFilter, /) -> list[DeadLetter]:
        """Return dead letters, newest first."""


class DeadLetterGrowth:
    """A check that there are not too many new dead letters. Otherwise it is degraded.

    It reads only the newest dead letters, so its cost does not depend on their number, and the result is the same in
    every process and after a restart. Dead letters that were replayed or discarded do not count.

    Args:
        store: The store with the dead letters.
        limit: The number of dead letters within the window that is still acceptable.
        window: The window, in seconds.
    """

    def __init__(self, store: DeadLetterStore, limit: int = 10, window: float = 3600.0) -> None:
        if type(limit) is not int or limit < 0:
            message = f"limit is {limit!r}; give a whole number, 0 or more"
            raise ConfigError(message)
        self._store, self._limit = store, limit
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
        message = f"{name} is {value!r}; give a number above 0"
        raise ConfigError(message)
    return value


_OPEN_TIMEOUT = 1.0  # seconds to wait for a lock
_READ_FILE_QUERY = "SELECT 1 FROM sqlite_master LIMIT 1"  # SELECT 1 would not read the file


class DatabaseProtocol(Protocol):
    """A connection of sqlite3, psycopg or a similar library."""

    def execute(self, query: str, /) -> object:
        """Run a query."""


class HealthStore(Protocol):
    """The methods of a store that the database check needs."""

    def now(self) -> datetime:
        """Return the current time of the store's clock."""

    def next_due(self, queues: Sequence[str], /) -> float | None:
        """Return the seconds until a task of these queues can be claimed."""


def database_check(db: Any) -> CheckFunction:
    """Return the check for a database.

    Args:
        db: A connection with ``execute``, preferably one that is not used elsewhere; a store; or an app.

    Raises:
        ConfigError: If `db` is not one of these, or its ``execute`` is async.
    """
    store = getattr(db, "store", db)
    if callable(getattr(store, "next_due", None)) and callable(getattr(store, "now", None)):
        return _StoreCheck(store)
    execute = getattr(db, "execute", None)
    kind = f"{type(db).__module__}.{type(db).__qualname__}"
    if not callable(execute):
        message = f"db is {kind}; give an App, a store, or a connection that has execute(query)"
        raise ConfigError(message)
    if inspect.iscoroutinefunction(execute):
        message = f"db is {kind}, whose execute is async; give a synchronous connection, an App or a store"
        raise ConfigError(message)
    return _SqliteCheck(db) if isinstance(db, sqlite3.Connection) else _ConnectionCheck(db)


class _StoreCheck:
    """Checks a store: its clock, which is the clock of the server if there is one, and the table of tasks."""

    def __init__(self, store: HealthStore) -> None:
        self._store = store

    def __call__(self) -> bool:
        self._store.now()
        self._store.next_due(("default",))  # a file has no clock of its own, so `now` does not read it
        return True


class _ConnectionCheck:
    """Checks a connection of psycopg or a similar library."""

    def __init__(self, db: DatabaseProtocol) -> None:
        self._db: Any = db

    def __call__(self) -> bool:
        idle = self._is_idle()
        self._db.execute("SELECT 1")
        if idle and not self._is_idle():
            # The query opened a transaction, which would stay open and hold up VACUUM. A rollback could lose a
            # statement of another thread, so it is committed.
            self._db.commit()
        return True

    def _is_idle(self) -> bool:
        status = getattr(getattr(self._db, "info", None), "transaction_status", None)
        return getattr(status, "name", "") == "IDLE"


class _SqliteCheck:
    """Checks a connection of sqlite3. If it belongs to another thread, the check opens the file itself."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._file = ""
        with suppress(sqlite3.Error):
            self._file = next((row[2] for row in _fetch_rows(db, "PRAGMA database_list") if row[1] == "main"), "")

    def __call__(self) -> bool:
        _ = self._db.total_changes  # raises if the connection is closed; works in any thread
        try:
            _fetch_rows(self._db, _READ_FILE_QUERY)
        except sqlite3.ProgrammingError as error:
            if "thread" not in str(error):
                raise
            if self._file:
                self._read_file()
        return True

    def _read_file(self) -> None:
        uri = f"{Path(self._file).as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=_OPEN_TIMEOUT)) as connection:
            connection.execute(_READ_FILE_QUERY).fetchone()


def _fetch_rows(db: sqlite3.Connection, query: str) -> list[Any]:
    """Return plain rows, even if the connection has its own row factory."""
    cursor = db.cursor()
    cursor.row_factory = None
    return cursor.execute(query).fetchall()
