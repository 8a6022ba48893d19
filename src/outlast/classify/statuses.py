"""Categories of HTTP statuses; a 403 is classified by the evidence that comes with it."""

import re

from outlast.classify import quota
from outlast.classify.retry_after import allowance_is_exhausted
from outlast.failure import Category, Evidence

_C = Category

STATUSES: dict[int, Category] = {
    400: _C.INVALID_PARAMETERS,
    401: _C.AUTHENTICATION,
    402: _C.QUOTA_EXHAUSTED,
    404: _C.NOT_FOUND,
    407: _C.AUTHENTICATION,
    408: _C.API_TEMPORARY,
    410: _C.NOT_FOUND,
    421: _C.API_TEMPORARY,  # misdirected: another connection may work
    423: _C.API_TEMPORARY,  # locked by another client
    425: _C.API_TEMPORARY,
    426: _C.CONFIGURATION,
    429: _C.RATE_LIMIT,
    440: _C.AUTHENTICATION,  # login timeout
    444: _C.NETWORK,  # closed without a response
    449: _C.API_TEMPORARY,  # retry with
    451: _C.ACCESS_DENIED,
    498: _C.AUTHENTICATION,  # invalid token
    499: _C.NETWORK,  # client closed the request
    501: _C.INVALID_PARAMETERS,
    505: _C.INVALID_PARAMETERS,
    509: _C.RATE_LIMIT,  # bandwidth limit exceeded
    598: _C.NETWORK,  # some clients' own: the connection failed or timed out
    599: _C.NETWORK,
}
"""Statuses that differ from the rest of their hundred; 403 depends on the evidence."""

_HUNDREDS = {3: _C.DATA, 4: _C.INVALID_PARAMETERS, 5: _C.API_TEMPORARY}

_RETRY_AFTER_MAKES_TEMPORARY = frozenset({409, 413, 418})


QUOTA = (
    r"(?i)\b(?:quotaExceeded|dailyLimitExceeded\w*|insufficient[_ ]quota|quota[_ ]exceeded|quotaExhausted|"
    r"billing_hard_limit_reached|exceeded your (?:current|monthly|daily) quota|"
    r"(?:daily|monthly) (?:\w+ )?(?:limit|quota) (?:exceeded|reached)|out of credits|insufficient (?:credits|funds))\b"
)


# Words that mean an exhausted quota even with a 429; 'quota exceeded' alone may be a limit per minute.
CERTAIN_QUOTA = (
    r"(?i)\b(?:dailyLimitExceeded\w*|insufficient[_ ]quota|billing_hard_limit_reached|exceeded your (?:current|monthly|daily) quota|"
    r"(?:daily|weekly|monthly|annual) (?:\w+ ){0,3}(?:limit|quota|cap|allowance)\b(?: (?:has been|was|is))? ?(?:exceeded|reached|used up|hit)|"
    r"(?:exceeded|reached|hit|over) (?:[\w,]+ ){0,4}(?:daily|weekly|monthly|annual) (?:\w+ ){0,3}(?:limit|quota|cap|allowance)|"
    r"usage cap exceeded|limited to [\d,]{1,12} [\w ]{1,30} ?(?:/|per) ?(?:day|month)|"
    r"out of credits|insufficient (?:credits|funds)|"
    r"quota exceeded\b[^.]{0,80}\bper (?:day|month))\b"
)
RATE_LIMIT = (
    r"(?i)\b(?:(?:user)?rateLimitExceeded\w*|(?<!higher )(?<!exchange )rate[_ -]?limit(?:ed|ing|[_ ](?:exceeded|reached|hit|error))?(?!s\b)|"
    r"(?:exceed\w*|hit|reached|over)\b[\w ]{0,20} rate limits|too[_ ]many[_ ]requests|throttl(?:ed|ing)|"
    r"slow ?down|request limit exceeded|abuse detection)\b"
)

# A refused request whose answer speaks of the key or the rights of the caller had credentials.
CREDENTIALS = (
    r"(?i)\b(?:(?:personal )?access token|api[ _-]?key|insufficient[_ ](?:scopes?|permissions?|privileges?)|"
    r"not accessible by integration|service account)\b"
)


# Codes that some APIs put into the body of a 400; plain words are not specific enough there.
_REASON = r"\b(?:(ThrottlingException|Throttling|RequestLimitExceeded|(?:user)?rateLimitExceeded)|(quotaExceeded|insufficient_quota))\b"


def judge_reason(evidence: Evidence) -> Category | None:
    """Return the category of a reason code in the body, or None."""
    match = re.search(_REASON, evidence.body)
    if match is None:
        return None
    return _C.RATE_LIMIT if match[1] else _C.QUOTA_EXHAUSTED


def category_of_status(status: int) -> Category | None:
    """Return the category of a status alone, or None if it is not a failure; 304 is a success."""
    if status == 304:
        return None
    return STATUSES.get(status) or (_C.ACCESS_DENIED if status == 403 else _HUNDREDS.get(status // 100))


def quota_is_exhausted(text: str) -> bool:
    """Return whether a text says that a quota for longer than minutes is exhausted, whatever its status or code."""
    is_certain = re.search(CERTAIN_QUOTA, text) is not None and not quota.is_short(text)
    return is_certain or quota.quota_is_exhausted(text)


def judge_status(evidence: Evidence) -> tuple[Category, str] | None:
    """Return category and rule name of a response, or None if its status is not a failure."""
    status = evidence.http_status
    if status is None:
        return None
    category = category_of_status(status)
    if category is None:
        return None
    headers, text = evidence.headers, f"{evidence.code or ''} {evidence.body}"
    if status == 403:
        return _judge_403(evidence, text)
    if status == 429 and quota_is_exhausted(text):
        return _C.QUOTA_EXHAUSTED, "http 429 with a quota reason"
    if status == 400 and (reason := judge_reason(evidence)):
        return reason, "http 400 with a reason in its body"
    if status == 503 and (allowance_is_exhausted(headers) or re.search(RATE_LIMIT, text)):
        return _C.RATE_LIMIT, "http 503 with rate-limit evidence"
    if status in _RETRY_AFTER_MAKES_TEMPORARY and "retry-after" in headers:
        temporary = _C.RATE_LIMIT if status == 418 else _C.API_TEMPORARY
        return temporary, f"http {status} with Retry-After"
    return category, f"http {status}"


def _judge_403(evidence: Evidence, text: str) -> tuple[Category, str]:
    if re.search(QUOTA, text):
        return _C.QUOTA_EXHAUSTED, "http 403 with a quota reason"
    if "retry-after" in evidence.headers or allowance_is_exhausted(evidence.headers) or re.search(RATE_LIMIT, text):
        return _C.RATE_LIMIT, "http 403 with rate-limit evidence"
    if evidence.credentials_sent is None and re.search(CREDENTIALS, text):
        return _C.AUTHENTICATION, "http 403 about the caller's credentials"
    if evidence.credentials_sent:
        return _C.AUTHENTICATION, "http 403 with credentials sent"
    return _C.ACCESS_DENIED, "http 403 without credentials"
