"""All metrics with their units and labels, the measurements taken from events, and their totals in this process."""

import re
import threading
from bisect import bisect_left
from collections.abc import Collection
from itertools import accumulate
from typing import Any, NamedTuple

from outlast.forks import after_fork
from outlast.ports.rows import storable
from outlast.record import events
from outlast.record.events import Event

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Upper bounds of histograms, in seconds."""


class Metric(NamedTuple):
    """One metric.

    Attributes:
        key: The name without prefix, unit and suffix.
        kind: ``counter``, ``gauge`` or ``histogram``.
        labels: The names of its labels, in order.
        unit: ``s`` for seconds, otherwise empty.
        text: The description, in one line.
    """

    key: str
    kind: str
    labels: tuple[str, ...]
    unit: str
    text: str

    @property
    def family(self) -> str:
        """The name of its family in Prometheus, without ``_total``."""
        return f"outlast_{self.key}{'_seconds' if self.unit == 's' else ''}"

    @property
    def prometheus(self) -> str:
        """The name in Prometheus."""
        return f"{self.family}_total" if self.kind == "counter" else self.family

    @property
    def otel(self) -> str:
        """The name in OpenTelemetry."""
        return f"outlast.{self.key}"


FLEET_METRICS = {
    each.key: each
    for each in (
        Metric("up", "gauge", (), "", "1 if the store answers; 0 if not, then there are no other fleet metrics."),
        Metric("tasks", "counter", ("event",), "", "Events of tasks since the store was created."),
        Metric("tasks_by_status", "gauge", ("status",), "", "Tasks in the store, by status."),
        Metric("dead_letters", "gauge", (), "", "Dead letters."),
        Metric("retries_waiting", "gauge", (), "", "Tasks that wait for a retry, up to 10,000."),
        Metric("oldest_ready", "gauge", (), "s", "How long the oldest ready task has waited; 0 if there is none."),
        Metric("workers", "gauge", ("state",), "", "Workers: alive, or silent with an expired lease."),
        Metric("sources", "gauge", ("state",), "", "Sources, by state."),
        Metric("cooling_resources", "gauge", (), "", "Resources in a cooldown."),
        Metric("open_breakers", "gauge", (), "", "Resources with an open circuit breaker in some process."),
        Metric("paused_queues", "gauge", (), "", "Paused queues."),
        Metric("alerts_waiting", "gauge", (), "", "Alerts that are not delivered yet, up to 10,000."),
        Metric("running_jobs", "gauge", (), "", "Job runs that have not ended."),
    )
}
"""Metrics of the whole fleet, read from the store. They are the same in every process."""

PROCESS_METRICS = {
    each.key: each
    for each in (
        Metric("attempts_failed", "counter", ("call", "category"), "", "Failed attempts of calls."),
        Metric("retries", "counter", ("call", "category"), "", "Failed attempts that were retried."),
        Metric("retry_delay", "histogram", ("category",), "s", "Waits before a retry of a call."),
        Metric("give_ups", "counter", ("call", "category", "reason"), "", "Calls that were given up."),
        Metric("recoveries", "counter", ("call",), "", "Calls that succeeded after failed attempts."),
        Metric("recovery", "histogram", (), "s", "Time from the first failure of a call to its success."),
        Metric("observed", "counter", ("call", "category", "decision"), "", "Failures seen in observe mode."),
        Metric("breaker_transitions", "counter", ("resource", "state"), "", "State changes of circuit breakers."),
        Metric("budget_exhausted", "counter", ("resource",), "", "Retries refused by the retry budget of a resource."),
        Metric("cooldowns_begun", "counter", ("resource",), "", "Cooldowns that started."),
        Metric("cooldown", "histogram", (), "s", "Duration of cooldowns."),
        Metric("task_attempts", "counter", ("task", "outcome"), "", "Attempts of tasks that ended."),
        Metric("task_duration", "histogram", ("task",), "s", "Duration of task attempts."),
        Metric("tasks_retried", "counter", ("task", "category"), "", "Failed attempts of tasks that are retried."),
        Metric("tasks_deferred", "counter", ("task", "category"), "", "Tasks that were deferred, no attempt used."),
        Metric("tasks_failed", "counter", ("task", "category", "reason"), "", "Tasks that became dead letters."),
        Metric("tasks_rescued", "counter", ("outcome",), "", "Tasks taken back from workers that died."),
        Metric("source_transitions", "counter", ("state",), "", "State changes of sources."),
        Metric("cycles", "counter", ("profile", "outage"), "", "Poll cycles that ended."),
        Metric("sources_polled", "counter", ("profile",), "", "Polls in cycles that ended."),
        Metric("polls_failed", "counter", ("profile",), "", "Failed polls in cycles that ended."),
    )
}
"""Metrics of this process, counted from the events on the bus."""

METRICS = {**FLEET_METRICS, **PROCESS_METRICS}
"""All metrics."""

MAX_NAMES = 100
"""The number of different names per label. Later ones become `OTHER`, because each value costs memory."""
OTHER = "other"
_MAX_LENGTH = 200  # characters
_REQUEST_NAME = re.compile(r"([A-Za-z]+) [a-z0-9+.-]+://([^/?#\s]*)")


class LabelValues:
    """The label values seen so far.

    Args:
        own_tasks: The names of the app's own tasks, which may grow; None without an app.
    """

    def __init__(self, own_tasks: Collection[str] | None = None) -> None:
        self._own_tasks = own_tasks
        self._known: dict[str, dict[str, str]] = {}

    def task(self, name: str) -> str:
        """Return the name of a task if it belongs to the app, else `OTHER`."""
        if self._own_tasks is None:
            return self.name("task", name)
        return storable(name, _MAX_LENGTH) if name in self._own_tasks else OTHER

    def name(self, label: str, name: str) -> str:
        """Return a name if it is among the first `MAX_NAMES` of its label, else `OTHER`.

        Args:
            label: The label; each one counts its own names.
            name: Any text.
        """
        text = call_name(name) if label == "call" else name
        known = self._known.setdefault(label, {})
        value = known.get(text)
        if value is None:
            if len(known) >= MAX_NAMES:  # two threads may both get here; one more name does no harm
                return OTHER
            value = known[text] = storable(text, _MAX_LENGTH)
        return value


def call_name(name: str) -> str:
    """Return the name of a call; for a request only method and host, because paths are unlimited."""
    request = _REQUEST_NAME.match(name)
    return f"{request[1]} {request[2].rpartition('@')[2]}" if request else name


class Measurement(NamedTuple):
    """An amount to add to a metric.

    Attributes:
        key: The key of the metric in `PROCESS_METRICS`.
        labels: The values of its labels, in order.
        amount: The increment of a counter, or the observed value of a histogram.
    """

    key: str
    labels: tuple[str, ...]
    amount: float = 1


_BREAKER_STATES: dict[type[Event], str] = {
    events.BreakerOpened: "open",
    events.BreakerHalfOpened: "half_open",
    events.BreakerClosed: "closed",
}


def _label_value(label: str, event: Any, values: LabelValues) -> str:
    match label:
        case "call":
            return values.name(label, event.name)
        case "category":
            return str(event.failure.category.value)
        case "outage":
            return "true" if event.outage else "false"
        case "profile" | "resource":
            return values.name(label, getattr(event, label))
        case "state":
            return _BREAKER_STATES.get(type(event)) or str(event.after)
        case "task":
            return values.task(event.task)
        case _:
            return str(getattr(event, label))


MEASURED_EVENTS: dict[type[Event], dict[str, str | None]] = {
    events.AttemptFailed: {"attempts_failed": None},
    events.Retrying: {"retries": None, "retry_delay": "delay"},
    events.GaveUp: {"give_ups": None},
    events.Recovered: {"recoveries": None, "recovery": "elapsed"},
    events.Observed: {"observed": None},
    events.BreakerOpened: {"breaker_transitions": None},
    events.BreakerHalfOpened: {"breaker_transitions": None},
    events.BreakerClosed: {"breaker_transitions": None},
    events.BudgetExhausted: {"budget_exhausted": None},
    events.CooledDown: {"cooldowns_begun": None, "cooldown": "seconds"},
    events.TaskEnded: {"task_attempts": None, "task_duration": "seconds"},
    events.TaskRetrying: {"tasks_retried": None},
    events.TaskDeferred: {"tasks_deferred": None},
    events.TaskFailed: {"tasks_failed": None},
    events.TaskRescued: {"tasks_rescued": None},
    events.SourceChanged: {"source_transitions": None},
    events.CycleEnded: {"cycles": None, "sources_polled": "polled", "polls_failed": "failed"},
}
"""The metrics that each kind of event adds to, and the field with the amount; None adds 1."""


def measurements(event: Event, values: LabelValues) -> list[Measurement]:
    """Return the measurements of an event; an empty list if it is not counted.

    Args:
        event: The event.
        values: The label values seen so far.
    """
    return [
        Measurement(
            key,
            tuple(_label_value(label, event, values) for label in PROCESS_METRICS[key].labels),
            1 if field is None else getattr(event, field),
        )
        for key, field in MEASURED_EVENTS.get(type(event), {}).items()
    ]


Labels = tuple[str, ...]


class Histogram(NamedTuple):
    """The observed values of a histogram.

    Attributes:
        buckets: The number of values up to each bound of `BUCKETS`; the last one counts all values.
        sum: The sum of all values.
    """

    buckets: tuple[int, ...]
    sum: float


class MetricTotals:
    """Counters and histograms of this process. Any thread may add to them.

    Args:
        values: The label values seen so far.
    """

    def __init__(self, values: LabelValues) -> None:
        self._values = values
        self._lock = threading.Lock()
        kinds = {key: metric.kind for key, metric in PROCESS_METRICS.items()}
        self._counters: dict[str, dict[Labels, float]] = {key: {} for key in kinds if kinds[key] == "counter"}
        self._histograms: dict[str, dict[Labels, tuple[list[int], list[float]]]] = {
            key: {} for key in kinds if kinds[key] == "histogram"
        }
        after_fork(self._unlock)

    def add(self, event: Event) -> None:
        """Add the measurements of an event; a handler for the bus."""
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
        """Replace the lock. After a fork, its holder exists only in the parent."""
        self._lock = threading.Lock()
