"""The log records of the attempt loops: a warning before each wait, and one when a call is given up.

Arguments of calls are never logged. While attempts remain, the traceback is logged at debug level.
"""

from contextvars import ContextVar
from functools import cache

from outlast.classify import default_classifier
from outlast.classify.safe_access import text_of
from outlast.failure import Category
from outlast.record.log_text import first_line, traceback_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any

    from outlast.failure import Failure

    Described = tuple[str, str, str, dict[str, Any]]


_NAME_LIMIT = 200
CONTEXT_LOG_KEYS: "ContextVar[dict[str, Any] | None]" = ContextVar("outlast_log_keys", default=None)
"""Further keys for every record of the attempts that are made in this context, such as those of a job."""


@cache
def _log() -> "logging.Logger":
    import logging  # noqa: PLC0415  # costs milliseconds, and only a failure needs it

    return logging.getLogger("outlast.retry")


def wants_retries() -> bool:
    """Tell whether anybody reads what is said before a wait."""
    return _log().isEnabledFor(30)


def wants_failures() -> bool:
    """Tell whether anybody reads that a call was given up."""
    return _log().isEnabledFor(30)


def _describe(failure: "Failure | None", error: Exception) -> "Described":
    """Return what the records of an error say: category, class, first line, and keys."""
    classifier = default_classifier()
    failure = failure or classifier.weigh(error)
    if not failure.exception_name and failure.category is Category.UNKNOWN:
        failure = classifier.classify(error)  # where it comes from is then looked up apart
    kind, message = failure.exception_name, failure.message
    if not kind:
        name, redact = type(error).__name__, classifier.redact
        known = name.isidentifier() and len(name) <= _NAME_LIMIT
        kind, message = name if known else redact(name[:_NAME_LIMIT]), redact(text_of(error))
    category = failure.category.value
    keys = {
        "error_category": category,
        "origin": failure.origin.value,
        "http_status": failure.http_status,
        "exception_name": kind,
        "failure_message": message,
    }
    return category, kind, first_line(message), keys


def _warn(log: "logging.Logger", text: str, args: "tuple[Any, ...]", keys: "dict[str, Any]") -> None:
    """Write a warning with the keys of its context."""
    further = CONTEXT_LOG_KEYS.get()
    if further:
        keys = {**further, **keys}
        if type(target := keys.get("source_id")) is str:  # the address of a target may hold a password
            keys["source_id"] = default_classifier().redact(target)
    log.warning(text, *args, extra=keys)


def log_retry(
    name: str, failure: "Failure | None", attempt: int, max_attempts: int, delay: float, error: Exception
) -> None:
    """Warn that another attempt follows after a wait."""
    try:
        log, (category, kind, line, keys) = _log(), _describe(failure, error)
        _warn(
            log,
            "%s: attempt %d of %d failed (%s), retrying in %.3g s: %s: %s",
            (name, attempt, max_attempts, category, delay, kind, line),
            {**keys, "attempt": attempt, "max_attempts": max_attempts, "delay": delay, "call": name},
        )
        if log.isEnabledFor(10):
            log.debug("%s: traceback of attempt %d\n%s", name, attempt, traceback_of(error))
    except Exception:  # noqa: BLE001  # a handler that raises must not replace the error at hand
        return


def log_user_error(what: str, name: str, error: Exception) -> None:
    """Tell that a function of the user's raised where it should have decided."""
    try:
        _log().error("%s: %s raised an error, so there is no retry\n%s", name, what, traceback_of(error))
    except Exception:  # noqa: BLE001  # a handler that raises must not replace the error at hand
        return


def log_give_up(
    name: str, failure: "Failure | None", attempt: int, max_attempts: int, reason: str, error: Exception
) -> None:
    """Warn that no further attempt is made; the error itself is raised, and logging it is its catcher's business."""
    try:
        _, kind, line, keys = _describe(failure, error)
        _warn(
            _log(),
            "%s: gave up after %s (%s): %s: %s",
            (name, "1 attempt" if attempt == 1 else f"{attempt} attempts", reason, kind, line),
            {**keys, "attempt": attempt, "max_attempts": max_attempts, "reason": reason, "call": name},
        )
    except Exception:  # noqa: BLE001  # a handler that raises must not replace the error at hand
        return


def log_observed(name: str, failure: "Failure", decision: str, delay: float | None) -> None:
    """Tell what would have been done with an error, where a program is only observed."""
    try:
        import logging  # noqa: PLC0415  # only those who observe need these

        from outlast.record.log_text import failure_keys  # noqa: PLC0415  # as above

        wait = "" if delay is None else f" after {delay:.3g} s"
        keys = {**failure_keys(failure), "call": name, "would": decision, "delay": delay}
        logging.getLogger("outlast.observe").info(
            "%s: would %s%s (%s): %s", name, decision, wait, failure.category.value, failure.exception_name, extra=keys
        )
    except Exception:  # noqa: BLE001  # a handler that raises must not replace the error at hand
        return
