"""The keys of log records, and structlog processors that add them."""

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

from outlast.classify import classify
from outlast.record.log_text import traceback_of
from outlast.run.call_state import CURRENT_TASK

STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
"""The attributes of every log record, which are not keys of Outlast."""


def context_keys(existing: Mapping[str, Any], error: BaseException | None = None) -> dict[str, Any]:
    """Return the keys of the current task and of an error that a record does not have yet.

    Args:
        existing: The keys that the record has.
        error: The error that is logged.
    """
    found: dict[str, Any] = {}
    task = CURRENT_TASK.get()
    if task is not None:
        found.update(task_id=task.id, task_type=task.task_type, attempt=task.retry_count + 1)
    if error is not None and "error_category" not in existing:
        found.update(classify(error).log_keys())
    return {key: value for key, value in found.items() if key not in existing}


def outlast_keys(logger: Any, name: str, event_dict: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ARG001  # the signature structlog calls
    """Add the keys of Outlast to a structlog event. Place this processor before the one that renders exceptions.

    It copies all extras of standard library records (``ProcessorFormatter(foreign_pre_chain=[…])``). Within a task it
    adds the keys of the task, and to an event with ``exc_info`` the keys of the error. Existing keys do not change.

    Args:
        logger: Not used.
        name: Not used.
        event_dict: The event.
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


def redacted_exception(logger: Any, name: str, event_dict: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ARG001  # the signature structlog calls
    """Replace ``exc_info`` of a structlog event with ``exception``: the redacted traceback with its causes.

    Use this processor instead of structlog's ``format_exc_info``, which does not redact secrets.

    Args:
        logger: Not used.
        name: Not used.
        event_dict: The event.
    """
    error = error_from_exc_info(event_dict.pop("exc_info", None))
    if error is not None:
        event_dict["exception"] = traceback_of(error, chain=True)
    return event_dict


def error_from_exc_info(exc_info: object) -> BaseException | None:
    """Return the error of an ``exc_info`` value, in any of the forms that logging accepts."""
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        found = exc_info[1] if len(exc_info) > 1 else None
        return found if isinstance(found, BaseException) else None
    if exc_info:
        import sys  # noqa: PLC0415  # only here

        return sys.exc_info()[1]
    return None
