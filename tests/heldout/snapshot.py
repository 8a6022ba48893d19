"""Turn a real error into JSON: classes, arguments, attributes, properties, text and chain. `rebuild` is the way back."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import enum
import functools
import sys
import types
import uuid
from collections.abc import Mapping
from typing import Any

TEXT_LIMIT = 6000
"""Characters kept of a text."""

METHODS = ("is_retryable", "is_retriable", "code", "details", "json", "get_status_code")
"""Methods without arguments whose answers are kept, where the class defines them."""

REAL_OBJECTS = {
    "requests.models:Response",
    "requests.models:PreparedRequest",
    "httpx:Response",
    "httpx:Request",
    "httpx2:Response",
    "httpx2:Request",
}
"""Responses and requests of libraries that are at hand when errors are rebuilt."""

URLS = {"httpx:URL", "httpx2:URL", "yarl:URL", "yarl._url:URL"}
_DEPTH = 4  # error → response → request → headers
_PLAIN = (type(None), bool, int, float, str)
_SKIPPED = (
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.ModuleType,
    type,
    types.TracebackType,
)
# Attributes that lead into the client's own machinery: no evidence about the error, and very large.
_MACHINERY = {
    "session", "connection", "pool", "_pool", "client", "_client", "_loop", "loop", "next_request", "_next", "history", "fp", "_fp",
    "_original_response", "stream", "_request_fut", "transport", "socket", "sock", "hooks", "extensions", "_decoder", "_connection",
    "_session", "config", "_config", "configuration", "api_client", "auth", "_cookies", "cookies", "ev_loop", "requester", "raw", "conn", "cursor", "_cursor",
}  # fmt: skip


def describe(error: BaseException) -> dict[str, Any]:
    """Describe an error and the errors behind it."""
    return _Describer().error(error, 0)


def is_standard(cls: type) -> bool:
    """Whether a class belongs to Python itself."""
    return cls.__module__.partition(".")[0] in sys.stdlib_module_names


def class_name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


class _Describer:
    def __init__(self) -> None:
        self.stack: list[int] = []  # what is being described, so that a cycle ends

    def error(self, error: BaseException, depth: int) -> dict[str, Any]:
        self.stack.append(id(error))
        try:
            return self.error_parts(error, depth)
        finally:
            self.stack.pop()

    def error_parts(self, error: BaseException, depth: int) -> dict[str, Any]:
        kind = type(error)
        attributes = dict(vars(error))  # before properties are read, which may add to it
        record: dict[str, Any] = {
            "class": class_name(kind),
            "mro": [class_name(c) for c in kind.__mro__],
            "classes": self.classes(kind),
            "str": _text(error),
            "repr": _cut(_quiet(lambda: repr(error), "")),
            "args": [self.value(arg, depth + 1) for arg in error.args],
            "attributes": self.attributes(attributes, depth),
            "members": self.members(error, depth),
            "properties": self.properties(error, depth),
            "methods": self.methods(error, depth),
        }
        for name in ("__cause__", "__context__"):
            other = getattr(error, name)
            same = name == "__context__" and other is not None and other is error.__cause__
            if same:
                record["context_is_cause"] = True
            if other is not None and not same and id(other) not in self.stack and len(self.stack) < 8:
                record[name] = self.error(other, max(depth, 1))
        if error.__suppress_context__:
            record["suppress_context"] = True
        return {name: value for name, value in record.items() if value or name in ("class", "mro", "str", "args")}

    def classes(self, kind: type) -> dict[str, Any]:
        """The classes that are not Python's own, by their place in the MRO: places of their bases, and plain class attributes."""
        found: dict[str, Any] = {}
        for place, cls in enumerate(kind.__mro__):
            if is_standard(cls):
                continue
            plain = {
                name: _plain(value)
                for name, value in vars(cls).items()
                if not name.startswith("__") and _is_plain(value)
            }
            bases = [kind.__mro__.index(base) for base in cls.__bases__]
            found[str(place)] = {"bases": bases} | ({"attributes": plain} if plain else {})
        return found

    def attributes(self, found: Mapping[str, Any], depth: int) -> dict[str, Any]:
        kept = {}
        for name, value in found.items():
            if not isinstance(name, str) or name in _MACHINERY or isinstance(value, _SKIPPED):
                continue
            kept[name] = self.value(value, depth + 1)
        return kept

    def members(self, error: BaseException, depth: int) -> dict[str, Any]:
        """Values that built-in classes keep outside of `__dict__`, such as OSError.errno, and slots."""
        kept = {}
        for cls in type(error).__mro__:
            for name, member in vars(cls).items():
                if (
                    name.startswith("__")
                    or name == "args"
                    or not isinstance(member, types.MemberDescriptorType | types.GetSetDescriptorType)
                ):
                    continue
                value = _quiet(lambda name=name: getattr(error, name), None)
                if value is not None and name not in kept and not isinstance(value, _SKIPPED):
                    kept[name] = self.value(value, depth + 1)
        return kept

    def properties(self, thing: object, depth: int) -> dict[str, Any]:
        kept = {}
        for cls in type(thing).__mro__:
            if is_standard(cls):
                continue
            for name, member in vars(cls).items():
                if name.startswith("__") or name in kept or name in _MACHINERY or not _is_computed(member):
                    continue
                value = _quiet(lambda name=name: getattr(thing, name), _SKIPPED)
                if value is not _SKIPPED and not isinstance(value, _SKIPPED):
                    kept[name] = self.value(value, depth + 1)
        return kept

    def methods(self, thing: object, depth: int) -> dict[str, Any]:
        kept = {}
        for name in METHODS:
            member = next((vars(c)[name] for c in type(thing).__mro__ if not is_standard(c) and name in vars(c)), None)
            if (
                isinstance(member, types.FunctionType)
                and member.__code__.co_argcount == 1
                and not member.__code__.co_flags & 0x280
            ):
                value = _quiet(lambda name=name: getattr(thing, name)(), _SKIPPED)
                if value is not _SKIPPED:
                    kept[name] = self.value(value, depth + 1)
        return kept

    def value(self, value: Any, depth: int) -> Any:  # noqa: C901, PLR0911, PLR0912 (one branch per kind of value)
        kind = type(value)
        if kind in _PLAIN:
            return _plain(value)
        if isinstance(value, enum.Enum):
            return {
                "$enum": class_name(kind),
                "name": value.name,
                "value": self.value(value.value, depth),
                "int": isinstance(value, int),
                "text": isinstance(value, str),
            }
        if isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value)[:TEXT_LIMIT]
            try:
                return {"$bytes": data.decode("ascii")}
            except UnicodeDecodeError:
                return {"$base64": base64.b64encode(data).decode()}
        if isinstance(value, str):
            return _cut(str(value))
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value)
        if isinstance(value, dt.datetime | dt.date | dt.time):
            return {"$time": kind.__name__, "iso": value.isoformat()}
        if isinstance(value, dt.timedelta):
            return {"$seconds": value.total_seconds()}
        if isinstance(value, decimal.Decimal | uuid.UUID):
            return str(value)
        if isinstance(value, BaseException):
            return (
                {"$error": self.error(value, depth)}
                if id(value) not in self.stack and depth < _DEPTH + 4
                else {"$object": class_name(kind)}
            )
        if isinstance(value, _SKIPPED):
            return {"$object": "builtins:object"}
        if class_name(kind) in URLS:
            return {"$url": class_name(kind), "text": str(value)}
        if isinstance(value, Mapping) or (
            hasattr(value, "keys") and hasattr(value, "__getitem__") and hasattr(value, "items")
        ):
            return self.mapping(value, depth)
        if isinstance(value, list | tuple | set | frozenset):
            items = [self.value(item, depth + 1) for item in list(value)[:40]] if depth <= _DEPTH + 2 else []
            named = {"$named": class_name(kind), "fields": list(value._fields)} if hasattr(value, "_fields") else {}
            if named:
                return named | {"items": items}
            return items if isinstance(value, list) else {"$tuple" if isinstance(value, tuple) else "$set": items}
        return self.thing(value, depth)

    def mapping(self, value: Any, depth: int) -> Any:
        items = _quiet(lambda: list(value.items()), [])[:60]
        pairs = (
            [[self.value(k, depth), self.value(v, depth + 1)] for k, v in items if not isinstance(v, _SKIPPED)]
            if depth <= _DEPTH + 2
            else []
        )
        if type(value) is dict and all(isinstance(k, str) and not k.startswith("$") for k, _ in items):
            return dict(pairs)
        name = next((k for k, _ in items if isinstance(k, str) and k.upper() != k.lower()), None)
        folded = name is not None and all(
            _quiet(lambda key=key: value.get(key), None) is not None for key in (name.upper(), name.lower())
        )
        return {"$mapping": class_name(type(value)), "items": pairs, "folded": folded, "dict": isinstance(value, dict)}

    def thing(self, value: Any, depth: int) -> Any:
        record: dict[str, Any] = {"$object": class_name(type(value))}
        if id(value) in self.stack or depth >= _DEPTH or is_standard(type(value)):
            return record
        self.stack.append(id(value))
        names = [class_name(c) for c in type(value).__mro__[1:] if not is_standard(c)]
        found = dict(getattr(value, "__dict__", {}))
        for cls in type(value).__mro__:
            for name, member in vars(cls).items():
                if isinstance(member, types.MemberDescriptorType) and not name.startswith("__"):
                    found[name] = _quiet(lambda name=name: getattr(value, name), None)
        record["attributes"] = self.attributes(found, depth)
        if record["$object"] not in REAL_OBJECTS:  # those bring their own
            record["properties"] = self.properties(value, depth)
            record["methods"] = self.methods(value, depth)
        record["bases"] = names
        self.stack.pop()
        return {name: part for name, part in record.items() if part}


def _quiet(read: Any, otherwise: Any) -> Any:
    try:
        return read()
    except BaseException:
        return otherwise


def _is_computed(member: object) -> bool:
    """Whether it is a property, or another thing on a class that gives a value when it is read."""
    if isinstance(member, property | functools.cached_property):
        return True
    other = (
        types.FunctionType,
        classmethod,
        staticmethod,
        types.MemberDescriptorType,
        types.GetSetDescriptorType,
        types.MethodDescriptorType,
    )
    return hasattr(type(member), "__get__") and not isinstance(member, (*other, *_SKIPPED))


def _text(error: BaseException) -> str:
    return _cut(_quiet(lambda: str(error), ""))


def _cut(text: Any) -> str:
    return str(text)[:TEXT_LIMIT].encode("utf-8", "replace").decode()


def _is_plain(value: object) -> bool:
    return type(value) in _PLAIN or (
        type(value) in (tuple, list) and len(value) < 20 and all(type(v) in _PLAIN for v in value)
    )  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value not in (float("inf"), float("-inf")) and value == value:  # noqa: PLR0124 (NaN)
        return value
    if isinstance(value, float):
        return {"$float": str(value)}
    if isinstance(value, str):
        return _cut(value)
    return {"$tuple": list(value)} if isinstance(value, tuple) else value
