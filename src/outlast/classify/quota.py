"""Exhausted quotas: what usage-limit and billing texts of language-model and cloud providers mean.

A quota does not come back within minutes, so a retry does not help; a rate limit does. A stated day, week, month or
year, or a word about billing, means a quota, even if the text also names a limit per second. Other words about a quota
mean a rate limit if the text speaks of a limit per second, minute or hour, or of a short wait.
"""

from outlast.classify.safe_access import TEXT_LIMIT, instance_attribute, read_response, safe_getattr
from outlast.failure import Category, Evidence
from outlast.patterns import compiled, first_match

_PERIOD = r"(?:daily|weekly|monthly|yearly|annual)"
_EACH = r"(?:/|\bper|\bover an?|\ban?|\bthis) ?(?:day|24[- ]hours?|week|month|year)"
_LIMIT = r"(?:limits?|quota|cap|allowance)"
_OVER = r"(?:exceeded|reached|exhausted|hit|used up|depleted)"

CERTAIN: dict[str, str] = {
    "regain": r"regain access on",
    "annual daily monthly weekly yearly": rf"(?:{_OVER}|over) (?:[\w,']+ ){{0,4}}{_PERIOD} (?:\w+ ){{0,3}}{_LIMIT}",
    "exceeded reached exhausted hit used depleted": rf"{_PERIOD} (?:\w+ ){{0,3}}{_LIMIT}\b[\w ]{{0,20}}\b{_OVER}|{_LIMIT} exceeded: {_PERIOD}|"
    rf"{_OVER} (?:[\w,']+ ){{0,5}}{_LIMIT} for (?:the|this|your) (?:current )?(?:day|week|month|year|billing)",
    "day 24 week month year": rf"(?:limited to|{_OVER}\b[\w ']{{0,30}}\b{_LIMIT} of|used (?:all|up)\b[\w ]{{0,20}}) \d[\d,.]{{0,15}} [\w ]{{1,30}}?{_EACH}|"
    rf"\d[\d,.]{{0,15}} [\w ]{{1,30}}?{_EACH} (?:{_LIMIT} )?{_OVER}|quota exceeded\b[^.]{{0,80}}\bper (?:day|month)|(?:24[- ]hour|per[- ]day) (?:\w+ )?limit (?:has been )?(?:exceeded|reached)",
    "perday dailylimitexceeded totalrequests usagecapexceeded": r"\w*perday\w*|dailylimitexceeded\w*|totalrequests limit exceeded|usagecapexceeded",
    "balance": r"(?:credits?|prepaid|account) balance is (?:too low|insufficient|exhausted|negative)|insufficient[_ ]balance",
    "credit run ran funds": r"(?:run |ran |is |are )?out of (?:\w+ )?credits|(?:run|ran) out of (?:searches|requests|calls)|insufficient[_ ](?:credits|funds)|"
    r"(?:no|not enough) (?:\w+ )?credits? (?:left|remaining|available|balance)|(?:add|purchase|buy|top up) (?:more |your )?credits",
    "billing payment quota spending": r"insufficient[_ ]quota|billing[_ ]hard[_ ]limit[_ ]reached|billing[_ ]not[_ ]active|(?:billing|spending) (?:\w+ )?limit\b[\w ]{0,20}\b(?:exceeded|reached|hit)|payment required",
}
"""Lowercase texts that mean an exhausted quota, whatever the status; one that matches has one of the words before it."""

UNLESS_SHORT: dict[str, str] = {
    "billing credit plan spend usage": rf"(?:{_OVER}|over) (?:your|the|its) (?:\w+ ){{0,3}}(?:usage|spend(?:ing)?|billing|credit|plan) {_LIMIT}",
    "exceeded exhausted used": r"(?:exceeded|used up|exhausted) (?:your|the) (?:free|trial|included|remaining|current|assigned) (?:\w+ )?(?:quota|credits?|tier|usage|allowance)",
}
"""Texts that mean an exhausted quota, unless the limit or the wait is short."""

PLAIN: dict[str, str] = {
    "allowance credit quota": r"(?<!disk )(?:quota|credits?|allowance)\b[\w ]{0,20}\b(?:exceeded|exhausted|reached|used up|depleted)",
    "allowance credits quota": r"(?:exceeded|exhausted|reached|out of)\b[\w ]{0,20}\b(?:quota|credits|allowance)",
    "quotaexceeded quotaexhausted quota_exceeded": r"quota_?(?:exceeded|exhausted)",
    "usage": r"usage (?:\w+ )?limit\b[\w ]{0,20}\b(?:exceeded|reached|hit)",
    "クォータ": "クォータ(?:を|の|が)?(?:超過|超え|上限)",
    "に達し を超": "(?:利用|使用|1日の|月間)(?:回数|可能回数|量|枠)?の?(?:上限|制限)(?:に達し|を超)",
}
"""Texts about any quota; with a 429 they may mean a limit per minute."""

_SHORT_WAIT = r"(?:retry|try again|wait)\b[\w ]{0,12}\b\d+(?:\.\d+)? ?(?:ms|s|m|min|sec|seconds?|minutes?)(?![a-z])"
SHORT = (
    r"(?<!develo)per[ _-]?(?:\d+ ?)?(?:second|minute|hour)|/ ?(?:s|sec|min|minute|hour)\b|\b(?:rpm|tpm)\b|"
    + _SHORT_WAIT
)
_LEVELS = ((CERTAIN, _SHORT_WAIT), (UNLESS_SHORT, SHORT), (PLAIN, SHORT))
_SERVER_ERROR = 500


def judge_quota(text: str, *, plain: bool = True) -> "tuple[Category, tuple[int, int]] | None":
    """Return what a text about a limit means, an exhausted quota or a rate limit, and the span of its words; else None.

    Args:
        text: The text.
        plain: Whether words about any quota count, such as "quota exceeded".
    """
    text = text[:TEXT_LIMIT].lower()
    for phrases, short in _LEVELS if plain else _LEVELS[:2]:
        match = first_match(text, phrases)
        if match is not None:
            passes = "perday" not in text and compiled(short).search(text)  # of a quota per day the wait is not true
            return Category.RATE_LIMIT if passes else Category.QUOTA_EXHAUSTED, match.span()
    return None


def quota_is_exhausted(text: str) -> bool:
    """Return whether a text says that a quota for longer than an hour is exhausted, whatever its status or code."""
    judged = judge_quota(text, plain=False)
    return judged is not None and judged[0] is Category.QUOTA_EXHAUSTED


def read_quota(error: BaseException, text: str) -> tuple[Category, str, Evidence] | None:
    """Return category, rule and evidence of an error about an exhausted quota, or None; a 5xx stays temporary."""
    from outlast.classify.reasons import text_in  # noqa: PLC0415  # it needs this module

    evidence = read_response(safe_getattr(error, "response")) or read_response(error) or Evidence()
    if (evidence.http_status or 0) >= _SERVER_ERROR:
        return None
    if not evidence.body:
        evidence = evidence.replace(body=text_in(instance_attribute(error, "body")))
    if not quota_is_exhausted(text) and not quota_is_exhausted(evidence.body):
        return None
    return Category.QUOTA_EXHAUSTED, "text about an exhausted quota", evidence
