"""A log formatter that writes one JSON object per line, with the keys of Outlast and redacted tracebacks.

>>> handler = logging.StreamHandler()
>>> handler.setFormatter(JsonFormatter())
"""

import logging
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from outlast.classify.safe_access import contain
from outlast.observe.log_keys import STANDARD_ATTRIBUTES, context_keys, error_from_exc_info
from outlast.record.json_values import json_text, to_json_value
from outlast.record.log_text import TRACEBACK_LIMIT, traceback_of
from outlast.redact import Redactor

_redact = Redactor(limit=TRACEBACK_LIMIT)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object: its text, its extras, and the keys of the task and the error.

    The keys of every line are ``time``, ``level``, ``logger`` and ``message``; ``exception`` and ``stack`` follow if
    there are any. A line is always valid JSON in ASCII. Values without a JSON type are written as text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line of JSON."""
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
        with suppress(Exception):  # a line without these keys is better than no line
            data.update(context_keys(data, error))
        if error is not None:
            data["exception"] = traceback_of(error, chain=True)
        elif record.exc_text:
            data["exception"] = _redact(record.exc_text)
        if record.stack_info:
            data["stack"] = _redact(self.formatStack(record.stack_info))
        return json_text(data, ensure_ascii=True)  # every terminal and log shipper accepts ASCII


def record_message(record: logging.LogRecord) -> str:
    """Return the text of a record. Arguments that do not fit the text are not an error."""
    try:
        return record.getMessage()
    except BaseException as raised:  # noqa: BLE001  # the arguments do not fit, or have no text
        contain(raised)
        return f"{to_json_value(record.msg)} (its arguments do not fit)"
