"""Logs on standard error: coloured on a terminal, else plain lines, or JSON lines."""

import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import click

from outlast.cli.app_options import F, flag
from outlast.cli.output import make_console
from outlast.observe.json_logs import JsonFormatter, record_message
from outlast.queue.masking import masked_text
from outlast.redact import safe_text

LEVELS = ("debug", "info", "warning", "error")
_MAX_MESSAGE_CHARS = 65_536
_HTTP_LOGGERS = frozenset(["httpx", "httpx2", "httpcore", "httpcore2"])  # they log URLs and headers as they are


class PlainFormatter(logging.Formatter):
    """``2026-11-15T10:00:00.000+00:00 WARNING outlast.worker: …``, without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return safe_text(f"{time} {record.levelname} {record.name}: {super().format(record)}", _MAX_MESSAGE_CHARS)


def with_log_options(level: str) -> Callable[[F], F]:
    """Add the options ``--log-level`` and ``--json-logs`` to a command.

    Args:
        level: The default level.
    """
    level_option = click.option(
        "--log-level",
        type=click.Choice(LEVELS, case_sensitive=False),
        default=level,
        show_default=True,
        help="The lowest level that is logged.",
    )
    json_option = flag("--json-logs", "Log one JSON object per line.")
    return lambda command: level_option(json_option(command))


def set_up_logs(level: str, *, as_json: bool) -> None:
    """Write all logs to standard error.

    Args:
        level: The lowest level to log, one of `LEVELS`.
        as_json: Whether to write one JSON object per line.
    """
    handler: logging.Handler = logging.StreamHandler()
    if as_json:
        handler.setFormatter(JsonFormatter())
    elif sys.stderr.isatty():
        handler = _terminal_handler()
    else:
        handler.setFormatter(PlainFormatter())
    handler.addFilter(_redact_record)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())


def quiet_clients(level: str) -> None:
    """Turn off the log line that HTTP clients write for each request, except at the level debug.

    Args:
        level: One of `LEVELS`.
    """
    for name in _HTTP_LOGGERS:
        logging.getLogger(name).setLevel(logging.NOTSET if level.lower() == "debug" else logging.WARNING)


def _redact_record(record: logging.LogRecord) -> bool:
    """Remove secrets from the records of HTTP clients; return True, so that no record is dropped."""
    if record.name.partition(".")[0] in _HTTP_LOGGERS:
        record.msg, record.args = masked_text(record_message(record)), None
    return True


def _terminal_handler() -> logging.Handler:
    from rich.highlighter import NullHighlighter  # noqa: PLC0415  # only on a terminal
    from rich.logging import RichHandler  # noqa: PLC0415  # only on a terminal

    class SafeFormatter(logging.Formatter):
        """The message without control characters."""

        def format(self, record: logging.LogRecord) -> str:
            return safe_text(super().format(record), _MAX_MESSAGE_CHARS)

    handler = RichHandler(
        console=make_console(stderr=True),
        show_path=False,
        markup=False,
        highlighter=NullHighlighter(),
        log_time_format="%H:%M:%S",
    )
    handler.setFormatter(SafeFormatter())
    return handler
