"""Pipelines: steps in a row, each given what the one before returned.

Three layers handle errors, nearest first: ``try`` inside a step, the step's own retries, and `on_error` for the whole.
"""

import contextlib
import inspect
from dataclasses import dataclass, field

from outlast import clock
from outlast.errors import ConfigError
from outlast.run.attempting import FAILED_ATTEMPTS
from outlast.run.loops import name_of
from outlast.run.retry import is_coroutine_function
from outlast.run.types import check_fit, first_positional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Step = Callable[..., Any]
    OnError = Callable[[Exception, str], Any]
    OnStep = Callable[[str, Any], object]

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

__all__ = ["StepTrace", "Trace", "typed_async_pipeline", "typed_pipeline"]


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
    """How a pipeline went: hand one in as ``trace=`` and read it afterwards.

    Attributes:
        steps: The steps that ran, in order.
    """

    steps: list[StepTrace] = field(default_factory=list)

    def __str__(self) -> str:
        """Return one line per step."""
        return "\n".join(
            f"{step.name:30} {step.outcome:9} {step.attempts} attempt{'s' * (step.attempts != 1)}, {step.seconds:.3g} s"
            for step in self.steps
        )


class _Run:
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
            message = "a pipeline needs at least one step"
            raise ConfigError(message)
        given: tuple[object, ...] = steps
        odd = [step for step in given if not callable(step)]
        if odd:
            message = f"{odd[0]!r} is no step; give functions"
            raise ConfigError(message)
        hooks: dict[str, Any] = {"on_error": on_error, "on_step": on_step}
        hooks = {name: hook for name, hook in hooks.items() if hook is not None}
        for name, hook in hooks.items():
            if not callable(hook):
                message = f"{name} is {hook!r}; give a function"
                raise ConfigError(message)
        if not awaits:
            for name, function in [*(("", step) for step in steps), *((f"{name} ", hooks[name]) for name in hooks)]:
                if inspect.iscoroutinefunction(function) or is_coroutine_function(function):
                    message = f"{name}{name_of(function)} is a coroutine function; run it with typed_async_pipeline"
                    raise ConfigError(message)
        check_fit(steps)
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
                message = f"no step takes {name!r} from params; they take: {', '.join(sorted(taken)) or 'nothing'}"
                raise ConfigError(message)

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
        name = name_of(self.steps[number])
        if self.trace is not None:
            own = (getattr(self.steps[number], "__outlast_policy__", None), name)
            attempts = max(1, sum(each == own for each in failed) + (outcome == "ok"))
            self.trace.steps.append(StepTrace(name, attempts, clock.monotonic() - started, outcome))

    @contextlib.contextmanager
    def telling(self, number: int) -> "Iterator[None]":
        """Log what the hook raises; it fails nothing."""
        try:
            yield
        except Exception:
            import logging  # noqa: PLC0415  # only a broken hook needs it

            with contextlib.suppress(Exception):  # a handler that raises must not fail the step either
                logging.getLogger("outlast").exception("on_step failed after %s", name_of(self.steps[number]))

    @contextlib.contextmanager
    def counted(self) -> "Iterator[list[Any]]":
        """Take up the failed attempts of a step, where somebody wants to know."""
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
    """Run steps in a row and return what the last one returns.

    Args:
        steps: Functions; each is called with what the one before returned. Where annotations tell, it is checked before
            the first step runs that they fit.
        on_error: Called as ``on_error(error, step_name)`` when a step has failed for good. What it returns goes to the
            next step, None included; a bare ``raise`` in it raises the step's error again.
        on_step: Called as ``on_step(step_name, value)`` after each step that gave a value; what it raises is logged
            and fails nothing.
        params: Values for the steps' parameters of these names.
        trace: Filled with how each step went.

    Raises:
        ConfigError: If there are no steps, two that follow each other do not fit, a parameter has no taker, or a step
            or hook gives a coroutine, which nobody would await here.
    """
    run = _Run(steps, on_error, on_step, params, trace)
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
                value = run.on_error(error, name_of(step))
                outcome = "fallback"
        finally:
            run.done(number, started, failed, outcome)
        _plain(value, name_of(step) if outcome == "ok" else f"on_error {name_of(run.on_error)}")
        if run.on_step is not None:
            with run.telling(number):
                _plain(run.on_step(name_of(step), value), f"on_step {name_of(run.on_step)}")
    return value


async def typed_async_pipeline(
    *steps: "Step",
    on_error: "OnError | None" = None,
    on_step: "OnStep | None" = None,
    params: "Mapping[str, Any] | None" = None,
    trace: Trace | None = None,
) -> "Any":
    """Run steps in a row and return what the last one returns; see `typed_pipeline`.

    Steps, `on_error` and `on_step` may be coroutine functions, plain ones, or objects with either kind of ``__call__``;
    what they give is awaited where it can be.
    """
    run = _Run(steps, on_error, on_step, params, trace, awaits=True)
    value: Any = None
    for number, step in enumerate(steps):
        args, kwargs = run.arguments(number, value)
        started, outcome, failed = clock.monotonic(), "failed", []
        try:
            try:
                with run.counted() as failed:
                    value = await _awaited(step(*args, **kwargs))
                outcome = "ok"
            except Exception as error:
                if run.on_error is None:
                    raise
                value = await _awaited(run.on_error(error, name_of(step)))
                outcome = "fallback"
        finally:
            run.done(number, started, failed, outcome)
        if run.on_step is not None:
            with run.telling(number):
                await _awaited(run.on_step(name_of(step), value))
    return value


def _plain(value: object, name: str) -> None:
    """Refuse a coroutine, which nobody would await."""
    if inspect.iscoroutine(value):
        value.close()
        message = f"{name} returned a coroutine, which nobody here awaits; run it with typed_async_pipeline"
        raise ConfigError(message)


async def _awaited(value: "Any") -> "Any":
    return await value if inspect.isawaitable(value) else value
