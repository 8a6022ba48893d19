"""Exhausted quotas: usage limits and billing texts of language-model and cloud providers, and when they reset.

A quota does not come back within minutes, so a retry does not help; a rate limit does. A text about a limit per second,
minute or hour, or with a short wait, is a rate limit.
"""

from outlast.classify.safe_access import instance_attribute, read_response, safe_getattr
from outlast.failure import Category, Evidence
from outlast.patterns import compiled, has_word

_PERIOD = r"(?:daily|weekly|monthly|yearly|annual)"

QUOTA_TEXTS: dict[str, str] = {
    "regain": r"\bregain access on\b",
    "billing credit plan spend usage": r"\b(?:reached|exceeded|hit|over) (?:your|the|its) (?:specified )?(?:api )?(?:usage|spend(?:ing)?|billing|credit|plan) (?:limits?|cap|quota)\b",
    "annual daily monthly weekly yearly": rf"\b(?:exceeded|reached|hit)\b[\w ']{{0,30}}\b{_PERIOD} (?:\w+ ){{0,2}}(?:limit|quota|cap|allowance)\b",
    "exceeded reached exhausted hit": rf"\b{_PERIOD} (?:\w+ ){{0,3}}(?:limit|quota|cap|allowance)\b[\w ]{{0,20}}\b(?:exceeded|reached|exhausted|hit)\b",
    "exceeded:": rf"\b(?:cap|limit|quota) exceeded: {_PERIOD}\b",
    "limited": r"\blimited to [\d,.]+ [\w ]{1,30}(?:/|per|a) ?(?:day|week|month|year)\b",
    "balance": r"\b(?:credits?|prepaid|account) balance is (?:too low|insufficient|exhausted|negative)\b",
    "credit": r"\b(?:run|ran|is|are) out of (?:\w+ )?credits\b|\b(?:no|not enough|insufficient) (?:\w+ )?credits? (?:left|remaining|available|balance)\b",
    "billing insufficient usagecapexceeded": r"\b(?:insufficient[_ ]quota|billing[_ ]hard[_ ]limit[_ ]reached|billing[_ ]not[_ ]active|usagecapexceeded)\b",
    "exceeded exhausted used": r"\b(?:exceeded|used up|exhausted) (?:your|the) (?:free|trial|included|remaining|current|assigned) (?:\w+ )?(?:quota|credits?|tier|usage|allowance)\b",
    "credits": r"\b(?:add|purchase|buy|top up) (?:more |your )?credits\b",
    "limit": r"\btotalrequests limit exceeded\b|\b(?:24[- ]hour|per[- ]day) (?:\w+ )?limit (?:has been )?(?:exceeded|reached)\b",
}
"""Lowercase texts that mean an exhausted quota, whatever the status; one that matches has one of the words before it."""

_SHORT = (
    r"(?<!develo)per[ _-]?(?:\d+ ?)?(?:second|minute|hour)|/ ?(?:s|sec|min|minute|hour)\b|\b(?:rpm|tpm)\b|"
    r"(?:retry|try again|wait)\b[\w ]{0,12}\b\d+(?:\.\d+)? ?(?:ms|s|m|min|sec|seconds?|minutes?)(?![a-z])"
)
_RESET = (
    r"\b(?:regain access|resets?|renews?|available again|try again|retry)\b[\w ]{0,20}?\b(?:on|at|after|until) "
    r"(\d{4}-\d\d-\d\d)(?:[t ]| at )?(\d\d:\d\d(?::\d\d)?)?"
)
_TEXT_LIMIT = 2048
_SERVER_ERROR = 500


def quota_is_exhausted(text: str) -> bool:
    """Return whether a text says that a quota for longer than an hour is exhausted."""
    text = text[:_TEXT_LIMIT].lower()
    stated = any(has_word(text, words) and compiled(pattern).search(text) for words, pattern in QUOTA_TEXTS.items())
    return stated and not is_short(text)


def is_short(text: str) -> bool:
    """Return whether a text speaks of a limit per second, minute or hour, or of a short wait."""
    return compiled(_SHORT).search(text[:_TEXT_LIMIT].lower()) is not None


def reset_header(text: str) -> dict[str, str]:
    """Return the time at which a quota resets as a header, in UTC, so that it is compared and capped like any other."""
    found = compiled(_RESET).search(text[:_TEXT_LIMIT].lower())
    return {"retry-after": f"{found[1]}T{found[2] or '00:00'}+00:00"} if found else {}


def read_quota(error: BaseException, text: str) -> tuple[Category, str, Evidence] | None:
    """Return category, rule and evidence of an error about an exhausted quota, or None; a 5xx stays temporary."""
    evidence = read_response(safe_getattr(error, "response")) or read_response(error) or Evidence()
    if (evidence.http_status or 0) >= _SERVER_ERROR:
        return None
    body = evidence.body
    if not body and isinstance(own := instance_attribute(error, "body"), str | dict):
        body = str(own)
    stated = next((each for each in (text, body) if quota_is_exhausted(each)), None)
    if stated is None:
        return None
    headers = {**reset_header(stated), **evidence.headers}
    return Category.QUOTA_EXHAUSTED, "text about an exhausted quota", evidence.replace(headers=headers)
