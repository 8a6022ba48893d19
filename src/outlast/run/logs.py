"""The log records of the attempt loops: a warning before each wait, and one when a call is given up.

Arguments of calls are never logged. While attempts remain, the traceback is logged at debug level.
"""

from contextvars import ContextVar
from functools import cache

from outlast.classify import default_classifier
from outlast.record.log_text import traceback_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any

    from outlast.failure import Failure


CONTEXT_LOG_KEYS: "ContextVar[dict[str, Any] | None]" = ContextVar("outlast_log_keys", default=None)
"""Further keys for every record of the attempts that are made in this context, such as those of a job."""


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
        _warn(
            "%s: attempt %d of %d failed (%s), retrying in %.3g s: %s",
            (name, attempt, max_attempts, failure.category.value, delay, failure.summary),
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


def log_user_error(what: str, name: str, error: Exception) -> None:
    """Log that a function of the user's raised an error instead of deciding."""
    try:
        text = "%s: %s raised an error, so there is no retry\n%s"
        _log().error(text, name, what, traceback_of(error))
    except Exception:  # noqa: BLE001  # a log handler that raises must not replace the error at hand
        return


def log_observed(name: str, failure: "Failure", decision: str, delay: float | None) -> None:
    """Log what would have been done about an error in observe mode."""
    wait = "" if delay is None else f" after {delay:.3g} s"
    keys = {**failure.log_keys(), "call": name, "would": decision, "delay": delay}
    try:
        import logging  # noqa: PLC0415  # as above

        logging.getLogger("outlast.observe").info(
            "%s: would %s%s (%s): %s", name, decision, wait, failure.category.value, failure.exception_name, extra=keys
        )
    except Exception:  # noqa: BLE001  # a log handler that raises must not replace the error at hand
        return
