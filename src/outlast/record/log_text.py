"""Tracebacks and texts for the log: without secrets, without locals, and in lines of our own making."""

from outlast.failure import Failure
from outlast.redact import Redactor

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


TRACEBACK_LIMIT = 32_768
"""Characters of a traceback that are kept."""
_redact_traceback = Redactor(limit=TRACEBACK_LIMIT)


def traceback_of(error: BaseException, *, chain: bool = False) -> str:
    """Return the traceback of an error alone, redacted; what it interrupted has been told already.

    Args:
        error: Whose.
        chain: Whether the errors that led to it are shown all the same.
    """
    import traceback  # noqa: PLC0415  # costs milliseconds, and only a failure needs it

    try:
        return _redact_traceback(
            "".join(traceback.TracebackException.from_exception(error).format(chain=chain)).rstrip()
        )
    except Exception:  # noqa: BLE001  # an error that cannot even be formatted
        return f"<no traceback of a {type(error).__name__}>"


def format_seconds(seconds: float) -> str:
    """Return a length of time as people read it."""
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"  # noqa: PLR2004  # three digits are enough


def first_line(text: str) -> str:
    """Return the first line of a text, so that no text can pretend to be a record of its own."""
    line, _, more = text.partition("\n")
    return f"{line} …" if more.strip() else line


# The keys under which a failure stands in every log record.


def failure_keys(failure: Failure) -> "dict[str, Any]":
    """Return what a log record tells of a failure; ``message`` is logging's own, so its text is `failure_message`."""
    return {
        "error_category": failure.category.value,
        "origin": failure.origin.value,
        "http_status": failure.http_status,
        "exception_name": failure.exception_name,
        "failure_message": failure.message,
    }
