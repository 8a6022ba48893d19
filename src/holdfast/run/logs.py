"""What the attempt loops write to the log: a warning before every wait, with the same keys everywhere.

No argument of a call is ever logged. The traceback stands at debug level while attempts remain.
"""

from holdfast.record.tracebacks import one_line, traceback_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any

    from holdfast.failure import Failure

__all__ = ["broken", "gave_up", "retrying", "wants_failures", "wants_retries"]

_logger: "logging.Logger | None" = None


def _log() -> "logging.Logger":
    global _logger  # noqa: PLW0603  # looked up once, at the first failure
    if _logger is None:
        import logging  # noqa: PLC0415  # costs milliseconds, and only a failure needs it

        _logger = logging.getLogger("holdfast.retry")
    return _logger


def wants_retries() -> bool:
    """Tell whether anybody reads what is said before a wait."""
    return (_logger or _log()).isEnabledFor(30)


def wants_failures() -> bool:
    """Tell whether anybody reads that a call was given up."""
    return (_logger or _log()).isEnabledFor(30)


def keys_of(failure: "Failure", attempt: int, max_attempts: int) -> "dict[str, Any]":
    """Return the keys that every log record of a failure carries."""
    return {
        "attempt": attempt,
        "max_attempts": max_attempts,
        "error_category": failure.category.value,
        "origin": failure.origin.value,
        "http_status": failure.http_status,
        "exception_name": failure.exception_name,
        "failure_message": failure.message,
    }


def retrying(name: str, failure: "Failure", attempt: int, max_attempts: int, delay: float, error: Exception) -> None:
    """Warn that another attempt follows after a wait."""
    log, text = _log(), one_line(failure.message)
    try:
        log.warning(
            "%s: attempt %d of %d failed (%s), trying again in %.3g s: %s: %s",
            name, attempt, max_attempts, failure.category.value, delay, failure.exception_name, text,
            extra={**keys_of(failure, attempt, max_attempts), "delay": delay, "call": name},
        )  # fmt: skip
        if log.isEnabledFor(10):
            log.debug("%s: traceback of attempt %d\n%s", name, attempt, traceback_of(error))
    except Exception:  # noqa: BLE001  # a handler that raises must not replace the error at hand
        return


def broken(what: str, name: str, error: Exception) -> None:
    """Tell that a function of the user's raised where it should have decided."""
    try:
        _log().error("%s: %s raised an error of its own; nothing more is tried\n%s", name, what, traceback_of(error))
    except Exception:  # noqa: BLE001  # a handler that raises must not replace the error at hand
        return


def gave_up(name: str, failure: "Failure", attempt: int, max_attempts: int, reason: str) -> None:
    """Warn that no further attempt is made; the error itself is raised, and logging it is its catcher's business."""
    try:
        _log().warning(
            "%s: gave up after %d attempts (%s): %s: %s",
            name, attempt, reason, failure.exception_name, one_line(failure.message),
            extra={**keys_of(failure, attempt, max_attempts), "reason": reason, "call": name},
        )  # fmt: skip
    except Exception:  # noqa: BLE001  # a handler that raises must not replace the error at hand
        return
