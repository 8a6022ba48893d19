"""Every metric by name, once for Prometheus and OpenTelemetry: what it is, its unit and its labels."""

from typing import NamedTuple

__all__ = ["BUCKETS", "FLEET", "LABELS", "METRICS", "PROCESS", "Metric"]

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


FLEET = {
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

PROCESS = {
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

METRICS = {**FLEET, **PROCESS}
"""All of them."""
