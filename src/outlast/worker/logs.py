"""What is logged of failed attempts: a retry is a warning with its traceback at debug, an end is an error with it.

A handler of the log that raises changes nothing. Arguments of tasks are never logged.
"""

from collections.abc import Callable
from typing import Any

from outlast.classify import classify
from outlast.failure import Failure
from outlast.queue.logs import log
from outlast.record.keys import failure_keys
from outlast.record.tracebacks import one_line, span

__all__ = ["broken", "deferred", "failed", "ignored", "log", "unwritten"]


def failed(  # noqa: PLR0913  # what is known of the attempt
    task_id: int,
    attempt: int,
    failure: Failure,
    traceback: str,
    *,
    category: str,
    most: int | None,
    again: bool,
    delay: float | None = None,
) -> None:
    """Tell that an attempt failed, and whether there will be another one."""
    of = "" if most is None else f" of {most}"
    keys = {**_keys(task_id, failure), "attempt": attempt, "max_attempts": most, "error_category": category}
    if again:
        when = "to be retried" if delay is None else f"again in {span(delay)}"
        keys["delay"] = delay
        _say(log.warning, "task %s: attempt %s%s failed (%s), %s: %s",
             task_id, attempt, of, category, when, _text(failure), extra=keys)  # fmt: skip
        _say(log.debug, "task %s: traceback of attempt %s\n%s", task_id, attempt, traceback)
    else:
        _say(log.error, "task %s: dead letter after attempt %s%s (%s): %s\n%s",
             task_id, attempt, of, category, _text(failure), traceback, extra=keys)  # fmt: skip


def deferred(task_id: int, delay: float, failure: Failure) -> None:
    """Tell that a task was put off."""
    _say(log.warning, "task %s: put off for %s, no attempt spent (%s): %s",
         task_id, span(delay), failure.category.value, _text(failure), extra=_keys(task_id, failure))  # fmt: skip


def ignored(task_id: int, failure: Failure, why: str, traceback: str) -> None:
    """Tell that a report changed nothing."""
    _say(log.warning, "task %s: a failure was reported and changed nothing, %s: %s",
         task_id, why, _text(failure), extra=_keys(task_id, failure))  # fmt: skip
    _say(log.debug, "task %s: traceback of what was reported\n%s", task_id, traceback)


def unwritten(task_id: int, attempt: int, failure: Failure, trouble: Failure, traceback: str) -> None:
    """Tell that what follows from a failure could not be written."""
    _say(log.error, "task %s stays as it was: attempt %s failed (%s) and the database too (%s: %s)\n%s",
         task_id, attempt, _text(failure), trouble.category.value, _text(trouble), traceback,
         extra=_keys(task_id, failure))  # fmt: skip


def broken(what: str, mistake: BaseException) -> None:
    """Tell that a part of the user's raised."""
    _say(log.error, "%s raised: %s", what, _text(classify(mistake)))


def _keys(task_id: int, failure: Failure) -> dict[str, Any]:
    return {"task_id": task_id, **failure_keys(failure)}


def _text(failure: Failure) -> str:
    return f"{failure.exception_name}: {one_line(failure.message)}"


def _say(level: Callable[..., None], *args: Any, **keys: Any) -> None:
    try:
        level(*args, **keys)
    except Exception:  # noqa: BLE001  # a handler that raises must not end the worker
        return
