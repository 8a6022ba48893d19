"""The keys of log records: what each says, and where they come from when whoever logs did not give them."""

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

from outlast.classify import classify
from outlast.record.log_text import failure_keys, traceback_of
from outlast.run.call_state import CURRENT_TASK

__all__ = [
    "LOG_KEYS",
    "STANDARD_ATTRIBUTES",
    "context_keys",
    "error_from_exc_info",
    "outlast_keys",
    "redacted_exception",
]

LOG_KEYS = {
    "job_id": "Name of the job.",
    "run_id": "The run of it.",
    "env": "Where it runs.",
    "job_start_at": "When the run began.",
    "entity": "What the targets of the job are.",
    "source_id": "The target of a job, or the number of a source.",
    "task_id": "Number of the task.",
    "task_type": "Name of the task.",
    "call": "What was called.",
    "attempt": "Number of the attempt, from 1.",
    "max_attempts": "Attempts that the policy allows in all.",
    "delay": "Seconds until the next attempt.",
    "reason": "Why no further attempt is made.",
    "error_category": "The category of the failure.",
    "origin": "What the program was talking to.",
    "http_status": "The HTTP status, or null.",
    "exception_name": "Class of the error.",
    "failure_message": "Text of the error, redacted and capped.",
}
"""What records of failures carry, as far as it is known of each."""

STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
"""What every record has, and no key of ours."""


def context_keys(given: Mapping[str, Any], error: BaseException | None = None) -> dict[str, Any]:
    """Return keys that are known and were not given: of the task that runs here, and of an error.

    Args:
        given: What there is already.
        error: What is logged with it.
    """
    found: dict[str, Any] = {}
    task = CURRENT_TASK.get()
    if task is not None:
        found.update(task_id=task.id, task_type=task.task_type, attempt=task.retry_count + 1)
    if error is not None and "error_category" not in given:
        found.update(failure_keys(classify(error)))
    return {key: value for key, value in found.items() if key not in given}


def outlast_keys(logger: Any, name: str, event_dict: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ARG001  # as structlog calls it
    """Add the keys of Outlast to an event of structlog: a processor for its list, before exceptions are rendered.

    Of records that come from the standard library, by ``ProcessorFormatter(foreign_pre_chain=[…])``, it takes all
    extras. Within a task it adds which one runs, and to an event with ``exc_info`` what the error is. What is there
    already stays.

    Args:
        logger: Not looked at.
        name: Not looked at.
        event_dict: What is logged.
    """
    record = event_dict.get("_record")
    if isinstance(record, logging.LogRecord):
        for key, value in vars(record).items():
            if key not in STANDARD_ATTRIBUTES:
                event_dict.setdefault(key, value)
    error = error_from_exc_info(event_dict.get("exc_info"))
    for key, value in context_keys(event_dict, error).items():
        event_dict.setdefault(key, value)
    return event_dict


def redacted_exception(logger: Any, name: str, event_dict: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ARG001  # as structlog calls it
    """Put the traceback of an event of structlog into ``exception``, with its causes and without secrets.

    A processor in place of structlog's ``format_exc_info``, which masks nothing.

    Args:
        logger: Not looked at.
        name: Not looked at.
        event_dict: What is logged.
    """
    error = error_from_exc_info(event_dict.pop("exc_info", None))
    if error is not None:
        event_dict["exception"] = traceback_of(error, chain=True)
    return event_dict


def error_from_exc_info(exc_info: object) -> BaseException | None:
    """Return the error that was given with a record, in any of the forms that logging takes."""
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        found = exc_info[1] if len(exc_info) > 1 else None
        return found if isinstance(found, BaseException) else None
    if exc_info:
        import sys  # noqa: PLC0415  # only here

        return sys.exc_info()[1]
    return None
