"""Pipelines: functions that run one after the other, each with the result of the one before.

Errors are handled in this order: ``try`` inside a step, the retries of the step, and `on_error` of the pipeline.
"""

import collections.abc
import inspect
import types
import typing
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from outlast import clock
from outlast.classify.chain import links_of
from outlast.classify.safe_access import contained
from outlast.decide.policy import NODE_RETRY_ON, RetryPolicy
from outlast.errors import ConfigError
from outlast.run.call_state import FAILED_ATTEMPTS
from outlast.run.loops import name_of
from outlast.run.retry import check_policy, is_coroutine_function, wrap
from outlast.units import format_seconds

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, ParamSpec, TypeVar, overload

    from outlast.decide.policy import RetryOn

    P = ParamSpec("P")
    R = TypeVar("R")
    Step = Callable[..., Any]
    OnError = Callable[[Exception, str], Any]
    OnStep = Callable[[str, Any], object]


def check_step_types(steps: "tuple[Step, ...]") -> None:
    """Check that each step can take what the one before returns, as far as annotations tell.

    Raises:
        ConfigError: If they cannot; the message names both steps and both types.
    """
    for one, other in pairwise(steps):
        returned, taken = _return_type(one), _parameter_type(other)
        if returned is not None and taken is not None and not _types_fit(returned, taken):
            raise ConfigError(
                f"{name_of(one)} returns {_type_name(returned)}, but the step after it, {name_of(other)}, takes "
                f"{_type_name(taken)}"
            )


def _type_hints(function: object) -> "dict[str, Any]":
    try:
        plain: Any = inspect.unwrap(function)  # type: ignore[arg-type]  # any callable
        if not inspect.isroutine(plain) and not isinstance(plain, type):
            plain = type(plain).__call__  # an object that can be called says it there
        return typing.get_type_hints(plain)
    except Exception:  # noqa: BLE001  # names that cannot be resolved, built-ins, objects: nothing is known then
        return {}


def _return_type(step: object) -> object:
    hint = _type_hints(step).get("return")  # NoneType for None
    is_awaitable = typing.get_origin(hint) in {collections.abc.Awaitable, collections.abc.Coroutine}
    return typing.get_args(hint)[-1] if is_awaitable else hint


def _parameter_type(step: object) -> object:
    try:
        parameters = inspect.signature(step).parameters.values()  # type: ignore[arg-type]  # any callable
    except (TypeError, ValueError):
        return None
    first = first_positional(parameters)
    return None if first is None else _type_hints(step).get(first.name)


def first_positional(parameters: "Iterable[inspect.Parameter]") -> inspect.Parameter | None:
    """Return the parameter that takes the value of the step before, or None."""
    return next((each for each in parameters if each.kind not in {each.KEYWORD_ONLY, each.VAR_KEYWORD}), None)


def _types_fit(returned: object, taken: object) -> bool:
    """Tell whether a type can be taken for another; what is not plain is trusted."""
    if returned is typing.Any or taken is typing.Any or taken is object:
        return True
    return any(_plain_types_fit(one, other) for one in _options(returned) for other in _options(taken))


def _options(hint: object) -> tuple[object, ...]:
    """Return the types of a union; a type alone for any other."""
    return typing.get_args(hint) if typing.get_origin(hint) in {typing.Union, types.UnionType} else (hint,)


def _plain_types_fit(returned: object, taken: object) -> bool:
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


def _type_name(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class StepTrace:
    """How one step went.

    Attributes:
        name: The step's name.
        attempts: How many attempts it took.
        seconds: How long it took, waits included.
        outcome: ``"ok"``, ``"fallback"`` (on_error gave the value) or ``"failed"``.
    """

    name: str
    attempts: int
    seconds: float
    outcome: str


@dataclass
class Trace:
    """A record of a pipeline run: pass one as ``trace=`` and read it afterwards.

    Attributes:
        steps: The steps that ran, in order.
    """

    steps: list[StepTrace] = field(default_factory=list)

    def __str__(self) -> str:
        """Return one line per step."""
        return "\n".join(
            f"{step.name:30} {step.outcome:9} {step.attempts} attempt{'s' * (step.attempts != 1)}, "
            f"{format_seconds(step.seconds)}"
            for step in self.steps
        )


class _PipelineRun:
    """One run of a pipeline: what both forms share."""

    def __init__(
        self,
        steps: "tuple[Step, ...]",
        on_error: "OnError | None",
        on_step: "OnStep | None",
        params: "Mapping[str, Any] | None",
        trace: Trace | None,
        *,
        awaits: bool = False,
    ) -> None:
        if not steps:
            raise ConfigError("a pipeline needs at least one step")
        functions: list[tuple[str, Any]] = [("", step) for step in steps]
        functions += [
            (name, hook) for name, hook in (("on_error ", on_error), ("on_step ", on_step)) if hook is not None
        ]
        for name, function in functions:
            if not callable(function):
                what = f"{name}is {function!r}" if name else f"{function!r} is not a valid step"
                raise ConfigError(f"{what}; give a function")
        for name, function in () if awaits else functions:
            if inspect.iscoroutinefunction(function) or is_coroutine_function(function):
                raise ConfigError(
                    f"{name}{name_of(function)} is a coroutine function; run it with typed_async_pipeline"
                )
        check_step_types(steps)
        self.steps = steps
        self.on_error = on_error
        self.on_step = on_step
        self.params = dict(params or {})
        self.trace = trace
        self._check_params()

    def _check_params(self) -> None:
        """Refuse a parameter that no step has a name for, which would be lost without a word."""
        taken: set[str] = set()
        for number in range(len(self.steps)):
            _, accepted, takes_all = self._accepted(number)
            if takes_all:
                return
            taken.update(accepted)
        for name in self.params:
            if name not in taken:
                raise ConfigError(
                    f"no step has the parameter {name!r} of params; they have: {', '.join(sorted(taken)) or 'none'}"
                )

    def _accepted(self, number: int) -> tuple[bool, list[str], bool]:
        """Tell whether a step takes the value, which parameters it has names for, and whether it takes any name."""
        try:
            parameters = list(inspect.signature(self.steps[number]).parameters.values())
        except (TypeError, ValueError):  # a built-in that does not tell
            return number > 0, [], not self.params
        value = first_positional(parameters) if number else None
        named = [each.name for each in parameters if each is not value and each.kind in _BY_NAME]
        return value is not None, named, any(each.kind is each.VAR_KEYWORD for each in parameters)

    def arguments(self, number: int, value: object) -> "tuple[tuple[Any, ...], dict[str, Any]]":
        """Return what a step is called with: the value of the step before, and the parameters it has names for."""
        takes_value, named, takes_all = self._accepted(number)
        chosen = {name: given for name, given in self.params.items() if takes_all or name in named}
        return ((value,) if takes_value else ()), chosen

    def done(self, number: int, started: float, failed: "list[Any]", outcome: str) -> None:
        """Note that a step has ended."""
        if self.trace is not None:
            name = name_of(self.steps[number])
            own = (getattr(self.steps[number], "__outlast_policy__", None), name)
            attempts = max(1, sum(each == own for each in failed) + (outcome == "ok"))
            self.trace.steps.append(StepTrace(name, attempts, clock.monotonic() - started, outcome))

    @contextmanager
    def telling(self, number: int) -> "Iterator[None]":
        """Log what the hook raises; it fails nothing."""
        try:
            yield
        except Exception:
            import logging  # noqa: PLC0415  # only a broken hook needs it

            with suppress(Exception):  # a handler that raises must not fail the step either
                logging.getLogger("outlast").exception("on_step failed after %s", name_of(self.steps[number]))

    @contextmanager
    def counted(self) -> "Iterator[list[Any]]":
        """Collect the failed attempts of a step for the trace."""
        failed: list[Any] = []
        before = FAILED_ATTEMPTS.get()
        if self.trace is not None:
            FAILED_ATTEMPTS.set(failed)
        try:
            yield failed
        finally:
            if self.trace is not None:
                FAILED_ATTEMPTS.set(before)


def typed_pipeline(
    *steps: "Step",
    on_error: "OnError | None" = None,
    on_step: "OnStep | None" = None,
    params: "Mapping[str, Any] | None" = None,
    trace: Trace | None = None,
) -> "Any":
    """Run steps one after the other and return the result of the last one.

    Args:
        steps: Functions. Each is called with the result of the one before. If they have annotations, the types are
            checked before the first step runs.
        on_error: Called as ``on_error(error, step_name)`` when a step has failed after its retries. Its return value,
            even None, goes to the next step; a bare ``raise`` in it raises the error of the step again. Another error
            that it raises has the error of the step as its ``__cause__``.
        on_step: Called as ``on_step(step_name, value)`` after each step that returned a value. Its errors are only
            logged.
        params: Values for the parameters of steps, by name.
        trace: Filled with a record of each step.

    Raises:
        ConfigError: If there are no steps, the types of two steps do not match, no step has a parameter of a name in
            `params`, or a step or hook returns a coroutine.
    """
    run = _PipelineRun(steps, on_error, on_step, params, trace)
    value: Any = None
    for number, step in enumerate(steps):
        args, kwargs = run.arguments(number, value)
        started, outcome, failed = clock.monotonic(), "failed", []
        try:
            try:
                with run.counted() as failed:
                    value = step(*args, **kwargs)
                outcome = "ok"
            except Exception as error:
                if run.on_error is None:
                    raise
                with _caused_by(error):
                    value = run.on_error(error, name_of(step))
                outcome = "fallback"
        finally:
            run.done(number, started, failed, outcome)
        _refuse_coroutine(value, name_of(step) if outcome == "ok" else f"on_error {name_of(run.on_error)}")
        if run.on_step is not None:
            with run.telling(number):
                _refuse_coroutine(run.on_step(name_of(step), value), f"on_step {name_of(run.on_step)}")
    return value


async def typed_async_pipeline(
    *steps: "Step",
    on_error: "OnError | None" = None,
    on_step: "OnStep | None" = None,
    params: "Mapping[str, Any] | None" = None,
    trace: Trace | None = None,
) -> "Any":
    """Run steps one after the other and return the result of the last one; see `typed_pipeline`.

    Steps, `on_error` and `on_step` may be coroutine functions, plain functions, or objects with either kind of
    ``__call__``. Coroutines that they return are awaited.
    """
    run = _PipelineRun(steps, on_error, on_step, params, trace, awaits=True)
    value: Any = None
    for number, step in enumerate(steps):
        args, kwargs = run.arguments(number, value)
        started, outcome, failed = clock.monotonic(), "failed", []
        try:
            try:
                with run.counted() as failed:
                    value = await _await_result(step(*args, **kwargs))
                outcome = "ok"
            except Exception as error:
                if run.on_error is None:
                    raise
                with _caused_by(error):
                    value = await _await_result(run.on_error(error, name_of(step)))
                outcome = "fallback"
        finally:
            run.done(number, started, failed, outcome)
        if run.on_step is not None:
            with run.telling(number):
                await _await_result(run.on_step(name_of(step), value))
    return value


class _caused_by:  # noqa: N801  # a context manager; not a generator, which would change tracebacks
    """Make an error the cause of another error that is raised in the block, unless that one says what caused it."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, raised: BaseException | None, traceback: object) -> None:
        """Set the cause, and let the error propagate."""
        if raised is not None and issubclass(type(raised), Exception):
            contained(None, self._set_cause, raised)

    def _set_cause(self, raised: BaseException) -> None:
        if raised.__cause__ is not None or raised.__suppress_context__:
            return
        if not any(each is raised for each in links_of(self._error)):  # an error must not become its own cause
            raised.__cause__ = self._error


def _refuse_coroutine(value: object, name: str) -> None:
    """Refuse a coroutine, which nobody would await."""
    if inspect.iscoroutine(value):
        value.close()
        raise ConfigError(f"{name} returned a coroutine, which is not awaited here; run it with typed_async_pipeline")


async def _await_result(value: "Any") -> "Any":
    return await value if inspect.isawaitable(value) else value


_SINGLE_ATTEMPT = RetryPolicy(max_attempts=1, retry_on=NODE_RETRY_ON)


if TYPE_CHECKING:  # typing's overload is not loaded at run time

    @overload
    def node(function: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def node(*, retry_policy: RetryPolicy | None) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    @overload
    def node(*, retries: int | None = None, retry_on: RetryOn = None) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def node(function: Any = None, /, **settings: Any) -> Any:
        """Make a function a step of a pipeline."""

else:

    def node(function=None, /, *, retry_policy=None, retries=None, retry_on=None):  # noqa: ANN001, ANN201
        """Make a function or coroutine function a step of a pipeline, with its own retries.

        Args:
            function: The function, if used without parentheses; it is then called once.
            retry_policy: A retry policy.
            retries: Short for ``RetryPolicy(max_retries=…)``: the number of calls; retries every Exception by default.
            retry_on: With `retries`: the errors to retry.

        Raises:
            ConfigError: If both a policy and its short form are given, or the policy is not valid.
        """
        policy = _node_policy(retry_policy, retries, retry_on)
        if function is None:
            return partial(wrap, policy=policy, fallback=None)
        return wrap(function, policy, None)


def _node_policy(retry_policy: RetryPolicy | None, retries: int | None, retry_on: "RetryOn") -> RetryPolicy:
    if retry_policy is not None:
        if retries is not None or retry_on is not None:
            raise ConfigError("give either retry_policy, or retries and retry_on, not both")
        policy = check_policy(retry_policy)
        return policy.replace(retry_on=NODE_RETRY_ON) if policy.retry_on is None else policy
    if retries is None:
        if retry_on is not None:
            raise ConfigError("retry_on needs retries, the number of calls; give both")
        return _SINGLE_ATTEMPT
    return RetryPolicy(max_retries=retries, retry_on=NODE_RETRY_ON if retry_on is None else retry_on)
