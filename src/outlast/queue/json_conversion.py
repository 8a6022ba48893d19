"""Converts values to JSON and back by their type hints.

Messages never show values, because payloads may contain secrets.
"""

import base64
import dataclasses
import inspect
import re
import sys
from collections.abc import Collection, Iterable, Mapping, MutableMapping, MutableSequence, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property, lru_cache
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

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable

    Change = Callable[[Any], Any]


PLAIN_TYPES: frozenset[type] = frozenset({str, int, float, bool, type(None)})
"""The types whose values JSON has as they are."""
_MICROSECOND = timedelta(microseconds=1)
_SECONDS = re.compile(r"(-?)(\d{1,14})\.(\d{6})", re.ASCII)


class Misfit(Exception):  # noqa: N818  # never leaves the queue: a PayloadError tells it
    """A value and a hint that do not go together.

    Attributes:
        path: The way from the parameter to the value, such as ``.items[3]``; it grows as the error travels up.
    """

    path = ""


class Conversion(NamedTuple):
    """The way of one type into JSON and back.

    Attributes:
        dump: Makes a JSON value; raises `Misfit`.
        load: Makes the value again; raises `Misfit`, or whatever a class of the user's raises.
        label: Name of the type.
        kinds: Classes of its values, where JSON has them as they are; empty where something is to be done.
    """

    dump: "Change"
    load: "Change"
    label: str
    kinds: tuple[type, ...] = ()


def misfit_error(value: object, label: str) -> Misfit:
    """Return the error about a value of another type."""
    return Misfit(f"{type(value).__qualname__} where {label} is expected")


def check_native(value: Any) -> Any:
    """Return a value as it is, if JSON has one like it at every depth.

    Tuples and keys that are no text are refused, though the standard encoder takes them: they would come back as
    something else.
    """
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                message = f"{type(key).__qualname__} as a key, but JSON keys are text; annotate it: dict[int, str]"
                raise Misfit(message)
        _check_all_native(value.items())
    elif isinstance(value, list):
        _check_all_native(enumerate(value))
    elif not isinstance(value, str | int | float | None):
        message = (
            f"{type(value).__qualname__} is not a JSON type, and has no type hint; annotate it with a type "
            "that payloads support: a dataclass, tuple, set, datetime, Decimal, UUID, bytes, Path, Enum, …"
        )
        raise Misfit(message)
    return value


def _check_all_native(parts: "Iterable[tuple[str | int, Any]]") -> None:
    for place, each in parts:
        if type(each) not in PLAIN_TYPES:
            try:
                check_native(each)
            except Misfit as misfit:
                misfit.path = f"[{place!r:.40}]{misfit.path}"
                raise


def native_conversion(label: str, kinds: tuple[type, ...]) -> Conversion:
    """Return the conversion of types that JSON has."""
    return Conversion(check_native, _identity, label, kinds)


def _identity(given: Any) -> Any:
    return given


def text_conversion(label: str, kind: type, dump: "Change", parse: "Change") -> Conversion:
    """Return the conversion of a type that has a text form."""

    def to_text(value: Any) -> Any:
        if not isinstance(value, kind):
            raise misfit_error(value, label)
        return dump(value)

    def from_text(given: Any) -> Any:
        if not isinstance(given, str):
            raise misfit_error(given, f"the text of a {label}")
        try:
            return parse(given)
        except (ValueError, ArithmeticError) as error:
            message = f"the text is not a valid {label}"
            raise Misfit(message) from error

    return Conversion(to_text, from_text, label)


def _dump_datetime(value: datetime) -> str:
    offset = value.utcoffset()
    if offset is None:
        message = "a datetime without a time zone is ambiguous; give it one, as datetime.now(UTC) does"
        raise Misfit(message)
    if offset.microseconds:  # Python writes such an offset, and reads it back as another
        try:
            return value.astimezone(UTC).isoformat()
        except OverflowError:
            message = "a datetime so close to the first or last year cannot be converted to UTC"
            raise Misfit(message) from None
    return value.isoformat()


def _load_datetime(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    _dump_datetime(value)
    return value


def _load_date(value: date) -> str:
    if isinstance(value, datetime):
        raise misfit_error(value, "date")
    return value.isoformat()


def _load_time(value: time) -> str:
    if value.tzinfo is not None and value.utcoffset() is None:
        message = "the offset of a time in this zone depends on the day; use a datetime"
        raise Misfit(message)
    return value.isoformat()


def _dump_timedelta(value: timedelta) -> str:
    count = value // _MICROSECOND
    whole, part = divmod(abs(count), 1_000_000)
    return f"{'-' if count < 0 else ''}{whole}.{part:06}"


def _load_timedelta(text: str) -> timedelta:
    found = _SECONDS.fullmatch(text)
    if not found:
        message = "must have the form seconds.microseconds"
        raise ValueError(message)
    sign, whole, part = found.groups()
    return timedelta(microseconds=int(f"{sign}{whole}{part}"))  # whole numbers: exact at any length


def _dump_decimal(value: Decimal) -> str:
    if not value.is_finite():
        message = f"a Decimal that is not a number ({value})"
        raise Misfit(message)
    return str(value)


def _load_decimal(text: str) -> Decimal:
    value = Decimal(text)
    _dump_decimal(value)
    return value


SCALAR_CONVERSIONS: dict[Any, Conversion] = {
    datetime: text_conversion("datetime", datetime, _dump_datetime, _load_datetime),
    date: text_conversion("date", date, _load_date, date.fromisoformat),
    time: text_conversion("time", time, _load_time, time.fromisoformat),
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
"""The conversions of classes that are known by name."""


def enum_conversion(kind: "type[Enum]") -> Conversion:
    """Return the conversion of an Enum: by value where all values are text or whole numbers, else by name."""
    by_value = all(type(member.value) in {str, int} for member in kind)

    def dump(value: Any) -> Any:
        if not isinstance(value, kind):
            raise misfit_error(value, kind.__qualname__)
        return value.value if by_value else value.name

    def load(given: Any) -> Any:
        try:
            return kind(given) if by_value else kind[given]
        except (ValueError, KeyError) as error:
            message = f"not a member of {kind.__qualname__}"
            raise Misfit(message) from error

    return Conversion(dump, load, kind.__qualname__)


_NATIVE: dict[Any, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (float, int),
    bool: (bool,),
    None: (type(None),),
    type(None): (type(None),),
}
_LISTS: "dict[Any, tuple[Change, tuple[type[Iterable[Any]], ...]]]" = {
    list: (list, (list,)),
    Sequence: (list, (list, tuple)),
    MutableSequence: (list, (list,)),
    Collection: (list, (list, tuple, set, frozenset)),
    Iterable: (list, (list, tuple, set, frozenset)),
    set: (set, (set,)),
    frozenset: (frozenset, (frozenset,)),
    AbstractSet: (set, (set, frozenset)),
    MutableSet: (set, (set,)),
}
_DICTS = frozenset({dict, Mapping, MutableMapping})
_QUALIFIERS = frozenset({Annotated, Final, NotRequired, Required})


def conversion_of(hint: Any) -> Conversion:
    """Return the conversion for a hint; for one that says nothing, values go as they are."""
    try:
        return _cached_conversion(hint)
    except TypeError:  # a hint that cannot be hashed, by what Annotated carries
        return _build_conversion(hint)


def optional_conversion(conversion: Conversion) -> Conversion:
    """Return a conversion that lets None through."""
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
    """Return the hint without what says nothing about the value's form."""
    while True:
        if get_origin(hint) in _QUALIFIERS:
            hint = get_args(hint)[0]
        elif isinstance(hint, TypeVar):
            hint = hint.__bound__ or Any
        elif (beneath := getattr(hint, "__supertype__", None)) is not None:  # a NewType
            hint = beneath
        elif type(hint).__name__ == "TypeAliasType":  # Python 3.12's `type` statement
            hint = hint.__value__
        else:
            return hint


def _convert_items(change: "Change", values: "Iterable[Any]") -> list[Any]:
    """Return the values changed one by one, with the position in the error."""
    changed: list[Any] = []
    try:
        for each in values:
            changed.append(change(each))  # noqa: PERF401  # the length so far is the position
    except Misfit as misfit:
        misfit.path = f"[{len(changed)}]{misfit.path}"
        raise
    return changed


def _convert_values(change: "Change", values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of an object changed one by one, with the key in the error."""
    changed: dict[str, Any] = {}
    for key, each in values.items():
        try:
            changed[key] = change(each)
        except Misfit as misfit:
            misfit.path = f"[{key!r:.40}]{misfit.path}"
            raise
    return changed


def _list_conversion(kind: Any, item: Conversion) -> Conversion:
    build, accepted = _LISTS[kind]
    label = f"{kind.__name__} of {item.label}"
    if accepted == (list,) and item.kinds:
        return native_conversion(label, (list,))

    def dump(value: Any) -> Any:
        if not isinstance(value, accepted):
            raise misfit_error(value, label)
        return _convert_items(item.dump, value)

    def load(given: Any) -> Any:
        if not isinstance(given, list):
            raise misfit_error(given, "a list")
        return build(_convert_items(item.load, given))

    return Conversion(dump, load, label)


def _tuple_conversion(parts: tuple[Any, ...]) -> Conversion:
    if not parts or parts[-1] is Ellipsis:
        item = conversion_of(parts[0] if parts else Any)
        return _sized_tuple_conversion(f"tuple of {item.label}", None, repeat(item.dump), repeat(item.load))
    items = [conversion_of(part) for part in parts]
    label = f"tuple of {', '.join(item.label for item in items)}"
    return _sized_tuple_conversion(label, len(items), [item.dump for item in items], [item.load for item in items])


def _sized_tuple_conversion(
    label: str, size: int | None, dumps: "Iterable[Change]", loads: "Iterable[Change]"
) -> Conversion:
    def dump(value: Any) -> Any:
        if not isinstance(value, tuple) or size not in {None, len(value)}:
            raise misfit_error(value, label)
        return _convert_items(_apply_pair, zip(dumps, value, strict=False))

    def load(given: Any) -> Any:
        if not isinstance(given, list) or size not in {None, len(given)}:
            raise misfit_error(given, f"a list for a {label}")
        return tuple(_convert_items(_apply_pair, zip(loads, given, strict=False)))

    return Conversion(dump, load, label)


def _apply_pair(pair: "tuple[Change, Any]") -> Any:
    change, value = pair
    return change(value)


def _dict_conversion(key: Conversion, item: Conversion) -> Conversion:
    """Return the conversion of a dict: an object where keys are text, else a list of pairs, which keeps them exact."""
    label = f"dict of {key.label} to {item.label}"
    if key.kinds == (str,) and item.kinds:
        return native_conversion(label, (dict,))
    by_name = key.kinds == (str,)

    def dump(value: Any) -> Any:
        if not isinstance(value, dict):
            raise misfit_error(value, label)
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
    """Return the conversion of a union: the value alone where it is clear what it is, else under the name of its type.

    A text may be a str or the form of a datetime; without the name, one would come back as the other.
    """
    arms = [conversion_of(part) for part in parts if part is not type(None)]
    label = " | ".join(arm.label for arm in arms)
    if all(arm.kinds for arm in arms):
        kinds = tuple(kind for arm in arms for kind in arm.kinds)
        return native_conversion(label, kinds if len(arms) == len(parts) else (*kinds, type(None)))
    arms.sort(key=lambda arm: bool(arm.kinds))  # an IntEnum is an int as well; what is more exact comes first
    chosen = arms[0] if len(arms) == 1 else _tagged_conversion(arms, label)
    return chosen if len(arms) == len(parts) else optional_conversion(chosen)


def _tagged_conversion(arms: list[Conversion], label: str) -> Conversion:
    names = [arm.label for arm in arms]
    if len(set(names)) < len(names):
        names = [f"{name} {number}" for number, name in enumerate(names, 1)]
    by_name = dict(zip(names, arms, strict=True))

    def dump(value: Any) -> Any:
        return _first_fitting_arm(
            by_name.items(), value, lambda name, arm: {"type": name, "value": arm.dump(value)}, label
        )

    def load(given: Any) -> Any:
        if isinstance(given, dict) and given.keys() == {"type", "value"} and given["type"] in names:
            return by_name[given["type"]].load(given["value"])
        # stored when the hint was still one of these alone
        return _first_fitting_arm(by_name.items(), given, lambda _, arm: arm.load(given), label)

    return Conversion(dump, load, label)


def _first_fitting_arm(
    arms: "Iterable[tuple[str, Conversion]]", value: Any, change: "Callable[[str, Conversion], Any]", label: str
) -> Any:
    """Return what the first part of a union makes of a value that fits it."""
    for name, arm in arms:
        if not arm.kinds or isinstance(value, arm.kinds):
            try:
                return change(name, arm)
            except Misfit:
                continue
    raise misfit_error(value, label)


def _literal_conversion(members: tuple[Any, ...]) -> Conversion:
    label = "one of " + ", ".join(map(repr, members))
    forms = [(type(each), each, conversion_of(type(each)).dump(each)) for each in members]

    def dump(value: Any) -> Any:
        for kind, member, form in forms:
            if type(value) is kind and value == member:
                return form
        raise misfit_error(value, label)

    def load(given: Any) -> Any:
        for _, member, form in forms:
            if type(form) is type(given) and form == given:
                return member
        raise misfit_error(given, label)

    return Conversion(dump, load, label)


def record_conversion(kind: type) -> Conversion | None:
    """Return the conversion of a class with named parts; None if it is another."""
    defaults: dict[str, Any]
    if dataclasses.is_dataclass(kind):
        defaults = {part.name: _field_default(part) for part in dataclasses.fields(kind) if part.init}
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        defaults = {name: getattr(kind, "_field_defaults", {}).get(name, _NO_DEFAULT) for name in kind._fields}
    elif is_typeddict(kind):
        required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
        defaults = {name: _NO_DEFAULT if name in required else _OPTIONAL for name in kind.__annotations__}
    else:
        return None
    record = _Record(kind, defaults)
    return Conversion(record.dump, record.load, kind.__qualname__)


_NO_DEFAULT = object()
_OPTIONAL = object()


def _field_default(part: "dataclasses.Field[Any]") -> Any:
    if part.default is not dataclasses.MISSING:
        return part.default
    return _NO_DEFAULT if part.default_factory is dataclasses.MISSING else _OPTIONAL


class _Record:
    """One class. Its hints are read at the first value, so that it may hold values of its own kind."""

    def __init__(self, kind: type, defaults: dict[str, Any]) -> None:
        self.kind = kind
        self.defaults = defaults
        self.required = {name for name, default in defaults.items() if default is _NO_DEFAULT}
        self.is_dict = is_typeddict(kind)

    @cached_property
    def parts(self) -> dict[str, Conversion]:
        hints = hints_of(self.kind)
        found = {name: conversion_of(hints.get(name, Any)) for name in self.defaults}
        return {
            name: optional_conversion(each) if self.defaults[name] is None else each for name, each in found.items()
        }

    @cached_property
    def dumps(self) -> "dict[str, Change]":
        return {name: part.dump for name, part in self.parts.items()}

    @cached_property
    def loads(self) -> "dict[str, Change]":
        return {name: part.load for name, part in self.parts.items()}

    def dump(self, value: Any) -> dict[str, Any]:
        if self.is_dict:
            self._check_names(value)
            return self._changed(value, self.dumps)
        if type(value) is not self.kind:  # of a subclass, only the parts of this one would come back
            raise misfit_error(value, self.kind.__qualname__)
        return self._changed({name: getattr(value, name) for name in self.defaults}, self.dumps)

    def load(self, given: Any) -> Any:
        self._check_names(given)
        found = self._changed(given, self.loads)
        return found if self.is_dict else self.kind(**found)

    def _check_names(self, given: Any) -> None:
        if not isinstance(given, dict):
            raise misfit_error(given, self.kind.__qualname__)
        missing, unknown = self.required - given.keys(), given.keys() - self.defaults
        if missing or unknown:
            first = f"{min(missing)} is missing" if missing else "a part is not known"
            message = f"{first} in a {self.kind.__qualname__}"
            raise Misfit(message)

    def _changed(self, values: "Mapping[str, Any]", changes: "Mapping[str, Change]") -> dict[str, Any]:
        changed = {}
        for name, value in values.items():
            try:
                changed[name] = changes[name](value)
            except Misfit as misfit:
                misfit.path = f".{name}{misfit.path}"
                raise
        return changed


def hints_of(thing: Any) -> dict[str, Any]:
    """Return the type hints of a function or class; one that cannot be resolved is Any, and spoils no other."""
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
