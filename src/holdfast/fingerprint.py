"""Which failures are the same failure: a fingerprint over what does not change from one to the next.

Counted are the exception's name, status and code, the text with everything variable taken out, and the file and
function of the user's innermost frame (not the line, which every edit moves).
"""

import hashlib
import re
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.failure import Failure

__all__ = ["fingerprint", "normalise"]

_COUNTRY_LIKE_SUFFIXES = "py|js|ts|md|rs|sh|so|gz|db|go|cc|pl|rb|mk|is|as|id|in|no|to|at|be|do|it|me|my|us|am|so|or|if|of"

_VARIABLE = (
    (r"[a-z][a-z0-9+.-]*://[^\s'\"<>)\]]+", "<url>"),
    (r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+", "<mail>"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
    (r"\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:z|[+-]\d\d:?\d\d)?)?", "<time>"),
    (r"0x[0-9a-f]+", "<address>"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?", "<host>"),
    (r"(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])", "<host>"),
    (r"\blocalhost\b(?::\d+)?", "<host>"),
    (
        r"\b(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+"
        r"(?:com|org|net|edu|gov|info|dev|app|cloud|internal|local|lan|test|example|invalid|localhost|svc|xyz|tech|online|site|"
        rf"(?!(?:{_COUNTRY_LIKE_SUFFIXES})\b)[a-z]{{2}})\b(?::\d+)?",
        "<host>",
    ),
    (r"(?<=host=)['\"]?[\w.-]+['\"]?", "<host>"),
    (r"(?<![\w.])(?:~|\.{1,2}|[a-z]:)?(?:[\\/][\w .@+-]*[\w@+-])+[\\/]?", "<path>"),
    (r"\b[0-9a-f]*\d[0-9a-f]*[a-f][0-9a-f]{6,}\b|\b[a-f]+[0-9a-f]*\d[0-9a-f]{6,}\b", "<id>"),
    (r"\b[\w-]*\d[\w-]*\b", "<n>"),
    (r"[^\W\d_]*\d+", "<n>"),
)


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), mark) for pattern, mark in _VARIABLE)


def normalise(message: str) -> str:
    """Return the text with URLs, hosts, paths, ids, times and numbers replaced by marks."""
    for pattern, mark in _patterns():
        message = pattern.sub(mark, message)
    return " ".join(message.split())


def fingerprint(failure: "Failure") -> str:
    """Return sixteen hex digits that the same failure has every time."""
    parts = (
        failure.exception_name,
        str(failure.http_status or ""),
        failure.code or "",
        normalise(failure.message),
        failure.location,
    )
    text = "\0".join(parts).encode("utf-8", "replace")
    return hashlib.blake2b(text, digest_size=8, usedforsecurity=False).hexdigest()
