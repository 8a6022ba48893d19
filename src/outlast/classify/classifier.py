"""The classifier: turns any error or piece of evidence into a `Failure`, in bounded time.

It collects readings in a fixed order, and the first one decides:

1. your own rules;
2. what the error states: an exception of `outlast.errors`, or an `outlast_category`;
3. exact evidence: the types, codes and statuses of its library, or the attributes of an error of an unknown library;
   then the same for its causes;
4. weak evidence: the name of its class, the built-in class that a custom class is derived from, the words of its
   message; then the same for its causes. Among them a permanent reading comes first;
5. the same for the error it interrupted (`__context__`).

The words of a message never make a 5xx, an errno or a lost connection permanent, except if they refuse credentials.
A flag such as ``retriable=False`` decides whether to retry; the category is searched for all the same.

`Classifier.readings` yields all readings, which `explain` shows; `Classifier.classify` uses the first.
"""

from enum import StrEnum
from functools import partial
from importlib import import_module

from outlast import clock, errors
from outlast.classify import heuristics, safe_access, texts, vendor_codes
from outlast.classify.chain import causes_of, context_of, leaves_of, links_of
from outlast.classify.codes import judge_evidence, name_of_errno
from outlast.classify.exception_info import ExceptionInfo
from outlast.classify.quota import quota_is_exhausted
from outlast.classify.retry_after import (
    excess_in_text,
    hint_in_text,
    rate_limit_hint,
    stated_retry,
    wait_seconds,
    words_of,
)
from outlast.classify.safe_access import read_response, safe_getattr, text_of
from outlast.classify.statuses import refusal_in
from outlast.failure import RETRYABLE, UNREADABLE, Category, Evidence, Failure, Origin, location_of
from outlast.redact import Redactor, redact

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from outlast.classify.libraries.library import Reader
    from outlast.classify.retry_after import RetryHint
    from outlast.classify.rules import Rule
    from outlast.clock import WallClock


class Strength(StrEnum):
    """How reliable a reading is."""

    STRONG = "strong"
    """From a type, a status or a code."""
    WEAK = "weak"
    """From a class name, or an attribute of an unknown library."""
    TEXT = "text"
    """Only from the words of the message."""


class Reading:
    """One possible classification of an error.

    Attributes:
        category: The category.
        rule: Name of the rule that matched.
        strength: How reliable it is.
        evidence: What the error shows.
        origin: The kind of system that failed.
    """

    __slots__ = ("category", "evidence", "origin", "rule", "strength")

    def __init__(self, category: Category, rule: str, strength: Strength, evidence: Evidence, origin: Origin) -> None:
        self.category = category
        self.rule = rule
        self.strength = strength
        self.evidence = evidence
        self.origin = origin

    @property
    def retryable(self) -> bool:
        """Whether a retry may help, according to this reading."""
        stated, headers = self.evidence.retryable, self.evidence.headers
        if stated is None and headers:
            stated = stated_retry(headers)
            if self.category is Category.QUOTA_EXHAUSTED:  # it does not come back within a retry
                stated = None
        return self.category in RETRYABLE if stated is None else stated

    def __repr__(self) -> str:
        """Return the category, the rule and the strength."""
        return f"<Reading {self.category.value} by {self.rule!r}, {self.strength.value}>"


# Of several errors, the most important one first.
_SEVERITY_ORDER = (
    Category.CONFIGURATION,
    Category.AUTHENTICATION,
    Category.INTEGRITY,
    Category.ACCESS_DENIED,
    Category.QUOTA_EXHAUSTED,
    Category.UNKNOWN,
    Category.INVALID_PARAMETERS,
    Category.DATA,
    Category.NOT_FOUND,
    Category.SYSTEM,
    Category.RATE_LIMIT,
    Category.DATABASE_BUSY,
    Category.API_TEMPORARY,
    Category.NETWORK,
)


def severity(judged: Failure | Reading) -> tuple[bool, int]:
    """Return a sort key that puts the worst first: permanent failures before retryable ones."""
    return judged.retryable, _SEVERITY_ORDER.index(judged.category)


_OWN_CATEGORIES: dict[type, Category] = {
    errors.NetworkError: Category.NETWORK,
    errors.RateLimitError: Category.RATE_LIMIT,
    errors.TemporaryAPIError: Category.API_TEMPORARY,
    errors.DatabaseBusyError: Category.DATABASE_BUSY,
    errors.ResourceUnavailableError: Category.API_TEMPORARY,
    errors.CoolingDownError: Category.RATE_LIMIT,
    errors.InvalidParametersError: Category.INVALID_PARAMETERS,
    errors.ResourceNotFoundError: Category.NOT_FOUND,
    errors.AuthenticationError: Category.AUTHENTICATION,
    errors.QuotaExhaustedError: Category.QUOTA_EXHAUSTED,
    errors.ConfigurationError: Category.CONFIGURATION,
    errors.ConfigError: Category.CONFIGURATION,
    errors.BodyTooLargeError: Category.DATA,
    errors.ContentError: Category.DATA,
}


_CATEGORIES_BY_NAME: dict[str, Category] = {category.value: category for category in Category}


def read_stated_category(error: BaseException) -> tuple[Category, Evidence] | None:
    """Return the category that an error states and its evidence, or None.

    An `outlast_category` that is not a category, and a `retry_after` that is not a time, are ignored.
    """
    stated = safe_getattr(error, "outlast_category")
    if isinstance(stated, str) and stated in _CATEGORIES_BY_NAME:
        return _CATEGORIES_BY_NAME[stated], Evidence(retry_after=wait_seconds(safe_getattr(error, "retry_after")))
    if not isinstance(error, errors.WorkerError | errors.OutlastError):
        return None
    category = next(
        (_OWN_CATEGORIES[each] for each in type(error).__mro__ if each in _OWN_CATEGORIES), Category.UNKNOWN
    )
    retryable = isinstance(error, errors.RetryableError)
    return category, Evidence(retryable=retryable, retry_after=wait_seconds(safe_getattr(error, "retry_after")))


NOTHING_MATCHED = "nothing matched"
"""The rule of a failure that no rule matched."""
_UNREADABLE_TEXTS = "its texts could not be read"
_CACHE_LIMIT = 2048
_NAME_LIMIT = 200
_UNWRAP_LIMIT = 8
_CODE_LIMIT = 100
_RULE_LIMIT = 200
_RULE_TEXT_LIMIT = 16_384
_WEAK_CAUSES = 8  # of which names and words are read
_GROUP_LIMIT = 64  # leaves of a group that are read; a quarter of a group within a cause
_LINK_LIMIT = 512  # causes of the leaves of a group that are read in all
_CATEGORIES_WITH_WAIT = RETRYABLE | {Category.QUOTA_EXHAUSTED}
_CATEGORIES_WITH_WAIT_IN_WORDS = frozenset({Category.RATE_LIMIT, Category.API_TEMPORARY, Category.QUOTA_EXHAUSTED})


# Built-in errors that mean a bug in the program or a bad value. Their texts name variables and keys, so no word in them
# is a reason to retry. Derived classes are read like any other.
_BUG_TYPES = frozenset(
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
        SyntaxError,
        TypeError,
        UnboundLocalError,
        ValueError,
        ZeroDivisionError,
    }
)
_SUBJECTS = (BaseException, Evidence)
_NO_EVIDENCE = Evidence()
_UNKNOWN = Reading(Category.UNKNOWN, NOTHING_MATCHED, Strength.TEXT, _NO_EVIDENCE, Origin.UNKNOWN)
_CONTROL_FLOW = Reading(
    Category.UNKNOWN, "not an Exception: passes through", Strength.STRONG, _NO_EVIDENCE, Origin.PROGRAM
)


class Classifier:
    """Classifies errors by your own rules first, then by the built-in ones.

    Args:
        rules: Your rules, tried in this order.
        redactor: Masks secrets in messages.
        now: The wall clock, for headers that contain a date.
    """

    def __init__(
        self, rules: "Iterable[Rule]" = (), *, redactor: Redactor = redact, now: "WallClock" = clock.wall_clock
    ) -> None:
        self.rules = tuple(rules)
        self.redact = redactor
        self._now = now
        self._infos: dict[type, ExceptionInfo] = {}

    def classify(self, subject: BaseException | Evidence) -> Failure:
        """Return the failure of an error or a piece of evidence; never raises for either.

        Its texts are read on first use. The failure of an error whose own code raised something that is
        not an Exception is `unreadable`.

        Raises:
            TypeError: If it is anything else, such as a response; `evidence_of` reads one.
        """
        kind: type = type(subject)  # not isinstance: an object can lie about its class
        try:
            if issubclass(kind, Exception) and not issubclass(kind, ExceptionGroup):
                return self._judge_error(subject)  # type: ignore[arg-type]  # an exception, by its type
            if issubclass(kind, _SUBJECTS):
                return self._decisive(subject)[1]
        except BaseException as raised:  # noqa: BLE001  # a hostile object must not break the error handling
            safe_access.contain(raised)
            return _unreadable(subject, raised)
        raise TypeError(
            f"classify takes an exception or an Evidence, not {kind.__name__}; read a response with evidence_of"
        )

    def decisive(self, subject: BaseException | Evidence) -> BaseException | Evidence:
        """Return the subject that decides: the worst leaf of an exception group, otherwise the subject itself."""
        return self._decisive(subject)[0] if isinstance(subject, BaseExceptionGroup) else subject

    def _decisive(self, subject: BaseException | Evidence) -> tuple[BaseException | Evidence, Failure]:
        if not isinstance(subject, BaseExceptionGroup):
            return subject, self._judge(subject)
        judged: list[tuple[BaseException, Failure]] = []
        links = 0
        for leaf in leaves_of(subject):  # leaves may share long chains of causes
            judged.append((leaf, self._judge(leaf)))
            links += len(links_of(leaf)) - 1
            if links > _LINK_LIMIT:
                break
        return min(judged or [(subject, self._judge(subject))], key=lambda pair: severity(pair[1]))

    def readings(self, subject: BaseException | Evidence) -> "Iterator[Reading]":
        """Yield every reading of an error or a piece of evidence, the deciding one first."""
        if isinstance(subject, Evidence):
            yield from self._readings_of_evidence(subject)
        elif isinstance(subject, BaseExceptionGroup):
            yield from self._by_group(subject, "", 0)
        elif isinstance(subject, Exception):
            yield from self._by_type(subject)
            yield from self._beyond_type(subject)
        else:
            yield _CONTROL_FLOW

    def _judge(self, subject: BaseException | Evidence) -> Failure:
        if isinstance(subject, Exception):
            return self._judge_error(subject)
        return self._failure(subject, next(self.readings(subject), _UNKNOWN))

    def _judge_error(self, error: Exception) -> Failure:
        reading = next(self._by_type(error), None) or next(self._beyond_type(error), None)
        return self._failure(error, reading or self._unmatched(error))

    def _unmatched(self, error: Exception) -> Reading:
        """Return the reading of an error that nothing matched, with its origin and code."""
        info = self._info_of(type(error))
        found = _read_safely(info.read, error)
        evidence = found if isinstance(found, Evidence) else _NO_EVIDENCE
        return Reading(Category.UNKNOWN, NOTHING_MATCHED, Strength.TEXT, evidence, evidence.origin or info.origin)

    def _readings_of_evidence(self, evidence: Evidence) -> "Iterator[Reading]":
        origin = evidence.origin or Origin.UNKNOWN
        for rule in self.rules:
            if rule.applies(evidence, evidence, evidence.message):
                yield _reading_from_rule(rule, evidence, origin)
        verdict = judge_evidence(evidence)
        if verdict is not None:
            yield Reading(verdict[0], verdict[1], Strength.STRONG, evidence, origin)
        yield from _readings_from_text(evidence.message or evidence.body, evidence, origin)

    def _beyond_type(self, error: Exception) -> "Iterator[Reading]":
        """Yield readings of the causes, then the weak evidence of all of them, then the interrupted errors."""
        info = self._info_of(type(error))
        flag = heuristics.read_flag(error) if not info.described or (info.builtin and error.__dict__) else None
        yield from (_flagged(reading, flag) for reading in self._by_causes(error))
        if flag is not None:
            category = Category.API_TEMPORARY if flag else Category.UNKNOWN
            evidence = Evidence(retryable=flag)
            yield Reading(category, f"attribute: retryable is {flag}", Strength.WEAK, evidence, Origin.UNKNOWN)
        for link in context_of(error):
            yield from self._by_type(link, "context: ")
            yield from _permanent_first(self._weak_readings(link, "context: "))

    def _by_causes(self, error: Exception) -> "Iterator[Reading]":
        causes = [(cause, "cause: ") for cause in causes_of(error)]
        for link, via in causes:
            yield from self._by_type(link, via)
        weak = self._weak_readings(error, "")
        for link, via in causes[:_WEAK_CAUSES]:
            weak += self._weak_readings(link, via)
        yield from _permanent_first(weak)

    def _by_type(  # noqa: C901, PLR0912  # the order of evidence in one place; helpers would add a generator to every classification
        self, error: BaseException, via: str = "", depth: int = 0
    ) -> "Iterator[Reading]":
        """Yield readings by rules, the error itself and its library; wrapped errors are followed to a fixed depth."""
        if (via or depth) and isinstance(error, BaseExceptionGroup):  # a group on its own was split into leaves before
            if depth < _UNWRAP_LIMIT:
                yield from self._by_group(error, via, depth + 1)
            return
        info = self._info_of(type(error))
        found = _read_safely(info.read, error)
        evidence = found if isinstance(found, Evidence) else _NO_EVIDENCE
        origin = evidence.origin or info.origin
        if self.rules:
            yield from self._by_rules(error, evidence, origin, via)
        stated = read_stated_category(error)
        if stated is not None:
            yield Reading(stated[0], f"{via}{type(error).__name__}", Strength.STRONG, stated[1], origin)
        if not info.described:  # codes that a whole family of clients shares are exact evidence
            yield from _readings_from_attributes(vendor_codes.read_attributes(error), via, Strength.STRONG)
        attributes: Iterable[Reading] = ()
        if not info.described or (info.builtin and error.__dict__):
            attributes = [*_readings_from_attributes(heuristics.read_attributes(error), via, Strength.WEAK)]
            flag = heuristics.read_flag(error)
            if flag is not None:
                evidence = evidence.replace(retryable=flag)
        if info.inherited:  # attributes of a custom class are more specific than its built-in base class
            yield from (reading for reading in attributes if not reading.retryable)
        if isinstance(found, BaseException):
            yield from self._inside(info, found, via, depth)
        elif evidence is not _NO_EVIDENCE:
            verdict = judge_evidence(evidence, info.name)
            if verdict is not None:
                yield Reading(verdict[0], via + verdict[1], Strength.STRONG, evidence, origin)
        if info.category is not None:
            if info.weak and info.category in RETRYABLE:
                weak = [each for each in self._weak_readings(error, via) if each and not each[0].retryable]
                yield from (_flagged(reading, evidence.retryable) for reading in _permanent_first(weak))
            elif info.builtin and info.category is Category.NETWORK and evidence is _NO_EVIDENCE:
                yield from self._refusals(error, via)
            yield Reading(info.category, via + info.name, Strength.STRONG, evidence, origin)
        yield from attributes

    def _refusals(self, error: BaseException, via: str) -> "Iterator[Reading]":
        """Yield the words of a lost connection or of its causes that refuse credentials."""
        if not error.args and error.__cause__ is None:
            return
        for link in (error, *causes_of(error)):
            words = refusal_in(text_of(link))
            if words is not None:
                shown = via if link is error else f"{via}cause: "
                yield Reading(
                    Category.AUTHENTICATION, f"{shown}text: {words}", Strength.TEXT, _NO_EVIDENCE, Origin.UNKNOWN
                )

    def _inside(self, info: ExceptionInfo, inner: BaseException, via: str, depth: int) -> "Iterator[Reading]":
        """Yield the readings of an error that is wrapped in another one."""
        if depth < _UNWRAP_LIMIT:
            for reading in self._by_type(inner, f"{via}inside {info.name}: ", depth + 1):
                outer = reading.origin if info.origin in {Origin.UNKNOWN, Origin.PROGRAM} else info.origin
                yield Reading(reading.category, reading.rule, reading.strength, reading.evidence, outer)

    def _by_rules(self, error: BaseException, evidence: Evidence, origin: Origin, via: str) -> "Iterator[Reading]":
        text = text_of(error)[:_RULE_TEXT_LIMIT]
        if evidence is _NO_EVIDENCE:
            evidence = heuristics.evidence_in(error)
        for rule in self.rules:
            if rule.applies(error, evidence, text):
                yield _reading_from_rule(rule, evidence, origin, via)

    def _by_group(self, group: BaseException, via: str, depth: int) -> "Iterator[Reading]":
        """Yield the reading of the worst leaf of a group; causes of leaves are not followed, so that a cycle ends."""
        readings = []
        for leaf in leaves_of(group)[: _GROUP_LIMIT >> 2 * depth or 1]:
            found = next(self._by_type(leaf, "", depth), None) if isinstance(leaf, Exception) else _CONTROL_FLOW
            readings.append(found or next(iter(_permanent_first(self._weak_readings(leaf, ""))), _UNKNOWN))
        if any(reading is not _UNKNOWN for reading in readings):
            worst = min(readings, key=severity)
            yield Reading(worst.category, f"{via}group: {worst.rule}", worst.strength, worst.evidence, worst.origin)

    def _weak_readings(self, error: BaseException, via: str) -> "list[list[Reading]]":
        """Return the readings of its class name, its words, and the names of its base classes, each with its own."""
        named = heuristics.read_name(type(error))
        words = [*self._by_words(error, via)]
        if named is None:
            return [words]
        origin = self._info_of(type(error)).origin
        name = [Reading(named[0], f"{via}class name: {named[1]}", Strength.WEAK, _NO_EVIDENCE, origin)]
        if words and not words[0].retryable and heuristics.stands_for_status(named[1]) and not _overrides_status(error):
            return [name + words]
        return [name, words] if named[1] == type(error).__name__ else [words, name]

    def _by_words(self, error: BaseException, via: str) -> "Iterator[Reading]":
        info = self._info_of(type(error))
        found = _read_safely(info.read, error)
        # The text of a wrapper often repeats a statement or command, not what happened, so the innermost error is read.
        for _ in range(_UNWRAP_LIMIT):
            if not isinstance(found, BaseException):
                break
            error, found = found, _read_safely(self._info_of(type(found)).read, found)
        evidence = found if isinstance(found, Evidence) else _NO_EVIDENCE
        for text in (evidence.message or text_of(error), evidence.body):
            for reading in _readings_from_text(text, evidence, info.origin, via):
                if reading.category not in RETRYABLE or type(error) not in _BUG_TYPES:
                    yield reading

    def _info_of(self, kind: type) -> ExceptionInfo:
        info = self._infos.get(kind)
        if info is None:
            info = ExceptionInfo(kind)
            if info.cacheable:
                if len(self._infos) >= _CACHE_LIMIT:
                    self._infos.clear()
                self._infos[kind] = info
        return info

    def _hint_of_causes(self, error: "Any", *, limited: bool) -> "RetryHint | None":
        """Return the wait in the headers or the words of the first cause that has one, or None."""
        for cause in causes_of(error):
            found = _read_safely(self._info_of(type(cause)).read, cause)
            shown = found if isinstance(found, Evidence) else heuristics.evidence_in(cause)
            hint = rate_limit_hint(shown.headers, limited=limited, now=self._now) if shown.headers else None
            hint = hint or hint_in_text(words_of(cause, shown), now=self._now)
            if hint is not None:
                return hint
        return None

    def _failure(self, subject: BaseException | Evidence, reading: Reading) -> Failure:
        if reading.category is Category.RATE_LIMIT:
            reading = _unless_too_large(subject, reading)
        evidence, category = reading.evidence, reading.category
        retry_after, capped, in_words = evidence.retry_after, False, category in _CATEGORIES_WITH_WAIT_IN_WORDS
        retryable = category in RETRYABLE if evidence is _NO_EVIDENCE else reading.retryable
        can_wait = category in _CATEGORIES_WITH_WAIT
        if retry_after is None and (in_words or (evidence.headers and (retryable or can_wait))):
            limited = can_wait and category is not Category.API_TEMPORARY
            hint = rate_limit_hint(evidence.headers, limited=limited, now=self._now) if evidence.headers else None
            if hint is None and in_words:
                hint = hint_in_text(words_of(subject, evidence), now=self._now)
                if hint is None and safe_getattr(subject, "__cause__") is not None:
                    hint = self._hint_of_causes(subject, limited=limited)
            if hint is not None:
                retry_after, capped = hint.seconds, hint.capped
        return Failure.with_lazy_texts(
            partial(self._texts, subject, reading),
            category,
            retryable,
            reading.origin,
            evidence.http_status,
            retry_after,
            capped,
            exact=evidence.retry_after is not None,
        )

    def _texts(self, subject: BaseException | Evidence, reading: Reading) -> "dict[str, str | None]":
        """Return the texts of a failure, redacted and truncated."""
        try:
            return self._read_texts(subject, reading)
        except BaseException as raised:  # noqa: BLE001  # a hostile object must not break the error handling
            safe_access.contain(raised)
            name = safe_access.class_name(subject)[:_NAME_LIMIT]
            return {"code": None, "exception_name": name, "message": "", "rule": _UNREADABLE_TEXTS, "location": ""}

    def _read_texts(self, subject: BaseException | Evidence, reading: Reading) -> "dict[str, str | None]":
        evidence, rule = reading.evidence, reading.rule
        code, plain = evidence.code or evidence.sqlstate, reading.strength is Strength.STRONG
        if code is not None:
            plain = plain and _is_plain_code(code)
        elif evidence.errno is not None:
            code = name_of_errno(evidence.errno)
        if not plain:
            code, rule = code and self.redact(code[:_CODE_LIMIT]), self.redact(rule[:_RULE_LIMIT])
        if isinstance(subject, Evidence):
            name, traceback = subject.exception_name, None
            shown = f"HTTP {subject.http_status}" if subject.http_status else code
            message = subject.message or shown or ""
        else:
            name, traceback = type(subject).__name__, safe_access.read_traceback(subject)
            message = safe_access.shown_text(subject)
        return {
            "code": code,
            "exception_name": name
            if name.isidentifier() and len(name) <= _NAME_LIMIT
            else self.redact(name[:_NAME_LIMIT]),
            "message": self.redact(message),
            "rule": rule,
            "location": location_of(traceback),
        }


def _unreadable(subject: BaseException | Evidence, raised: BaseException) -> Failure:
    name = safe_access.class_name(subject)[:_NAME_LIMIT]
    return Failure(
        Category.UNKNOWN, retryable=False, exception_name=name, rule=UNREADABLE,
        message=f"it cannot be read: its own code raised {safe_access.class_name(raised)[:_NAME_LIMIT]}",
        location=location_of(safe_access.read_traceback(subject)) if issubclass(type(subject), BaseException) else "",
    )  # fmt: skip


_PUNCTUATION = dict.fromkeys(map(ord, "_.-:"))


def _is_plain_code(code: str) -> bool:
    """Return whether a code has only characters of a code, so that it needs no redaction."""
    return len(code) <= _CODE_LIMIT and code.isascii() and (code.isalnum() or code.translate(_PUNCTUATION).isalnum())


def _unless_too_large(subject: object, reading: Reading) -> Reading:
    """Return the reading of a rate limit; one that says that the request can never fit the limit is permanent."""
    evidence = reading.evidence
    words = excess_in_text(words_of(subject, evidence)) if evidence.retryable is None else None
    if words is None or "rule: " in reading.rule:
        return reading
    rule = f"{reading.rule}, but the request is too large: {words}"
    return Reading(Category.INVALID_PARAMETERS, rule, Strength.TEXT, evidence, reading.origin)


def _reading_from_rule(rule: "Rule", evidence: Evidence, origin: Origin, via: str = "") -> Reading:
    own = evidence.replace(retryable=rule.retryable, retry_after=rule.retry_after)
    return Reading(Category(rule.category), f"{via}rule: {rule.name}", Strength.STRONG, own, origin)


def _readings_from_text(text: str, evidence: Evidence, origin: Origin, via: str = "") -> "Iterator[Reading]":
    if not text:
        return
    for category, words, status in texts.read_text(text):
        shown = evidence if status is None or evidence.http_status else evidence.replace(http_status=status)
        text_origin = Origin.HTTP if status is not None and origin is Origin.PROGRAM else origin
        yield Reading(category, f"{via}text: {words}", Strength.TEXT, shown, text_origin)


# A class with such a name often has a text that says more: which connection failed, or that the password was wrong.
_VAGUE_NAMES = frozenset({Category.API_TEMPORARY, Category.ACCESS_DENIED})


def _permanent_first(weak: "list[list[Reading]]") -> "list[Reading]":
    """Return weak readings in the order in which they decide; those of one text stay in their own order."""

    def rank(readings: "list[Reading]") -> tuple[bool, bool]:
        first = readings[0]
        return first.retryable, first.strength is Strength.WEAK and first.category in _VAGUE_NAMES

    return [reading for readings in sorted(filter(None, weak), key=rank) for reading in readings]


def _flagged(reading: Reading, flag: bool | None) -> Reading:  # noqa: FBT001  # the flag of the error, or None
    """Return the reading with what the error says about retrying."""
    if flag is None or reading.evidence.retryable is not None:
        return reading
    evidence = reading.evidence.replace(retryable=flag)
    return Reading(reading.category, reading.rule, reading.strength, evidence, reading.origin)


def _overrides_status(error: BaseException) -> bool:
    """Return whether the words of an error refuse credentials or state an exhausted quota."""
    text = text_of(error)
    return quota_is_exhausted(text) or refusal_in(text) is not None


def _readings_from_attributes(
    found: "tuple[Category, str, Evidence] | None", via: str, strength: Strength
) -> "Iterator[Reading]":
    if found is not None:
        category, rule, evidence = found
        yield Reading(category, via + rule, strength, evidence, evidence.origin or Origin.UNKNOWN)


def _read_safely(read: "Reader | None", error: BaseException) -> "Evidence | BaseException | None":
    if read is None:
        return None
    try:
        return read(error)
    except Exception:  # noqa: BLE001  # unexpected objects must not break the classification
        return None


_default = Classifier()


def default_classifier() -> Classifier:
    """Return the classifier that is used by default."""
    return _default


def use_classifier(classifier: "Any") -> Classifier:
    """Make a classifier, or an object with `is_retryable` and `get_error_category`, the default for the whole process.

    Returns:
        The classifier that was used before.

    Raises:
        TypeError: If it is not a classifier; put a list of rules into ``Classifier(rules)``.
    """
    global _default  # the only process-wide setting of this package
    rules = import_module("outlast.classify.rules")  # it needs this module
    before, _default = _default, rules.as_classifier(classifier)
    return before


def evidence_of(response: object, request: object = None) -> Evidence:
    """Read the response of any common HTTP client, so that it can be classified without an exception.

    Args:
        response: An object with `status_code` or `status`, and `headers`. Its body is used only if it was read
            already.
        request: The request, if the response does not have it; it shows whether credentials were sent.

    Returns:
        The evidence; empty if the object is not a response.
    """
    return read_response(response, request) or Evidence()


def classify(subject: BaseException | Evidence) -> Failure:
    """Classify an error, or the evidence of a response.

    Args:
        subject: Any exception, or an `Evidence`.

    Returns:
        The failure; its category is `Category.UNKNOWN` if nothing matched.
    """
    return _default.classify(subject).settled()


def failure_of(error: BaseException) -> Failure:
    """Return the failure of an error, classified once on its way from the first ``except`` to the store.

    Code that re-raises a classified error attaches the failure to it with `attach_failure`.
    """
    attached = safe_access.contained(None, getattr, error, "__outlast_failure__", None)
    if isinstance(attached, _AttachedFailure) and attached.classifier is _default:
        return attached.failure
    return _default.classify(error)


def attach_failure(error: BaseException, failure: Failure) -> None:
    """Attach the failure to an error that is raised further, for `failure_of`, if the error takes attributes."""
    safe_access.contained(None, setattr, error, "__outlast_failure__", _AttachedFailure(_default, failure.settled()))


class _AttachedFailure:
    """A failure that is attached to its error, and the classifier that made it."""

    __slots__ = ("classifier", "failure")

    def __init__(self, classifier: Classifier, failure: Failure) -> None:
        self.classifier, self.failure = classifier, failure

    def __reduce__(self) -> "tuple[type, tuple[()]]":
        """Drop it when the error is pickled: another process has its own classifier."""
        return object, ()
