"""What the attempt loops write to the log: a warning before every wait, with the same keys everywhere.

No argument of a call is ever logged. The traceback stands at debug level while attempts remain.
"""

from contextvars import ContextVar

from holdfast.classify import default_classifier
from holdfast.classify.peek import text_of
from holdfast.failure import Category
from holdfast.record.tracebacks import one_line, traceback_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any

    from holdfast.classify import Classifier
    from holdfast.failure import Failure

    Told = tuple[str, str, str, dict[str, Any]]

__all__ = ["KEYS", "broken", "gave_up", "retrying", "wants_failures", "wants_retries"]

_NAME_LIMIT = 200
_LONGEST_KEPT = 512
KEYS: "ContextVar[dict[str, Any] | None]" = ContextVar("holdfast_log_keys", default=None)
"""Further keys for every record of the attempts that are made in this context, such as those of a job."""
_logger: "logging.Logger | None" = None
_plain_logger: "type[logging.Logger] | None" = None


def _log() -> "logging.Logger":
    global _logger, _plain_logger  # looked up once, at the first failure
    if _logger is None:
        import logging  # noqa: PLC0415  # costs milliseconds, and only a failure needs it

        _logger, _plain_logger = logging.getLogger("holdfast.retry"), logging.Logger
    return _logger


def wants_retries() -> bool:
    """Tell whether anybody reads what is said before a wait."""
    return (_logger or _log()).isEnabledFor(30)


def wants_failures() -> bool:
    """Tell whether anybody reads that a call was given up."""
    return (_logger or _log()).isEnabledFor(30)


def _look_at(failure: "Failure", error: Exception) -> "Told":
    """Make what is told of a failure; its texts are made here where it was only weighed."""
    classifier = default_classifier()
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
    return category, kind, one_line(message), keys


_told: "dict[type, tuple[Classifier, tuple[int, object], str, Told]]" = {}
"""What was told last of each built-in class, by whom it was judged, and by which text: in an outage one error comes
thousands of times. What holds a secret is not kept."""


def _told_of(failure: "Failure | None", error: Exception) -> "Told":
    """Return what the records of an error tell, whatever the attempt: category, class, first line, and keys."""
    classifier, kind = default_classifier(), type(error)
    if (
        kind.__module__ != "builtins"
        or classifier.rules  # yours may look at more than the text
        or error.__dict__
        or error.__context__ is not None
        or error.__cause__ is not None
        or kind is ExceptionGroup
    ):
        return _look_at(failure or classifier.weigh(error), error)
    # a number given apart from the text is read as one
    text, given = text_of(error), (len(error.args), getattr(error, "errno", None))
    last = _told.get(kind)
    if last is not None and last[2] == text and last[1] == given and last[0] is classifier:
        return last[3]
    told = _look_at(failure or classifier.weigh(error), error)
    if told[3]["failure_message"] == text and len(text) <= _LONGEST_KEPT:
        _told[kind] = (classifier, given, text, told)
    return told


def _warn(log: "logging.Logger", text: str, args: "tuple[Any, ...]", keys: "dict[str, Any]") -> None:
    """Write a warning that somebody reads; where it comes from is known, so nobody needs to search the stack for it."""
    further = KEYS.get()
    if further:
        keys = {**further, **keys}
        if type(target := keys.get("source_id")) is str:  # the address of a target may hold a password
            keys["source_id"] = default_classifier().redact(target)
    if type(log) is not _plain_logger:
        log.warning(text, *args, extra=keys)
        return
    record = log.makeRecord(log.name, 30, __file__, _LINE, text, args, None, "_warn")
    record.__dict__.update(keys)
    log.handle(record)


_LINE = _warn.__code__.co_firstlineno


def retrying(
    name: str, failure: "Failure | None", attempt: int, max_attempts: int, delay: float, error: Exception
) -> None:
    """Warn that another attempt follows after a wait."""
    try:
        log, (category, kind, line, keys) = _log(), _told_of(failure, error)
        _warn(
            log,
            "%s: attempt %d of %d failed (%s), trying again in %.3g s: %s: %s",
            (name, attempt, max_attempts, category, delay, kind, line),
            {**keys, "attempt": attempt, "max_attempts": max_attempts, "delay": delay, "call": name},
        )
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


def gave_up(
    name: str, failure: "Failure | None", attempt: int, max_attempts: int, reason: str, error: Exception
) -> None:
    """Warn that no further attempt is made; the error itself is raised, and logging it is its catcher's business."""
    try:
        _, kind, line, keys = _told_of(failure, error)
        _warn(
            _log(),
            "%s: gave up after %s (%s): %s: %s",
            (name, "1 attempt" if attempt == 1 else f"{attempt} attempts", reason, kind, line),
            {**keys, "attempt": attempt, "max_attempts": max_attempts, "reason": reason, "call": name},
        )
    except Exception:  # noqa: BLE001  # a handler that raises must not replace the error at hand
        return


def would(name: str, failure: "Failure", decision: str, delay: float | None) -> None:
    """Tell what would have been done with an error, where a program is only observed."""
    try:
        import logging  # noqa: PLC0415  # only those who observe need these

        from holdfast.record.keys import failure_keys  # noqa: PLC0415  # as above

        wait = "" if delay is None else f" after {delay:.3g} s"
        keys = {**failure_keys(failure), "call": name, "would": decision, "delay": delay}
        logging.getLogger("holdfast.observe").info(
            "%s: would %s%s (%s): %s", name, decision, wait, failure.category.value, failure.exception_name, extra=keys
        )
    except Exception:  # noqa: BLE001  # a handler that raises must not replace the error at hand
        return
