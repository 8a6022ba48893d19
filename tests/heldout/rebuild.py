"""Make an error again from its JSON: a class of the same name, module and bases, an instance with the same attributes.

Python's own classes and those of `REAL` are used themselves where they can be imported; all others are made anew, one set per
error. Properties stay properties, so that an attribute which only a call can give is not found by looking into `__dict__`.
"""

from __future__ import annotations

import base64
import datetime as dt
import enum
import re
import time
import types
from collections import namedtuple
from collections.abc import Iterator, Mapping
from contextlib import suppress
from email.message import Message
from email.utils import formatdate
from importlib import import_module
from typing import Any

from .snapshot import REAL_OBJECTS

REAL = {"httpx", "httpx2", "requests", "urllib3", "aiohttp", "multidict"}
"""Libraries that Outlast describes and that the test environment has; they appear as causes and as responses."""

_EPOCH = re.compile(r"\{\{epoch\+(\d+)\}\}")
_DATE = re.compile(r"\{\{httpdate\+(\d+)\}\}")
_STANDARD_SKIPPED = {"typing:Generic", "typing:Protocol", "abc:ABC"}


def rebuild(record: dict[str, Any]) -> BaseException:
    """Make the error that `snapshot.describe` described, with its causes."""
    kind, is_real = _error_class(record)
    args = tuple(_value(arg) for arg in record["args"])
    error = _instance(kind, args, is_real=is_real)
    for name, value in record.get("members", {}).items():
        with suppress(Exception):
            setattr(error, name, _value(value))
    with suppress(Exception):
        error.args = args
    error.__dict__.update({name: _value(value) for name, value in record.get("attributes", {}).items()})
    for name in ("__cause__", "__context__"):
        if name in record:
            setattr(error, name, rebuild(record[name]))
    if "context_is_cause" in record:
        error.__context__ = error.__cause__
    error.__suppress_context__ = record.get("suppress_context", False)
    return error


def _instance(kind: type, args: tuple[Any, ...], *, is_real: bool) -> BaseException:
    if issubclass(kind, BaseExceptionGroup):
        return kind.__new__(kind, *args[:2])
    if not is_real:
        with suppress(Exception):
            made: BaseException = kind(*args)
            return made
    with suppress(Exception):
        return kind.__new__(kind, *args)  # type: ignore[no-any-return]
    return kind.__new__(kind)  # type: ignore[no-any-return]


def _error_class(record: dict[str, Any]) -> tuple[type, bool]:
    """The class, and whether it is a real one of a library, whose `__init__` must not run."""
    name, mro = record["class"], record["mro"]
    classes = record.get("classes", {})
    if "0" not in classes:
        return _standard(name) or Exception, False
    real = _real(name)
    if real is not None and [f"{c.__module__}:{c.__qualname__}" for c in real.__mro__] == mro:
        return real, True
    made: dict[int, type] = {}
    for place in reversed(range(len(mro))):
        part = classes.get(str(place))
        if part is None:
            made[place] = _standard(mro[place]) or object
            continue
        bases = tuple(made[base] for base in part["bases"] if mro[base] not in _STANDARD_SKIPPED)
        body = {key: _value(value) for key, value in part.get("attributes", {}).items()}
        if place == 0:
            body |= _readable(record)
            if not _says(bases, record):
                body |= {"__str__": _constant(record["str"]), "__repr__": _constant(record.get("repr", ""))}
        made[place] = _make(mro[place], bases, body)
    return made[0], False


def _says(bases: tuple[type, ...], record: dict[str, Any]) -> bool:
    """Whether an error with these bases and arguments has the recorded text by itself."""
    try:
        plain = _make(record["class"], bases, {})(*[_value(arg) for arg in record["args"]])
        return str(plain) == _filled(record["str"]) and repr(plain) == _filled(record.get("repr", ""))
    except Exception:
        return False


def _readable(record: dict[str, Any]) -> dict[str, Any]:
    """Properties and methods that give the recorded values."""
    body: dict[str, Any] = {}
    for name, value in record.get("properties", {}).items():
        body[name] = property(_constant(value), _store(name))
    for name, value in record.get("methods", {}).items():
        body[name] = _constant(value)
    return body


def _constant(value: Any) -> Any:
    def read(_self: object) -> Any:
        return _value(value)

    return read


def _store(name: str) -> Any:
    def write(self: Any, value: object) -> None:
        self.__dict__[name] = value

    return write


def _make(name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
    module, _, qualname = name.partition(":")
    made = types.new_class(
        qualname.rpartition(".")[2],
        bases,
        exec_body=lambda space: space.update({"__module__": module, "__qualname__": qualname} | body),
    )
    if getattr(made, "__abstractmethods__", None):
        made.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    return made


def _standard(name: str) -> type | None:
    """A class of Python itself, by its name."""
    module, _, qualname = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) else None


def _real(name: str) -> type | None:
    return _standard(name) if name.partition(":")[0].partition(".")[0] in REAL else None


def _filled(text: str) -> str:
    """Put times of now where the record has times relative to its own making."""
    if "{{" not in text:
        return text
    text = _EPOCH.sub(lambda found: str(int(time.time()) + int(found[1])), text)
    return _DATE.sub(lambda found: formatdate(time.time() + int(found[1]), usegmt=True), text)


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return _filled(value)
    if isinstance(value, list):
        return [_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next((key for key in value if key in _READERS), None)
    if tag is None:
        return {key: _value(item) for key, item in value.items()}
    return _READERS[tag](value)


def _mapping(record: dict[str, Any]) -> Any:
    pairs = [(_value(key), _value(item)) for key, item in record["items"]]
    real = _real(record["$mapping"]) or _standard(record["$mapping"])
    if real is not None:
        if not issubclass(real, Message):
            with suppress(Exception):
                return real(pairs)
        with suppress(Exception):
            message = real()
            for key, item in pairs:
                message[key] = item
            return message
    if record["dict"]:
        return _make(record["$mapping"], (dict,), {})(pairs)
    return _make(record["$mapping"], (_Folded if record["folded"] else _Pairs,), {})(pairs)


class _Pairs(Mapping[Any, Any]):
    def __init__(self, pairs: list[tuple[Any, Any]]) -> None:
        self._pairs = pairs

    def _fold(self, key: Any) -> Any:
        return key

    def __getitem__(self, key: Any) -> Any:
        for name, value in self._pairs:
            if self._fold(name) == self._fold(key):
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return (name for name, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)


class _Folded(_Pairs):
    def _fold(self, key: Any) -> Any:
        return key.lower() if isinstance(key, str) else key


def _object(record: dict[str, Any]) -> Any:
    name = record["$object"]
    real = _real(name) if name in REAL_OBJECTS else None
    attributes = {key: _value(item) for key, item in record.get("attributes", {}).items()}
    if real is not None:
        with suppress(Exception):
            made = real.__new__(real)
            made.__dict__.update(attributes)
            return made
    bases: tuple[type, ...] = (object,)
    for base in reversed(record.get("bases", [])):
        bases = (_make(base, bases, {}),)
    made = _make(name, bases, _readable(record))()
    made.__dict__.update(attributes)
    return made


def _enum(record: dict[str, Any]) -> Any:
    value = _value(record["value"])
    real = _standard(record["$enum"]) if record["$enum"].startswith("http") else None
    if real is not None:
        return real(value)
    mixin = int if record["int"] else str if record["text"] else None
    module, _, qualname = record["$enum"].partition(":")
    made = enum.Enum(qualname.rpartition(".")[2], {record["name"]: value}, module=module, qualname=qualname, type=mixin)  # type: ignore[misc]
    return made[record["name"]]


def _url(record: dict[str, Any]) -> Any:
    kind = _standard(record["$url"])
    return kind(record["text"]) if kind is not None else record["text"]


def _time(record: dict[str, Any]) -> Any:
    return getattr(dt, record["$time"], dt.datetime).fromisoformat(record["iso"])


def _named(record: dict[str, Any]) -> Any:
    module, _, qualname = record["$named"].partition(":")
    made = namedtuple(qualname.rpartition(".")[2], record["fields"], rename=True)  # type: ignore[misc]  # noqa: PYI024
    made.__module__ = module
    return made(*[_value(item) for item in record["items"]])


_READERS: dict[str, Any] = {
    "$bytes": lambda r: _filled(r["$bytes"]).encode(),
    "$base64": lambda r: base64.b64decode(r["$base64"]),
    "$tuple": lambda r: tuple(_value(item) for item in r["$tuple"]),
    "$set": lambda r: frozenset(
        i if isinstance(i, str | int | float | tuple) else str(i) for i in map(_value, r["$set"])
    ),
    "$float": lambda r: float(r["$float"]),
    "$epoch": lambda r: int(time.time()) + r["$epoch"],
    "$seconds": lambda r: dt.timedelta(seconds=r["$seconds"]),
    "$time": _time,
    "$url": _url,
    "$error": lambda r: rebuild(r["$error"]),
    "$mapping": _mapping,
    "$named": _named,
    "$object": _object,
    "$enum": _enum,
}
