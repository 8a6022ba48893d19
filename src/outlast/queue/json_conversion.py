"""Converts values to JSON and back by their type hints.

Messages never show values, because payloads may contain secrets.
"""

import base64
import dataclasses
import inspect
import re
import sys
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property, lru_cache, partial
from itertools import repeat
from pathlib import PurePath
from types import SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

Change = Callable[[Any], Any]
PLAIN_TYPES: frozenset[type] = frozenset({str, int, float, bool, type(None)})
"""The types whose values JSON has as they are."""
_MICROSECOND = timedelta(microseconds=1)
_SECONDS = re.compile(r"(-?)(\d{1,14})\.(\d{6})", re.ASCII)


class Misfit(Exception):  # noqa: N818  # never leaves the queue: it becomes a PayloadError
    """A value that does not match its type hint.

    Attributes:
        path: The path from the parameter to the value, such as ``.items[3]``; it grows as the error propagates.
    """

    path = ""


class Conversion(NamedTuple):
    """Converts values of one type to JSON and back.

    Attributes:
        dump: Returns the JSON value; raises `Misfit`.
        load: Returns the value of a JSON value; raises `Misfit`, or any error of a class of the program.
        label: Name of the type.
        kinds: The classes of its values, if they are JSON values already; empty if they must be converted.
    """

    dump: Change
    load: Change
    label: str
    kinds: tuple[type, ...] = ()


def misfit_error(value: object, label: str) -> Misfit:
    """Return the error about a value of another type."""
    return Misfit(f"{type(value).__qualname__} where {label} is expected")


def _require(value: object, kind: type | tuple[type, ...], label: str) -> None:
    if not isinstance(value, kind):
        raise misfit_error(value, label)


def check_native(value: Any) -> Any:
    """Return a value as it is, if it is a JSON value at every depth.

    Tuples and keys that are not text are refused, although the standard encoder accepts them: they would be loaded as
    another type.
    """
    parts: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise Misfit(f"{type(key).__qualname__} as a key, but JSON keys are text; annotate it: dict[int, str]")
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    elif not isinstance(value, str | int | float | None):
        raise Misfit(
            f"{type(value).__qualname__} is not a JSON type, and has no type hint; annotate it with a type "
            "that payloads support: a dataclass, tuple, set, datetime, Decimal, UUID, bytes, Path, Enum, …"
        )
    for part, each in parts:
        if type(each) not in PLAIN_TYPES:
            _convert_part(part, check_native, each)
    return value


def _convert_part(key: str | int, change: Change, value: Any, form: str = "[{!r:.40}]") -> Any:
    """Return the converted value of a list, dict or record, with its key in the error."""
    try:
        return change(value)
    except Misfit as misfit:
        misfit.path = form.format(key) + misfit.path
        raise


def native_conversion(label: str, kinds: tuple[type, ...]) -> Conversion:
    """Return the conversion of JSON types."""
    return Conversion(check_native, lambda given: given, label, kinds)


def text_conversion(label: str, kind: type, dump: Change, parse: Change) -> Conversion:
    """Return the conversion of a type that has a text form."""

    def to_text(value: Any) -> Any:
        _require(value, kind, label)
        return dump(value)

    def from_text(given: Any) -> Any:
        _require(given, str, f"the text of a {label}")
        try:
            return parse(given)
        except (ValueError, ArithmeticError) as error:
            raise Misfit(f"the text is not a valid {label}") from error

    return Conversion(to_text, from_text, label)


def _dump_datetime(value: datetime) -> str:
    offset = value.utcoffset()
    if offset is None:
        raise Misfit("a datetime without a time zone is ambiguous; give it one, as datetime.now(UTC) does")
    if offset.microseconds:  # isoformat() writes such an offset, but fromisoformat() reads another
        try:
            return value.astimezone(UTC).isoformat()
        except OverflowError:
            raise Misfit("a datetime so close to the first or last year cannot be converted to UTC") from None
    return value.isoformat()


def _load_datetime(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    _dump_datetime(value)
    return value


def _dump_date(value: date) -> str:
    if isinstance(value, datetime):
        raise misfit_error(value, "date")
    return value.isoformat()


def _dump_time(value: time) -> str:
    if value.tzinfo is not None and value.utcoffset() is None:
        raise Misfit("the offset of a time in this zone depends on the day; use a datetime")
    return value.isoformat()


def _dump_timedelta(value: timedelta) -> str:
    count = value // _MICROSECOND
    whole, part = divmod(abs(count), 1_000_000)
    return f"{'-' if count < 0 else ''}{whole}.{part:06}"


def _load_timedelta(text: str) -> timedelta:
    found = _SECONDS.fullmatch(text)
    if not found:
        raise ValueError("must have the form seconds.microseconds")
    sign, whole, part = found.groups()
    return timedelta(microseconds=int(f"{sign}{whole}{part}"))  # integers: exact at any length


def _dump_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise Misfit(f"a Decimal that is not a number ({value})")
    return str(value)


def _load_decimal(text: str) -> Decimal:
    value = Decimal(text)
    _dump_decimal(value)
    return value


SCALAR_CONVERSIONS: dict[Any, Conversion] = {
    datetime: text_conversion("datetime", datetime, _dump_datetime, _load_datetime),
    date: text_conversion("date", date, _dump_date, date.fromisoformat),
    time: text_conversion("time", time, _dump_time, time.fromisoformat),
    timedelta: text_conversion("timedelta", timedelta, _dump_timedelta, _load_timedelta),
    Decimal: text_conversion("Decimal", Decimal, _dump_decimal, _load_decimal),
    UUID: text_conversion("UUID", UUID, str, UUID),
    bytes: text_conversion(
        "bytes",
        bytes,
        lambda value: base64.b64encode(value).decode("ascii"),
        lambda text: base64.b64decode(text, validate=True),
    ),
}
"""The conversions of classes of the standard library."""


def enum_conversion(kind: "type[Enum]") -> Conversion:
    """Return the conversion of an Enum: by value if all values are text or integers, else by name."""
    by_value = all(type(member.value) in {str, int} for member in kind)

    def dump(value: Any) -> Any:
        _require(value, kind, kind.__qualname__)
        return value.value if by_value else value.name

    def load(given: Any) -> Any:
        try:
            return kind(given) if by_value else kind[given]
        except (ValueError, KeyError) as error:
            raise Misfit(f"not a member of {kind.__qualname__}") from error

    return Conversion(dump, load, kind.__qualname__)


_NATIVE: dict[Any, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (float, int),
    bool: (bool,),
    None: (type(None),),
    type(None): (type(None),),
}
_LISTS: dict[Any, tuple[type, ...]] = {
    list: (list,),
    Sequence: (list, tuple),
    MutableSequence: (list,),
    Collection: (list, tuple, set, frozenset),
    Iterable: (list, tuple, set, frozenset),
    set: (set,),
    frozenset: (frozenset,),
    AbstractSet: (set, frozenset),
    MutableSet: (set,),
}
"""The accepted classes of a hint; the first one is what is loaded."""
_DICTS = frozenset({dict, Mapping, MutableMapping})
_QUALIFIERS = frozenset({Annotated, Final, NotRequired, Required})


def conversion_of(hint: Any) -> Conversion:
    """Return the conversion for a hint; for an unknown one, values must be JSON values."""
    try:
        return _cached_conversion(hint)
    except TypeError:  # a hint that cannot be hashed, because of the metadata of Annotated
        return _build_conversion(hint)


def optional_conversion(conversion: Conversion) -> Conversion:
    """Return a conversion that also accepts None."""
    if conversion.kinds:
        return conversion._replace(kinds=(*conversion.kinds, type(None)))
    dump, load = conversion.dump, conversion.load
    return Conversion(
        lambda value: None if value is None else dump(value),
        lambda given: None if given is None else load(given),
        f"{conversion.label} | None",
    )


_ANY = native_conversion("a JSON value", (object,))


def _build_conversion(hint: Any) -> Conversion:
    """Build the conversion for a hint."""
    hint = _unwrap_hint(hint)
    origin, parts = get_origin(hint), get_args(hint)
    kind = origin or hint
    if kind in _NATIVE:
        return native_conversion("None" if kind is None else kind.__name__, _NATIVE[kind])
    if kind is Union or kind is UnionType:
        return _union_conversion(parts)
    if kind is Literal:
        return _literal_conversion(parts)
    if kind in SCALAR_CONVERSIONS:
        return SCALAR_CONVERSIONS[kind]
    if kind is tuple:
        return _tuple_conversion(parts)
    if kind in _LISTS:
        return _list_conversion(kind, conversion_of(parts[0] if parts else Any))
    if kind in _DICTS:
        return _dict_conversion(*(conversion_of(part) for part in parts or (str, Any)))
    return _class_conversion(kind) if isinstance(kind, type) else _ANY


_cached_conversion = lru_cache(maxsize=1024)(_build_conversion)


def _class_conversion(kind: type) -> Conversion:
    if issubclass(kind, Enum):
        return enum_conversion(kind)
    if issubclass(kind, PurePath):
        return text_conversion(kind.__name__, kind, str, kind)
    return record_conversion(kind) or _ANY


def _unwrap_hint(hint: Any) -> Any:
    """Return the hint without wrappers that do not change the type of the value."""
    while True:
        if get_origin(hint) in _QUALIFIERS:
            hint = get_args(hint)[0]
        elif isinstance(hint, TypeVar):
            hint = hint.__bound__ or Any
        elif (supertype := getattr(hint, "__supertype__", None)) is not None:  # a NewType
            hint = supertype
        elif type(hint).__name__ == "TypeAliasType":  # Python 3.12's `type` statement
            hint = hint.__value__
        else:
            return hint


def _convert_items(changes: Iterable[Change], values: Iterable[Any]) -> list[Any]:
    pairs = enumerate(zip(changes, values, strict=False))
    return [_convert_part(place, change, each) for place, (change, each) in pairs]


def _convert_values(change: Change, values: dict[str, Any]) -> dict[str, Any]:
    return {key: _convert_part(key, change, each) for key, each in values.items()}


def _list_conversion(kind: Any, item: Conversion) -> Conversion:
    accepted: Any = _LISTS[kind]
    label = f"{kind.__name__} of {item.label}"
    if accepted == (list,) and item.kinds:
        return native_conversion(label, (list,))

    def dump(value: Any) -> Any:
        _require(value, accepted, label)
        return _convert_items(repeat(item.dump), value)

    def load(given: Any) -> Any:
        _require(given, list, "a list")
        return accepted[0](_convert_items(repeat(item.load), given))

    return Conversion(dump, load, label)


def _tuple_conversion(parts: tuple[Any, ...]) -> Conversion:
    items: Iterable[Conversion]
    size: int | None = None
    if not parts or parts[-1] is Ellipsis:
        item = conversion_of(parts[0] if parts else Any)
        items, label = repeat(item), f"tuple of {item.label}"
    else:
        items, size = [conversion_of(part) for part in parts], len(parts)
        label = f"tuple of {', '.join(item.label for item in items)}"

    def dump(value: Any) -> Any:
        if not isinstance(value, tuple) or size not in {None, len(value)}:
            raise misfit_error(value, label)
        return _convert_items((item.dump for item in items), value)

    def load(given: Any) -> Any:
        if not isinstance(given, list) or size not in {None, len(given)}:
            raise misfit_error(given, f"a list for a {label}")
        return tuple(_convert_items((item.load for item in items), given))

    return Conversion(dump, load, label)


def _dict_conversion(key: Conversion, item: Conversion) -> Conversion:
    """Return the conversion of a dict: an object if its keys are text, else a list of pairs."""
    label, by_name = f"dict of {key.label} to {item.label}", key.kinds == (str,)
    if by_name and item.kinds:
        return native_conversion(label, (dict,))

    def dump(value: Any) -> Any:
        _require(value, dict, label)
        if by_name:
            check_native(dict.fromkeys(value))
            return _convert_values(item.dump, value)
        return [[key.dump(name), item.dump(each)] for name, each in value.items()]

    def load(given: Any) -> Any:
        if by_name and isinstance(given, dict):
            return _convert_values(item.load, given)
        if by_name or not isinstance(given, list) or not all(isinstance(pair, list) for pair in given):
            raise misfit_error(given, "an object" if by_name else "a list of pairs")
        return {key.load(name): item.load(each) for name, each in given}

    return Conversion(dump, load, label)


def _union_conversion(parts: tuple[Any, ...]) -> Conversion:
    """Return the conversion of a union: the plain value if its type is clear, else the value and the name of its type.

    A text may be a str or a datetime; without the name, one would be loaded as the other.
    """
    arms = [conversion_of(part) for part in parts if part is not type(None)]
    label = " | ".join(arm.label for arm in arms)
    if all(arm.kinds for arm in arms):
        kinds = tuple(kind for arm in arms for kind in arm.kinds)
        return native_conversion(label, kinds if len(arms) == len(parts) else (*kinds, type(None)))
    arms.sort(key=lambda arm: bool(arm.kinds))  # an IntEnum is also an int: the more exact type comes first
    chosen = arms[0] if len(arms) == 1 else _tagged_conversion(arms, label)
    return chosen if len(arms) == len(parts) else optional_conversion(chosen)


def _tagged_conversion(arms: list[Conversion], label: str) -> Conversion:
    names = [arm.label for arm in arms]
    if len(set(names)) < len(names):
        names = [f"{name} {number}" for number, name in enumerate(names, 1)]
    by_name = dict(zip(names, arms, strict=True))

    def first_fitting(value: Any, change: Callable[[str, Conversion], Any]) -> Any:
        for name, arm in by_name.items():
            if not arm.kinds or isinstance(value, arm.kinds):
                try:
                    return change(name, arm)
                except Misfit:
                    continue
        raise misfit_error(value, label)

    def dump(value: Any) -> Any:
        return first_fitting(value, lambda name, arm: {"type": name, "value": arm.dump(value)})

    def load(given: Any) -> Any:
        if isinstance(given, dict) and given.keys() == {"type", "value"} and given["type"] in names:
            return by_name[given["type"]].load(given["value"])
        return first_fitting(given, lambda _, arm: arm.load(given))  # stored when the hint was one of these types alone

    return Conversion(dump, load, label)


def _literal_conversion(members: tuple[Any, ...]) -> Conversion:
    label = "one of " + ", ".join(map(repr, members))
    forms = [conversion_of(type(each)).dump(each) for each in members]

    def convert(known: Iterable[Any], converted: Iterable[Any], value: Any) -> Any:
        for each, result in zip(known, converted, strict=True):
            if type(each) is type(value) and each == value:
                return result
        raise misfit_error(value, label)

    return Conversion(partial(convert, members, forms), partial(convert, forms, members), label)


def record_conversion(kind: type) -> Conversion | None:
    """Return the conversion of a dataclass, NamedTuple or TypedDict; None for another class."""
    defaults: dict[str, Any]
    if dataclasses.is_dataclass(kind):
        defaults = {part.name: _field_default(part) for part in dataclasses.fields(kind) if part.init}
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        defaults = {name: getattr(kind, "_field_defaults", {}).get(name, dataclasses.MISSING) for name in kind._fields}
    elif is_typeddict(kind):
        required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
        defaults = {name: dataclasses.MISSING if name in required else _OPTIONAL for name in kind.__annotations__}
    else:
        return None
    record = _Record(kind, defaults)
    return Conversion(record.dump, record.load, kind.__qualname__)


_OPTIONAL = object()


def _field_default(part: "dataclasses.Field[Any]") -> Any:
    if part.default_factory is not dataclasses.MISSING:
        return _OPTIONAL
    return part.default  # MISSING without one


class _Record:
    """Converts one class with fields. Its hints are read at the first value, so that it may contain its own type."""

    def __init__(self, kind: type, defaults: dict[str, Any]) -> None:
        self.kind, self.defaults = kind, defaults
        self.required = {name for name, default in defaults.items() if default is dataclasses.MISSING}
        self.is_dict = is_typeddict(kind)

    @cached_property
    def parts(self) -> dict[str, Conversion]:
        hints = hints_of(self.kind)
        found = {name: conversion_of(hints.get(name, Any)) for name in self.defaults}
        return {
            name: optional_conversion(each) if self.defaults[name] is None else each for name, each in found.items()
        }

    def dump(self, value: Any) -> dict[str, Any]:
        if self.is_dict:
            self._check_names(value)
        elif type(value) is not self.kind:  # a subclass would lose its additional fields
            raise misfit_error(value, self.kind.__qualname__)
        else:
            value = {name: getattr(value, name) for name in self.parts}
        return {name: _convert_part(name, self.parts[name].dump, each, ".{}") for name, each in value.items()}

    def load(self, given: Any) -> Any:
        self._check_names(given)
        found = {name: _convert_part(name, self.parts[name].load, each, ".{}") for name, each in given.items()}
        return found if self.is_dict else self.kind(**found)

    def _check_names(self, given: Any) -> None:
        _require(given, dict, self.kind.__qualname__)
        missing, unknown = self.required - given.keys(), given.keys() - self.defaults
        if missing or unknown:
            first = f"{min(missing)} is missing" if missing else "a part is not known"
            raise Misfit(f"{first} in a {self.kind.__qualname__}")


def hints_of(thing: Any) -> dict[str, Any]:
    """Return the type hints of a function or class; a hint that cannot be resolved is Any."""
    try:
        return get_type_hints(thing, include_extras=True)
    except Exception:  # noqa: BLE001  # a hint is any expression
        found: dict[str, Any] = {}
    for owner in reversed(thing.__mro__) if isinstance(thing, type) else (thing,):
        module = sys.modules.get(getattr(owner, "__module__", None) or "")
        names = getattr(owner, "__globals__", None) or vars(module or SimpleNamespace())
        for name, hint in inspect.get_annotations(owner).items():
            try:
                one = SimpleNamespace(__annotations__={name: hint})
                found |= get_type_hints(one, globalns=dict(names), include_extras=True)
            except Exception:  # noqa: BLE001  # as above
                found[name] = Any
    return found
