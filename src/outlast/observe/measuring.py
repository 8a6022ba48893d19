"""From an event to what is counted of it, whoever counts. Pure but for the names it has seen."""

from collections.abc import Callable
from typing import Any, NamedTuple

from outlast.observe.label_values import LabelValues
from outlast.record import events

__all__ = ["MEASURED", "Measure", "measures"]


class Measure(NamedTuple):
    """Something to add to a metric.

    Attributes:
        key: Of the metric, as in `PROCESS`.
        labels: Values of its labels, in their order.
        amount: What a counter grows by, or what a histogram takes in.
    """

    key: str
    labels: tuple[str, ...]
    amount: float = 1


def _attempt_failed(event: events.AttemptFailed, values: LabelValues) -> list[Measure]:
    return [Measure("attempts_failed", (values.name("call", event.name), event.failure.category.value))]


def _retrying(event: events.Retrying, values: LabelValues) -> list[Measure]:
    category = event.failure.category.value
    return [
        Measure("retries", (values.name("call", event.name), category)),
        Measure("retry_delay", (category,), event.delay),
    ]


def _gave_up(event: events.GaveUp, values: LabelValues) -> list[Measure]:
    labels = (values.name("call", event.name), event.failure.category.value, event.reason)
    return [Measure("give_ups", labels)]


def _recovered(event: events.Recovered, values: LabelValues) -> list[Measure]:
    return [Measure("recoveries", (values.name("call", event.name),)), Measure("recovery", (), event.elapsed)]


def _observed(event: events.Observed, values: LabelValues) -> list[Measure]:
    labels = (values.name("call", event.name), event.failure.category.value, event.decision)
    return [Measure("observed", labels)]


def _opened(event: events.BreakerOpened, values: LabelValues) -> list[Measure]:
    return [Measure("breaker_transitions", (values.name("resource", event.resource), "open"))]


def _half_opened(event: events.BreakerHalfOpened, values: LabelValues) -> list[Measure]:
    return [Measure("breaker_transitions", (values.name("resource", event.resource), "half_open"))]


def _closed(event: events.BreakerClosed, values: LabelValues) -> list[Measure]:
    return [Measure("breaker_transitions", (values.name("resource", event.resource), "closed"))]


def _exhausted(event: events.BudgetExhausted, values: LabelValues) -> list[Measure]:
    return [Measure("budget_exhausted", (values.name("resource", event.resource),))]


def _cooled_down(event: events.CooledDown, values: LabelValues) -> list[Measure]:
    return [
        Measure("cooldowns_begun", (values.name("resource", event.resource),)),
        Measure("cooldown", (), event.seconds),
    ]


def _task_ended(event: events.TaskEnded, values: LabelValues) -> list[Measure]:
    task = values.task(event.task)
    return [Measure("task_attempts", (task, event.outcome)), Measure("task_duration", (task,), event.seconds)]


def _task_retrying(event: events.TaskRetrying, values: LabelValues) -> list[Measure]:
    return [Measure("tasks_retried", (values.task(event.task), event.failure.category.value))]


def _task_deferred(event: events.TaskDeferred, values: LabelValues) -> list[Measure]:
    return [Measure("tasks_deferred", (values.task(event.task), event.failure.category.value))]


def _task_failed(event: events.TaskFailed, values: LabelValues) -> list[Measure]:
    return [Measure("tasks_failed", (values.task(event.task), event.failure.category.value, event.reason))]


def _task_rescued(event: events.TaskRescued, _: LabelValues) -> list[Measure]:
    return [Measure("tasks_rescued", (event.outcome,))]


def _source_changed(event: events.SourceChanged, _: LabelValues) -> list[Measure]:
    return [Measure("source_transitions", (event.after,))]


def _cycle_ended(event: events.CycleEnded, values: LabelValues) -> list[Measure]:
    profile = values.name("profile", event.profile)
    return [
        Measure("cycles", (profile, "true" if event.outage else "false")),
        Measure("sources_polled", (profile,), event.polled),
        Measure("polls_failed", (profile,), event.failed),
    ]


MEASURED: dict[type[events.Event], Callable[[Any, LabelValues], list[Measure]]] = {
    events.AttemptFailed: _attempt_failed,
    events.Retrying: _retrying,
    events.GaveUp: _gave_up,
    events.Recovered: _recovered,
    events.Observed: _observed,
    events.BreakerOpened: _opened,
    events.BreakerHalfOpened: _half_opened,
    events.BreakerClosed: _closed,
    events.BudgetExhausted: _exhausted,
    events.CooledDown: _cooled_down,
    events.TaskEnded: _task_ended,
    events.TaskRetrying: _task_retrying,
    events.TaskDeferred: _task_deferred,
    events.TaskFailed: _task_failed,
    events.TaskRescued: _task_rescued,
    events.SourceChanged: _source_changed,
    events.CycleEnded: _cycle_ended,
}
"""What is made of each kind of event."""


def measures(event: events.Event, values: LabelValues) -> list[Measure]:
    """Return what is to be added for an event; nothing for one that is not counted.

    Args:
        event: What happened.
        values: Where the values of labels come from.
    """
    measured = MEASURED.get(type(event))
    return [] if measured is None else measured(event, values)
