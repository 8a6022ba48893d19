"""How a value goes into JSON and comes back, by its type hint.

Most hints need nothing done: JSON has their values. The others are built here from those of their parts.
"""

from collections.abc import Collection, Iterable, Mapping, MutableMapping, MutableSequence, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import lru_cache
from itertools import repeat
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, Final, Literal, NotRequired, Required, TypeVar, Union, get_args, get_origin

from outlast.queue.scalars import SIMPLE, Conversion, Misfit, as_it_is, by_text, enum_conversion, native, unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.queue.scalars import Change

__all__ = ["conversion_of", "or_none"]

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
        return _remembered(hint)
    except TypeError:  # a hint that cannot be hashed, by what Annotated carries
        return _made(hint)


def or_none(conversion: Conversion) -> Conversion:
    """Return a conversion that lets None through."""
    if conversion.kinds:
        return conversion._replace(kinds=(*conversion.kinds, type(None)))
    dump, load = conversion.dump, conversion.load
    return Conversion(
        lambda value: None if value is None else dump(value),
        lambda given: None if given is None else load(given),
        f"{conversion.label} | None",
    )


_ANY = as_it_is("a JSON value", (object,))


def _made(hint: Any) -> Conversion:
    """Build the conversion for a hint."""
    hint = _bare(hint)
    origin, parts = get_origin(hint), get_args(hint)
    kind = origin or hint
    if kind in _NATIVE:
        return as_it_is("None" if kind is None else kind.__name__, _NATIVE[kind])
    if kind is Union or kind is UnionType:
        return _union(parts)
    if kind is Literal:
        return _literal(parts)
    if kind in SIMPLE:
        return SIMPLE[kind]
    if kind is tuple:
        return _tuple(parts)
    if kind in _LISTS:
        return _list(kind, conversion_of(parts[0] if parts else Any))
    if kind in _DICTS:
        return _dict(*(conversion_of(part) for part in parts or (str, Any)))
    return _of_class(kind) if isinstance(kind, type) else _ANY


_remembered = lru_cache(maxsize=1024)(_made)


def _of_class(kind: type) -> Conversion:
    if issubclass(kind, Enum):
        return enum_conversion(kind)
    if issubclass(kind, PurePath):
        return by_text(kind.__name__, kind, str, kind)
    from outlast.queue.records import record_of  # noqa: PLC0415  # it asks back for the hints of its fields

    return record_of(kind) or _ANY


def _bare(hint: Any) -> Any:
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


def _all(change: "Change", values: "Iterable[Any]") -> list[Any]:
    """Return the values changed one by one, with the position in the error."""
    changed: list[Any] = []
    try:
        for each in values:
            changed.append(change(each))  # noqa: PERF401  # the length so far is the position
    except Misfit as misfit:
        misfit.path = f"[{len(changed)}]{misfit.path}"
        raise
    return changed


def _each(change: "Change", values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of an object changed one by one, with the key in the error."""
    changed: dict[str, Any] = {}
    for key, each in values.items():
        try:
            changed[key] = change(each)
        except Misfit as misfit:
            misfit.path = f"[{key!r:.40}]{misfit.path}"
            raise
    return changed


def _list(kind: Any, item: Conversion) -> Conversion:
    build, accepted = _LISTS[kind]
    label = f"{kind.__name__} of {item.label}"
    if accepted == (list,) and item.kinds:
        return as_it_is(label, (list,))

    def dump(value: Any) -> Any:
        if not isinstance(value, accepted):
            raise unfit(value, label)
        return _all(item.dump, value)

    def load(given: Any) -> Any:
        if not isinstance(given, list):
            raise unfit(given, "a list")
        return build(_all(item.load, given))

    return Conversion(dump, load, label)


def _tuple(parts: tuple[Any, ...]) -> Conversion:
    if not parts or parts[-1] is Ellipsis:
        item = conversion_of(parts[0] if parts else Any)
        return _sized(f"tuple of {item.label}", None, repeat(item.dump), repeat(item.load))
    items = [conversion_of(part) for part in parts]
    label = f"tuple of {', '.join(item.label for item in items)}"
    return _sized(label, len(items), [item.dump for item in items], [item.load for item in items])


def _sized(label: str, size: int | None, dumps: "Iterable[Change]", loads: "Iterable[Change]") -> Conversion:
    def dump(value: Any) -> Any:
        if not isinstance(value, tuple) or size not in {None, len(value)}:
            raise unfit(value, label)
        return _all(_applied, zip(dumps, value, strict=False))

    def load(given: Any) -> Any:
        if not isinstance(given, list) or size not in {None, len(given)}:
            raise unfit(given, f"a list for a {label}")
        return tuple(_all(_applied, zip(loads, given, strict=False)))

    return Conversion(dump, load, label)


def _applied(pair: "tuple[Change, Any]") -> Any:
    change, value = pair
    return change(value)


def _dict(key: Conversion, item: Conversion) -> Conversion:
    """Return the conversion of a dict: an object where keys are text, else a list of pairs, which keeps them exact."""
    label = f"dict of {key.label} to {item.label}"
    if key.kinds == (str,) and item.kinds:
        return as_it_is(label, (dict,))
    by_name = key.kinds == (str,)

    def dump(value: Any) -> Any:
        if not isinstance(value, dict):
            raise unfit(value, label)
        if by_name:
            native(dict.fromkeys(value))
            return _each(item.dump, value)
        return [[key.dump(name), item.dump(each)] for name, each in value.items()]

    def load(given: Any) -> Any:
        if by_name and isinstance(given, dict):
            return _each(item.load, given)
        if by_name or not isinstance(given, list) or not all(isinstance(pair, list) for pair in given):
            raise unfit(given, "an object" if by_name else "a list of pairs")
        return {key.load(name): item.load(each) for name, each in given}

    return Conversion(dump, load, label)


def _union(parts: tuple[Any, ...]) -> Conversion:
    """Return the conversion of a union: the value alone where it is clear what it is, else under the name of its type.

    A text may be a str or the form of a datetime; without the name, one would come back as the other.
    """
    arms = [conversion_of(part) for part in parts if part is not type(None)]
    label = " | ".join(arm.label for arm in arms)
    if all(arm.kinds for arm in arms):
        kinds = tuple(kind for arm in arms for kind in arm.kinds)
        return as_it_is(label, kinds if len(arms) == len(parts) else (*kinds, type(None)))
    arms.sort(key=lambda arm: bool(arm.kinds))  # an IntEnum is an int as well; what is more exact comes first
    chosen = arms[0] if len(arms) == 1 else _tagged(arms, label)
    return chosen if len(arms) == len(parts) else or_none(chosen)


def _tagged(arms: list[Conversion], label: str) -> Conversion:
    names = [arm.label for arm in arms]
    if len(set(names)) < len(names):
        names = [f"{name} {number}" for number, name in enumerate(names, 1)]
    by_name = dict(zip(names, arms, strict=True))

    def dump(value: Any) -> Any:
        return _first(by_name.items(), value, lambda name, arm: {"type": name, "value": arm.dump(value)}, label)

    def load(given: Any) -> Any:
        if isinstance(given, dict) and given.keys() == {"type", "value"} and given["type"] in names:
            return by_name[given["type"]].load(given["value"])
        # stored when the hint was still one of these alone
        return _first(by_name.items(), given, lambda _, arm: arm.load(given), label)

    return Conversion(dump, load, label)


def _first(
    arms: "Iterable[tuple[str, Conversion]]", value: Any, change: "Callable[[str, Conversion], Any]", label: str
) -> Any:
    """Return what the first part of a union makes of a value that fits it."""
    for name, arm in arms:
        if not arm.kinds or isinstance(value, arm.kinds):
            try:
                return change(name, arm)
            except Misfit:
                continue
    raise unfit(value, label)


def _literal(members: tuple[Any, ...]) -> Conversion:
    label = "one of " + ", ".join(map(repr, members))
    forms = [(type(each), each, conversion_of(type(each)).dump(each)) for each in members]

    def dump(value: Any) -> Any:
        for kind, member, form in forms:
            if type(value) is kind and value == member:
                return form
        raise unfit(value, label)

    def load(given: Any) -> Any:
        for _, member, form in forms:
            if type(form) is type(given) and form == given:
                return member
        raise unfit(given, label)

    return Conversion(dump, load, label)
