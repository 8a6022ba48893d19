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

SPAN_EVENTS: dict[type[events.Event], tuple[str, tuple[str, ...]]] = {
    events.AttemptFailed: ("outlast.attempt_failed", ("call", "attempt", "max_attempts")),
    events.Retrying: ("outlast.retrying", ("call", "attempt", "max_attempts", "delay")),
    events.GaveUp: ("outlast.gave_up", ("call", "attempts", "elapsed", "reason")),
    events.Recovered: ("outlast.recovered", ("call", "attempts", "elapsed")),
    events.TaskRetrying: ("outlast.task_retrying", ("task", "task_id", "attempt", "delay")),
    events.TaskDeferred: ("outlast.task_deferred", ("task", "task_id", "attempt", "delay")),
    events.TaskFailed: ("outlast.task_failed", ("task", "task_id", "attempt", "reason")),
}
"""The name of the span event for each kind of event, and its attributes besides those of the failure."""


def span_event(event: events.Event) -> tuple[str, SpanAttributes]:
    """Return name and attributes of the span event for one of `SPAN_EVENTS`."""
    name, keys = SPAN_EVENTS[type(event)]
    values = {key: getattr(event, "name" if key == "call" else key) for key in keys}
    failure: Failure | None = getattr(event, "failure", None)
    return name, span_attributes(values | ({} if failure is None else _failure_values(failure)))


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

        attributes = span_attributes({"task": event.task, "task_id": event.task_id, "attempt": event.attempt})
        span = self._tracer.start_span(f"task {event.task}", kind=trace.SpanKind.CONSUMER, attributes=attributes)
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
        if span.is_recording():
            span.add_event(*span_event(event))


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
