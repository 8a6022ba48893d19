"""Tracebacks and texts for log records: redacted, without local variables, and limited in length."""

from outlast.classify.safe_access import class_name, contained, read_traceback, shown_text
from outlast.failure import Failure
from outlast.redact import MESSAGE_LIMIT, Redactor

TYPE_CHECKING = False

TRACEBACK_LIMIT = 32_768
"""Characters of a traceback that are kept."""
FORMAT_LIMIT = 8 * TRACEBACK_LIMIT
"""Characters in the texts and notes of an error, its causes and its members that are formatted at most."""
FRAME_LIMIT = 1000
"""Frames of a traceback that are formatted, the innermost ones."""
_ERROR_SIZE = 64  # characters that an error without a text counts for; limits the errors that are formatted to 4096
_NOTE_SIZE = 16
_redact_traceback = Redactor(limit=TRACEBACK_LIMIT)


def traceback_of(error: BaseException, *, chain: bool = False) -> str:
    """Return the redacted traceback of an error.

    An error that cannot be formatted, or is larger than `FORMAT_LIMIT` with its causes, notes and members, is shown
    without them.

    Args:
        error: The error.
        chain: Whether to include the errors that led to it.
    """
    whole = contained(None, _whole_traceback, error, chain)
    if whole is not None:
        return whole
    return contained(f"<traceback of {class_name(error)} not available>", _short_traceback, error)


def _whole_traceback(error: BaseException, chain: bool) -> str | None:  # noqa: FBT001  # as above
    """Return the traceback of an error as the standard library formats it; None if that would take too long."""
    import traceback  # noqa: PLC0415  # takes milliseconds to import, and only a failure needs it

    if not _is_formattable(error):
        return None
    whole = traceback.TracebackException.from_exception(error, limit=-FRAME_LIMIT)
    return _redact_traceback("".join(whole.format(chain=chain)).rstrip())


def _short_traceback(error: BaseException) -> str:
    """Return the traceback of an error without its causes, notes and members."""
    import traceback  # noqa: PLC0415  # as above

    frames = "".join(traceback.format_tb(read_traceback(error), limit=-FRAME_LIMIT))
    head = f"Traceback (most recent call last):\n{frames}" if frames else ""
    name, text = type(error).__qualname__, shown_text(error)[:MESSAGE_LIMIT]
    return _redact_traceback(f"{head}{name}: {text}\n<its causes, notes and members are unreadable or too large>")


def _is_formattable(error: BaseException) -> bool:
    """Return whether the standard library can format an error: it follows every cause, and members more than once."""
    waiting, linked, size = [error], {id(error)}, 0
    while waiting:
        each = waiting.pop()
        notes = getattr(each, "__notes__", None)
        notes = notes if isinstance(notes, list | tuple) else ()
        size += _ERROR_SIZE + len(shown_text(each)) + _NOTE_SIZE * len(notes)
        if size > FORMAT_LIMIT:
            return False
        size += sum(len(note) for note in notes if isinstance(note, str))
        for link in (each.__cause__, each.__context__):
            if link is not None and id(link) not in linked:
                linked.add(id(link))
                waiting.append(link)
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
    return size <= FORMAT_LIMIT


def failure_line(failure: Failure) -> str:
    """Return category, class and text of a failure in at most 500 characters."""
    return f"{failure.category}: {failure.exception_name}: {failure.message}"[:500]
