"""Errors whose own code raises: every member that somebody may ask, times every kind of exception."""

import asyncio
from typing import Any, NamedTuple


class Unheard(BaseException):
    """Of no kind that anybody catches."""


KINDS: dict[str, type[BaseException]] = {
    each.__name__: each
    for each in (
        SystemExit,
        KeyboardInterrupt,
        GeneratorExit,
        asyncio.CancelledError,
        Unheard,
        MemoryError,
        RecursionError,
    )
}
BEYOND_EXCEPTION = [name for name, kind in KINDS.items() if not issubclass(kind, Exception)]


def _method(kind: type[BaseException]) -> Any:
    def raises(self: object, *_: object) -> Any:
        raise kind

    return raises


def _getattribute(kind: type[BaseException]) -> Any:
    def raises(self: object, name: str) -> Any:
        raise kind

    return raises


METHODS = ["__str__", "__getattr__", "__getattribute__", "__repr__", "__hash__", "__eq__", "__bool__", "__len__"]
METHODS += ["__reduce__", "__reduce_ex__", "__setattr__", "__format__", "__instancecheck__", "add_note"]
PROPERTIES = ["__class__", "args", "__cause__", "__context__", "__notes__", "__traceback__", "__dict__", "retryable"]
PROPERTIES += ["outlast_category", "response", "status_code", "retry_after", "__outlast__", "__outlast_failure__"]
MEMBERS = [*METHODS, *PROPERTIES, "repr of an argument", "a note"]
JUDGED_WITHOUT = {
    *("__repr__", "__hash__", "__eq__", "__bool__", "__len__", "__reduce__", "__reduce_ex__", "__setattr__"),
    *("__format__", "__instancecheck__", "add_note", "__notes__", "__traceback__", "a note"),
    *("__outlast__", "__outlast_failure__"),
}
"""Members that a classification never asks: the error is judged as any other."""


class _Argument:
    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        raise self.kind

    __str__ = __repr__


def hostile(member: str, kind: str) -> Exception:
    """Return an error of which a member raises that kind of exception."""
    raised = KINDS[kind]
    body: dict[str, Any] = {}
    if member in PROPERTIES:
        body[member] = property(_method(raised))
    elif member == "__getattribute__":
        body[member] = _getattribute(raised)
    elif member in METHODS:
        body[member] = _method(raised)
    error: Exception = type("HostileError", (Exception,), body)("x", _Argument(raised))
    if member != "repr of an argument":
        Exception.__init__(error, "x")
    if member == "a note":
        error.__notes__ = [_Argument(raised)]  # type: ignore[list-item]
    return error


class Expected(NamedTuple):
    """What becomes of an error in a task."""

    member: str
    kind: str

    @property
    def reasons(self) -> set[str]:
        """The reasons that its dead letter may have."""
        if self.member in JUDGED_WITHOUT:
            return {"permanent"}
        return {"unreadable"} if self.kind in BEYOND_EXCEPTION else {"unreadable", "permanent"}


TABLE = [Expected(member, kind) for member in MEMBERS for kind in KINDS]
