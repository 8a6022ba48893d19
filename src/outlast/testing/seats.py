"""Where a fault sits: a function by its dotted name, beneath its decorators, and wherever else it was imported.

A decorator that retries has to see the failure, so what is replaced is the innermost function that can be reached.
"""

import importlib
import inspect
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import CellType, FunctionType, ModuleType
from typing import Any, NamedTuple

from outlast.errors import ConfigError

__all__ = ["Seat", "mark_over", "seat_of"]

Undo = Callable[[], object]
_OVER = "_outlast_over"


class Seat(NamedTuple):
    """A function, and how to put another in its place.

    Attributes:
        function: What sits there.
        put: Puts something else there; returns what puts it back.
    """

    function: Callable[..., Any]
    put: Callable[[Any], Undo]


def seat_of(place: str) -> Seat:
    """Return where a function sits.

    Args:
        place: Its dotted name, such as ``shop.client.fetch`` or ``shop.client.Client.get``.

    Raises:
        ConfigError: If there is no such function, or it cannot be replaced.
    """
    owner, name = _owner_of(place)
    found, kind = getattr(owner, name), None
    if isinstance(owner, type):
        found = inspect.getattr_static(owner, name)
        if isinstance(found, staticmethod | classmethod):
            found, kind = found.__func__, type(found)
    if isinstance(found, type) or not callable(found):
        what = "a class; name one of its methods" if isinstance(found, type) else f"a {type(found).__name__}"
        message = f"{place} is {what}: a fault needs a function"
        raise ConfigError(message)
    while getattr(found, _OVER, None) is True:  # of an earlier test, and put back by whoever patched it there
        found = found.__wrapped__
    inner = _beneath(found)
    if inner is not None:
        return inner
    if isinstance(owner, ModuleType):
        return Seat(found, partial(_put_everywhere, found, owner, name))
    return Seat(found, partial(_put, owner, name, kind=kind))


def mark_over(wrapper: Callable[..., Any]) -> None:
    """Say that what was put in a function's place has nothing to do any more, wherever it may still sit."""
    setattr(wrapper, _OVER, True)


def _owner_of(place: str) -> tuple[Any, str]:
    """Return the module, class or object that has the last name as an attribute."""
    names = place.split(".")
    for length in range(len(names) - 1, 0, -1):
        module = ".".join(names[:length])
        try:
            owner: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
                continue  # a class stands here, or nothing
            raise
        for done, name in enumerate(names[length:], length):
            if not hasattr(owner, name):
                message = f"{'.'.join(names[:done])} has no {name!r}, so no fault can be put at {place}"
                raise ConfigError(message)
            if done < len(names) - 1:
                owner = getattr(owner, name)
        return owner, names[-1]
    message = f"there is no module {names[0]!r}, so no fault can be put at {place}"
    raise ConfigError(message)


def _beneath(found: Any) -> Seat | None:
    """Return the seat of the innermost function that decorators hold; None where there are none that can be opened."""
    seat: Seat | None = None
    for _ in range(64):  # a chain that leads back to itself ends
        inner = getattr(found, "__wrapped__", None)
        if inner is None:
            return seat
        cells = _cells_with(inner, found, set())
        names = [name for name, value in getattr(found, "__dict__", {}).items() if value is inner]
        if not cells and names == ["__wrapped__"]:
            return seat  # written in C, or it finds its function in some other way
        seat = Seat(inner, partial(_put_inside, found, inner, cells, names))
        found = inner
    return seat


def _cells_with(inner: object, wrapper: object, seen: set[int]) -> list[CellType]:
    """Return where a decorator's function, or one that it has made for its own use, holds what it calls."""
    cells: list[CellType] = []
    for cell in getattr(wrapper, "__closure__", None) or ():
        try:
            content = cell.cell_contents
        except ValueError:  # empty
            continue
        if content is inner:
            cells.append(cell)
        elif isinstance(content, FunctionType) and id(content) not in seen:
            seen.add(id(content))
            cells += _cells_with(inner, content, seen)
    return cells


def _put_inside(wrapper: Any, inner: Any, cells: list[CellType], names: list[str], new: Any) -> Undo:
    def put(what: Any) -> None:
        for cell in cells:
            cell.cell_contents = what
        for name in names:
            setattr(wrapper, name, what)

    put(new)
    return lambda: put(inner)


def _put_everywhere(found: Any, owner: ModuleType, name: str, new: Any) -> Undo:
    """Replace a function in its module, and in those that have imported it by name."""
    with ExitStack() as undo:
        undo.callback(_replace, new, found)  # the last to be done: for modules that are imported meanwhile
        undo.callback(_put(owner, name, new))
        for module, key in _holders(found):
            undo.callback(_put(module, key, new))
        return undo.pop_all().close


def _replace(old: Any, new: Any) -> None:
    for module, key in _holders(old):
        setattr(module, key, new)


def _holders(function: Any) -> list[tuple[ModuleType, str]]:
    """Return the modules that have a function, each with the name under which it has it."""
    found: list[tuple[ModuleType, str]] = []
    for module in list(sys.modules.values()):
        try:
            there = list(vars(module).items())
        except TypeError:  # something that only stands in for a module
            continue
        found += [(module, key) for key, value in there if value is function]
    return found


def _put(owner: Any, name: str, new: Any, *, kind: Any = None) -> Undo:
    own = getattr(owner, "__dict__", {})
    had, before = name in own, own.get(name)
    try:
        setattr(owner, name, kind(new) if kind else new)
    except (AttributeError, TypeError) as error:
        message = (
            f"{name} of {owner!r} cannot be replaced ({error}); put the fault at a function of yours that calls it"
        )
        raise ConfigError(message) from error
    return partial(setattr, owner, name, before) if had else partial(_remove, owner, name)


def _remove(owner: Any, name: str) -> None:
    if name in vars(owner):  # the test may have removed it itself
        delattr(owner, name)
