"""Parameters of operations and filters: their kinds, and how their texts are parsed and checked."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.errors import ConfigError
from outlast.failure import Category
from outlast.ports.rows import Reason
from outlast.queue.masking import masked_text
from outlast.units import DURATION_FORMAT, RATE_FORMAT, parse_duration, parse_rate

if TYPE_CHECKING:
    from outlast.app import App

Values = Mapping[str, Any]
"""Values of parameters by name; those that were not given are None, or an empty list."""
MAX_SELECTED = 500
"""Most rows that one operation accepts."""
MAX_NAME_CHARS = 500
"""Most characters of a name that is its own key."""
DIGEST_MARK = "#"
"""First character of a digest."""
_MAX_ROW = 2**63 - 1  # largest integer of both databases
_MAX_MINUTES = 7 * 24 * 60
_MAX_COUNT = 1_000_000
_MAX_SECONDS = 366 * 86_400.0
_MAX_LISTED = 5
_WORDS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class InvalidValueError(ConfigError):
    """The value of a parameter is not valid.

    Attributes:
        parameter: Name of the parameter; empty if it is unknown.
    """

    parameter = ""


class ValueKind(NamedTuple):
    """A kind of value.

    Attributes:
        schema: Its JSON Schema.
        metavar: Its name in help texts.
        parse: Returns the value of a text; called with the text, the name of the parameter and the app.
        audited: Returns what the audit log keeps of a value; None for nothing.
    """

    schema: Mapping[str, Any]
    metavar: str
    parse: "Callable[[str, str, App], Any]"
    audited: Callable[[Any], Any] = lambda value: value


class Parameter(NamedTuple):
    """A parameter of an operation or a filter.

    Attributes:
        name: Its name in Python, JSON, forms and, with dashes, on the command line.
        kind: The kind of its value.
        help: What it means, in a sentence.
        required: Whether a value is needed.
        default: The text that is used without one.
        many: Whether it takes several values.
        argument: Its name as an argument of the command, ``...`` for several; empty for an option.
    """

    name: str
    kind: ValueKind
    help: str
    required: bool = False
    default: str = ""
    many: bool = False
    argument: str = ""


def parse_values(
    app: "App", parameters: Iterable[Parameter], given: Mapping[str, Sequence[str]], *, is_strict: bool = False
) -> dict[str, Any]:
    """Return the values of parameters.

    Args:
        app: The app.
        parameters: The parameters.
        given: Texts by name; blank ones count as missing.
        is_strict: Whether other names are refused.

    Raises:
        InvalidValueError: If a value is missing or not valid.
        LookupError: If something that a value names does not exist.
    """
    known = {each.name: each for each in parameters}
    unknown = next((name for name in given if name not in known), None) if is_strict else None
    if unknown is not None:
        raise InvalidValueError(f"{unknown[:50]!r} is not a field here; choose from: {', '.join(sorted(known))}")
    return {each.name: _parse_parameter(app, each, given.get(each.name, ())) for each in known.values()}


def _parse_parameter(app: "App", parameter: Parameter, given: Sequence[str]) -> Any:
    name, label, kind = parameter.name, parameter.name.replace("_", " "), parameter.kind
    texts = [text for text in dict.fromkeys(each.strip() for each in given) if text]
    try:
        if not texts and parameter.required:
            raise InvalidValueError(f"no {label} was given")
        if not parameter.many:
            text = (given[0].strip() if given else "") or parameter.default
            texts = [text] if text else []
        if len(texts) > MAX_SELECTED:
            raise InvalidValueError(
                f"{len(texts)} values of {label} are given; at most {MAX_SELECTED} are allowed, or use the command line"
            )
        values = [kind.parse(text, label, app) for text in texts]
    except InvalidValueError as error:
        error.parameter = name
        raise
    return values if parameter.many else next(iter(values), None)


# Kinds of values.


def parse_row(text: str, name: str, _app: object = None) -> int:
    """Return the number of a row.

    Raises:
        InvalidValueError: If it is not a number that a row can have.
    """
    if text.isascii() and text.isdigit() and len(text) <= len(str(_MAX_ROW)) and 0 < int(text) <= _MAX_ROW:
        return int(text)
    raise InvalidValueError(f"{name} is {text!r:.50}; it must be a row number")


def parse_text(text: str, name: str, longest: int) -> str:
    """Return a text.

    Raises:
        InvalidValueError: If it is too long.
    """
    if len(text) > longest:
        raise InvalidValueError(f"{name} has {len(text)} characters; at most {longest} are allowed")
    return text


def parse_choice(text: str, name: str, choices: Iterable[str]) -> str:
    """Return a word, given in any case.

    Raises:
        InvalidValueError: If it is not one of the choices; the message lists them.
    """
    words = {word.lower(): word for word in map(str, choices)}
    if text.lower() in words:
        return words[text.lower()]
    raise InvalidValueError(f"{text[:200]!r} is not a valid {name}; choose one of: {', '.join(words)}")


def text_kind(longest: int, metavar: str = "TEXT", *, is_audited: bool = True) -> ValueKind:
    """Return a kind of text with a maximum length."""
    schema = {"type": "string", "maxLength": longest}
    audited = (lambda value: value) if is_audited else (lambda _: None)
    return ValueKind(schema, metavar, lambda text, name, _: parse_text(text, name, longest), audited)


def choice_kind(choices: Iterable[str]) -> ValueKind:
    """Return a kind of word."""
    words = [*map(str, choices)]
    return ValueKind({"type": "string", "enum": words}, "NAME", lambda text, name, _: parse_choice(text, name, words))


def parse_time(text: str, name: str, now: datetime) -> datetime:
    """Return a time: ISO 8601, in UTC if it has no offset, or an age such as ``2h``.

    Args:
        text: The text.
        name: Name of the parameter.
        now: Start of an age.

    Raises:
        InvalidValueError: If it is not a time.
    """
    iso_text = text[:11].replace(" ", "T") + text[11:].replace(" ", "+")  # a plus that was not encoded is a space
    try:
        at = datetime.fromisoformat(iso_text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        ago = parse_duration(text)
        if ago is not None:
            return now - timedelta(seconds=ago)
        raise InvalidValueError(
            f"{name} is {text!r:.200}; it must be a time in UTC such as 2026-11-15T10:00, or an age: 15m, 2h, 3d"
        ) from None


def _checked(parse: Callable[[str], Any], problem: str) -> "Callable[[str, str, App], Any]":
    def parse_checked(text: str, name: str, _app: object) -> Any:
        value = parse(text)
        if value is None:
            raise InvalidValueError(f"{name} is {text[:50]!r}; {problem}")
        return value

    return parse_checked


def _minutes(text: str) -> float | None:
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    return minutes if 0 < minutes <= _MAX_MINUTES else None


def name_key(name: str) -> str:
    """Return the key of a name in forms and URLs: the name itself, or a digest if it may contain a secret."""
    plain = name.isprintable() and name == name.strip() and not name.startswith(DIGEST_MARK)
    if plain and len(name) <= MAX_NAME_CHARS and masked_text(name) == name:
        return name
    return DIGEST_MARK + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _resource(text: str, name: str, app: "App") -> str:
    """Return a resource, given by its name or by the digest of its name."""
    if len(text) > MAX_NAME_CHARS:
        raise InvalidValueError(f"{name} has {len(text)} characters; at most {MAX_NAME_CHARS} are allowed")
    if not text.startswith(DIGEST_MARK):
        return text
    known = {*(each.resource for each in app.store.cooldowns()), *(each.resource for each in app.store.breakers())}
    for resource in known:
        if name_key(resource) == text:
            return resource
    raise LookupError("this resource has no cooldown or breaker any more")


def _queue(text: str, name: str, _app: object) -> str:
    """Return the name of a queue; one with a secret cannot exist, and is not repeated on a page."""
    if masked_text(text) != text:
        raise InvalidValueError(f"{name} is {masked_text(text)[:100]!r}, which contains a secret")
    return parse_text(text, name, 200)


def _group(text: str, name: str, app: "App") -> str:
    """Return the fingerprint of a group, given by a prefix that no other group has; an unknown one stays as it is."""
    found = app.store.fingerprints(parse_text(text, name, 200), _MAX_LISTED + 1)
    if text in found or len(found) <= 1:
        return text if text in found else next(iter(found), text)
    shown = ", ".join(found[:_MAX_LISTED]) + (", …" if len(found) > _MAX_LISTED else "")
    raise InvalidValueError(f"several groups begin with {text!r}: {shown}; give more characters")


def _source_id(text: str, name: str, app: "App") -> int:
    """Return the id of a source, given by its id or its URL."""
    is_id = text.isascii() and text.isdecimal()
    try:
        return app.sources.get(parse_row(text, name) if is_id else text).id
    except ConfigError as error:
        if error.__cause__ is not None:  # the store cannot be opened
            raise
        shown = masked_text(text)
        raise LookupError(f"source {shown} does not exist" if is_id else f"source {shown}: {error}") from None


def _patch(text: str, name: str, _app: object) -> list[Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidValueError(
            f'the {name} is not valid JSON; write a list such as [{{"op": "replace", "path": "/url", "value": "…"}}]'
        ) from None
    return value if isinstance(value, list) else [value]


def _patch_paths(patch: list[Any]) -> list[str]:
    """Return the operations of a patch without their values, which may be secrets."""
    return [f"{each.get('op')} {each.get('path')}" for each in patch if isinstance(each, dict)]


def _duration(text: str) -> float | None:
    seconds = parse_duration(text)
    return None if seconds is None or seconds > _MAX_SECONDS else seconds


def _count(text: str) -> int | None:
    is_count = text.isascii() and text.isdigit() and len(text) <= len(str(_MAX_COUNT))
    return int(text) if is_count and int(text) <= _MAX_COUNT else None


ROW = ValueKind({"type": "integer", "minimum": 1, "maximum": _MAX_ROW}, "ID", parse_row)
LINE = ValueKind(
    {"type": "string", "maxLength": 500}, "TEXT", lambda text, name, _: parse_text(" ".join(text.split()), name, 500)
)
NAME = text_kind(200, "NAME")
QUEUE = text_kind(200, "QUEUE")._replace(parse=_queue)
RESOURCE = ValueKind({"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS}, "RESOURCE", _resource)
GROUP = text_kind(200, "FINGERPRINT")._replace(parse=_group)
SOURCE = ValueKind({"type": ["integer", "string"], "minimum": 1, "maximum": _MAX_ROW}, "ID_OR_URL", _source_id)
FLAG = ValueKind({"type": "boolean"}, "", _checked(lambda text: _WORDS.get(text.lower()), "give yes or no"))
TIME = ValueKind({"type": "string"}, "TIME", lambda text, name, app: parse_time(text, name, app.store.now()))
DURATION = ValueKind({"type": "string"}, "SPAN", _checked(_duration, f"{DURATION_FORMAT}, up to a year"))
RATE = ValueKind({"type": "string"}, "RATE", _checked(parse_rate, RATE_FORMAT))
PAGE = ValueKind(
    {"type": "integer", "minimum": 1, "maximum": _MAX_COUNT},
    "N",
    _checked(lambda text: _count(text) or None, "it must be a page number"),
)
COUNT = ValueKind(
    {"type": "integer", "minimum": 0, "maximum": _MAX_COUNT},
    "N",
    _checked(_count, f"give a whole number, 0 to {_MAX_COUNT:,}"),
)
MINUTES = ValueKind(
    {"type": "number", "exclusiveMinimum": 0, "maximum": _MAX_MINUTES},
    "N",
    _checked(_minutes, f"it must be a number above 0 and at most {_MAX_MINUTES} (7 days)"),
)
PATCH = ValueKind({"type": "string"}, "JSON", _patch, _patch_paths)

WHY = Parameter("why", LINE, "The reason, for the audit log.")
FILTERS = (
    Parameter("task", NAME, "Only this task."),
    Parameter("queue", QUEUE, "Only this queue."),
    Parameter("category", choice_kind(Category), "Only failures of this category, such as network."),
    Parameter("reason", choice_kind(Reason), "Only dead letters with this reason."),
    Parameter("group", GROUP, "Only this group of failures, or the start of its id; see dlq groups."),
    Parameter("since", TIME, "Failed at this time or later: 2h, 3d, or an ISO time."),
    Parameter("until", TIME, "Failed before this time: 2h, 3d, or an ISO time."),
    Parameter("text", text_kind(200), "Only errors that contain this text."),
)
"""The filters of dead letters, in lists, forms, JSON and commands."""


def filter_arguments(values: Values) -> dict[str, Any]:
    """Return the filters that are set, for the methods of ``app.dead_letters``."""
    return {each.name: values[each.name] for each in FILTERS if values.get(each.name) is not None}
