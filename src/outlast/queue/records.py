"""Values with named parts in JSON: dataclasses, named tuples and typed dicts. Each is an object of its parts."""

import dataclasses
import inspect
import sys
from functools import cached_property
from types import SimpleNamespace
from typing import Any, get_type_hints, is_typeddict

from outlast.queue.hints import conversion_of, or_none
from outlast.queue.scalars import Conversion, Misfit, unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from outlast.queue.scalars import Change

__all__ = ["hints_of", "record_of"]


def record_of(kind: type) -> Conversion | None:
    """Return the conversion of a class with named parts; None if it is another."""
    defaults: dict[str, Any]
    if dataclasses.is_dataclass(kind):
        defaults = {part.name: _default(part) for part in dataclasses.fields(kind) if part.init}
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        defaults = {name: getattr(kind, "_field_defaults", {}).get(name, _NO_DEFAULT) for name in kind._fields}
    elif is_typeddict(kind):
        required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
        defaults = {name: _NO_DEFAULT if name in required else _LEFT_OUT for name in kind.__annotations__}
    else:
        return None
    record = _Record(kind, defaults)
    return Conversion(record.dump, record.load, kind.__qualname__)


_NO_DEFAULT = object()
_LEFT_OUT = object()


def _default(part: "dataclasses.Field[Any]") -> Any:
    if part.default is not dataclasses.MISSING:
        return part.default
    return _NO_DEFAULT if part.default_factory is dataclasses.MISSING else _LEFT_OUT


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
        return {name: or_none(each) if self.defaults[name] is None else each for name, each in found.items()}

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
            raise unfit(value, self.kind.__qualname__)
        return self._changed({name: getattr(value, name) for name in self.defaults}, self.dumps)

    def load(self, given: Any) -> Any:
        self._check_names(given)
        found = self._changed(given, self.loads)
        return found if self.is_dict else self.kind(**found)

    def _check_names(self, given: Any) -> None:
        if not isinstance(given, dict):
            raise unfit(given, self.kind.__qualname__)
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
