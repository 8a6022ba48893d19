"""Logs of a worker or a monitor on standard error: for people at a terminal, in plain lines, or as JSON lines."""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

from holdfast.cli.plain import json_text, plain
from holdfast.redact import safe_text

__all__ = ["LEVELS", "JsonLines", "PlainLines", "quiet_clients", "set_up_logs"]

LEVELS = ("debug", "info", "warning", "error")
_LONGEST = 65_536
_CLIENTS = frozenset(["httpx", "httpx2", "httpcore", "httpcore2"])  # they log URLs and headers as they are
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class PlainLines(logging.Formatter):
    """``2026-11-15T10:00:00.000+00:00 WARNING holdfast.worker: …``, with nothing that a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return safe_text(f"{_time(record)} {record.levelname} {record.name}: {super().format(record)}", _LONGEST)


class JsonLines(logging.Formatter):
    """One object per line: ``time``, ``level``, ``logger``, ``message``, the extra keys, ``exception``, ``stack``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record; valid JSON, whatever was logged."""
        data: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        data.update((key, value) for key, value in vars(record).items() if key not in _STANDARD and key not in data)
        if record.exc_info:
            data["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            data["exception"] = record.exc_text
        if record.stack_info:
            data["stack"] = self.formatStack(record.stack_info)
        return json_text(data, ensure_ascii=True)  # no terminal or log shipper chokes on ASCII


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  # arguments that do not fit, or that cannot be written
        return f"{plain(record.msg)} (its arguments cannot be put into it)"


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def set_up_logs(level: str, *, as_json: bool) -> None:
    """Have all that is logged written to standard error.

    Args:
        level: One of `LEVELS`.
        as_json: One JSON object per line.
    """
    handler: logging.Handler = logging.StreamHandler()
    if as_json:
        handler.setFormatter(JsonLines())
    elif sys.stderr.isatty():
        handler = _for_a_terminal()
    else:
        handler.setFormatter(PlainLines())
    handler.addFilter(_without_secrets)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())


def quiet_clients(level: str) -> None:
    """Have HTTP clients log no line for each request, unless all is to be logged.

    Args:
        level: One of `LEVELS`.
    """
    for name in _CLIENTS:
        logging.getLogger(name).setLevel(logging.NOTSET if level.lower() == "debug" else logging.WARNING)


def _without_secrets(record: logging.LogRecord) -> bool:
    """Take secrets out of what an HTTP client logs; let everything pass."""
    if record.name.partition(".")[0] in _CLIENTS:
        from holdfast.queue.masking import masked_text  # noqa: PLC0415  # not for --help

        record.msg, record.args = masked_text(_message(record)), None
    return True


def _for_a_terminal() -> logging.Handler:
    from rich.highlighter import NullHighlighter  # noqa: PLC0415  # only at a terminal
    from rich.logging import RichHandler  # noqa: PLC0415  # only at a terminal

    from holdfast.cli.showing import screen  # noqa: PLC0415  # it needs rich

    class Safe(logging.Formatter):
        """The message, with nothing in it that a terminal would obey."""

        def format(self, record: logging.LogRecord) -> str:
            return safe_text(super().format(record), _LONGEST)

    handler = RichHandler(
        console=screen(stderr=True),
        show_path=False,
        markup=False,
        highlighter=NullHighlighter(),
        log_time_format="%H:%M:%S",
    )
    handler.setFormatter(Safe())
    return handler
