"""OpenTelemetry (extra ``otel``, the API alone): metrics, span events, and a span for each attempt of a task.

>>> from outlast.observe.otel import instrument
>>> instrument(app)  # with the providers that the program has set, or with those that you give
"""

import threading
from collections.abc import Callable, Collection, Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from outlast.errors import ConfigError
from outlast.failure import Failure
from outlast.observe.fleet_metrics import FleetReader, FleetSample, MeteredStore
from outlast.observe.metrics import (
    BUCKETS,
    FLEET_METRICS,
    MEASURED_EVENTS,
    PROCESS_METRICS,
    LabelValues,
    Metric,
    measurements,
)
from outlast.record import events
from outlast.record.bus import subscribe

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
    from opentelemetry.trace import Span, Tracer, TracerProvider

__all__ = ["MeteredApp", "instrument", "uninstrument"]


# What Outlast writes into traces: names of span events and attributes, and from which event they come. Pure.

SpanAttributes = dict[str, str | int | float | bool]

SPAN_ATTRIBUTES = {
    "call": "What is called under a retry.",
    "task": "Name of the task.",
    "task_id": "Its number.",
    "attempt": "Number of the attempt, from 1.",
    "attempts": "How many attempts were made.",
    "max_attempts": "Attempts that the policy allows in all.",
    "delay": "Seconds until the next attempt.",
    "elapsed": "Seconds since the first failure.",
    "reason": "Why no further attempt is made.",
    "outcome": "What became of the attempt of a task.",
    "category": "The category of the failure.",
    "origin": "What the program was talking to.",
    "rule": "The rule that decided.",
    "http_status": "The HTTP status, where there was a response.",
    "exception_name": "Class of the error.",
    "failure_message": "Text of the error, redacted and capped.",
}
"""What each attribute says; in a trace all begin with ``outlast.``."""


def _call_values(name: str, attempt: int, max_attempts: int, failure: Failure, **more: Any) -> dict[str, Any]:
    return {"call": name, "attempt": attempt, "max_attempts": max_attempts, **more, **_failure_values(failure)}


def _task_values(event: Any, **more: Any) -> dict[str, Any]:
    about = {"task": event.task, "task_id": event.task_id, "attempt": event.attempt}
    return {**about, **more, **_failure_values(event.failure)}


def _attempt_failed_values(event: events.AttemptFailed) -> dict[str, Any]:
    return _call_values(event.name, event.attempt, event.max_attempts, event.failure)


def _retry_values(event: events.Retrying) -> dict[str, Any]:
    return _call_values(event.name, event.attempt, event.max_attempts, event.failure, delay=event.delay)


def _give_up_values(event: events.GaveUp) -> dict[str, Any]:
    about = {"call": event.name, "attempts": event.attempts, "elapsed": event.elapsed, "reason": event.reason}
    return {**about, **_failure_values(event.failure)}


def _recovery_values(event: events.Recovered) -> dict[str, Any]:
    return {"call": event.name, "attempts": event.attempts, "elapsed": event.elapsed}


def _task_retry_values(event: events.TaskRetrying) -> dict[str, Any]:
    return _task_values(event, delay=event.delay)


def _task_deferral_values(event: events.TaskDeferred) -> dict[str, Any]:
    return _task_values(event, delay=event.delay)


def _task_failure_values(event: events.TaskFailed) -> dict[str, Any]:
    return _task_values(event, reason=event.reason)


SPAN_EVENTS: dict[type[events.Event], tuple[str, Callable[[Any], dict[str, Any]]]] = {
    events.AttemptFailed: ("outlast.attempt_failed", _attempt_failed_values),
    events.Retrying: ("outlast.retrying", _retry_values),
    events.GaveUp: ("outlast.gave_up", _give_up_values),
    events.Recovered: ("outlast.recovered", _recovery_values),
    events.TaskRetrying: ("outlast.task_retrying", _task_retry_values),
    events.TaskDeferred: ("outlast.task_deferred", _task_deferral_values),
    events.TaskFailed: ("outlast.task_failed", _task_failure_values),
}
"""The name of the span event for each kind of event, and what gives its attributes."""


def span_event(event: events.Event) -> tuple[str, SpanAttributes] | None:
    """Return the span event for an event as its name and attributes; None where there is none."""
    known = SPAN_EVENTS.get(type(event))
    return None if known is None else (known[0], span_attributes(known[1](event)))


def task_attributes(event: events.TaskStarted) -> SpanAttributes:
    """Return what the span of a task has from its start."""
    return span_attributes({"task": event.task, "task_id": event.task_id, "attempt": event.attempt})


def span_attributes(values: dict[str, Any]) -> SpanAttributes:
    """Return values as attributes, without those that are not known."""
    return {f"outlast.{key}": value for key, value in values.items() if value is not None}


def _failure_values(failure: Failure) -> dict[str, Any]:
    return {
        "category": failure.category.value,
        "origin": failure.origin.value,
        "rule": failure.rule,
        "http_status": failure.http_status,
        "exception_name": failure.exception_name,
        "failure_message": failure.message,
    }


# Spans of OpenTelemetry: one for each attempt of a task, and events on whatever span is current.

_ERROR_OUTCOMES = frozenset({"retry", "fail", "crash"})
_open_span: "ContextVar[tuple[int, Span, Any] | None]" = ContextVar("outlast.span", default=None)


class TaskSpans:
    """Handlers for the bus, which calls them in the thread or coroutine in which things happen.

    Args:
        tracer: Makes the spans.
    """

    def __init__(self, tracer: "Tracer") -> None:
        """Keep the tracer."""
        self._tracer = tracer

    def start(self, event: events.TaskStarted) -> None:
        """Begin the span of a task and make it the current one, so that what the task does stands below it."""
        from opentelemetry import context, trace  # noqa: PLC0415  # an extra

        span = self._tracer.start_span(
            f"task {event.task}", kind=trace.SpanKind.CONSUMER, attributes=task_attributes(event)
        )
        _open_span.set((event.task_id, span, context.attach(trace.set_span_in_context(span))))

    def end(self, event: events.TaskEnded) -> None:
        """End the span of a task."""
        from opentelemetry import context, trace  # noqa: PLC0415  # an extra

        mine = _open_span.get()
        if mine is None or mine[0] != event.task_id:  # it began before anybody listened
            return
        _open_span.set(None)
        _, span, token = mine
        span.set_attributes(span_attributes({"outcome": event.outcome}))
        if event.outcome in _ERROR_OUTCOMES:
            span.set_status(trace.StatusCode.ERROR)
        context.detach(token)
        span.end()

    def add_event(self, event: events.Event) -> None:
        """Add what happened to the current span, where it is recorded."""
        from opentelemetry import trace  # noqa: PLC0415  # an extra

        span = trace.get_current_span()
        if not span.is_recording():
            return
        found = span_event(event)
        if found is not None:
            span.add_event(*found)


_SCOPE_NAME = "outlast"
_READING_TTL = 1.0  # seconds for which a reading of the store holds: one collection asks for each metric by itself
_MISSING = "OpenTelemetry needs the extra otel: pip install 'outlast[otel]'"
_lock = threading.Lock()
_current: "_Instrumentation | None" = None


class MeteredApp(Protocol):
    """An app, as far as it is measured."""

    @property
    def store(self) -> MeteredStore:
        """Where its tasks are."""

    @property
    def tasks_by_name(self) -> Collection[str]:
        """Names of its own tasks."""


def instrument(
    app: MeteredApp | None = None,
    *,
    tracer_provider: "TracerProvider | None" = None,
    meter_provider: "MeterProvider | None" = None,
) -> None:
    """Tell OpenTelemetry what happens in this process from now on; what was told before ends.

    Args:
        app: Adds the figures of its fleet, read from its store at each collection, and the names of its tasks.
        tracer_provider: Where spans go; by default the program's own.
        meter_provider: Where metrics go; by default the program's own.

    Raises:
        ConfigError: If opentelemetry-api is not installed.
    """
    global _current  # noqa: PLW0603  # one for the process, as the bus is
    try:
        from opentelemetry import metrics, trace  # noqa: PLC0415  # an extra, and importing Outlast must not import it
    except ImportError as error:
        raise ConfigError(_MISSING) from error
    from outlast import __version__  # noqa: PLC0415  # the package is loaded by now

    meter = metrics.get_meter(_SCOPE_NAME, __version__, meter_provider)
    tracer = trace.get_tracer(_SCOPE_NAME, __version__, tracer_provider)
    with _lock:
        fresh, before = _Instrumentation(app, meter, meter_provider, TaskSpans(tracer)), _current
        if before is not None:
            before.end()
        _current = fresh
        fresh.begin()


def uninstrument() -> None:
    """Tell it nothing more; does nothing where nothing is told."""
    global _current
    with _lock:
        before, _current = _current, None
        if before is not None:
            before.end()


class _Instrumentation:
    """What subscribes to the bus."""

    def __init__(
        self, app: MeteredApp | None, meter: "Meter", provider: "MeterProvider | None", spans: TaskSpans
    ) -> None:
        self._values = LabelValues(None if app is None else app.tasks_by_name)
        self.fleet = None if app is None else FleetReader(app.store, keep=_READING_TTL)
        self.provider, self._spans = provider, spans
        self._adders = {key: _add_function(meter, metric) for key, metric in PROCESS_METRICS.items()}
        self._ends: list[Callable[[], None]] = []
        if app is not None:
            for metric in FLEET_METRICS.values():
                _register_observable(meter, provider, metric)

    def begin(self) -> None:
        spans = self._spans
        self._ends = [
            subscribe(spans.start, events.TaskStarted),
            subscribe(spans.add_event, *SPAN_EVENTS),
            subscribe(self._add, *MEASURED_EVENTS),
            subscribe(spans.end, events.TaskEnded),  # after it was counted: an exemplar leads to the span
        ]

    def end(self) -> None:
        for end in self._ends:
            end()

    def _add(self, event: events.Event) -> None:
        for key, labels, amount in measurements(event, self._values):
            self._adders[key](amount, _label_attributes(PROCESS_METRICS[key], labels))


def _add_function(meter: "Meter", metric: Metric) -> Callable[[float, dict[str, str]], None]:
    if metric.kind == "counter":
        return meter.create_counter(metric.otel, metric.unit, metric.text).add
    histogram = meter.create_histogram(
        metric.otel, metric.unit, metric.text, explicit_bucket_boundaries_advisory=BUCKETS
    )
    return histogram.record


def _register_observable(meter: "Meter", provider: "MeterProvider | None", metric: Metric) -> None:
    """Have a figure of the fleet asked for. A meter keeps the first callback for ever, so that one finds the app."""
    from opentelemetry.metrics import Observation  # noqa: PLC0415  # an extra

    def callback(_: "CallbackOptions") -> "Iterable[Observation]":
        current = _current
        if current is None or current.fleet is None or current.provider is not provider:
            return []
        found: Iterable[FleetSample] = current.fleet.figures()
        return [
            Observation(each.value, _label_attributes(metric, each.labels)) for each in found if each.metric is metric
        ]

    create: Any = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
    create(metric.otel, [callback], metric.unit, metric.text)


def _label_attributes(metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
    return {f"outlast.{name}": value for name, value in zip(metric.labels, labels, strict=True)}
