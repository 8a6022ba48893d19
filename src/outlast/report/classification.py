"""Why a stored failure has its category, and classification rules to suggest for failures that are unknown."""

import builtins
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from outlast.classify.rules import Rule
from outlast.failure import Category, Evidence
from outlast.fingerprint import normalise
from outlast.ports.read_rows import FailureGroup
from outlast.ports.rows import Attempt
from outlast.redact import MASK
from outlast.report.text_format import category_look
from outlast.units import span

_BY_TEXT, _BY_NAME, _BY_RULE = "text: ", "class name: ", "rule: "
_NO_MATCH = "nothing matched"


class StoredJudgement(NamedTuple):
    """How a failure was classified.

    Attributes:
        category: Its category.
        meaning: What the category means, in words.
        retryable: Whether a retry may help.
        rule: Name of the rule that decided; empty if unknown.
        because: What decided, in words.
        facts: What is known of the failure, by label.
        asked: The wait that the server asked for, in words; may be empty.
        command: Shell command that explains such a failure and how to change its category; empty if there is none.
    """

    category: str
    meaning: str
    retryable: bool
    rule: str
    because: str
    facts: dict[str, str]
    asked: str
    command: str


def stored_judgement(category: str, failure: Mapping[str, Any]) -> StoredJudgement:
    """Return how a stored failure was classified.

    Args:
        category: Category of the group. It takes precedence over that of the failure, which may have been classified
            differently since.
        failure: What `Failure.to_dict` returned, masked; empty if it is no longer stored.
    """
    look = category_look(category)
    subject = failure.get("http_status") or failure.get("code") or failure.get("exception_name")
    rule, stored = str(failure.get("rule") or ""), failure.get("retryable")
    return StoredJudgement(
        category,
        look.meaning,
        stored if isinstance(stored, bool) else look.retryable,
        rule,
        _reason_text(rule),
        _facts(failure),
        _wait_hint_text(failure),
        f"outlast explain {shlex.quote(str(subject))}" if subject else "",
    )


def _reason_text(rule: str) -> str:
    if not rule:
        return "What decided is no longer known."
    if rule == _NO_MATCH:
        return "Nothing about it was known, so it is not retried."
    if _BY_RULE in rule:
        return "One of your own rules decided."
    if _BY_TEXT in rule:
        return "Only its text showed what it is: the weakest evidence."
    if _BY_NAME in rule:
        return "The name of its class showed what it is: weak evidence."
    return "Its type or status showed what it is."


def _facts(failure: Mapping[str, Any]) -> dict[str, str]:
    names = {
        "exception_name": "Error",
        "origin": "Talked to",
        "http_status": "HTTP status",
        "code": "Code",
        "location": "Where",
    }
    return {
        label: str(failure[name]) for name, label in names.items() if failure.get(name) not in {None, "", "unknown"}
    }


def _wait_hint_text(failure: Mapping[str, Any]) -> str:
    wait = failure.get("retry_after")
    if not isinstance(wait, int | float) or isinstance(wait, bool):
        return ""
    more = "; it asked for longer" if failure.get("capped") else ""
    return f"exactly {span(wait)}{more}" if failure.get("exact") else f"at least {span(wait)}{more}"


# Words that hint at a category. They only make a guess for people to check; they never classify.
_KEYWORDS = (
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
_WORD_BREAK = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_DATA_ERRORS = frozenset({"AttributeError", "IndexError", "KeyError", "TypeError", "ValueError"})
_SERVER_ERROR, _CLIENT_ERROR = 500, 400
_MAX_QUOTE = 40


def guess_category(name: str, message: str, status: int | None = None) -> tuple[Category, str]:
    """Return a likely category and the reason, in words that fit into a comment of one line.

    Args:
        name: Name of the exception class.
        message: Message of the error.
        status: HTTP status of the response, if there was one.
    """
    if status is not None and status >= _CLIENT_ERROR:
        known = Category.API_TEMPORARY if status >= _SERVER_ERROR else Category.INVALID_PARAMETERS
        return known, f"a guess from the status {status}"
    text = f"{_WORD_BREAK.sub(' ', name)} {message}".lower()
    for category, pattern in _KEYWORDS:
        if found := re.search(rf"(?<![^\W_])(?:{pattern})(?![^\W_])", text):
            return category, f"a guess: it says {found[0][:_MAX_QUOTE]}"
    if name in _DATA_ERRORS:
        return Category.DATA, f"a guess: {name} is mostly about unexpected data"
    return Category.DATA, "a guess: nothing in it helps; like an unknown failure, it is not retried"


def toml_string(text: str) -> str:
    """Return the text as a basic string of TOML, with quotes.

    Invisible characters are escaped, so that none can reverse the direction of a line. Lone surrogates, which TOML
    cannot write, are replaced.
    """
    return f'"{"".join(map(_escape_char, text))}"'


def _escape_char(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    number = ord(char)
    if 0xD800 <= number <= 0xDFFF:  # noqa: PLR2004  # surrogates
        return "\ufffd"
    return f"\\u{number:04X}" if number <= 0xFFFF else f"\\U{number:08X}"  # noqa: PLR2004  # four digits


# A suggestion names a type, a status, a code or words that all samples of a cause share. Each is parsed and tried on
# the samples before it is returned, so that a suggested rule always loads and matches.

_BY_ATTRIBUTE = "attribute: "
_WEAK_EVIDENCE = {
    _BY_TEXT: "only by its text",
    _BY_NAME: "by the name of its class",
    _BY_ATTRIBUTE: "by an attribute that no documentation describes",
}
_MAX_MESSAGE = 2000  # characters of a message that are examined
_MAX_RULE_TEXT = 100  # characters of the text of a rule
_MIN_LETTERS = 4  # fewer letters say nothing
_ERROR_LINE = re.compile(r"(?P<name>[^\W\d]\w*(?:\.(?:[^\W\d]\w*|<locals>))+)(?::|$)")
_CODE = re.compile(r"[A-Za-z0-9_.:-]{1,99}")
_TRACEBACK_HEAD = "Traceback (most recent call last):"


class Suggestion(NamedTuple):
    """A rule for failures that are unknown or classified by weak evidence.

    Attributes:
        title: The error and its task.
        message: Message of a sample.
        category: The current category.
        because: Why the category is doubtful.
        toml: Lines for ``outlast.toml``; empty if nothing distinguishes such failures from others.
        groups: Groups whose failures the rule would have matched, largest first; without lines, the group it was made
            from.
        failures: How many failed attempts the rule would have matched.
        dead: How many dead letters those groups have now.
    """

    title: str
    message: str
    category: str
    because: str
    toml: str
    groups: tuple[str, ...]
    failures: int
    dead: int


class _GroupSamples:
    """A group of failures with what its samples show."""

    def __init__(self, group: FailureGroup, samples: Sequence[Attempt]) -> None:
        self.group = group
        newest: dict[str, Any] = samples[0].failure if samples else {}
        self.name = str(newest.get("exception_name") or group.error_type)
        self.rule = str(newest.get("rule") or "")
        self.messages = tuple(dict.fromkeys(each.error_message for each in samples)) or (group.error_message,)
        self.type = _error_type(samples[0].traceback, self.name) if samples else ""
        uses_evidence = self.rule == _NO_MATCH or self.rule.startswith(_BY_ATTRIBUTE)
        self.evidence = _evidence(newest) if uses_evidence else Evidence()

    @property
    def because(self) -> str:
        """Why its category is doubtful; empty if it is not."""
        if _BY_RULE in self.rule:
            return ""
        weak = next((text for mark, text in _WEAK_EVIDENCE.items() if mark in self.rule), "")
        if self.group.error_category == Category.UNKNOWN:
            return f"It is unknown, {weak}." if weak else "Nothing about it was known."
        return f"It was classified {weak}." if weak else ""

    def matches(self, rule: Rule) -> bool:
        """Return whether a rule would have matched all its samples."""
        subject = _stub_error(self.type or f"builtins.{self.name}")
        return all(rule.applies(subject, self.evidence, message) for message in self.messages)


def suggestions(
    groups: Iterable[tuple[FailureGroup, Sequence[Attempt]]], rules: Iterable[Rule] = ()
) -> list[Suggestion]:
    """Return rules for failures that are unknown or classified by weak evidence, those with the most failures first.

    Args:
        groups: Groups with their last attempts, newest first; masked.
        rules: The rules in use. Failures that one of them matches are left out: they are older than the rule.
    """
    known = tuple(rules)
    every = sorted((_GroupSamples(*each) for each in groups), key=lambda case: -case.group.failures)
    cases = [case for case in every if case.because and not any(case.matches(rule) for rule in known)]
    made: list[Suggestion] = []
    for case in cases:
        if all(case.group.fingerprint not in each.groups for each in made):
            made.append(_suggest(case, cases))
    return sorted(made, key=lambda each: -each.failures)


def _suggest(case: _GroupSamples, cases: Sequence[_GroupSamples]) -> Suggestion:
    """Return a rule, and count what it would have matched among the doubtful failures of the same category."""
    group = case.group
    title = f"{case.name or 'Failure'} in {group.task_type}"
    toml = _rule_lines(case, title)
    alike = [case]
    if toml:
        (table,) = tomllib.loads(toml)["classify"]["rules"]
        same_category = (each for each in cases if each.group.error_category == group.error_category)
        alike = [each for each in same_category if each.matches(Rule(**table))]
        if case not in alike:  # should not happen; a rule that does not match is of no use
            toml, alike = "", [case]
    return Suggestion(
        title,
        case.messages[0],
        group.error_category,
        case.because,
        toml,
        tuple(each.group.fingerprint for each in alike),
        sum(each.group.failures for each in alike),
        sum(each.group.dead for each in alike),
    )


def _rule_lines(case: _GroupSamples, title: str) -> str:
    """Return the lines of a rule; empty if nothing distinguishes such failures."""
    words = _shared_words(case.messages)
    conditions = []
    if case.evidence.http_status is not None:
        conditions.append(f"status = {case.evidence.http_status}")
    elif case.evidence.code is not None:
        conditions.append(f"code = {toml_string(case.evidence.code)}")
    if case.type:
        conditions.append(f"type = {toml_string(case.type)}")
    if conditions and words:
        conditions.append(f"# text = {toml_string(words)}  # narrower: only with this text")
    elif words:
        conditions.append(f"text = {toml_string(words)}")
        if isinstance(getattr(builtins, case.name, None), type):
            conditions.append(f'# type = "builtins.{case.name}"  # narrower: only this class')
    if not conditions:
        return ""
    return "\n".join(
        ["[[classify.rules]]", f"name = {toml_string(title[:_MAX_RULE_TEXT])}", *conditions, *_category_lines(case)]
    )


def _category_lines(case: _GroupSamples) -> list[str]:
    chosen, why = Category.parse(case.group.error_category), "its current category; a rule makes it certain"
    if chosen == Category.UNKNOWN:
        chosen, why = guess_category(case.name, case.messages[0], case.evidence.http_status)
    other, when = (
        (Category.DATA, "a retry never helps") if chosen.retryable else (Category.API_TEMPORARY, "a retry helps")
    )
    return [f'category = "{chosen}"  # {why}', f'# category = "{other}"  # if {when}']


def _evidence(failure: dict[str, Any]) -> Evidence:
    """Return the evidence that a rule may use: that of the error itself, not of one that it wraps."""
    status, code = failure.get("http_status"), failure.get("code")
    plain = isinstance(code, str) and _CODE.fullmatch(code) is not None
    return Evidence(http_status=status if isinstance(status, int) else None, code=code if plain else None)


def _error_type(traceback: str, name: str) -> str:
    """Return the qualified name of the error that a traceback ends with; empty for a built-in one, or if unclear."""
    lines = traceback.removeprefix(_TRACEBACK_HEAD).splitlines()
    found = _ERROR_LINE.match(next((line for line in lines if line and line[0] not in " \t"), ""))
    return found["name"] if found and found["name"].rpartition(".")[2] == name else ""


def _stub_error(qualified: str) -> BaseException:
    """Return an error whose class has this qualified name, which is what a rule compares."""
    module, _, name = qualified.partition(".")
    kind: type[Exception] = type("Stored", (Exception,), {"__module__": module})
    kind.__qualname__ = name
    return kind()


def _shared_words(messages: Sequence[str]) -> str:
    """Return the longest run of words that all messages contain, without words that vary; empty if there is none."""
    tokens = [_tokens(message) for message in messages]
    others = [set(words) for words in tokens[1:]]
    runs: list[list[str]] = [[]]
    for word in tokens[0]:
        if _varies(word) or not all(word in words for words in others):
            runs.append([])
        elif len(" ".join([*runs[-1], word])) > _MAX_RULE_TEXT:
            runs.append([word])
        else:
            runs[-1].append(word)
    texts = sorted((" ".join(run) for run in runs), key=lambda text: -_letter_count(text))
    for text in texts:
        if _letter_count(text) < _MIN_LETTERS or len(text) > _MAX_RULE_TEXT:
            continue
        rule = Rule(category=Category.DATA, text=text)
        if all(rule.applies(Evidence(), Evidence(), message) for message in messages):
            return text
    return ""


def _tokens(message: str) -> list[str]:
    """Split a message at spaces; an empty word marks any other break. A word that may be cut off is left out."""
    words = re.split(r"[ ]", re.sub(r" *[\n\t]+ *| {2,}", "  ", message[: _MAX_MESSAGE + 1]))
    if len(message) > _MAX_MESSAGE:
        words = words[:-1]
    cut = next((number for number, word in enumerate(words) if word.startswith("…")), None)
    return words if cut is None else words[: max(0, cut - 1)]


def _varies(word: str) -> bool:
    return not word or MASK in word or "\ufffd" in word or not word.isprintable() or normalise(word) != word


def _letter_count(text: str) -> int:
    return sum(char.isalpha() for char in text)
