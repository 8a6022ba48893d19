"""Logs as JSON: one object per line, with the keys of Outlast and without secrets in its tracebacks.

>>> handler = logging.StreamHandler()
>>> handler.setFormatter(JsonFormatter())
"""

import logging
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from outlast.observe.log_keys import STANDARD_ATTRIBUTES, context_keys, error_from_exc_info
from outlast.record.json_values import json_text, to_json_value
from outlast.record.log_text import TRACEBACK_LIMIT, traceback_of
from outlast.redact import Redactor

__all__ = ["LINE_KEYS", "JsonFormatter", "record_message"]

LINE_KEYS = {
    "time": "When, in UTC, with milliseconds.",
    "level": "`debug`, `info`, `warning`, `error` or `critical`.",
    "logger": "Name of the logger.",
    "message": "The text.",
    "exception": "The traceback with its causes, redacted and capped, where there is one.",
    "stack": "Where it was logged, redacted and capped, where that was asked for.",
}
"""What a line has of its own; the extras of the record come after."""
_redact = Redactor(limit=TRACEBACK_LIMIT)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `LINE_KEYS`, the extras of the record, and what is known of the task and the error.

    A line is valid JSON in ASCII, whatever was logged: values that JSON does not have are written as text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        data: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record_message(record),
        }
        data.update(
            (key, value) for key, value in vars(record).items() if key not in STANDARD_ATTRIBUTES and key not in data
        )
        error = error_from_exc_info(record.exc_info)
        with suppress(Exception):  # a line without them is better than none
            data.update(context_keys(data, error))
        if error is not None:
            data["exception"] = traceback_of(error, chain=True)
        elif record.exc_text:
            data["exception"] = _redact(record.exc_text)
        if record.stack_info:
            data["stack"] = _redact(self.formatStack(record.stack_info))
        return json_text(data, ensure_ascii=True)  # no terminal or log shipper chokes on ASCII


def record_message(record: logging.LogRecord) -> str:
    """Return the text of a record, whatever its arguments are."""
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  # arguments that do not fit, or that cannot be written
        return f"{to_json_value(record.msg)} (its arguments cannot be put into it)"
