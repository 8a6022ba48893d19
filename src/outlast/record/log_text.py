"""Tracebacks and texts for log records: redacted, without local variables, and limited in length."""

from outlast.failure import Failure
from outlast.redact import Redactor

TYPE_CHECKING = False


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


def failure_line(failure: Failure) -> str:
    """Return category, class and text of a failure in at most 500 characters."""
    return f"{failure.category}: {failure.exception_name}: {failure.message}"[:500]
