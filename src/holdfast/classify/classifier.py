"""The classifier: an error or a piece of evidence becomes a `Failure`, always, and in bounded time.

Readings are found in a fixed order, and the first one decides:

1. your own rules;
2. what the error says of itself: our exception tree, or a `holdfast_category`;
3. what its library's types, codes and statuses mean, or, for a library that nobody described, what its attributes say;
   then the same for its causes;
4. the name of its class, where that is telling;
5. the words of its text, then of its causes' texts;
6. what the error interrupted (`__context__`), by the same means.

`Classifier.readings` yields them all, which is what `explain` shows; `Classifier.classify` takes the first.
"""

import time
from enum import StrEnum

from holdfast.classify.chain import causes_of, context_of, leaves_of, worst_of
from holdfast.classify.errnos import name_of_errno
from holdfast.classify.judge import judge
from holdfast.classify.libraries import entry_of
from holdfast.classify.own import read_own
from holdfast.classify.peek import text_of
from holdfast.classify.retry_after import rate_limit_hint
from holdfast.failure import RETRYABLE, Category, Evidence, Failure, Origin
from holdfast.location import location_of
from holdfast.redact import Redactor, redact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.classify.libraries.library import Reader
    from holdfast.classify.rules import Rule
    from holdfast.clock import WallClock

__all__ = ["Classifier", "Reading", "Strength"]

NOTHING_MATCHED = "nothing matched"
"""The rule of a failure that no rule knows."""
_CACHE_LIMIT = 2048
_NAME_LIMIT = 200
_UNWRAP_LIMIT = 8
_WAITING_MATTERS = RETRYABLE | {Category.QUOTA_EXHAUSTED}


class Strength(StrEnum):
    """How sure a reading is."""

    STRONG = "strong"
    """A type, a status or a code says so."""
    WEAK = "weak"
    """The name of a class or an attribute nobody described says so."""
    TEXT = "text"
    """Only the words of the message say so."""


class Reading:
    """One way to read an error.

    Attributes:
        category: What it would be.
        rule: Name of the rule that says so.
        strength: How sure it is.
        evidence: What was read.
        origin: What was talked to.
    """

    __slots__ = ("category", "evidence", "origin", "rule", "strength")

    def __init__(self, category: Category, rule: str, strength: Strength, evidence: Evidence, origin: Origin) -> None:
        """Keep the fields."""
        self.category = category
        self.rule = rule
        self.strength = strength
        self.evidence = evidence
        self.origin = origin

    def __repr__(self) -> str:
        """Return the reading for people."""
        return f"<Reading {self.category.value} by {self.rule!r}, {self.strength.value}>"


class _Known:
    """What is known of an exception class and its bases."""

    __slots__ = ("category", "described", "name", "origin", "read")

    def __init__(
        self, name: str, origin: Origin, category: Category | None, read: "Reader | None", *, described: bool
    ) -> None:
        self.name = name
        self.described = described
        self.origin = origin
        self.category = category
        self.read = read


# Built-in errors that mean a bug in the program. Their texts name variables and keys, so no word in them is a reason to
# try again; derived classes are somebody's own and are read like any other.
_BUGS = frozenset(
    {
        ArithmeticError,
        AssertionError,
        AttributeError,
        IndexError,
        KeyError,
        LookupError,
        NameError,
        NotImplementedError,
        RecursionError,
        TypeError,
        UnboundLocalError,
        ZeroDivisionError,
    }
)
_NOTHING = Evidence()
_UNKNOWN = Reading(Category.UNKNOWN, NOTHING_MATCHED, Strength.TEXT, _NOTHING, Origin.UNKNOWN)
_CONTROL_FLOW = Reading(Category.UNKNOWN, "not an Exception: passes through", Strength.STRONG, _NOTHING, Origin.PROGRAM)


class Classifier:
    """Judges errors by your own rules first and the built-in ones after.

    Args:
        rules: Your rules, tried in this order.
        redactor: Takes secrets out of messages.
        now: The wall clock, for headers that hold a date.
    """

    def __init__(
        self, rules: "Iterable[Rule]" = (), *, redactor: Redactor = redact, now: "WallClock" = time.time
    ) -> None:
        """Keep the rules."""
        self.rules = tuple(rules)
        self._redact = redactor
        self._now = now
        self._known: dict[type, _Known] = {}

    def classify(self, subject: BaseException | Evidence) -> Failure:
        """Return the failure that an error or a piece of evidence stands for; never raises for either.

        Raises:
            TypeError: If it is given anything else, such as a response; `evidence_of` reads one.
        """
        thing: object = subject
        if not isinstance(thing, BaseException | Evidence):
            message = f"classify takes an exception or an Evidence, not {type(thing).__name__}; see evidence_of"
            raise TypeError(message)
        if isinstance(subject, BaseExceptionGroup):
            leaves = leaves_of(subject)
            if leaves:
                return worst_of([self._judged(leaf) for leaf in leaves])
        return self._judged(subject)

    def readings(self, subject: BaseException | Evidence) -> "Iterator[Reading]":
        """Yield every reading of an error or a piece of evidence, the one that decides first."""
        if isinstance(subject, Evidence):
            yield from self._readings_of_evidence(subject)
        elif isinstance(subject, Exception):
            yield from self._by_type(subject)
            yield from self._beyond_type(subject)
        else:
            yield _CONTROL_FLOW

    def _judged(self, subject: BaseException | Evidence) -> Failure:
        if isinstance(subject, Exception):  # the usual case takes the shortest way
            reading = next(self._by_type(subject), None) or next(self._beyond_type(subject), None)
            reading = reading or self._unmatched(subject)
        else:
            reading = next(self.readings(subject), _UNKNOWN)
        return self._failure(subject, reading)

    def _unmatched(self, error: Exception) -> Reading:
        """Nothing matched; where the error comes from, and its code, are known all the same."""
        known = self._known_of(type(error))
        found = _safely(known.read, error)
        evidence = found if isinstance(found, Evidence) else _NOTHING
        return Reading(Category.UNKNOWN, NOTHING_MATCHED, Strength.TEXT, evidence, evidence.origin or known.origin)

    def _readings_of_evidence(self, evidence: Evidence) -> "Iterator[Reading]":
        origin = evidence.origin or Origin.UNKNOWN
        for rule in self.rules:
            if rule.applies(evidence, evidence, evidence.message):
                yield _of_rule(rule, evidence, origin)
        verdict = judge(evidence)
        if verdict is not None:
            yield Reading(verdict[0], verdict[1], Strength.STRONG, evidence, origin)
        yield from _in_words(evidence.message or evidence.body, evidence, origin)

    def _beyond_type(self, error: Exception) -> "Iterator[Reading]":
        """Yield what the causes, the words, and what was interrupted say."""
        causes = tuple(causes_of(error))
        for cause in causes:
            yield from self._by_type(cause, "cause: ")
        for link in (error, *causes):
            yield from self._by_name(link, "" if link is error else "cause: ")
        for link in (error, *causes):
            yield from self._by_words(link, "" if link is error else "cause: ")
        for link in context_of(error):
            yield from self._by_type(link, "context: ")
            yield from self._by_name(link, "context: ")
            yield from self._by_words(link, "context: ")

    def _by_type(self, error: BaseException, via: str = "", depth: int = 0) -> "Iterator[Reading]":
        """Yield what rules, the error itself and its library say; wrapped errors are followed to a fixed depth."""
        if isinstance(error, BaseExceptionGroup):
            yield from self._by_group(error, via)
            return
        known = self._known_of(type(error))
        found = _safely(known.read, error)
        evidence = found if isinstance(found, Evidence) else _NOTHING
        origin = evidence.origin or known.origin
        if self.rules:
            yield from self._by_rules(error, evidence, origin, via)
        own = read_own(error)
        if own is not None:
            yield Reading(own[0], f"{via}{type(error).__name__}", Strength.STRONG, own[1], origin)
        if isinstance(found, BaseException) and depth < _UNWRAP_LIMIT:
            for reading in self._by_type(found, f"{via}inside {known.name}: ", depth + 1):
                outer = reading.origin if known.origin in {Origin.UNKNOWN, Origin.PROGRAM} else known.origin
                yield Reading(reading.category, reading.rule, reading.strength, reading.evidence, outer)
        elif evidence is not _NOTHING:
            verdict = judge(evidence, known.name)
            if verdict is not None:
                yield Reading(verdict[0], via + verdict[1], Strength.STRONG, evidence, origin)
        if known.category is not None:
            yield Reading(known.category, via + known.name, Strength.STRONG, evidence, origin)
        if not known.described:
            yield from _by_attributes(error, via)

    def _by_rules(self, error: BaseException, evidence: Evidence, origin: Origin, via: str) -> "Iterator[Reading]":
        text = text_of(error)
        for rule in self.rules:
            if rule.applies(error, evidence, text):
                yield _of_rule(rule, evidence, origin, via)

    def _by_group(self, group: BaseException, via: str) -> "Iterator[Reading]":
        readings = [next(self.readings(leaf), _UNKNOWN) for leaf in leaves_of(group)]
        if any(reading is not _UNKNOWN for reading in readings):
            worst = min(readings, key=lambda reading: reading.category in RETRYABLE)
            yield Reading(worst.category, f"{via}group: {worst.rule}", worst.strength, worst.evidence, worst.origin)

    def _by_name(self, error: BaseException, via: str) -> "Iterator[Reading]":
        from holdfast.classify.generic import read_name  # noqa: PLC0415  # only errors that nobody described need it

        named = read_name(type(error))
        if named is not None:
            origin = self._known_of(type(error)).origin
            yield Reading(named[0], f"{via}class name: {named[1]}", Strength.WEAK, _NOTHING, origin)

    def _by_words(self, error: BaseException, via: str) -> "Iterator[Reading]":
        known = self._known_of(type(error))
        found = _safely(known.read, error)
        evidence = found if isinstance(found, Evidence) else _NOTHING
        for text in (text_of(error), evidence.body):
            for reading in _in_words(text, evidence, known.origin, via):
                if reading.category not in RETRYABLE or type(error) not in _BUGS:
                    yield reading

    def _known_of(self, kind: type) -> _Known:
        known = self._known.get(kind)
        if known is None:
            known, lasting = _look_up(kind)
            if lasting:
                if len(self._known) >= _CACHE_LIMIT:
                    self._known.clear()
                self._known[kind] = known
        return known

    def _failure(self, subject: BaseException | Evidence, reading: Reading) -> Failure:
        evidence, category = reading.evidence, reading.category
        code = evidence.code or evidence.sqlstate or name_of_errno(evidence.errno)
        if isinstance(subject, Evidence):
            name, traceback = subject.exception_name, None
            shown = f"HTTP {subject.http_status}" if subject.http_status else code
            message = subject.message or shown or ""
        else:
            name, traceback = type(subject).__name__, subject.__traceback__
            message = text_of(subject)
        retryable = category in RETRYABLE if evidence.retryable is None else evidence.retryable
        retry_after, capped = evidence.retry_after, False
        if retry_after is None and evidence.headers and (retryable or category in _WAITING_MATTERS):
            hint = rate_limit_hint(
                evidence.headers, limited=category in _WAITING_MATTERS - {Category.API_TEMPORARY}, now=self._now
            )
            if hint is not None:
                retry_after, capped = hint.seconds, hint.capped
        return Failure(
            category,
            retryable,
            reading.origin,
            evidence.http_status,
            code,
            retry_after,
            capped,
            self._redact(name)[:_NAME_LIMIT] if not name.isidentifier() else name[:_NAME_LIMIT],
            self._redact(message),
            reading.rule,
            location_of(traceback),
            evidence.retry_after is not None,
        )


def _of_rule(rule: "Rule", evidence: Evidence, origin: Origin, via: str = "") -> Reading:
    own = evidence.replace(retryable=rule.retryable, retry_after=rule.retry_after)
    return Reading(Category(rule.category), f"{via}rule: {rule.name}", Strength.STRONG, own, origin)


def _in_words(text: str, evidence: Evidence, origin: Origin, via: str = "") -> "Iterator[Reading]":
    if not text:
        return
    from holdfast.classify.texts import read_text  # noqa: PLC0415  # compiles large patterns, and most errors need none

    for category, words, status in read_text(text):
        shown = evidence if status is None or evidence.http_status else evidence.replace(http_status=status)
        said = Origin.HTTP if status is not None and origin is Origin.PROGRAM else origin
        yield Reading(category, f"{via}text: {words}", Strength.TEXT, shown, said)


def _look_up(kind: type) -> tuple[_Known, bool]:
    """Find what is known of a class; the second value is False where a file could not be read just now."""
    name, origin, category, read, lasting, described = "", Origin.UNKNOWN, None, None, True, False
    for each in kind.__mro__:
        module: object = each.__module__  # any object at all, where a class lies about it
        try:
            entry = entry_of(module.partition(".")[0], each.__name__) if isinstance(module, str) else None
        except Exception:  # noqa: BLE001  # our own file cannot be opened, for instance: out of file descriptors
            lasting = False
            continue
        if entry is None:
            continue
        if not name:
            name, origin = entry.name, entry.origin
        category = category or entry.category
        read = read or entry.read
        described = described or module != "builtins"
    if kind.__module__ == "builtins":
        described = True
    return _Known(name or kind.__name__, origin, category, read, described=described), lasting


def _by_attributes(error: BaseException, via: str) -> "Iterator[Reading]":
    from holdfast.classify.generic import read_attributes  # noqa: PLC0415  # only errors that nobody described need it

    found = read_attributes(error)
    if found is not None:
        category, rule, evidence = found
        yield Reading(category, via + rule, Strength.WEAK, evidence, evidence.origin or Origin.UNKNOWN)


def _safely(read: "Reader | None", error: BaseException) -> "Evidence | BaseException | None":
    if read is None:
        return None
    try:
        return read(error)
    except Exception:  # noqa: BLE001  # a reader meets objects that nobody foresaw; judging must not fail on them
        return None
