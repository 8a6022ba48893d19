"""The log records of the attempt loops: a warning before each wait, and one when a call is given up.

Arguments of calls are never logged. While attempts remain, the traceback is logged at debug level. At most ten lines a
second are written about retries and ten about calls that are given up; events are published for all of them.
"""

from contextvars import ContextVar
from functools import cache

from outlast import clock
from outlast.classify import default_classifier
from outlast.record.log_text import traceback_of
from outlast.units import format_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any

    from outlast.failure import Failure


CONTEXT_LOG_KEYS: "ContextVar[dict[str, Any] | None]" = ContextVar("outlast_log_keys", default=None)
"""Further keys for every record of the attempts that are made in this context, such as those of a job."""


LINES_PER_SECOND = 10
"""Lines of one kind that a process writes per second."""
_DEBUG = 10
_limits: "list[LineLimit]" = []


class LineLimit:
    """Limits log lines of one kind to ten a second in this process; a summary counts the others.

    The summary is written before the first line of another second, by a worker's heartbeat, or when the process ends.
    A logger that writes debug lines is not limited. Limits are never freed.

    Args:
        level: Level of the summary.
        what: What the lines are about, such as ``tasks done``.
    """

    def __init__(self, level: int, what: str) -> None:
        from outlast.forks import after_fork  # noqa: PLC0415  # as for logging

        self._level, self._what = level, what
        self._clock, self._began_at, self._lines = clock.monotonic, 0.0, 0
        self._log: logging.Logger | None = None
        self._renew_lock()
        after_fork(self._renew_lock)
        _limits.append(self)

    def _renew_lock(self) -> None:
        import threading  # noqa: PLC0415  # as for logging

        self._lock, self._lines = threading.Lock(), 0  # a forked child has written no line

    def allows(self, log: "logging.Logger") -> bool:
        """Return whether the next line may be written to a logger; if not, it is counted."""
        if log.isEnabledFor(_DEBUG):
            return True
        self.flush(after=1.0)
        with self._lock:
            self._lines += 1
            if self._lines <= LINES_PER_SECOND:
                return True
            if self._log is None:
                import atexit  # noqa: PLC0415  # as for logging

                atexit.register(self.flush)  # now, because logging is loaded and ends after it
            self._log = log
            return False

    def flush(self, after: float = 0.0) -> None:
        """Write the summary, if the current second began at least `after` seconds ago and lines were left out."""
        with self._lock:
            now, known = clock.monotonic(), self._clock is clock.monotonic  # a test may have changed the clock
            if known and 0 <= now - self._began_at < after:
                return
            more = self._lines - LINES_PER_SECOND
            self._clock, self._began_at, self._lines = clock.monotonic, now, 0
        if more > 0 and self._log is not None:
            self._log.log(self._level, "and %d more %s in the same second", more, self._what, extra={"more": more})


def flush_line_limits(after: float = 0.0) -> None:
    """Write the summaries that are due; see `LineLimit.flush`."""
    for limit in _limits:
        limit.flush(after)


@cache
def _limit(what: str) -> LineLimit:
    return LineLimit(30, what)


@cache
def _log() -> "logging.Logger":
    import logging  # noqa: PLC0415  # costs milliseconds, and only a failure needs it

    return logging.getLogger("outlast.retry")


def is_enabled() -> bool:
    """Return whether anybody reads these records."""
    return _log().isEnabledFor(30)


def _warn(text: str, args: "tuple[Any, ...]", failure: "Failure", **keys: "Any") -> None:
    """Write a warning with the keys of the failure and of the context."""
    keys = {**(CONTEXT_LOG_KEYS.get() or {}), **failure.log_keys(), **keys}
    if type(target := keys.get("source_id")) is str:  # the address of a target may contain a password
        keys["source_id"] = default_classifier().redact(target)
    _log().warning(text, *args, extra=keys)


def log_retry(name: str, failure: "Failure", attempt: int, max_attempts: int, delay: float, error: Exception) -> None:
    """Warn that another attempt follows after a wait."""
    try:
        if not _limit("retries").allows(_log()):
            return
        _warn(
            "%s: attempt %d of %d failed (%s), retrying in %s: %s",
            (name, attempt, max_attempts, failure.category.value, format_seconds(delay), failure.summary),
            failure,
            attempt=attempt,
            max_attempts=max_attempts,
            delay=delay,
            call=name,
        )
        log = _log()
        if log.isEnabledFor(10):
            log.debug("%s: traceback of attempt %d\n%s", name, attempt, traceback_of(error))
    except Exception:  # noqa: BLE001  # a log handler that raises must not replace the error at hand
        return


def log_give_up(name: str, failure: "Failure", attempt: int, max_attempts: int, reason: str) -> None:
    """Warn that no further attempt is made. The error is raised; logging its traceback is up to its caller."""
    times = "1 attempt" if attempt == 1 else f"{attempt} attempts"
    try:
        if not _limit("calls given up").allows(_log()):
            return
        _warn(
            "%s: gave up after %s (%s): %s",
            (name, times, reason, failure.summary),
            failure,
            attempt=attempt,
            max_attempts=max_attempts,
            reason=str(reason),
            call=name,
        )
    except Exception:  # noqa: BLE001  # a log handler that raises must not replace the error at hand
        return


def log_user_error(what: str, name: str, error: BaseException) -> None:
    """Log that a function of the user's raised an error instead of deciding."""
    try:
        text = "%s: %s failed, and its answer is not used\n%s"
        _log().error(text, name, what, traceback_of(error))
    except Exception:  # noqa: BLE001  # a log handler that raises must not replace the error at hand
        return


def log_observed(name: str, failure: "Failure", decision: str, delay: float | None) -> None:
    """Log what would have been done about an error in observe mode."""
    wait = "" if delay is None else f" after {format_seconds(delay)}"
    keys = {**failure.log_keys(), "call": name, "would": decision, "delay": delay}
    try:
        import logging  # noqa: PLC0415  # as above

        logging.getLogger("outlast.observe").info(
            "%s: would %s%s (%s): %s", name, decision, wait, failure.category.value, failure.exception_name, extra=keys
        )
    except Exception:  # noqa: BLE001  # a log handler that raises must not replace the error at hand
        return
