"""ftplib: reply codes at the start of the text; 4xx is temporary, 5xx is permanent."""

import re

from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import TEXT_LIMIT, text_of
from outlast.failure import Category, Evidence, Origin

REPLIES: dict[str, Category] = {
    "425": Category.NETWORK,
    "426": Category.NETWORK,
    "430": Category.AUTHENTICATION,
    "452": Category.API_TEMPORARY,
    "530": Category.AUTHENTICATION,
    "532": Category.AUTHENTICATION,
    "550": Category.NOT_FOUND,
    "552": Category.QUOTA_EXHAUSTED,
}
"""Category of the reply codes that differ from their class."""

_UNAVAILABLE = "550"  # RFC 959: 'file not found, no access'; only the text shows which
_DENIED = re.compile(r"\b(?:denied|not permitted|not allowed|forbidden|privileges?)\b", re.IGNORECASE)


def read_reply(error: object) -> Found:
    """The server's reply code at the start of the text."""
    return judge_reply(text_of(error))


def judge_reply(text: str) -> Evidence | None:
    """Return the evidence of a reply, which begins with its code; None if it does not."""
    code = text[:3]
    if not (code.isascii() and code.isdigit()):
        return None
    if code == _UNAVAILABLE and _DENIED.search(text[:TEXT_LIMIT]):
        return Evidence(category=Category.ACCESS_DENIED, code=code)
    return Evidence(category=REPLIES.get(code), code=code)


LIBRARY = Library(
    title="ftplib",
    packages="ftplib",
    origin=Origin.FILE,
    categories={
        Category.API_TEMPORARY: "error_temp",
        Category.INVALID_PARAMETERS: "error_perm",
        Category.DATA: "error_proto error_reply",
    },
    readers={
        "Error": read_reply,
    },
    says_nothing="Error",
)
