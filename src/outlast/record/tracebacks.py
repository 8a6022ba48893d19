"""Tracebacks and texts for the log: without secrets, without locals, and in lines of our own making."""

from outlast.redact import Redactor

__all__ = ["TRACEBACK_LIMIT", "one_line", "span", "traceback_of"]

TRACEBACK_LIMIT = 32_768
"""Characters of a traceback that are kept."""
_redact = Redactor(limit=TRACEBACK_LIMIT)


def traceback_of(error: BaseException, *, chain: bool = False) -> str:
    """Return the traceback of an error alone, redacted; what it interrupted has been told already.

    Args:
        error: Whose.
        chain: Whether the errors that led to it are shown all the same.
    """
    import traceback  # noqa: PLC0415  # costs milliseconds, and only a failure needs it

    try:
        return _redact("".join(traceback.TracebackException.from_exception(error).format(chain=chain)).rstrip())
    except Exception:  # noqa: BLE001  # an error that cannot even be formatted
        return f"<no traceback of a {type(error).__name__}>"


def span(seconds: float) -> str:
    """Return a length of time as people read it."""
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"  # noqa: PLR2004  # three digits are enough


def one_line(text: str) -> str:
    """Return the first line of a text, so that no text can pretend to be a record of its own."""
    line, _, more = text.partition("\n")
    return f"{line} …" if more.strip() else line
