"""`Rule`: your own classification rules, which are tried before the built-in ones."""

import re
from dataclasses import dataclass, field

from outlast.classify.classifier import Classifier, default_classifier
from outlast.classify.safe_access import contain, status_of
from outlast.errors import ConfigError
from outlast.failure import Category, Evidence, Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    TypeSpec = type[BaseException] | str | Sequence[type[BaseException] | str]
    """An exception class, its qualified name, or several of either."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A classification rule: if all its conditions match, the failure has this category.

    Attributes:
        category: A `Category` or its name.
        name: Name in `explain` and `Failure.rule`; by default made from the conditions.
        type: Exception class, qualified name such as ``"vendor.errors.Busy"``, or several; subclasses match too.
        status: HTTP status, or several.
        code: SQLSTATE, errno name or API error code, or several.
        text: Words in the message, matched as whole words, case-insensitive.
        predicate: Called with the error (or Evidence); the rule matches if it returns true. If it raises, the rule does
            not match.
        retryable: Overrides whether the category is retryable.
        retry_after: Seconds to wait, used unchanged.

    Raises:
        ConfigError: If there is no condition, or a value is not valid.
    """

    category: Category | str
    name: str = ""
    type: "TypeSpec | None" = None
    status: "int | Sequence[int] | None" = None
    code: "str | Sequence[str] | None" = None
    text: str | None = None
    predicate: "Callable[[BaseException | Evidence], object] | None" = None
    retryable: bool | None = None
    retry_after: float | None = None
    _text_pattern: "re.Pattern[str] | None" = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the conditions and compile the text."""
        object.__setattr__(self, "category", Category.parse(self.category))
        conditions = {
            key: value
            for key in ("type", "status", "code", "text", "predicate")
            if (value := getattr(self, key)) is not None
        }
        if not conditions or () in conditions.values() or not all(str(value) for value in conditions.values()):
            raise ConfigError(
                "a rule needs at least one condition that can match: type, status, code, text or predicate"
            )
        self._check_types()
        for status in _as_tuple(self.status):
            if status_of(status) is None:
                raise ConfigError(f"{status!r} is not an HTTP status; give a whole number from 100 to 599")
        if self.retry_after is not None and not 0 <= self.retry_after < float("inf"):
            raise ConfigError(f"retry_after is {self.retry_after!r}; give seconds, 0 or more")
        if self.text is not None:
            object.__setattr__(
                self, "_text_pattern", re.compile(rf"(?<!\w){re.escape(self.text)}(?!\w)", re.IGNORECASE)
            )
        if not self.name:
            shown = {key: getattr(value, "__name__", value) for key, value in conditions.items()}
            object.__setattr__(self, "name", ", ".join(f"{key} {value}" for key, value in shown.items()))

    def _check_types(self) -> None:
        for spec in _as_tuple(self.type):
            qualified = isinstance(spec, str) and "." in spec
            if not qualified and not (isinstance(spec, type) and issubclass(spec, BaseException)):
                raise ConfigError(
                    f"type is {spec!r}; give an exception class, or its qualified name such as 'vendor.errors.Busy'"
                )
        for code in _as_tuple(self.code):
            if not isinstance(code, str):
                raise ConfigError(f"code is {code!r}; give text, or use status for an HTTP status")
        predicate: object = self.predicate
        if predicate is not None and not callable(predicate):
            raise ConfigError(f"predicate is {predicate!r}; give a function that takes the error")

    def applies(self, subject: BaseException | Evidence, evidence: Evidence, text: str) -> bool:
        """Return whether all conditions match.

        Args:
            subject: The error or Evidence itself.
            evidence: What was read from it.
            text: Its message.
        """
        return (
            (self.type is None or any(_is_instance(subject, spec) for spec in _as_tuple(self.type)))
            and (self.status is None or evidence.http_status in _as_tuple(self.status))
            and (self.code is None or any(code in _as_tuple(self.code) for code in codes_of(evidence)))
            and (self._text_pattern is None or self._text_pattern.search(text) is not None)
            and (self.predicate is None or _predicate_holds(self.predicate, subject))
        )


def codes_of(evidence: Evidence) -> tuple[str, ...]:
    """Return all codes in the evidence."""
    from outlast.classify.codes import name_of_errno  # noqa: PLC0415  # only rules with a code need it

    return tuple(code for code in (evidence.code, evidence.sqlstate, name_of_errno(evidence.errno)) if code)


def _as_tuple(value: object) -> tuple[object, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _is_instance(subject: object, spec: object) -> bool:
    if isinstance(spec, str):
        return any(f"{each.__module__}.{each.__qualname__}" == spec for each in type(subject).__mro__)
    return isinstance(spec, type) and isinstance(subject, spec)


def _predicate_holds(
    predicate: "Callable[[BaseException | Evidence], object]", subject: BaseException | Evidence
) -> bool:
    try:
        return bool(predicate(subject))
    except Exception:  # noqa: BLE001  # user code must not break the classification
        return False


class _MethodClassifier(Classifier):
    """A classifier from any object with the methods `is_retryable` and `get_error_category`.

    What the object does not say, such as the HTTP status, comes from the built-in rules.
    """

    def __init__(self, own: "Any") -> None:
        super().__init__(redactor=default_classifier().redact)
        self._own = own

    def classify(self, subject: BaseException | Evidence) -> Failure:
        """Return the failure of an error, with the category and the answer of the object."""
        failure = super().classify(subject)
        if failure.unreadable or not isinstance(subject, Exception):
            return failure
        try:
            name, retryable = str(self._own.get_error_category(subject)), bool(self._own.is_retryable(subject))
        except BaseException as raised:  # noqa: BLE001  # a classifier of the user's; the error at hand matters more
            contain(raised)
            return failure
        category = Category(name) if name in set(Category) else failure.category
        return failure.replace(category=category, retryable=retryable, rule=type(self._own).__name__)


def as_classifier(thing: object) -> Classifier:
    """Return a `Classifier`: the object itself, or one that asks its methods `is_retryable` and `get_error_category`.

    Raises:
        TypeError: If it is not a classifier.
    """
    if isinstance(thing, Classifier):
        return thing
    if isinstance(thing, type) or not (hasattr(thing, "is_retryable") and hasattr(thing, "get_error_category")):
        raise TypeError(
            f"the classifier is {type(thing).__name__}; give a Classifier (put rules into Classifier(rules)), or an "
            "object with the methods is_retryable and get_error_category"
        )
    return _MethodClassifier(thing)
