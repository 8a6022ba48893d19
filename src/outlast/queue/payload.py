"""Converts the arguments of tasks to JSON text and back, by the type hints of the function. No pickle.

Text that one of the databases cannot store is refused on every store, so that a move to another store cannot fail.
"""

import functools
import inspect
import logging
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from json import JSONDecoder, JSONEncoder
from typing import Any, NoReturn

from outlast.classify.safe_access import contain
from outlast.errors import PayloadError
from outlast.queue.json_conversion import Conversion, Misfit, conversion_of, hints_of, misfit_error, optional_conversion

PAYLOAD_LIMIT = 262_144
"""Bytes of a payload or a result."""
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # the escape, not an escaped backslash before the letters
_Parameter = inspect.Parameter
BY_POSITION = (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


ENCODER = JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
DECODER = JSONDecoder(parse_constant=_refuse_constant)


class Codec:
    """Converts the arguments of one function to JSON text and back.

    Hints are read at the first use, so that they may name what is defined later in the module.

    Args:
        function: The function of the task.
        limit: Maximum size of a payload in bytes of UTF-8 (default 256 KiB).
        name: Name of the task, for messages; by default that of the function.
    """

    def __init__(self, function: Callable[..., Any], *, limit: int = PAYLOAD_LIMIT, name: str | None = None) -> None:
        self.function = function
        self.limit = limit
        self.name = name or getattr(function, "__qualname__", None) or repr(function)

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the payload of a call: an object of parameter names and values.

        Args:
            args: Positional arguments.
            kwargs: Keyword arguments.

        Raises:
            PayloadError: If the arguments do not match the function, a value does not match its hint or cannot be
                converted to JSON, or the text is too large or contains NUL or a lone surrogate.
        """
        plan = self._plan
        given = dict(kwargs)
        if args or not plan.required <= kwargs.keys() <= plan.by_keyword:
            try:
                given = dict(plan.signature.bind(*args, **kwargs).arguments)
            except TypeError as error:
                raise PayloadError(
                    f"the arguments do not match task {self.name}: {error}; its parameters are {plan.signature}"
                ) from error
        for name, value in given.items():
            dump, _, label, kinds = plan.conversions[name]
            try:
                if kinds and not isinstance(value, kinds):
                    raise misfit_error(value, label)
                given[name] = dump(value)
            except Exception as error:  # reads attributes of classes of the program
                raise _payload_error(f"task {self.name}, parameter {name}", error) from error
        try:
            return _encode_checked(given, self.limit)
        except _UnstorableError as error:
            raise self._unstorable(given, error) from error.__cause__

    def decode(self, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call, for ``function(*args, **kwargs)``. Mostly all of them are keywords.

        Raises:
            PayloadError: If the text is not a payload of this function.
        """
        plan = self._plan
        try:
            given = DECODER.decode(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise PayloadError(f"the payload of task {self.name} is not valid JSON: {error}") from error
        if type(given) is not dict:
            raise PayloadError(f"the payload of task {self.name} must be a JSON object of parameters")
        if not plan.required <= given.keys() <= plan.conversions.keys():
            missing = sorted(plan.required - given.keys())
            unknown = sorted(given.keys() - plan.conversions)
            said = [f"no {', '.join(missing)}"] * bool(missing) + [f"an unknown {', '.join(unknown)}"] * bool(unknown)
            names = ", ".join(plan.conversions) or "none"
            raise PayloadError(f"the payload of task {self.name} has {' and '.join(said)}; its parameters are: {names}")
        for name, value in given.items():
            try:
                given[name] = plan.conversions[name].load(value)
            except BaseException as error:  # a class of the program may raise anything
                contain(error)
                raise _payload_error(f"task {self.name}, parameter {name}", error) from error
        if plan.only_keywords:
            return (), given
        try:
            return plan.call(given)
        except Misfit as error:
            raise PayloadError(f"the payload of task {self.name} does not match its parameters: {error}") from error

    @property
    def returns(self) -> Any:
        """The type hint of the return value; Any without one."""
        return self._plan.returns

    @cached_property
    def _plan(self) -> "_CodecPlan":
        return _CodecPlan(self.function)

    def _unstorable(self, given: dict[str, Any], error: "_UnstorableError") -> PayloadError:
        for name, value in given.items():
            try:
                _encode_checked({name: value}, self.limit)
            except _TooLargeError:
                continue
            except _UnstorableError as alone:
                return PayloadError(f"task {self.name}, parameter {name}: {alone}")
        return PayloadError(f"task {self.name}: {error}")


def encode_result(value: Any, hint: Any = Any, *, limit: int = PAYLOAD_LIMIT) -> str:
    """Return the result of a task as JSON text.

    Args:
        value: The result.
        hint: The type hint of the return value.
        limit: Maximum size in bytes of UTF-8.

    Raises:
        PayloadError: As for arguments.
    """
    try:
        return _encode_checked(conversion_of(hint).dump(value), limit)
    except BaseException as error:
        contain(error)
        raise _payload_error("result", error) from error


def encode_kept_result(value: Any, hint: Any, name: str) -> str | None:
    """Return the result of a task as JSON text; None, and an error in the log, if it cannot be stored.

    The task has run; to run it again would not help.
    """
    try:
        return encode_result(value, hint)
    except PayloadError as error:
        logging.getLogger("outlast.worker").error("%s succeeded, but its result cannot be stored: %s", name, error)  # noqa: TRY400  # the message is enough
        return None


def decode_result(text: str, hint: Any = Any) -> Any:
    """Return the value of a result.

    Raises:
        PayloadError: If the text is not a value of that type.
    """
    try:
        return conversion_of(hint).load(DECODER.decode(text))
    except BaseException as error:
        contain(error)
        raise _payload_error("result", error) from error


def _payload_error(about: str, error: BaseException) -> PayloadError:
    """Return the error about a value, without the text of an error of the program, which may contain the value."""
    if isinstance(error, Misfit):
        return PayloadError(f"{about}{error.path}: {error}")
    return PayloadError(f"{about}: the conversion failed with {type(error).__name__}")


class _UnstorableError(Misfit):
    """JSON that cannot be stored."""


class _TooLargeError(_UnstorableError):
    """JSON that is larger than the limit."""


def _encode_checked(value: Any, limit: int) -> str:
    """Return the JSON text of a value that every store can hold."""
    try:
        text = ENCODER.encode(value)
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise _UnstorableError(
            "it contains half of a surrogate pair, which is not valid text; decode it with errors='replace'"
        ) from error
    except (ValueError, TypeError, RecursionError) as error:  # NaN, a number of thousands of digits, a cycle
        raise _UnstorableError(str(error)) from error
    if "\\u0000" in text and _NUL.search(text):
        raise _UnstorableError("it contains a NUL character, which databases refuse; remove it, or use bytes")
    if size > limit:
        raise _TooLargeError(
            f"{size} bytes of JSON; the limit is {limit}; store the data elsewhere, in a file, table or bucket, "
            "and pass a reference to it"
        )
    return text


def parameter_names(signature: inspect.Signature, *kinds: Any) -> list[str]:
    """Return the names of the parameters of some kinds."""
    return [each.name for each in signature.parameters.values() if each.kind in kinds]


def variable_parameters(signature: inspect.Signature) -> tuple[str | None, str | None]:
    """Return the names of ``*args`` and ``**kwargs``; None for one that does not exist."""
    rest = iter(parameter_names(signature, _Parameter.VAR_POSITIONAL))
    more = iter(parameter_names(signature, _Parameter.VAR_KEYWORD))
    return next(rest, None), next(more, None)


class _CodecPlan:
    """The parameters of a function and their conversions, read once."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        inner = inspect.unwrap(function)
        while isinstance(inner, functools.partial):
            inner = inner.func
        hints = hints_of(inner if hasattr(inner, "__annotations__") else type(inner).__call__)
        self.returns = hints.get("return", Any)
        parameters = self.signature.parameters
        self.rest, self.more = variable_parameters(self.signature)
        optional = {name for name, each in parameters.items() if each.default is not each.empty}
        self.required = parameters.keys() - optional - {self.rest, self.more}
        self.positional = parameter_names(self.signature, *BY_POSITION)
        by_keyword = parameter_names(self.signature, _Parameter.POSITIONAL_OR_KEYWORD, _Parameter.KEYWORD_ONLY)
        self.by_keyword = frozenset(by_keyword)
        self.only_keywords = self.by_keyword == parameters.keys()
        self.conversions = {
            name: _parameter_conversion(each, hints.get(name, Any)) for name, each in parameters.items()
        }

    def call(self, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call with positional-only or variable parameters."""
        rest = given.pop(self.rest, ()) if self.rest else ()
        more = given.pop(self.more, {}) if self.more else {}
        if not isinstance(more, dict) or more.keys() & self.by_keyword:
            raise misfit_error(more, "an object of further keywords")
        placed = [name for name in self.positional if rest or name not in self.by_keyword]
        present = [name in given for name in placed] + [True] * bool(rest)
        if present != sorted(present, reverse=True):
            raise Misfit("an argument is missing before other positional arguments")
        args = [given.pop(name) for name in placed if name in given]
        return (*args, *rest), {**given, **more}


def _parameter_conversion(parameter: inspect.Parameter, hint: Any) -> Conversion:
    if parameter.kind is _Parameter.VAR_POSITIONAL:
        return conversion_of(tuple[hint, ...])
    if parameter.kind is _Parameter.VAR_KEYWORD:
        return conversion_of(dict[str, hint])
    conversion = conversion_of(hint)
    return optional_conversion(conversion) if parameter.default is None else conversion
