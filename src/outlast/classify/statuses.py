"""Categories of HTTP statuses; a 403 is classified by the evidence that comes with it."""

import re

from outlast.classify.quota import judge_quota, quota_is_exhausted
from outlast.classify.retry_after import allowance_is_exhausted
from outlast.classify.safe_access import TEXT_LIMIT
from outlast.failure import Category, Evidence
from outlast.patterns import first_match
from outlast.redact import redact

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


# A conflict with another writer passes; one with what exists does not.
CONCURRENT_WRITES = (
    r"(?i)\b(?:conflict(?:ing)?|concurrent(?:ly)?|in progress|another (?:operation|request|transaction|update))\b"
    r"[^<>]{0,80}\b(?:try again|retry)\b(?! using| with)"
)

REFUSAL: dict[str, str] = {
    "auth": r"(?<!temporary )auth(?:entication)? (?:failed|failure|error|required|is required|rejected|refused|denied)|unauthori[sz]ed|not authori[sz]ed|authori[sz]ation (?:failed|violation)",
    "log access permission": r"log ?(?:in|on) (?:was |has been )?(?:failed|incorrect|denied|refused|rejected)|(?:access|logon|login|permission) denied for (?:user|login)|permission denied \(publickey",
    "password": r"(?:invalid|incorrect|wrong|bad) (?:user ?name|user|login|email) ?(?:or|and|/|-) ?password|user ?name (?:and|or) password (?:not accepted|(?:you entered )?(?:is|was|are) (?:invalid|incorrect|wrong))",
    "key credential password token": r"(?:invalid|incorrect|wrong|bad|expired|revoked) (?:\w+ )?(?:api[ _-]?key|credentials?|token(?! (?:at|in|near|on) |\): line )|password)|"
    r"(?:api[ _-]?key|credentials?|token(?! (?:at|in|near|on) )|password)\b[\w ]{0,32}\b(?:invalid|incorrect|expired|revoked|rejected|not valid|not correct|do(?:es)? not match)",
    "invalid_grant jwt host pg_hba": r"invalid_grant|jwt expired|host key (?:is not|not) trusted|host key verification failed|no pg_hba\.conf entry",
}
"""Lowercase texts that refuse credentials: the only words that make a lost connection or a 5xx permanent."""

_SHORTEST_SECRET = 12


def quote(text: str, span: tuple[int, int]) -> str:
    """Return these words of a text in lowercase, for the name of a rule; a secret is masked while its case is known."""
    words = text[slice(*span)]
    return (redact(words) if any(len(word) >= _SHORTEST_SECRET for word in words.split()) else words).lower()


def refusal_in(text: str) -> str | None:
    """Return the words of a text that refuse credentials, or None."""
    text = text[:TEXT_LIMIT]
    match = first_match(text.lower(), REFUSAL)
    return match and quote(text, match.span())


def category_of_status(status: int) -> Category | None:
    """Return the category of a status alone, or None if it is not a failure; 304 is a success."""
    if status == 304:
        return None
    return STATUSES.get(status) or (_C.ACCESS_DENIED if status == 403 else _HUNDREDS.get(status // 100))


def judge_status(evidence: Evidence) -> tuple[Category, str] | None:
    """Return category and rule name of a response, or None if its status is not a failure."""
    status = evidence.http_status
    category = None if status is None else category_of_status(status)
    if status is None or category is None:
        return None
    headers, text = evidence.headers, f"{evidence.code or ''} {evidence.body}"
    if status == 403:
        return _judge_403(evidence, text)
    if status in {400, 429} and quota_is_exhausted(text):
        return _C.QUOTA_EXHAUSTED, f"http {status} with a quota reason"
    is_page = evidence.body[:64].lstrip()[:1] == "<"  # for people; it may speak of passwords without refusing one
    if category is _C.API_TEMPORARY and not is_page and refusal_in(text):
        return _C.AUTHENTICATION, f"http {status} with refused credentials"
    if status == 503 and (allowance_is_exhausted(headers) or re.search(RATE_LIMIT, text)):
        return _C.RATE_LIMIT, "http 503 with rate-limit evidence"
    if status in _RETRY_AFTER_MAKES_TEMPORARY and "retry-after" in headers:
        temporary = _C.RATE_LIMIT if status == 418 else _C.API_TEMPORARY
        return temporary, f"http {status} with Retry-After"
    if status == 409 and re.search(CONCURRENT_WRITES, text):
        return _C.API_TEMPORARY, "http 409 about concurrent writes"
    return category, f"http {status}"


def _judge_403(evidence: Evidence, text: str) -> tuple[Category, str]:
    if (judged := judge_quota(text)) is not None:
        return judged[0], "http 403 with a quota reason"
    if "retry-after" in evidence.headers or allowance_is_exhausted(evidence.headers) or re.search(RATE_LIMIT, text):
        return _C.RATE_LIMIT, "http 403 with rate-limit evidence"
    if evidence.credentials_sent is None and re.search(CREDENTIALS, text):
        return _C.AUTHENTICATION, "http 403 about the caller's credentials"
    if evidence.credentials_sent:
        return _C.AUTHENTICATION, "http 403 with credentials sent"
    return _C.ACCESS_DENIED, "http 403 without credentials"
