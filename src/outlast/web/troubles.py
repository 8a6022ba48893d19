"""What people are told when a request comes to nothing; what happened inside is for the log alone."""

import logging
import math
from typing import NamedTuple

from starlette.exceptions import HTTPException

from outlast.errors import SchemaError
from outlast.web.access.callers import TooOftenError
from outlast.web.forms import BodyTooLargeError, WrongKindError
from outlast.web.routing import NotThereError, RefusedError

__all__ = ["Trouble", "trouble_of"]

log = logging.getLogger("outlast.web")
_DRIVERS = {"sqlite3", "psycopg", "psycopg_pool"}
_NO_TABLES = {"UndefinedTable", "UndefinedColumn"}
_OURS = {"DataError", "ProgrammingError", "IntegrityError", "NotSupportedError"}  # a mistake of ours, not the store's
_UNREACHED = (
    "The store does not answer. Is the database running, and can it be reached from here? The log of this process "
    "has the reason; this page works again as soon as the store does."
)
_WORDS = {
    404: ("Not found", "There is no such page."),
    405: ("Not like that", "This address cannot be asked for in this way."),
}


class Trouble(NamedTuple):
    """What is answered instead.

    Attributes:
        status: Of the answer.
        heading: In a word or two.
        text: What to do about it.
        headers: That belong to it.
    """

    status: int
    heading: str
    text: str
    headers: tuple[tuple[str, str], ...] = ()


def trouble_of(error: Exception) -> Trouble:
    """Return what is told of an error; one that is not the asker's is logged."""
    match error:
        case NotThereError():
            return Trouble(404, "Not found", str(error))
        case RefusedError():
            return Trouble(400, "Not accepted", str(error))
        case TooOftenError():
            seconds = max(1, math.ceil(error.seconds))
            text = f"Too many wrong secrets came from where you are. Try again in {seconds} s."
            return Trouble(429, "Too many tries", text, (("Retry-After", str(seconds)),))
        case BodyTooLargeError():
            return Trouble(413, "Too large", "More was sent than is read.", (("Connection", "close"),))
        case WrongKindError():
            return Trouble(415, "Not accepted", "Send a form; programs may send a JSON object below /api.")
        case HTTPException():
            heading, text = _WORDS.get(error.status_code, ("Not accepted", error.detail))
            return Trouble(error.status_code, heading, text, tuple((error.headers or {}).items()))
    return _logged(error)


def _logged(error: Exception) -> Trouble:
    from outlast.queue.masking import masked_text  # noqa: PLC0415  # only trouble needs it
    from outlast.record.tracebacks import one_line, traceback_of  # noqa: PLC0415  # only trouble needs it

    told = f"{type(error).__name__}: {one_line(masked_text(str(error)))}"
    if isinstance(error, SchemaError):
        log.error("the dashboard cannot read the store: %s", told)
        return Trouble(503, "The tables are not ready", masked_text(str(error)))
    if _is_of_the_store(error):
        log.error("the store does not answer the dashboard: %s", told)
        return Trouble(503, "The store does not answer", _UNREACHED, (("Retry-After", "5"),))
    log.error("a page of the dashboard failed: %s\n%s", told, traceback_of(error))
    return Trouble(500, "This page failed", "That is a mistake in the page. The log of this process has the reason.")


def _is_of_the_store(error: Exception) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    drivers = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(drivers & _DRIVERS) and (bool(names & _NO_TABLES) or not names & _OURS)
