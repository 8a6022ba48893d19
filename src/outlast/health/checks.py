"""Ready-made checks: is the loop alive, does work pile up, do tasks die, is there room on the disk."""

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

# What a health check finds, and what is told of it: little to everybody, more to those who show a token.


class HealthStatus(StrEnum):
    """What everybody may know."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class HealthCheckResult:
    """The answer for everybody: no reasons, no texts of errors.

    Attributes:
        status: Healthy when every check is True.
        checks: What was looked at, and whether it is well.
    """

    status: HealthStatus
    checks: dict[str, bool]

    def to_dict(self) -> dict[str, object]:
        """Return it as it goes over the wire."""
        return {"status": self.status.value, "checks": dict(self.checks)}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check may return in place of True or False.

    Attributes:
        ok: Whether it is well enough to go on.
        detail: In words, for those who show the token; secrets are masked, but do not put any there.
        degraded: Whether somebody should look at it although it goes on.
    """

    ok: bool
    detail: str
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The answer for those who show the token.

    Attributes:
        checks: What each check found.
    """

    checks: Mapping[str, Finding]

    @property
    def status(self) -> str:
        """``unhealthy`` when a check is not ok, else ``degraded`` when one is degraded, else ``healthy``."""
        if not all(found.ok for found in self.checks.values()):
            return "unhealthy"
        return "degraded" if any(found.degraded for found in self.checks.values()) else "healthy"

    @property
    def result(self) -> HealthCheckResult:
        """What of it everybody may know; what is degraded is healthy there."""
        checks = {name: found.ok for name, found in self.checks.items()}
        return HealthCheckResult(HealthStatus.HEALTHY if all(checks.values()) else HealthStatus.UNHEALTHY, checks)

    def to_dict(self) -> dict[str, object]:
        """Return it as it goes over the wire."""
        checks = {
            name: {"ok": found.ok, "degraded": found.degraded, "detail": found.detail}
            for name, found in self.checks.items()
        }
        return {"status": self.status, "checks": checks}


# One check and the thread that asks it: whatever it does, there is an answer in time, and no second thread hangs.

CheckFunction = Callable[[], bool | Finding]

_LOG_EVERY = 60.0  # seconds between two records of one check
_DETAIL_LIMIT = 300  # characters
log = logging.getLogger("outlast.health")


class _CheckCall:
    """One question under way; `said` is for the log."""

    __slots__ = ("done", "found", "keys", "late", "said")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.late = False
        self.found = Finding(ok=False, detail="no answer")
        self.said = ""
        self.keys: dict[str, Any] = {}


class CheckRunner:
    """Asks one check, in a thread of its own.

    Args:
        name: Of the check.
        ask: The check.
        timeout: Seconds that it has, for what is said.
    """

    def __init__(self, name: str, ask: CheckFunction, timeout: float) -> None:
        """Begin without a thread."""
        self.name = name
        self._ask = ask
        self._timeout = timeout
        self._turn: _CheckCall | None = None
        self._told_at: float | None = None
        self._logged_trouble = False

    def begin(self) -> None:
        """Ask, unless the last question hangs still: one thread waits for it, never two."""
        turn = self._turn
        if turn is not None and not turn.done.is_set():
            return
        self._turn = turn = _CheckCall()
        try:
            threading.Thread(target=self._answer, args=(turn,), name=f"outlast-health-{self.name}", daemon=True).start()
        except RuntimeError as error:  # no more threads: as little as can be known of a sick process
            self._failed(turn, error)
            turn.done.set()

    def forget(self) -> None:
        """Wait no longer for a question that is under way, as its thread is in another process."""
        self._turn = None

    def found(self, until: float) -> Finding:
        """Return the answer, waiting for it until then on the real monotonic clock."""
        turn = self._turn
        if turn is None:
            return Finding(ok=False, detail="not asked")
        if turn.late or not turn.done.wait(max(0.0, until - time.monotonic())):
            turn.late = True  # its answer, if there ever is one, is of no use any more
            finding = Finding(ok=False, detail=f"no answer within {self._timeout:g} s")
            self._tell(finding, finding.detail, {})
            return finding
        self._tell(turn.found, turn.said, turn.keys)
        return turn.found

    def _answer(self, turn: _CheckCall) -> None:
        try:
            turn.found = self._read(self._ask())
            turn.said = turn.found.detail
        except BaseException as error:  # noqa: BLE001  # the thread's end: whatever it is, the check is not well
            self._failed(turn, error)
        finally:
            turn.done.set()

    @staticmethod
    def _read(value: object) -> Finding:
        """Return what a check answered as a finding.

        Raises:
            TypeError: If it is neither a bool nor a finding; a method in place of a property is always true.
        """
        if isinstance(value, bool):
            return Finding(value, "well" if value else "not well")
        if isinstance(value, Finding):
            return Finding(value.ok is True, _safe_detail(value.detail), degraded=value.degraded is True)
        if inspect.iscoroutine(value):
            value.close()
        message = f"the check has to answer True, False or a Finding, not a {type(value).__name__}"
        raise TypeError(message)

    @staticmethod
    def _failed(turn: _CheckCall, error: BaseException) -> None:
        """Keep what may be told: the category in the answer, the redacted text in the log alone."""
        turn.found, turn.said = Finding(ok=False, detail="failed"), "failed"
        try:
            from outlast.classify import classify  # noqa: PLC0415  # only trouble needs it
            from outlast.record.log_text import failure_keys, first_line  # noqa: PLC0415  # only trouble needs it

            failure = classify(error)
            turn.found = Finding(ok=False, detail=f"failed ({failure.category})")
            turn.said = f"failed ({failure.category}): {failure.exception_name}: {first_line(failure.message)}"
            turn.keys = failure_keys(failure)
        except BaseException:  # noqa: BLE001  # an error that cannot even be looked at
            return

    def _tell(self, finding: Finding, said: str, keys: dict[str, Any]) -> None:
        """Log what is not well, at most once a minute, and that it is well again."""
        trouble = not finding.ok or finding.degraded
        if not trouble and not self._logged_trouble:
            return
        now = clock.monotonic()
        if trouble and self._told_at is not None and now - self._told_at < _LOG_EVERY:
            return
        self._logged_trouble = trouble
        try:
            if not trouble:
                log.info("check %s: well again", self.name, extra={"check": self.name})
                return
            self._told_at = now
            level = logging.ERROR if not finding.ok else logging.WARNING
            log.log(level, "check %s: %s", self.name, said, extra={"check": self.name, **keys})
        except Exception:  # noqa: BLE001  # a handler that raises must not change what is found
            return


def _safe_detail(detail: object) -> str:
    """Return a detail in one line, capped and without secrets."""
    from outlast.classify import default_classifier  # noqa: PLC0415  # knows the user's own patterns
    from outlast.record.log_text import first_line  # noqa: PLC0415  # as above
    from outlast.redact import safe_text  # noqa: PLC0415  # as above

    return safe_text(first_line(default_classifier().redact(str(detail))), _DETAIL_LIMIT)


MIB = 1024 * 1024


class Heartbeat:
    """Whether a loop is alive: it calls `beat` in every round, and the last beat must not be too long ago.

    Args:
        limit: Seconds; a beat that is older means that the loop is stuck or dead.
    """

    def __init__(self, limit: float = 30.0) -> None:
        """Begin as if it had just beaten: what starts has so long to get going."""
        self._limit = _check_positive("limit", limit)
        self._beaten_at = clock.monotonic()

    def beat(self) -> None:
        """Give a sign of life; may be called from any thread, and costs nothing."""
        self._beaten_at = clock.monotonic()

    @property
    def age(self) -> float:
        """Seconds since the last beat."""
        return clock.monotonic() - self._beaten_at

    def __call__(self) -> Finding:
        """Compare the age with the limit."""
        age = self.age
        return Finding(age < self._limit, f"last beat {age:.1f} s ago, the limit is {self._limit:g} s")


class OldestReadyStore(Protocol):
    """What `OldestReadyTask` asks of a store."""

    def oldest_ready(self, queues: Sequence[str], /) -> float | None:
        """Return the seconds for which the oldest ready task waits."""


class OldestReadyTask:
    """Whether ready tasks wait too long: degraded, for the program itself may be well and only too small.

    Args:
        store: Where the tasks are.
        limit: Seconds.
        queues: Which ones matter, or what returns them.
    """

    def __init__(
        self,
        store: OldestReadyStore,
        limit: float = 300.0,
        queues: Sequence[str] | Callable[[], Sequence[str]] = ("default",),
    ) -> None:
        """Check the settings."""
        self._store = store
        self._limit = _check_positive("limit", limit)
        self._queues = queues if callable(queues) else lambda: queues

    def __call__(self) -> Finding:
        """Compare the wait of the oldest ready task with the limit."""
        waits = self._store.oldest_ready(tuple(self._queues()))
        if waits is None:
            return Finding(ok=True, detail="no task waits")
        detail = f"the oldest ready task waits for {waits:.0f} s, the limit is {self._limit:g} s"
        return Finding(ok=True, detail=detail, degraded=waits > self._limit)


class DeadLetterStore(Protocol):
    """What `DeadLetterGrowth` asks of a store."""

    def now(self) -> datetime:
        """Return the time by the store's clock."""

    def dead_letters(self, which: DeadLetterFilter, /) -> list[DeadLetter]:
        """Return dead letters, newest first."""


class DeadLetterGrowth:
    """Whether many tasks have died lately: degraded, for the program goes on with the others.

    Only the newest dead letters are read, so it costs the same however many there are, and it holds across restarts
    and processes. Those that were replayed or discarded in the meantime do not count.

    Args:
        store: Where the dead letters are.
        limit: So many within the window are no cause for concern.
        window: Seconds.
    """

    def __init__(self, store: DeadLetterStore, limit: int = 10, window: float = 3600.0) -> None:
        """Check the settings."""
        if type(limit) is not int or limit < 0:
            message = f"limit is {limit!r}; give a whole number, 0 or more"
            raise ConfigError(message)
        self._store, self._limit = store, limit
        self._window = _check_positive("window", window)

    def __call__(self) -> Finding:
        """See how old the newest dead letter is that would be one too many."""
        newest = self._store.dead_letters(DeadLetterFilter(limit=self._limit + 1))
        since = self._store.now() - timedelta(seconds=self._window)
        new = sum(letter.moved_to_dlq_at > since for letter in newest)
        many = new > self._limit
        count = f"more than {self._limit}" if many else str(new)
        return Finding(ok=True, detail=f"{count} new dead letters within {self._window:g} s", degraded=many)


class DiskSpace:
    """Whether there is room on the disk; without any, nothing can be recorded.

    Args:
        path: A folder or file on that disk.
        least: Bytes that have to be free for this user.
    """

    def __init__(self, path: str | PathLike[str], least: int = 100 * MIB) -> None:
        """Check the settings; the disk is looked at later."""
        self._path, self._least = path, _check_positive("least", least)

    def __call__(self) -> Finding:
        """Compare what is free with the least."""
        free = shutil.disk_usage(self._path).free
        return Finding(
            free >= self._least, f"{free / MIB:.0f} MiB free, the least that is needed is {self._least / MIB:.0f} MiB"
        )


def _check_positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        message = f"{name} is {value!r}; give a number above 0"
        raise ConfigError(message)
    return value


# Whether the database answers: a connection, a store, or an app that has one.

_OPEN_TIMEOUT = 1.0  # seconds; a lock that somebody holds is no reason to wait
_READ_FILE_QUERY = "SELECT 1 FROM sqlite_master LIMIT 1"  # SELECT 1 alone would never look at the file


class DatabaseProtocol(Protocol):
    """A connection, as sqlite3 and psycopg have them."""

    def execute(self, query: str, /) -> object:
        """Run a query."""


class HealthStore(Protocol):
    """What a store of Outlast is asked."""

    def now(self) -> datetime:
        """Return the time by the store's clock."""

    def next_due(self, queues: Sequence[str], /) -> float | None:
        """Return the seconds until a task of these queues can be claimed."""


def database_check(db: Any) -> CheckFunction:
    """Return the check for a database.

    Args:
        db: A connection with ``execute``, best one that nobody else uses; a store; or an app, whose store is asked.

    Raises:
        ConfigError: If it is none of these, or its ``execute`` has to be awaited.
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
        message = f"db is {kind}, whose execute has to be awaited; give a connection that blocks, an App or a store"
        raise ConfigError(message)
    return _SqliteCheck(db) if isinstance(db, sqlite3.Connection) else _ConnectionCheck(db)


class _StoreCheck:
    """A store: its clock, which is the server's where there is a server, and a look into the table of tasks."""

    def __init__(self, store: HealthStore) -> None:
        self._store = store

    def __call__(self) -> bool:
        self._store.now()
        self._store.next_due(("default",))  # the clock of a file is the machine's and tells nothing of the file
        return True


class _ConnectionCheck:
    """A connection of psycopg, or of anything like it."""

    def __init__(self, db: DatabaseProtocol) -> None:
        self._db: Any = db

    def __call__(self) -> bool:
        idle = self._is_idle()
        self._db.execute("SELECT 1")
        if idle and not self._is_idle():
            # The question began a transaction, which would stay open for ever and hold up VACUUM. It is committed:
            # should a statement of another thread have slipped in, a rollback would lose it.
            self._db.commit()
        return True

    def _is_idle(self) -> bool:
        status = getattr(getattr(self._db, "info", None), "transaction_status", None)
        return getattr(status, "name", "") == "IDLE"


class _SqliteCheck:
    """A connection of sqlite3. Most belong to the thread that made them; then the file is asked by another one."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._file = ""
        with suppress(sqlite3.Error):
            self._file = next((row[2] for row in _fetch_rows(db, "PRAGMA database_list") if row[1] == "main"), "")

    def __call__(self) -> bool:
        _ = self._db.total_changes  # raises when it is closed, and may be asked from any thread
        try:
            _fetch_rows(self._db, _READ_FILE_QUERY)
        except sqlite3.ProgrammingError as error:
            if "thread" not in str(error):
                raise
            if self._file:
                self._ask_the_file()
        return True

    def _ask_the_file(self) -> None:
        address = f"{Path(self._file).as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=_OPEN_TIMEOUT)) as another:
            another.execute(_READ_FILE_QUERY).fetchone()


def _fetch_rows(db: sqlite3.Connection, query: str) -> list[Any]:
    """Return plain rows, whatever the connection makes of rows for its owner."""
    cursor = db.cursor()
    cursor.row_factory = None
    return cursor.execute(query).fetchall()
