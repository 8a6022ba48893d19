"""Fingerprints that group failures with the same cause.

A fingerprint covers the exception's name, status and code, the message without its variable parts, and the file and
function of the innermost frame in the user's code. It leaves out the line number, which every edit moves.
"""

import hashlib
import re
from functools import cache

_COUNTRY_LIKE_SUFFIXES = "py|js|ts|md|rs|sh|so|gz|db|go|cc|pl|rb|mk|is|as|id|in|no|to|at|do|me|my|am|or|if|of"

_HOST_ENDINGS = (
    "com|org|net|edu|gov|info|dev|app|cloud|internal|local|lan|test|example|invalid|localhost|svc|xyz|tech|online|site|"
    rf"(?!(?:{_COUNTRY_LIKE_SUFFIXES})\b)[a-z]{{2}}"
)

_NAMES_WITH_DIGITS = "md5|sha-?\\d+|utf-?\\d+|latin-?1|oauth2|s3|ec2|http/?2|ipv[46]|base64|x509|k8s|h264|mp[34]"

# Repetitions are bounded and anchored at their start, so that no text makes a pattern slow.
_VARIABLE_PARTS = (
    (r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://[^\s'\"<>)\]]+", "<url>"),
    (r"(?<![\w.+-])[\w.+-]{1,80}@[\w.-]+", "<mail>"),
    (r"\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:z|[+-]\d\d:?\d\d)?)?", "<time>"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?", "<host>"),
    (r"(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])", "<host>"),
    (r"\blocalhost\b(?::\d+)?", "<host>"),
    (rf"(?<![\w.-])(?:[a-z0-9-]{{1,63}}\.){{1,8}}(?:{_HOST_ENDINGS})\b(?::\d+)?", "<host>"),
    (r"(?<=host=)['\"]?[\w.-]+['\"]?", "<host>"),
    (r"(?<![\w.\\/])(?:~|\.{1,2}|[a-z]:)?(?:[\\/][\w.@+-]+)+[\\/]?", "<path>"),
    (rf"(?<![\w-])(?!(?:{_NAMES_WITH_DIGITS})\b)[\w-]{{0,80}}?\d[\w-]*(?:[.,]\d+)*(?:ms|s)?", "<n>"),
)
_MESSAGE_LIMIT = 1000
"""Characters of a normalised message that are used."""


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), mark) for pattern, mark in _VARIABLE_PARTS)


def normalise(message: str) -> str:
    """Return the text with URLs, hosts, paths, ids, times and numbers replaced by placeholders such as ``<n>``."""
    for pattern, mark in _patterns():
        message = pattern.sub(mark, message)
    return " ".join(message.split())[:_MESSAGE_LIMIT]


def fingerprint(name: str, status: int | None, code: str | None, message: str, location: str) -> str:
    """Return sixteen hex digits, the same for every failure with the same cause.

    Args:
        name: Name of the exception class.
        status: HTTP status.
        code: SQLSTATE, errno name or API error code.
        message: Text of the error; its variable parts are ignored.
        location: File and function in the user's code.
    """
    parts = (name, str(status or ""), code or "", normalise(message), location)
    text = "\0".join(parts).encode("utf-8", "replace")
    return hashlib.blake2b(text, digest_size=8, usedforsecurity=False).hexdigest()
