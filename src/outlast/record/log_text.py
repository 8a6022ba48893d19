"""Tracebacks and texts for log records: redacted, without local variables, and limited in length."""

from outlast.failure import Failure
from outlast.redact import Redactor

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


TRACEBACK_LIMIT = 32_768
"""Characters of a traceback that are kept."""
_redact_traceback = Redactor(limit=TRACEBACK_LIMIT)


def traceback_of(error: BaseException, *, chain: bool = False) -> str:
    """Return the redacted traceback of an error.

    Args:
        error: The error.
        chain: Whether to include the errors that led to it.
    """
    import traceback  # noqa: PLC0415  # takes milliseconds to import, and only a failure needs it

    try:
        return _redact_traceback(
            "".join(traceback.TracebackException.from_exception(error).format(chain=chain)).rstrip()
        )
    except Exception:  # noqa: BLE001  # an error that cannot be formatted
        return f"<traceback of {type(error).__name__} not available>"


def format_seconds(seconds: float) -> str:
    """Return a duration with three significant digits, such as ``1.5 s``."""
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"  # noqa: PLR2004  # three digits are enough


def first_line(text: str) -> str:
    """Return the first line of a text, so that a text cannot imitate another log record."""
    line, _, more = text.partition("\n")
    return f"{line} …" if more.strip() else line


def failure_keys(failure: Failure) -> "dict[str, Any]":
    """Return the log record keys of a failure; its text is `failure_message`, since logging reserves ``message``."""
    return {
        "error_category": failure.category.value,
        "origin": failure.origin.value,
        "http_status": failure.http_status,
        "exception_name": failure.exception_name,
        "failure_message": failure.message,
    }
