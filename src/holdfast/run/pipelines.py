"""Pipelines: steps in a row, each given what the one before returned.

Three layers handle errors, nearest first: ``try`` inside a step, the step's own retries, and `on_error` for the whole.
"""

import inspect
from dataclasses import dataclass, field

from holdfast import clock
from holdfast.errors import ConfigError
from holdfast.run.attempting import FAILED_ATTEMPTS
from holdfast.run.loops import name_of
from holdfast.run.types import check_fit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Step = Callable[..., Any]
    OnError = Callable[[Exception, str], Any]
    OnStep = Callable[[str, Any], object]

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
    ) -> None:
        if not steps:
            message = "a pipeline needs at least one step"
            raise ConfigError(message)
        given: tuple[object, ...] = steps
        odd = [step for step in given if not callable(step)]
        if odd:
            message = f"{odd[0]!r} is no step; give functions"
            raise ConfigError(message)
        check_fit(steps)
        self.steps = steps
        self.on_error = on_error
        self.on_step = on_step
        self.params = dict(params or {})
        self.trace = trace

    def arguments(self, number: int, value: object) -> "tuple[tuple[Any, ...], dict[str, Any]]":
        """Return what a step is called with: the value of the step before, and the parameters it has names for."""
        step = self.steps[number]
        try:
            accepted = inspect.signature(step).parameters
        except (TypeError, ValueError):  # a built-in that does not tell
            return ((value,) if number else ()), {}
        names = list(accepted)
        takes_all = any(each.kind is each.VAR_KEYWORD for each in accepted.values())
        taken = names[0] if number and names else None
        chosen = {
            name: given
            for name, given in self.params.items()
            if name != taken
            and (takes_all or (name in accepted and accepted[name].kind is not inspect.Parameter.POSITIONAL_ONLY))
        }
        return ((value,) if number and names else ()), chosen

    def done(self, number: int, value: object, started: float, failed: list[int], outcome: str) -> None:
        """Note that a step has ended, and tell the hook."""
        name = name_of(self.steps[number])
        if self.trace is not None:
            attempts = max(1, len(failed) + (outcome == "ok"))
            self.trace.steps.append(StepTrace(name, attempts, clock.monotonic() - started, outcome))
        if self.on_step is not None and outcome != "failed":
            try:
                self.on_step(name, value)
            except Exception:
                import logging  # noqa: PLC0415  # only a broken hook needs it

                logging.getLogger("holdfast").exception("on_step failed after %s", name)

    def watched(self) -> "Iterator[tuple[int, list[int]]]":
        """Yield the numbers of the steps, with a list that takes up their failed attempts."""
        for number in range(len(self.steps)):
            failed: list[int] = []
            token = FAILED_ATTEMPTS.set(failed)
            try:
                yield number, failed
            finally:
                FAILED_ATTEMPTS.reset(token)


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
        on_step: Called as ``on_step(step_name, value)`` after each step; what it raises is logged and fails nothing.
        params: Values for the steps' parameters of these names.
        trace: Filled with how each step went.

    Raises:
        ConfigError: If there are no steps, or two that follow each other do not fit.
    """
    run = _Run(steps, on_error, on_step, params, trace)
    value: Any = None
    for number, failed in run.watched():
        args, kwargs = run.arguments(number, value)
        started, outcome = clock.monotonic(), "failed"
        try:
            try:
                value = run.steps[number](*args, **kwargs)
                outcome = "ok"
            except Exception as error:
                if run.on_error is None:
                    raise
                value = run.on_error(error, name_of(run.steps[number]))
                outcome = "fallback"
        finally:
            run.done(number, value, started, failed, outcome)
    return value


async def typed_async_pipeline(
    *steps: "Step",
    on_error: "OnError | None" = None,
    on_step: "OnStep | None" = None,
    params: "Mapping[str, Any] | None" = None,
    trace: Trace | None = None,
) -> "Any":
    """Run steps in a row, awaiting those that are coroutine functions; see `typed_pipeline`. So may be `on_error`."""
    run = _Run(steps, on_error, on_step, params, trace)
    value: Any = None
    for number, failed in run.watched():
        args, kwargs = run.arguments(number, value)
        started, outcome = clock.monotonic(), "failed"
        try:
            try:
                value = await _awaited(run.steps[number](*args, **kwargs))
                outcome = "ok"
            except Exception as error:
                if run.on_error is None:
                    raise
                value = await _awaited(run.on_error(error, name_of(run.steps[number])))
                outcome = "fallback"
        finally:
            run.done(number, value, started, failed, outcome)
    return value


async def _awaited(value: "Any") -> "Any":
    return await value if inspect.isawaitable(value) else value
