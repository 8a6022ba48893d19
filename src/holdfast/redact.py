"""Secrets out of text, before it leaves the exception.

The text is capped first, so that no pattern ever runs over megabytes, and made safe to store: no NUL, no lone
surrogates, no terminal escapes. `redact` applies the patterns of this module; `Redactor` adds your own.
"""

import re
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MASK", "MESSAGE_LIMIT", "Redactor", "redact", "safe_text"]

MASK = "***"
MESSAGE_LIMIT = 4096
"""Characters of an error text that are kept."""
_LONGEST_TOKEN = 256  # a cut may leave half a secret behind; so much is dropped to reach the last blank

# Names of what has a secret as its value; bounded, so that a long run of name-like characters costs little.
_NAMES = (
    r"[\w.-]{0,60}?(?:passw(?:or)?d|passphrase|pwd|secret|token|(?:api|access|account|private|shared)[_-]?key|credentials?|"
    r"signature|session[_-]?id|csrf|jwt)(?:[_-]?(?:id|key|value|hash)){0,2}|application_?id|pass|auth|sig|key"
)
_VALUE = r"(?:b?'[^'\n]*'|b?\"[^\"\n]*\"|[^\s&;,'\")\]}]+)"

# Each pattern keeps group 1 (and group 2 where it has one) and masks what stands between or behind.
_PATTERNS = (
    # scheme://user:password@host, and scheme://token@host; the greedy run reaches the last @, as a parser would
    (r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)[^\s/?#'\"<>]{1,500}(@)", rf"\1{MASK}\2"),
    # the same where the password holds a slash that nobody encoded; a port before a path is no password
    (
        r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)[^\s/:@?#'\"<>]{1,100}:(?!\d+[/?#])[^\s@'\"<>]{1,200}(@)",
        rf"\1{MASK}\2",
    ),
    # Authorization, cookies and key headers: the rest of the line, or of the quoted value
    (
        r"((?:proxy-)?authorization|(?:set-)?cookie|(?<![a-z-])x-[a-z-]{0,30}?(?:api-key|token|secret|auth)[a-z-]{0,30})"
        r"(['\"]?\s*[:=]\s*)(?:b?'[^'\n]*'|b?\"[^\"\n]*\"|[^\n'\"}\])]+)",
        rf"\1\2{MASK}",
    ),
    # a header value that a client refused, for instance because the key was read with its line break
    (r"(header value:?\s+|in header value: )(?:b?'[^'\n]*'|b?\"[^\"\n]*\")", rf"\1{MASK}"),
    (
        r"(?-i:\b((?:[Bb]earer|BEARER|[Bb]asic|BASIC|[Tt]oken|[Aa]pi[Kk]ey)\s+)(?=[\w.~+/=-]*(?:[\d._=~+/-]|[a-z][A-Z]))[\w.~+/=-]{8,})",
        rf"\1{MASK}",
    ),
    # options of a command line, as text or as a list: --password x, '--token', 'x'
    (rf"(--?(?:password|passwd|token|secret|api-?key)['\"]?(?:\s*,\s*|\s+|=)){_VALUE}", rf"\1{MASK}"),
    (rf"\b(password (?:is|was|of) ){_VALUE}", rf"\1{MASK}"),
    # name=value and "name": "value" for names that say so, in query strings, DSNs, JSON and keyword arguments
    (rf"(?<![\w.-])({_NAMES})(['\"]?\s*(?:=>|[=:])\s*){_VALUE}", rf"\1\2{MASK}"),
    (r"(?-i:\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b)", MASK),
    # the secret half of an AWS key: forty characters of mixed kinds
    (r"(?-i:(?<![\w/+=])(?=[\w/+]*[A-Z])(?=[\w/+]*[a-z])(?=[\w/+]*\d)[A-Za-z0-9/+]{40}(?![\w/+=]))", MASK),
    (
        r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk-|rk_live_|sk_live_|AIza|ya29\.|hf_|npm_|pypi-)[\w-]{10,}",
        MASK,
    ),
    (r"(?-i:\beyJ[\w-]{8,}(?:\.[\w-]*){0,2})", MASK),
    (r"(/bot\d{5,}:)[\w-]{20,}", rf"\1{MASK}"),
    (r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", MASK),
    # the path of a Slack incoming webhook is its secret
    (r"(hooks\.slack\.com/(?:services|workflows)/)[\w/-]+", rf"\1{MASK}"),
)

# One cheap look decides whether any pattern can match at all: each needs one of these in the text.
_HINTS = (
    "@", "auth", "cookie", "bearer", "basic", "token", "key", "secret", "pass", "pwd", "header value", "credential",
    "sig", "session", "csrf", "jwt", "applicationid", "application_id", "akia", "asia", "aroa", "aida", "gh", "glpat",
    "xox", "sk-", "_live_", "aiza", "ya29", "hf_", "npm_", "pypi-", "eyj", "private", "hooks.", "/bot",
)  # fmt: skip


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE | re.DOTALL), replacement) for pattern, replacement in _PATTERNS)


def safe_text(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Cap a text and replace what a database, a log or a terminal would choke on."""
    if len(text) > limit:
        cut = text[:limit]
        blank = cut.rfind(" ", limit - _LONGEST_TOKEN) if limit > _LONGEST_TOKEN else -1
        text = f"{cut[:blank] if blank > 0 else cut} … ({len(text)} characters)"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


class Redactor:
    """Takes secrets out of text.

    Args:
        patterns: Further regular expressions, matched without regard to case; what they match is masked, all but
            a first group where the pattern has one.
        limit: Characters that are kept; the cut comes before any pattern runs.

    Raises:
        ValueError: If a pattern is no regular expression.
    """

    def __init__(self, patterns: "Iterable[str]" = (), limit: int = MESSAGE_LIMIT) -> None:
        """Compile the further patterns."""
        self.limit = limit
        self._own = []
        for pattern in patterns:
            try:
                compiled = re.compile(pattern, re.IGNORECASE)
            except re.error as error:
                message = f"{pattern!r} is no regular expression: {error}"
                raise ValueError(message) from None
            self._own.append((compiled, rf"\1{MASK}" if compiled.groups else MASK))

    def __call__(self, text: str) -> str:
        """Return the text capped, safe to store, and without secrets."""
        text = safe_text(text, self.limit)
        low = text.lower()
        for hint in _HINTS:
            if hint in low:
                for pattern, replacement in _compiled():
                    text = pattern.sub(replacement, text)
                break
        for pattern, replacement in self._own:
            text = pattern.sub(replacement, text)
        return text


redact = Redactor()
"""The redactor with the built-in patterns."""
