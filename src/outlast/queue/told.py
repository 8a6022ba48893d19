"""One attempt of one task, with its beginning and end told to subscribers; where there are none, nobody comes here."""

from collections.abc import Callable, Sequence
from typing import Any

from outlast import clock
from outlast.ports.rows import Claimed, Kind, Settlement
from outlast.queue.child import Children, Target
from outlast.queue.definition import TaskDefinition
from outlast.queue.executing import Bounds, execute, execute_async, execute_in_child
from outlast.queue.settling import Outcome
from outlast.record.bus import publish

__all__ = ["execute_in_child_told", "execute_told", "execute_told_async"]

Definition = TaskDefinition[Any, Any]


def execute_told(
    definition: Definition, claimed: Claimed, children: Children, leaving: Callable[[], bool]
) -> list[Outcome]:
    """Run a task as `execute` does."""
    began, outcomes = _begin(definition, claimed), list[Outcome]()
    try:
        outcomes = execute(definition, claimed, children, leaving)
    finally:
        _end(definition, claimed, began, outcomes)
    return outcomes


def execute_in_child_told(
    definition: Definition,
    claimed: Claimed,
    target: Target,
    children: Children,
    leaving: Callable[[], bool],
    bounds: Bounds,
) -> list[Outcome]:
    """Run a task as `execute_in_child` does."""
    began, outcomes = _begin(definition, claimed), list[Outcome]()
    try:
        outcomes = execute_in_child(definition, claimed, target, children, leaving, bounds)
    finally:
        _end(definition, claimed, began, outcomes)
    return outcomes


async def execute_told_async(definition: Definition, claimed: Claimed, leaving: Callable[[], bool]) -> list[Outcome]:
    """Run a task as `execute_async` does."""
    began, outcomes = _begin(definition, claimed), list[Outcome]()
    try:
        outcomes = await execute_async(definition, claimed, leaving)
    finally:
        _end(definition, claimed, began, outcomes)
    return outcomes


def _begin(definition: Definition, claimed: Claimed) -> float:
    from outlast.record.events import TaskStarted  # noqa: PLC0415  # only subscribers need it

    publish(TaskStarted(definition.name, claimed.id, claimed.retry_count + 1))
    return clock.monotonic()


def _end(definition: Definition, claimed: Claimed, began: float, outcomes: Sequence[Outcome]) -> None:
    from outlast.record.events import TaskEnded  # noqa: PLC0415  # only subscribers need it

    seconds = clock.monotonic() - began
    publish(TaskEnded(definition.name, claimed.id, claimed.retry_count + 1, seconds, _outcome(outcomes).value))


def _outcome(outcomes: Sequence[Outcome]) -> Kind:
    """Return what becomes of the task; where a mistake of ours left nothing to be written, it is put off."""
    for each in outcomes:
        if isinstance(each, Settlement):
            return each.kind
        if type(each) is tuple:  # its number and epoch alone: nothing more is to be written of a success
            return Kind.DONE
    return Kind.DEFER
