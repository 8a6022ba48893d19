"""Converts the arguments of tasks to JSON text and back, by the type hints of the function. No pickle.

Text that one of the databases cannot store is refused on every store, so that a move to another store cannot fail.
"""

import functools
import inspect
import re
from functools import cached_property
from json import JSONDecoder, JSONEncoder
from typing import Any, NoReturn

from outlast.errors import PayloadError
from outlast.queue.json_conversion import (
    PLAIN_TYPES,
    Misfit,
    check_native,
    conversion_of,
    hints_of,
    misfit_error,
    optional_conversion,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from outlast.queue.json_conversion import Conversion


PAYLOAD_LIMIT = 262_144
"""Bytes of a payload or a result."""
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # the escape itself, and not a backslash before the letters
_Parameter = inspect.Parameter
_NO_ARGUMENTS: tuple[Any, ...] = ()


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is not valid JSON"
    raise ValueError(message)


_encoder = JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_decoder = JSONDecoder(parse_constant=_refuse_constant)


class Codec:
    """Turns the arguments of one function into JSON text and back.

    Hints are read when they are first needed, so that they may name what is defined further below.

    Args:
        function: The task's function.
        limit: Bytes of UTF-8 that a payload may have (default 256 KiB).
        name: Name of the task, for messages; by default the function's.
    """

    def __init__(self, function: "Callable[..., Any]", *, limit: int = PAYLOAD_LIMIT, name: str | None = None) -> None:
        """Keep the function; nothing is read yet."""
        self.function = function
        self.limit = limit
        self.name = name or getattr(function, "__qualname__", None) or repr(function)

    def encode(self, args: tuple[Any, ...], kwargs: "Mapping[str, Any]") -> str:
        """Return the payload of a call: an object of parameter names and values.

        Args:
            args: Positional arguments.
            kwargs: Keyword arguments.

        Raises:
            PayloadError: If the function cannot be called so, a value does not fit its hint or has no form in JSON, or
                the text is too large or holds NUL or a lone surrogate.
        """
        plan = self._plan
        if not args and type(kwargs) is dict and kwargs.keys() == plan.plain:
            text = _encode_plain(kwargs, plan.atoms, self.limit)
            if text is not None:
                return text
        if args or not plan.required <= kwargs.keys() <= plan.by_keyword:
            given = self._bound(args, kwargs)
        else:
            given = dict(kwargs)
        dumps = plan.dumps
        for name, value in given.items():
            dump, kinds = dumps.get(name), plan.kinds.get(name)
            if dump is not None or kinds is not None or type(value) not in PLAIN_TYPES:
                try:
                    if kinds is not None and not isinstance(value, kinds):
                        raise misfit_error(value, plan.labels[name])
                    given[name] = (dump or check_native)(value)
                except Exception as error:  # attributes of the user's classes are read
                    raise self._error(name, error) from error
        try:
            return _encode_checked(given, self.limit)
        except _UnstorableError as error:
            raise self._unstorable(given, error) from error.__cause__

    def decode(self, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call, for ``function(*args, **kwargs)``; mostly all of them are keywords.

        Raises:
            PayloadError: If the text is no payload of this function.
        """
        plan = self._plan
        try:
            given = _decoder.decode(text)
        except (ValueError, TypeError, RecursionError) as error:
            message = f"the payload of task {self.name} is not valid JSON: {error}"
            raise PayloadError(message) from error
        if type(given) is not dict:
            message = f"the payload of task {self.name} must be a JSON object of parameters"
            raise PayloadError(message)
        if not plan.required <= given.keys() <= plan.names:
            raise self._misnamed(given)
        for name, load in plan.loads.items():
            if name in given:
                try:
                    given[name] = load(given[name])
                except Exception as error:  # a class of the user's may raise anything
                    raise self._error(name, error) from error
        if plan.only_keywords:
            return _NO_ARGUMENTS, given
        try:
            return plan.call(given)
        except Misfit as error:
            message = f"the payload of task {self.name} does not match its parameters: {error}"
            raise PayloadError(message) from error

    @property
    def returns(self) -> Any:
        """The hint of what the function returns; Any where there is none."""
        return self._plan.returns

    @cached_property
    def _plan(self) -> "_CodecPlan":
        return _CodecPlan(self.function)

    def _bound(self, args: tuple[Any, ...], kwargs: "Mapping[str, Any]") -> dict[str, Any]:
        """Return the arguments by parameter, as a call would."""
        plan = self._plan
        given = dict(zip(plan.positional, args, strict=False))
        if len(args) == len(given) and given.keys().isdisjoint(kwargs) and plan.by_keyword >= kwargs.keys():
            given.update(kwargs)
            if plan.required <= given.keys():
                return given
        try:
            bound = plan.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            message = f"the arguments do not match task {self.name}: {error}; its parameters are {plan.signature}"
            raise PayloadError(message) from error
        return dict(bound)

    def _misnamed(self, given: dict[str, Any]) -> PayloadError:
        missing = sorted(self._plan.required - given.keys())
        unknown = sorted(given.keys() - self._plan.names)
        said = [f"no {', '.join(missing)}"] * bool(missing) + [f"an unknown {', '.join(unknown)}"] * bool(unknown)
        return PayloadError(f"the payload of task {self.name} has {' and '.join(said)}; its parameters have changed")

    def _error(self, name: str, error: Exception) -> PayloadError:
        path = f"{name}{error.path}" if isinstance(error, Misfit) else name
        said = str(error) if isinstance(error, Misfit) else _error_text(error)
        return PayloadError(f"task {self.name}, parameter {path}: {said}")

    def _unstorable(self, given: dict[str, Any], error: "_UnstorableError") -> PayloadError:
        for name, value in given.items():
            try:
                _encode_checked({name: value}, self.limit)
            except _UnstorableError as alone:
                if not alone.is_size:
                    return PayloadError(f"task {self.name}, parameter {name}: {alone}")
        return PayloadError(f"task {self.name}: {error}")


def encode_result(value: Any, hint: Any = Any, *, limit: int = PAYLOAD_LIMIT) -> str:
    """Return what a task returned as JSON text.

    Args:
        value: The result.
        hint: What the function says that it returns.
        limit: Bytes of UTF-8 that it may have.

    Raises:
        PayloadError: As for arguments.
    """
    try:
        return _encode_checked(conversion_of(hint).dump(value), limit)
    except Misfit as error:
        message = f"result{error.path}: {error}"
        raise PayloadError(message) from error
    except Exception as error:
        message = f"result: {error if isinstance(error, _UnstorableError) else _error_text(error)}"
        raise PayloadError(message) from error


def decode_result(text: str, hint: Any = Any) -> Any:
    """Return the value of a result.

    Raises:
        PayloadError: If the text is no value of that type.
    """
    try:
        return conversion_of(hint).load(_decoder.decode(text))
    except Misfit as error:
        message = f"result{error.path}: {error}"
        raise PayloadError(message) from error
    except Exception as error:
        message = f"result: {_error_text(error)}"
        raise PayloadError(message) from error


def _encode_plain(given: dict[str, Any], atoms: dict[str, frozenset[type]], limit: int) -> str | None:
    """Return the text of arguments as most are: plain values and plain text. None where they are not, or not valid."""
    for name, value in given.items():
        if type(value) not in atoms[name]:
            return None
    try:
        text = _encoder.encode(given)
    except ValueError:
        return None
    return text if len(text) <= limit and text.isascii() and "\\u0000" not in text else None


class _UnstorableError(Exception):  # told by a PayloadError
    """JSON that cannot be stored."""

    def __init__(self, message: str, *, is_size: bool = False) -> None:
        super().__init__(message)
        self.is_size = is_size


def _encode_checked(value: Any, limit: int) -> str:
    """Return the text of a JSON value that every store can hold."""
    try:
        text = _encoder.encode(value)
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        message = "it contains half of a surrogate pair, which is not valid text; decode it with errors='replace'"
        raise _UnstorableError(message) from error
    except (ValueError, TypeError, RecursionError) as error:  # NaN, a number of thousands of digits, a circle
        message = str(error)
        raise _UnstorableError(message) from error
    if "\\u0000" in text and _NUL.search(text):
        message = "it contains a NUL character, which databases refuse; remove it, or use bytes"
        raise _UnstorableError(message)
    if size > limit:
        message = (
            f"{size} bytes of JSON; the limit is {limit}; store the data elsewhere, in a file, table or bucket, "
            "and pass a reference to it"
        )
        raise _UnstorableError(message, is_size=True)
    return text


def _error_text(error: Exception) -> str:
    return f"the conversion failed with {type(error).__name__}"


class _CodecPlan:
    """What is known of a function's parameters, read once."""

    def __init__(self, function: "Callable[..., Any]") -> None:
        self.signature = inspect.signature(function)
        beneath = inspect.unwrap(function)
        while isinstance(beneath, functools.partial):
            beneath = beneath.func
        hints = hints_of(beneath if hasattr(beneath, "__annotations__") else type(beneath).__call__)
        self.returns = hints.get("return", Any)
        parameters = list(self.signature.parameters.values())
        star = {each.name for each in parameters if each.kind in {_Parameter.VAR_POSITIONAL, _Parameter.VAR_KEYWORD}}
        self.names = frozenset(self.signature.parameters)
        self.required = frozenset(each.name for each in parameters if each.default is each.empty) - star
        by_position = {_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD}
        self.positional = tuple(each.name for each in parameters if each.kind in by_position)
        by_keyword = {_Parameter.POSITIONAL_OR_KEYWORD, _Parameter.KEYWORD_ONLY}
        self.by_keyword = frozenset(each.name for each in parameters if each.kind in by_keyword)
        self.rest = next((each.name for each in parameters if each.kind is _Parameter.VAR_POSITIONAL), None)
        self.more = next((each.name for each in parameters if each.kind is _Parameter.VAR_KEYWORD), None)
        self.only_keywords = self.by_keyword == self.names
        found = {each.name: _parameter_conversion(each, hints.get(each.name, Any)) for each in parameters}
        converted = {name: each for name, each in found.items() if not each.kinds}
        self.dumps = {name: each.dump for name, each in converted.items()}
        self.loads = {name: each.load for name, each in converted.items()}
        asis = {name: each for name, each in found.items() if each.kinds and object not in each.kinds}
        self.kinds = {name: each.kinds for name, each in asis.items()}
        self.labels = {name: each.label for name, each in asis.items()}
        self.atoms = {
            name: frozenset(atom for atom in PLAIN_TYPES if issubclass(atom, each.kinds or (object,)))
            for name, each in found.items()
        }
        self.plain: Any = self.by_keyword if self.only_keywords and not converted and not star else None

    def call(self, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call of a function that takes some by position alone, or any number of them."""
        rest = given.pop(self.rest, ()) if self.rest else ()
        more = given.pop(self.more, {}) if self.more else {}
        if not isinstance(more, dict) or more.keys() & self.by_keyword:
            raise misfit_error(more, "an object of further keywords")
        placed = [name for name in self.positional if rest or name not in self.by_keyword]
        present = [name in given for name in placed] + [True] * bool(rest)
        if present != sorted(present, reverse=True):
            message = "an argument is missing before other positional arguments"
            raise Misfit(message)
        args = [given.pop(name) for name in placed if name in given]
        return (*args, *rest), {**given, **more}


def _parameter_conversion(parameter: inspect.Parameter, hint: Any) -> "Conversion":
    if parameter.kind is _Parameter.VAR_POSITIONAL:
        return conversion_of(tuple[hint, ...])
    if parameter.kind is _Parameter.VAR_KEYWORD:
        return conversion_of(dict[str, hint])
    conversion = conversion_of(hint)
    return optional_conversion(conversion) if parameter.default is None else conversion
