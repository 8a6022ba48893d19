"""Rules that would judge what nobody knows: made from stored failures, as lines for ``outlast.toml``. Pure.

A proposal names a type, a status, a code or words that all samples of a cause share. It is read back and tried on the
samples before it is told, so that what is proposed can be loaded and matches.
"""

import builtins
import re
import tomllib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from outlast.classify.rules import Rule
from outlast.failure import Category, Evidence
from outlast.fingerprint import normalise
from outlast.ports.read_rows import FailureGroup
from outlast.ports.rows import Attempt
from outlast.redact import MASK
from outlast.report.guesses import guess
from outlast.report.toml_text import quoted

__all__ = ["Suggestion", "suggestions"]

_NOTHING = "nothing matched"
_BY_RULE = "rule: "
_WEAK = {
    "text: ": "by its text alone",
    "class name: ": "by the name of its class",
    "attribute: ": "by an attribute that nobody described",
}
_FIRST = 2000  # characters of a message that are looked at
_LONGEST = 100  # characters of the words of a rule
_LEAST = 4  # letters that tell anything
_ERROR = re.compile(r"(?P<name>[^\W\d]\w*(?:\.(?:[^\W\d]\w*|<locals>))+)(?::|$)")
_CODE = re.compile(r"[A-Za-z0-9_.:-]{1,99}")
_HEAD = "Traceback (most recent call last):"


class Suggestion(NamedTuple):
    """A rule that could be written.

    Attributes:
        title: The error and its task.
        message: Text of a sample.
        category: What it is judged to be now.
        because: Why it is doubtful.
        toml: Lines for ``outlast.toml``; empty where nothing tells such failures apart from others.
        groups: Groups whose failures it would have matched, largest first; the one it was made from where it has no
            lines.
        failures: How many failed attempts it would have matched.
        dead: How many dead letters there are of them now.
    """

    title: str
    message: str
    category: str
    because: str
    toml: str
    groups: tuple[str, ...]
    failures: int
    dead: int


class _Case:
    """A group and what its samples show."""

    def __init__(self, group: FailureGroup, samples: Sequence[Attempt]) -> None:
        self.group = group
        newest: dict[str, Any] = samples[0].failure if samples else {}
        self.name = str(newest.get("exception_name") or group.error_type)
        self.rule = str(newest.get("rule") or "")
        self.messages = tuple(dict.fromkeys(each.error_message for each in samples)) or (group.error_message,)
        self.type = _type_in(samples[0].traceback, self.name) if samples else ""
        self.evidence = (
            _evidence(newest) if self.rule == _NOTHING or self.rule.startswith("attribute: ") else Evidence()
        )

    @property
    def because(self) -> str:
        """Why it is doubtful; empty where it is not."""
        if _BY_RULE in self.rule:
            return ""
        weak = next((said for mark, said in _WEAK.items() if mark in self.rule), "")
        if self.group.error_category == Category.UNKNOWN:
            return f"It is unknown, {weak}." if weak else "Nothing about it was known."
        return f"It was judged {weak}." if weak else ""

    def matches(self, rule: Rule) -> bool:
        """Tell whether a rule would have judged all that is known of it."""
        subject = _error_of(self.type or f"builtins.{self.name}")
        return all(rule.applies(subject, self.evidence, message) for message in self.messages)


def suggestions(
    groups: Iterable[tuple[FailureGroup, Sequence[Attempt]]], rules: Iterable[Rule] = ()
) -> list[Suggestion]:
    """Propose rules for what is unknown or judged by weak signs, those with the most failures first.

    Args:
        groups: Groups with their last attempts, newest first; masked.
        rules: Those that are in use. What one of them matches was judged before it was written, and is left out.
    """
    known = tuple(rules)
    every = sorted((_Case(*each) for each in groups), key=lambda case: -case.group.failures)
    cases = [case for case in every if case.because and not any(case.matches(rule) for rule in known)]
    made: list[Suggestion] = []
    covered: set[str] = set()
    for case in cases:
        if case.group.fingerprint not in covered:
            suggestion = _suggestion(case, cases)
            made.append(suggestion)
            covered.update(suggestion.groups)
    return sorted(made, key=lambda each: -each.failures)


def _suggestion(case: _Case, cases: Sequence[_Case]) -> Suggestion:
    """Propose a rule, and count what it would have matched of all that is doubtful in the same way."""
    group = case.group
    title = f"{case.name or 'Failure'} in {group.task_type}"
    toml = _lines(case, title)
    alike = [case]
    if toml:
        rule = _read(toml)
        alike = [each for each in cases if _same(each, case) and each.matches(rule)]
        if case not in alike:  # it cannot be, but a rule that does not match helps nobody
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


def _same(one: _Case, other: _Case) -> bool:
    return one.group.error_category == other.group.error_category


def _read(toml: str) -> Rule:
    (table,) = tomllib.loads(toml)["classify"]["rules"]
    return Rule(**table)


def _lines(case: _Case, title: str) -> str:
    """Return the lines of a rule; none where nothing tells such failures apart."""
    words = _shared_words(case.messages)
    spare = f"# text = {quoted(words)}  # to narrow it down: only with these words" if words else ""
    conditions = []
    if case.evidence.http_status is not None:
        conditions.append(f"status = {case.evidence.http_status}")
    elif case.evidence.code is not None:
        conditions.append(f"code = {quoted(case.evidence.code)}")
    if case.type:
        conditions.append(f"type = {quoted(case.type)}")
    if conditions:
        conditions += [spare] if spare else []
    elif words:
        conditions.append(f"text = {quoted(words)}")
        if isinstance(getattr(builtins, case.name, None), type):
            conditions.append(f'# type = "builtins.{case.name}"  # to narrow it down: only of this class')
    else:
        return ""
    return "\n".join(["[[classify.rules]]", f"name = {quoted(title[:_LONGEST])}", *conditions, *_category(case)])


def _category(case: _Case) -> list[str]:
    chosen, why = Category.parse(case.group.error_category), "as it is judged now; with a rule that is sure"
    if chosen == Category.UNKNOWN:
        chosen, why = guess(case.name, case.messages[0], case.evidence.http_status)
    other, when = (
        (Category.DATA, "trying again never helps")
        if chosen.retryable
        else (Category.API_TEMPORARY, "trying again helps")
    )
    return [f'category = "{chosen}"  # {why}', f'# category = "{other}"  # if {when}']


def _evidence(failure: dict[str, Any]) -> Evidence:
    """Return what a rule may go by: what the error itself showed, not one that it wrapped."""
    status, code = failure.get("http_status"), failure.get("code")
    plain = isinstance(code, str) and _CODE.fullmatch(code) is not None
    return Evidence(http_status=status if isinstance(status, int) else None, code=code if plain else None)


def _type_in(traceback: str, name: str) -> str:
    """Return the qualified name of the error that a traceback ends with; empty for a built-in one, or if unclear."""
    for line in traceback.removeprefix(_HEAD).splitlines():
        if line and line[0] not in " \t":
            found = _ERROR.match(line)
            qualified = found["name"] if found else ""
            return qualified if qualified.rpartition(".")[2] == name else ""
    return ""


def _error_of(qualified: str) -> BaseException:
    """Return an error whose class has this name, which is what a rule looks at."""
    module, _, name = qualified.partition(".")
    kind: type[Exception] = type("Stored", (Exception,), {"__module__": module})
    kind.__qualname__ = name
    return kind()


def _shared_words(messages: Sequence[str]) -> str:
    """Return the longest run of words that all messages have, without what varies from one to the next."""
    tokens = [_tokens(message) for message in messages]
    others = [set(words) for words in tokens[1:]]
    runs: list[list[str]] = [[]]
    for word in tokens[0]:
        if _varies(word) or not all(word in words for words in others):
            runs.append([])
        elif len(" ".join([*runs[-1], word])) > _LONGEST:
            runs.append([word])
        else:
            runs[-1].append(word)
    texts = sorted((" ".join(run) for run in runs), key=lambda text: -_letters(text))
    for text in texts:
        if _letters(text) < _LEAST or len(text) > _LONGEST:
            continue
        rule = Rule(category=Category.DATA, text=text)
        if all(rule.applies(Evidence(), Evidence(), message) for message in messages):
            return text
    return ""


def _tokens(message: str) -> list[str]:
    """Split a message at blanks; an empty word stands for any other break. Its end may have been cut off."""
    words = re.split(r"[ ]", re.sub(r" *[\n\t]+ *| {2,}", "  ", message[: _FIRST + 1]))
    if len(message) > _FIRST:
        words = words[:-1]
    cut = next((number for number, word in enumerate(words) if word.startswith("…")), None)
    return words if cut is None else words[: max(0, cut - 1)]


def _varies(word: str) -> bool:
    return not word or MASK in word or "\ufffd" in word or not word.isprintable() or normalise(word) != word


def _letters(text: str) -> int:
    return sum(char.isalpha() for char in text)
