"""Playwright: three classes, and their text from the browser, its driver or Node."""

import re

from outlast.classify.browser_errors import read_browser_text
from outlast.classify.codes import read_words
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import BODY_LIMIT, text_of
from outlast.failure import Category, Evidence, Origin

_WORDS = (
    (
        r"[Ee]xecutable doesn't exist|playwright install|missing dependencies|Unsupported (?:protocol|chromium channel)|"
        r"Chromium distribution '[\w-]+' is not found|[Ii]nvalid URL|Protocol \"[^\"]*\" not supported",
        Category.CONFIGURATION,
    ),
    (
        r"strict mode violation|not a valid selector|while parsing (?:css )?selector|Unknown engine|Malformed selector|"
        r"Unsupported token",
        Category.INVALID_PARAMETERS,
    ),
    (r"Max redirect count exceeded|Download is starting|failed to decompress", Category.DATA),
    (r"(?:[Pp]age|[Tt]arget|[Bb]rowser) (?:has )?crashed", Category.SYSTEM),
    (
        r"Execution context was destroyed|[Ff]rame (?:was|has been) detached|not attached to the DOM|"
        r"interrupted by another navigation",
        Category.API_TEMPORARY,
    ),
    (
        r"socket hang up|: aborted|has been closed|[Cc]onnection closed|[Tt]arget closed|[Bb]rowser closed|certificate|"
        r"Parse Error: ",
        Category.NETWORK,
    ),
)
_STATUS = re.compile(r"\AAPIRequestContext\.\w+: ([45]\d\d) ")
_NODE_ERRORS = re.compile(
    r"\b(ECONNREFUSED|ECONNRESET|ECONNABORTED|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EPIPE|EHOSTUNREACH|ENETUNREACH|EPROTO)\b"
)
_RETRY_AFTER = re.compile(r"^ +- retry-after: (\S.{0,60})$", re.MULTILINE | re.IGNORECASE)
_CREDENTIALS = re.compile(r"^ +- (?:authorization|cookie): ", re.MULTILINE | re.IGNORECASE)


def read_message(error: object) -> Found:
    """The status of a response, the browser's or Node's error name, or the text before the call log."""
    whole = text_of(error)[:BODY_LIMIT]
    text, _, log = whole.partition("Call log:")
    if status := _STATUS.match(text):
        wait = _RETRY_AFTER.search(log)
        return Evidence(
            http_status=int(status[1]),
            headers={"retry-after": wait[1]} if wait else None,
            credentials_sent=_CREDENTIALS.search(log) is not None,
        )
    found = read_browser_text(text)
    if found is not None:
        return found
    if node := _NODE_ERRORS.search(text):
        return Evidence(category=Category.NETWORK, code=node[1])
    return read_words(text, _WORDS)


LIBRARY = Library(
    title="Playwright",
    packages="playwright",
    origin=Origin.BROWSER,
    categories={
        Category.NETWORK: "TimeoutError TargetClosedError",
        Category.INVALID_PARAMETERS: "ValidationError",
        Category.UNKNOWN: "AbortError",
    },
    readers={
        "Error": read_message,
    },
    says_nothing="Error",
)
