"""Whether two steps fit: what one says it returns against what the next says it takes."""

import collections.abc
import inspect
import types
import typing
from itertools import pairwise

from outlast.errors import ConfigError
from outlast.run.loops import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

__all__ = ["check_fit", "first_positional"]


def check_fit(steps: "Sequence[Callable[..., Any]]") -> None:
    """Check that each step can take what the one before returns, as far as annotations tell.

    Raises:
        ConfigError: If they cannot; the message names both steps and both types.
    """
    for one, other in pairwise(steps):
        returned, taken = _returned(one), _taken(other)
        if returned is not None and taken is not None and not _fits(returned, taken):
            gives, wants = f"{name_of(one)} returns {_shown(returned)}", f"{name_of(other)}, takes {_shown(taken)}"
            message = f"{gives}, but the step after it, {wants}"
            raise ConfigError(message)


def _hints(function: object) -> "dict[str, Any]":
    try:
        plain: Any = inspect.unwrap(function)  # type: ignore[arg-type]  # any callable
        if not inspect.isroutine(plain) and not isinstance(plain, type):
            plain = type(plain).__call__  # an object that can be called says it there
        return typing.get_type_hints(plain)
    except Exception:  # noqa: BLE001  # names that cannot be resolved, built-ins, objects: nothing is known then
        return {}


def _returned(step: object) -> object:
    hint = _hints(step).get("return")
    if typing.get_origin(hint) in {collections.abc.Awaitable, collections.abc.Coroutine}:
        hint = typing.get_args(hint)[-1]
    return type(None) if hint is None and "return" in _hints(step) else hint


def _taken(step: object) -> object:
    try:
        parameters = inspect.signature(step).parameters.values()  # type: ignore[arg-type]  # any callable
    except (TypeError, ValueError):
        return None
    first = first_positional(parameters)
    return None if first is None else _hints(step).get(first.name)


def first_positional(parameters: "Iterable[inspect.Parameter]") -> inspect.Parameter | None:
    """Return the parameter that takes the value of the step before, or None."""
    return next((each for each in parameters if each.kind not in {each.KEYWORD_ONLY, each.VAR_KEYWORD}), None)


def _fits(returned: object, taken: object) -> bool:
    """Tell whether a type can be taken for another; what is not plain is trusted."""
    if returned is typing.Any or taken is typing.Any or taken is object:
        return True
    options = typing.get_args(taken) if _is_union(taken) else (taken,)
    given = typing.get_args(returned) if _is_union(returned) else (returned,)
    return any(_one_fits(one, other) for one in given for other in options)


def _is_union(hint: object) -> bool:
    return typing.get_origin(hint) in {typing.Union, types.UnionType}


def _one_fits(returned: object, taken: object) -> bool:
    if typing.Any in (returned, taken):
        return True
    one, other = typing.get_origin(returned) or returned, typing.get_origin(taken) or taken
    if not isinstance(one, type) or not isinstance(other, type) or getattr(other, "_is_protocol", False):
        return True
    if (one, other) in {(int, float), (int, complex), (float, complex)}:
        return True
    try:
        return issubclass(one, other) or issubclass(other, one)
    except TypeError:
        return True


def _shown(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
