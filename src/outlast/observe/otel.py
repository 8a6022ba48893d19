"""OpenTelemetry (extra ``otel``, only its API): metrics, span events, and a span for each attempt of a task.

>>> from outlast.observe.otel import instrument
>>> instrument(app)  # with the global providers, or with those you give
"""

import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from outlast.errors import ConfigError
from outlast.failure import Failure
from outlast.observe.fleet_metrics import FleetReader, FleetSample, MeteredApp
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


SpanAttributes = dict[str, str | int | float | bool]

SPAN_ATTRIBUTES = {
    "call": "Name of the retried function or request.",
    "task": "Name of the task.",
    "task_id": "Id of the task.",
    "attempt": "Number of the attempt, from 1.",
    "attempts": "Number of attempts made.",
    "max_attempts": "Number of attempts that the policy allows.",
    "delay": "Seconds until the next attempt.",
    "elapsed": "Seconds since the first failure.",
    "reason": "Why there is no further attempt.",
    "outcome": "How the attempt of a task ended.",
    "category": "Category of the failure.",
    "origin": "The kind of system that failed, such as `http` or `db`.",
    "rule": "The rule that classified the failure.",
    "http_status": "The HTTP status, if there was a response.",
    "exception_name": "Class name of the error.",
    "failure_message": "Text of the error, redacted and truncated.",
}
"""The description of each attribute. In a trace, their names start with ``outlast.``."""


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
"""The name of the span event for each kind of event, and the function that returns its attributes."""


def span_event(event: events.Event) -> tuple[str, SpanAttributes] | None:
    """Return name and attributes of the span event for an event; None if it has no span event."""
    known = SPAN_EVENTS.get(type(event))
    return None if known is None else (known[0], span_attributes(known[1](event)))


def task_attributes(event: events.TaskStarted) -> SpanAttributes:
    """Return the attributes that the span of a task has from its start."""
    return span_attributes({"task": event.task, "task_id": event.task_id, "attempt": event.attempt})


def span_attributes(values: dict[str, Any]) -> SpanAttributes:
    """Return values as span attributes, without those that are None."""
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


_ERROR_OUTCOMES = frozenset({"retry", "fail", "crash"})
_open_span: "ContextVar[tuple[int, Span, Any] | None]" = ContextVar("outlast.span", default=None)


class TaskSpans:
    """Handlers for the bus that write spans. The bus calls them in the thread or coroutine of the event.

    Args:
        tracer: Creates the spans.
    """

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer

    def start(self, event: events.TaskStarted) -> None:
        """Start the span of a task and make it the current one, so that spans within the task become its children."""
        from opentelemetry import context, trace  # noqa: PLC0415  # an extra

        span = self._tracer.start_span(
            f"task {event.task}", kind=trace.SpanKind.CONSUMER, attributes=task_attributes(event)
        )
        _open_span.set((event.task_id, span, context.attach(trace.set_span_in_context(span))))

    def end(self, event: events.TaskEnded) -> None:
        """End the span of a task."""
        from opentelemetry import context, trace  # noqa: PLC0415  # an extra

        started = _open_span.get()
        if started is None or started[0] != event.task_id:  # the task started before the subscription
            return
        _open_span.set(None)
        _, span, token = started
        span.set_attributes(span_attributes({"outcome": event.outcome}))
        if event.outcome in _ERROR_OUTCOMES:
            span.set_status(trace.StatusCode.ERROR)
        context.detach(token)
        span.end()

    def add_event(self, event: events.Event) -> None:
        """Add a span event to the current span, if that is recorded."""
        from opentelemetry import trace  # noqa: PLC0415  # an extra

        span = trace.get_current_span()
        if not span.is_recording():
            return
        found = span_event(event)
        if found is not None:
            span.add_event(*found)


_SCOPE_NAME = "outlast"
_READING_TTL = 1.0  # seconds; one collection asks for each metric separately, but reads the store once
_MISSING = "OpenTelemetry needs the extra otel: pip install 'outlast[otel]'"
_lock = threading.Lock()
_current: "_Instrumentation | None" = None


def instrument(
    app: MeteredApp | None = None,
    *,
    tracer_provider: "TracerProvider | None" = None,
    meter_provider: "MeterProvider | None" = None,
) -> None:
    """Send metrics and spans of this process to OpenTelemetry. Replaces an earlier instrumentation.

    Args:
        app: Adds the fleet metrics, read from the app's store at each collection, and the names of its tasks.
        tracer_provider: Receives the spans; by default the global provider.
        meter_provider: Receives the metrics; by default the global provider.

    Raises:
        ConfigError: If opentelemetry-api is not installed.
    """
    global _current  # noqa: PLW0603  # one per process, like the bus
    try:
        from opentelemetry import metrics, trace  # noqa: PLC0415  # an extra, and importing Outlast must not import it
    except ImportError as error:
        raise ConfigError(_MISSING) from error
    from outlast import __version__  # noqa: PLC0415  # the package is loaded by now

    meter = metrics.get_meter(_SCOPE_NAME, __version__, meter_provider)
    tracer = trace.get_tracer(_SCOPE_NAME, __version__, tracer_provider)
    with _lock:
        new, previous = _Instrumentation(app, meter, meter_provider, TaskSpans(tracer)), _current
        if previous is not None:
            previous.stop()
        _current = new
        new.start()


def uninstrument() -> None:
    """Stop sending to OpenTelemetry. Does nothing without an earlier `instrument`."""
    global _current
    with _lock:
        previous, _current = _current, None
        if previous is not None:
            previous.stop()


class _Instrumentation:
    """The subscriptions to the bus."""

    def __init__(
        self, app: MeteredApp | None, meter: "Meter", provider: "MeterProvider | None", spans: TaskSpans
    ) -> None:
        self._values = LabelValues(None if app is None else app.tasks_by_name)
        self.fleet = None if app is None else FleetReader(app.store, keep=_READING_TTL)
        self.provider, self._spans = provider, spans
        self._adders = {key: _add_function(meter, metric) for key, metric in PROCESS_METRICS.items()}
        self._unsubscribers: list[Callable[[], None]] = []
        if app is not None:
            for metric in FLEET_METRICS.values():
                _register_observable(meter, provider, metric)

    def start(self) -> None:
        spans = self._spans
        self._unsubscribers = [
            subscribe(spans.start, events.TaskStarted),
            subscribe(spans.add_event, *SPAN_EVENTS),
            subscribe(self._add, *MEASURED_EVENTS),
            subscribe(spans.end, events.TaskEnded),  # after the measurements, so that an exemplar links to the span
        ]

    def stop(self) -> None:
        for unsubscribe in self._unsubscribers:
            unsubscribe()

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
    """Register a fleet metric. A meter keeps its first callback forever, so the callback looks up the current app."""
    from opentelemetry.metrics import Observation  # noqa: PLC0415  # an extra

    def callback(_: "CallbackOptions") -> "Iterable[Observation]":
        current = _current
        if current is None or current.fleet is None or current.provider is not provider:
            return []
        found: Iterable[FleetSample] = current.fleet.samples()
        return [
            Observation(each.value, _label_attributes(metric, each.labels)) for each in found if each.metric is metric
        ]

    create: Any = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
    create(metric.otel, [callback], metric.unit, metric.text)


def _label_attributes(metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
    return {f"outlast.{name}": value for name, value in zip(metric.labels, labels, strict=True)}
