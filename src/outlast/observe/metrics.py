"""Every metric by name, once for Prometheus and OpenTelemetry: what it is, its unit and its labels."""

import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection
from itertools import accumulate
from typing import Any, NamedTuple

from outlast.forks import after_fork
from outlast.ports.rows import storable
from outlast.record import events
from outlast.record.events import Event

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Upper bounds of histograms, in seconds."""

LABELS = {
    "call": "What is called under a retry: a function, or method and host of a request. 100 names, then `other`.",
    "category": "The category of the failure.",
    "decision": "What would have been done: `retry`, `defer`, `fail`, `abort`, `skip` or `disable`.",
    "event": "What happened to tasks, as the books call it.",
    "outage": "`true` where so many sources failed that nothing was counted, else `false`.",
    "outcome": "What became of it.",
    "profile": "The profile of sources. 100 names, then `other`.",
    "reason": "Why no further attempt is made.",
    "resource": "The resource, often a host. 100 names, then `other`.",
    "state": "The state that it has, or has now.",
    "status": "The status of the tasks.",
    "task": "The task, where it is one of the app's own, else `other`. Without an app, 100 names.",
}
"""What each label says. All have few values: a name that comes from outside is counted as `other` in the end."""


class Metric(NamedTuple):
    """One metric.

    Attributes:
        key: Its name without prefix, unit and ending.
        kind: ``counter``, ``gauge`` or ``histogram``.
        labels: Names of its labels, in their order.
        unit: ``s`` for seconds, otherwise empty.
        text: What it tells, in one line.
    """

    key: str
    kind: str
    labels: tuple[str, ...]
    unit: str
    text: str

    @property
    def family(self) -> str:
        """The name of its family in Prometheus, which has no ``_total``."""
        return f"outlast_{self.key}{'_seconds' if self.unit == 's' else ''}"

    @property
    def prometheus(self) -> str:
        """Its name in Prometheus."""
        return f"{self.family}_total" if self.kind == "counter" else self.family

    @property
    def otel(self) -> str:
        """Its name in OpenTelemetry."""
        return f"outlast.{self.key}"


FLEET_METRICS = {
    each.key: each
    for each in (
        Metric("up", "gauge", (), "", "Whether the store answered: 1, or 0 and no other figure of the fleet."),
        Metric("tasks", "counter", ("event",), "", "What ever happened to tasks, by the books."),
        Metric("tasks_by_status", "gauge", ("status",), "", "Tasks that are kept, of each status."),
        Metric("dead_letters", "gauge", (), "", "Dead letters."),
        Metric("retries_waiting", "gauge", (), "", "Tasks that failed and wait for another attempt, up to 10,000."),
        Metric("oldest_ready", "gauge", (), "s", "For how long the oldest ready task waits; 0 when none does."),
        Metric("workers", "gauge", ("state",), "", "Workers that are alive, and silent ones whose lease ran out."),
        Metric("sources", "gauge", ("state",), "", "Sources of each state."),
        Metric("cooling_resources", "gauge", (), "", "Resources that cool down."),
        Metric("open_breakers", "gauge", (), "", "Resources whose breaker is open in some process."),
        Metric("paused_queues", "gauge", (), "", "Queues that are paused."),
        Metric("alerts_waiting", "gauge", (), "", "Alerts that were not delivered yet, up to 10,000."),
        Metric("running_jobs", "gauge", (), "", "Runs of jobs that have not ended."),
    )
}
"""Figures of the whole fleet, read from the store: the same whichever process is asked."""

PROCESS_METRICS = {
    each.key: each
    for each in (
        Metric("attempts_failed", "counter", ("call", "category"), "", "Failed attempts of calls."),
        Metric("retries", "counter", ("call", "category"), "", "Attempts that were followed by another one."),
        Metric("retry_delay", "histogram", ("category",), "s", "Waits before another attempt of a call."),
        Metric("give_ups", "counter", ("call", "category", "reason"), "", "Calls that were given up."),
        Metric("recoveries", "counter", ("call",), "", "Calls that succeeded after failed attempts."),
        Metric("recovery", "histogram", (), "s", "From the first failure of a call to its success."),
        Metric("observed", "counter", ("call", "category", "decision"), "", "Failures that were only observed."),
        Metric("breaker_transitions", "counter", ("resource", "state"), "", "Breakers that opened or closed."),
        Metric("budget_exhausted", "counter", ("resource",), "", "Retries that the budget of a resource refused."),
        Metric("cooldowns_begun", "counter", ("resource",), "", "Cooldowns that began."),
        Metric("cooldown", "histogram", (), "s", "For how long resources were to be left alone."),
        Metric("task_attempts", "counter", ("task", "outcome"), "", "Attempts of tasks that ended."),
        Metric("task_duration", "histogram", ("task",), "s", "How long attempts of tasks took."),
        Metric("tasks_retried", "counter", ("task", "category"), "", "Failed attempts of tasks that are tried again."),
        Metric("tasks_deferred", "counter", ("task", "category"), "", "Tasks that were put off, no attempt spent."),
        Metric("tasks_failed", "counter", ("task", "category", "reason"), "", "Tasks that became dead letters."),
        Metric("tasks_rescued", "counter", ("outcome",), "", "Tasks that were taken from workers that died."),
        Metric("source_transitions", "counter", ("state",), "", "Sources whose state has changed."),
        Metric("cycles", "counter", ("profile", "outage"), "", "Cycles of polls that ended."),
        Metric("sources_polled", "counter", ("profile",), "", "Polls of sources in cycles that ended."),
        Metric("polls_failed", "counter", ("profile",), "", "Those of them that failed."),
    )
}
"""What happened in this process since it is counted, as the bus tells it."""

METRICS = {**FLEET_METRICS, **PROCESS_METRICS}
"""All of them."""


# Values of labels: few, whatever comes in, as each one costs memory here and in whatever keeps the figures.

MAX_NAMES = 100
"""Different names that a label gets at most; those that come later are `OTHER`."""
OTHER = "other"
_MAX_LENGTH = 200  # characters
_REQUEST_NAME = re.compile(r"([A-Za-z]+) [a-z0-9+.-]+://([^/?#\s]*)")


class LabelValues:
    """The values of the labels that hold names.

    Args:
        own_tasks: Names of the app's own tasks, which may grow; None where no app is known.
    """

    def __init__(self, own_tasks: Collection[str] | None = None) -> None:
        """Begin with no name."""
        self._own_tasks = own_tasks
        self._known: dict[str, dict[str, str]] = {}

    def task(self, name: str) -> str:
        """Return a task's name if it is one of the app's own."""
        if self._own_tasks is None:
            return self.name("task", name)
        return storable(name, _MAX_LENGTH) if name in self._own_tasks else OTHER

    def name(self, label: str, name: str) -> str:
        """Return a name, if it is among the first ones that came for this label.

        Args:
            label: Which label; each has its own first names.
            name: Anything.
        """
        text = call_name(name) if label == "call" else name
        known = self._known.setdefault(label, {})
        value = known.get(text)
        if value is None:
            if len(known) >= MAX_NAMES:  # two threads may both pass here; one name more does no harm
                return OTHER
            value = known[text] = storable(text, _MAX_LENGTH)
        return value


def call_name(name: str) -> str:
    """Return what is called in few words: of a request its method and host, as paths have no end."""
    request = _REQUEST_NAME.match(name)
    return f"{request[1]} {request[2].rpartition('@')[2]}" if request else name


# From an event to what is counted of it, whoever counts. Pure but for the names it has seen.


class Measurement(NamedTuple):
    """Something to add to a metric.

    Attributes:
        key: Of the metric, as in `PROCESS`.
        labels: Values of its labels, in their order.
        amount: What a counter grows by, or what a histogram takes in.
    """

    key: str
    labels: tuple[str, ...]
    amount: float = 1


def _measure_attempt_failed(event: events.AttemptFailed, values: LabelValues) -> list[Measurement]:
    return [Measurement("attempts_failed", (values.name("call", event.name), event.failure.category.value))]


def _measure_retry(event: events.Retrying, values: LabelValues) -> list[Measurement]:
    category = event.failure.category.value
    return [
        Measurement("retries", (values.name("call", event.name), category)),
        Measurement("retry_delay", (category,), event.delay),
    ]


def _measure_give_up(event: events.GaveUp, values: LabelValues) -> list[Measurement]:
    labels = (values.name("call", event.name), event.failure.category.value, event.reason)
    return [Measurement("give_ups", labels)]


def _measure_recovery(event: events.Recovered, values: LabelValues) -> list[Measurement]:
    return [Measurement("recoveries", (values.name("call", event.name),)), Measurement("recovery", (), event.elapsed)]


def _measure_observed(event: events.Observed, values: LabelValues) -> list[Measurement]:
    labels = (values.name("call", event.name), event.failure.category.value, event.decision)
    return [Measurement("observed", labels)]


def _measure_breaker_opened(event: events.BreakerOpened, values: LabelValues) -> list[Measurement]:
    return [Measurement("breaker_transitions", (values.name("resource", event.resource), "open"))]


def _measure_breaker_half_opened(event: events.BreakerHalfOpened, values: LabelValues) -> list[Measurement]:
    return [Measurement("breaker_transitions", (values.name("resource", event.resource), "half_open"))]


def _measure_breaker_closed(event: events.BreakerClosed, values: LabelValues) -> list[Measurement]:
    return [Measurement("breaker_transitions", (values.name("resource", event.resource), "closed"))]


def _measure_budget_exhausted(event: events.BudgetExhausted, values: LabelValues) -> list[Measurement]:
    return [Measurement("budget_exhausted", (values.name("resource", event.resource),))]


def _measure_cooldown(event: events.CooledDown, values: LabelValues) -> list[Measurement]:
    return [
        Measurement("cooldowns_begun", (values.name("resource", event.resource),)),
        Measurement("cooldown", (), event.seconds),
    ]


def _measure_task_end(event: events.TaskEnded, values: LabelValues) -> list[Measurement]:
    task = values.task(event.task)
    return [Measurement("task_attempts", (task, event.outcome)), Measurement("task_duration", (task,), event.seconds)]


def _measure_task_retry(event: events.TaskRetrying, values: LabelValues) -> list[Measurement]:
    return [Measurement("tasks_retried", (values.task(event.task), event.failure.category.value))]


def _measure_task_deferral(event: events.TaskDeferred, values: LabelValues) -> list[Measurement]:
    return [Measurement("tasks_deferred", (values.task(event.task), event.failure.category.value))]


def _measure_task_failure(event: events.TaskFailed, values: LabelValues) -> list[Measurement]:
    return [Measurement("tasks_failed", (values.task(event.task), event.failure.category.value, event.reason))]


def _measure_task_rescue(event: events.TaskRescued, _: LabelValues) -> list[Measurement]:
    return [Measurement("tasks_rescued", (event.outcome,))]


def _measure_source_change(event: events.SourceChanged, _: LabelValues) -> list[Measurement]:
    return [Measurement("source_transitions", (event.after,))]


def _measure_cycle_end(event: events.CycleEnded, values: LabelValues) -> list[Measurement]:
    profile = values.name("profile", event.profile)
    return [
        Measurement("cycles", (profile, "true" if event.outage else "false")),
        Measurement("sources_polled", (profile,), event.polled),
        Measurement("polls_failed", (profile,), event.failed),
    ]


MEASURED_EVENTS: dict[type[events.Event], Callable[[Any, LabelValues], list[Measurement]]] = {
    events.AttemptFailed: _measure_attempt_failed,
    events.Retrying: _measure_retry,
    events.GaveUp: _measure_give_up,
    events.Recovered: _measure_recovery,
    events.Observed: _measure_observed,
    events.BreakerOpened: _measure_breaker_opened,
    events.BreakerHalfOpened: _measure_breaker_half_opened,
    events.BreakerClosed: _measure_breaker_closed,
    events.BudgetExhausted: _measure_budget_exhausted,
    events.CooledDown: _measure_cooldown,
    events.TaskEnded: _measure_task_end,
    events.TaskRetrying: _measure_task_retry,
    events.TaskDeferred: _measure_task_deferral,
    events.TaskFailed: _measure_task_failure,
    events.TaskRescued: _measure_task_rescue,
    events.SourceChanged: _measure_source_change,
    events.CycleEnded: _measure_cycle_end,
}
"""What is made of each kind of event."""


def measurements(event: events.Event, values: LabelValues) -> list[Measurement]:
    """Return what is to be added for an event; nothing for one that is not counted.

    Args:
        event: What happened.
        values: Where the values of labels come from.
    """
    measured = MEASURED_EVENTS.get(type(event))
    return [] if measured is None else measured(event, values)


# What happened in this process, added up: counters and histograms that any thread may add to.

Labels = tuple[str, ...]


class Histogram(NamedTuple):
    """Amounts that were taken in.

    Attributes:
        buckets: How many are not above each bound of `BUCKETS`; the last one counts all of them.
        sum: All of them added up.
    """

    buckets: tuple[int, ...]
    sum: float


class MetricTotals:
    """Adds up what events tell.

    Args:
        values: Where the values of labels come from.
    """

    def __init__(self, values: LabelValues) -> None:
        """Begin with nothing."""
        self._values = values
        self._lock = threading.Lock()
        self._counters: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, tuple[list[int], list[float]]]] = {}
        for metric in PROCESS_METRICS.values():
            if metric.kind == "histogram":
                self._histograms[metric.key] = {}
            else:
                self._counters[metric.key] = {}
        after_fork(self._unlock)

    def add(self, event: Event) -> None:
        """Take an event in; a handler for the bus."""
        for key, labels, amount in measurements(event, self._values):
            with self._lock:
                counter = self._counters.get(key)
                if counter is not None:
                    counter[labels] = counter.get(labels, 0) + amount
                    continue
                counts, total = self._histograms[key].setdefault(labels, ([0] * (len(BUCKETS) + 1), [0.0]))
                counts[bisect_left(BUCKETS, amount)] += 1
                total[0] += amount

    def counters(self) -> dict[str, dict[Labels, float]]:
        """Return the counters by key and labels."""
        with self._lock:
            return {key: dict(each) for key, each in self._counters.items()}

    def histograms(self) -> dict[str, dict[Labels, Histogram]]:
        """Return the histograms by key and labels."""
        with self._lock:
            return {
                key: {
                    labels: Histogram(tuple(accumulate(counts)), total[0]) for labels, (counts, total) in each.items()
                }
                for key, each in self._histograms.items()
            }

    def _unlock(self) -> None:
        """Forget who held the lock; after a fork it is in the parent alone."""
        self._lock = threading.Lock()
