"""Logs on standard error: coloured on a terminal, else plain lines, or JSON lines."""

import functools
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from outlast import clock
from outlast.cli.app_options import P, R, flag
from outlast.cli.output import make_console
from outlast.observe.json_logs import JsonFormatter, record_message
from outlast.queue.masking import masked_text
from outlast.redact import safe_text

LEVELS = ("debug", "info", "warning", "error")
_MAX_MESSAGE_CHARS = 65_536
_TRACEBACK = "\nTraceback (most recent call last):\n"
_TRACEBACK_EVERY = 3600.0  # seconds until the traceback of a cause is shown again, as logs are rotated
_MAX_CAUSES = 1000  # that are known; one that is forgotten is shown again
_HTTP_LOGGERS = frozenset(["httpx", "httpx2", "httpcore", "httpcore2"])  # they log URLs and headers as they are


class SafeFormatter(logging.Formatter):
    """The message without control characters. Failures of one cause share one traceback, shown again after an hour.

    A cause is the class of the error and the lines of code that raised it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._causes: dict[tuple[str, ...], tuple[float, int]] = {}  # when the traceback was shown, failures since

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        text = super().format(record)
        head, traceback, frames = text.partition(_TRACEBACK)
        if traceback and hasattr(record, "exception_name"):
            text = self._with_one_traceback(record.exception_name, head, traceback, frames)
        return safe_text(text, _MAX_MESSAGE_CHARS)

    def _with_one_traceback(self, name: str, head: str, traceback: str, frames: str) -> str:
        cause = (name, *(line for line in frames.splitlines() if line.startswith("  File ")))
        now = clock.monotonic()
        shown_at, count = self._causes.pop(cause, (now, 0))
        if count == 0 or now - shown_at >= _TRACEBACK_EVERY:
            shown_at, count = now, 0
        self._causes[cause] = shown_at, count + 1
        if len(self._causes) > _MAX_CAUSES:
            del self._causes[next(iter(self._causes))]
        if count:
            return f"{head} (failure {count + 1} of this cause; see the traceback above)"
        return head + traceback + frames


class PlainFormatter(SafeFormatter):
    """``2026-11-15T10:00:00.000+00:00 WARNING outlast.worker: …``, without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return f"{time} {record.levelname} {safe_text(record.name)}: {super().format(record)}"


def with_log_options(level: str) -> Callable[[Callable[P, R]], Callable[..., R]]:
    """Add the options ``--log-level`` and ``--json-logs`` to a command, which then writes its logs as they say.

    Args:
        level: The default level.
    """
    choice = click.Choice(LEVELS, case_sensitive=False)

    def decorate(command: Callable[P, R]) -> Callable[..., R]:
        @click.option(
            "--log-level", type=choice, default=level, show_default=True, help="The lowest level that is logged."
        )
        @flag("--json-logs", "Log one JSON object per line.")
        @functools.wraps(command)
        def run(*args: Any, log_level: str, json_logs: bool, **kwargs: Any) -> R:
            set_up_logs(log_level, as_json=json_logs)
            return command(*args, **kwargs)

        return run

    return decorate


def set_up_logs(level: str, *, as_json: bool) -> None:
    """Write all logs to standard error, but the line that HTTP clients log for each request only at the level debug.

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

    handler = RichHandler(
        console=make_console(stderr=True),
        show_path=False,
        markup=False,
        highlighter=NullHighlighter(),
        log_time_format="%H:%M:%S",
    )
    handler.setFormatter(SafeFormatter())
    return handler
