"""Masks secrets in error texts.

The text is truncated first, so that no pattern runs over megabytes, and made safe to store: no NUL, no lone
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
_LONGEST_TOKEN = 256  # a cut may leave half a secret; up to this many characters are dropped to reach the last blank

# Names whose value is a secret; bounded, so that a long run of name-like characters costs little.
_NAMES = (
    r"[\w.-]{0,60}?(?:passw(?:or)?d|passphrase|pwd|secret|token|(?:api|access|account|private|shared)[_-]?key|credentials?|"
    r"signature|session[_-]?id|csrf|jwt)(?:[_-]?(?:id|key|value|hash|\d)){0,2}|(?:[\w.-]{0,40}[_.-])?key|application_?id|"
    r"pass|pw|auth|sig|パスワード"
)
# A value: in quotes (with escaped quotes, and possibly a missing end), in brackets, or up to the next blank.
_QUOTED = r"(?:\\?b?\"(?:[^\"\\]|\\.){0,2000}(?:\"|$)|\\?b?'(?:[^'\\]|\\.){0,2000}(?:'|$))"
_VALUE = rf"(?:{_QUOTED}|\w{{0,30}}\([^()]{{0,300}}\)|\[[^\[\]]{{0,300}}\]|[^\s&;,'\"()\[\]}}]+)"

# Each pattern keeps group 1 (and group 2 if it has one) and masks what is between or after them.
_PATTERNS = (
    # scheme://user:password@host, and scheme://token@host; the greedy run reaches the last @, as a parser would
    (r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)[^\s/?#'\"<>]{1,2000}(@)", rf"\1{MASK}\2"),
    # the same with an unencoded slash in the password; a port before a path is not a password
    (
        r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)[^\s/:@?#'\"<>]{0,100}:(?!\d+(?:[/?#]|$))[^\s@\"<>]{1,200}(@)",
        rf"\1{MASK}\2",
    ),
    # user info cut off by the end of the text
    (
        r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)[^\s/:@?#'\"<>]{1,100}:(?!\d{1,5}$)[^\s/@?#'\"<>]{1,2000}$",
        rf"\1{MASK}",
    ),
    # Authorization, cookies and key headers: the quoted value, or the rest of the line
    (
        r"((?:proxy-)?authorization|(?:set-)?cookie|(?<![a-z-])x-[a-z-]{0,30}?(?:api-key|token|secret|auth)[a-z-]{0,30})"
        rf"(\\?['\"]?\s*[:=,]\s*\[?)(?:{_QUOTED}|[^\n]+)",
        rf"\1\2{MASK}",
    ),
    # a header value that a client rejected, for instance because the key ends with a line break
    (rf"(header value:?\s+)(?:{_QUOTED})", rf"\1{MASK}"),
    (r"\b(bearer\s+)[\w.~+/=-]{10,}", rf"\1{MASK}"),
    (
        r"(?-i:\b((?:[Bb]asic|BASIC|[Tt]oken|[Aa]pi[Kk]ey)\s+)(?=[\w.~+/=-]*(?:[\d._=~+/-]|[a-z][A-Z]))[\w.~+/=-]{8,})",
        rf"\1{MASK}",
    ),
    # options of a command line, as text or as a list: --password x, '--token', 'x', -u user:password
    (rf"(--?(?:password|passwd|token|secret|api-?key|user)['\"]?(?:\s*,\s*|\s+|=)){_VALUE}", rf"\1{MASK}"),
    (rf"((?<![\w-])-u['\"]?(?:\s*,\s*|\s+)){_VALUE}", rf"\1{MASK}"),
    (rf"\b(password (?:is|was|of) ){_VALUE}", rf"\1{MASK}"),
    (r"(<(?:password|token|secret|apikey)>)[^<]{1,500}", rf"\1{MASK}"),
    # name=value, "name": "value" and ('name', 'value') for names of secrets: query strings, DSNs, JSON, arguments
    (rf"(?<![\w.-])({_NAMES})(\\?['\"]?\s*(?:=>|[=:：])\s*){_VALUE}", rf"\1\2{MASK}"),
    (rf"(?<![\w.-])({_NAMES})(\\?['\"]\s*,\s*)(?:{_QUOTED})", rf"\1\2{MASK}"),
    # the bound values that SQLAlchemy shows with a statement
    (r"(\[parameters: ).{1,4000}?(\](?=\s*(?:\n|$|\()))", rf"\1{MASK}\2"),
    (r"(?-i:\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{8,})", MASK),
    # the secret half of an AWS key: forty characters of mixed kinds
    (r"(?-i:(?<![\w/+=])(?=[\w/+]*[A-Z])(?=[\w/+]*[a-z])(?=[\w/+]*\d)[A-Za-z0-9/+]{40}(?![\w/+=]))", MASK),
    (
        r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|xapp-|sk-|[rs]k_(?:live|test)_|whsec_|SG\.|GOCSPX-|AIza|ya29\.|hf_|"
        r"npm_|pypi-)[\w.-]{10,}",
        MASK,
    ),
    (r"(?-i:\beyJ[\w-]{8,}(?:\.[\w-]*){0,2})", MASK),
    (r"(/bot\d{5,}:)[\w-]{20,}", rf"\1{MASK}"),
    (r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", MASK),
    # the path of an incoming webhook is its secret
    (r"(hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/)[\w/-]+", rf"\1{MASK}"),
)

# A cheap check decides whether any pattern can match. Without one of these characters only a few can,
_CHARACTERS = ("=", ":", "@", "_", "-", "/", "'", '"', "<", "：")
# namely those that need one of these words;
_STANDALONE_WORDS: tuple[str, ...] = (
    "bearer",
    "basic",
    "token",
    "apikey",
    "password",
    "akia",
    "asia",
    "aroa",
    "aida",
    "eyj",
    "aiza",
    "sg.",
    "ya29",
)
# with one, each pattern needs one of these.
_HINTS = (
    "@", "://", "auth", "cookie", "bearer", "basic", "token", "key", "secret", "pass", "pwd", "pw", "header value", "credential",
    "sig", "session", "csrf", "jwt", "application", "akia", "asia", "aroa", "aida", "gh", "glpat", "xox", "xapp", "sk-", "k_live",
    "k_test", "whsec", "sg.", "gocspx", "aiza", "ya29", "hf_", "npm_", "pypi-", "eyj", "private", "webhook", "hooks.", "/bot",
    "-u", "parameters", "パスワード",
)  # fmt: skip
_OVERLAP = 512  # characters beyond the limit that the patterns see, so that a secret at the limit is masked as a whole


@cache
def _compiled_patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE | re.DOTALL), replacement) for pattern, replacement in _PATTERNS)


def safe_text(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return a text cut to `limit` characters, without characters that break databases, logs or terminals."""
    if len(text) > limit:
        text = f"{text[:limit]} … ({len(text)} characters)"
    if text.replace("\n", "").replace("\t", "").isprintable():  # most texts, and much quicker than by character
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def _cut_at_last_blank(text: str) -> str:
    """Return a cut text without its last word, which may be half a secret."""
    start = max(len(text) - _LONGEST_TOKEN, 0)
    last = max(text.rfind(blank, start + 1) for blank in " \n\t,;&|")
    return text[: max(last, start)]


class Redactor:
    """Masks secrets in text.

    Args:
        patterns: Additional regular expressions, case-insensitive. The match is masked, except for the first group if
            there is one.
        limit: Characters to keep; the text is cut before any pattern runs.

    Raises:
        ValueError: If a pattern is not a valid regular expression.
    """

    def __init__(self, patterns: "Iterable[str]" = (), limit: int = MESSAGE_LIMIT) -> None:
        self.limit = limit
        self._own = []
        for pattern in patterns:
            try:
                compiled = re.compile(pattern, re.IGNORECASE)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a valid regular expression: {error}") from None
            self._own.append((compiled, rf"\1{MASK}" if compiled.groups else MASK))

    def __call__(self, text: str) -> str:
        """Return the text truncated, safe to store, and without secrets."""
        size = len(text)
        if size > self.limit:
            text = _cut_at_last_blank(text[: self.limit + _OVERLAP])
        text = safe_text(text, len(text))
        low = text.lower()
        hints = _HINTS if any(character in low for character in _CHARACTERS) else _STANDALONE_WORDS
        built_in = _compiled_patterns() if any(hint in low for hint in hints) else ()
        for pattern, replacement in (*built_in, *self._own):
            text = pattern.sub(replacement, text)
        if size <= self.limit:
            return text
        return f"{_cut_at_last_blank(text[: self.limit]) if len(text) > self.limit else text} … ({size} characters)"


redact = Redactor()
"""The redactor with the built-in patterns."""
