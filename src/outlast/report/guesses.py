"""What a failure that nobody knows might be, by its words: a guess for people to look at, never a verdict."""

import re

from outlast.failure import Category

__all__ = ["guess"]

_SAID = (
    (Category.RATE_LIMIT, r"throttl\w*|too many|rate limit\w*|slow down"),
    (Category.QUOTA_EXHAUSTED, r"quota|credits?|limit (?:exceeded|reached)|exhausted"),
    (Category.NETWORK, r"time ?out|timed out|unreachable|connection|disconnected|offline"),
    (
        Category.API_TEMPORARY,
        r"busy|unavailable|overload\w*|maintenance|deploying|warming up|starting|try again|again later|temporar\w+",
    ),
    (Category.AUTHENTICATION, r"unauthori[sz]ed|log ?in|sign ?in|credentials?|expired"),
    (Category.ACCESS_DENIED, r"denied|forbidden|not allowed|permission\w*|blocked"),
    (Category.NOT_FOUND, r"not found|no such|does not exist|gone|deleted"),
    (Category.CONFIGURATION, r"configur\w+|settings?|environment variable|not (?:set|installed)"),
    (Category.DATA, r"pars\w+|decod\w+|malformed|unexpected|empty|format|json|xml|missing|columns?"),
    (Category.INVALID_PARAMETERS, r"invalid|required|must be|illegal|arguments?|parameters?"),
)
_BETWEEN = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_NOT_THERE = frozenset({"AttributeError", "IndexError", "KeyError", "TypeError", "ValueError"})
_SERVER, _CLIENT = 500, 400
_LONGEST = 40


def guess(name: str, message: str, status: int | None = None) -> tuple[Category, str]:
    """Return a category and why, in words that fit behind a comment sign.

    Args:
        name: Of the class.
        message: Of the error.
        status: Of the answer, if there was one.
    """
    if status is not None and status >= _CLIENT:
        known = Category.API_TEMPORARY if status >= _SERVER else Category.INVALID_PARAMETERS
        return known, f"a guess by the status {status}"
    text = f"{_BETWEEN.sub(' ', name)} {message}".lower()
    for category, pattern in _SAID:
        if found := re.search(rf"(?<![^\W_])(?:{pattern})(?![^\W_])", text):
            return category, f"a guess: it says {found[0][:_LONGEST]}"
    if name in _NOT_THERE:
        return Category.DATA, f"a guess: {name} is mostly about data that are not as expected"
    return Category.DATA, "a guess: nothing in it tells; like what is unknown, it is not tried again"
