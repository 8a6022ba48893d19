"""OpenTelemetry (extra ``otel``, the API alone): metrics, span events, and a span for each attempt of a task.

>>> from outlast.observe.otel import instrument
>>> instrument(app)  # with the providers that the program has set, or with those that you give
"""

import threading
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from outlast.errors import ConfigError
from outlast.observe.fleet import Figure, Fleet, StoreProtocol
from outlast.observe.label_values import LabelValues
from outlast.observe.measuring import MEASURED, measures
from outlast.observe.metric_names import BUCKETS, FLEET, PROCESS, Metric
from outlast.observe.otel_spans import Spans
from outlast.observe.span_names import SPAN_EVENTS
from outlast.record import events
from outlast.record.bus import subscribe

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
    from opentelemetry.trace import TracerProvider

__all__ = ["AppProtocol", "instrument", "uninstrument"]

_NAME = "outlast"
_KEPT = 1.0  # seconds for which a reading of the store holds: one collection asks for each metric by itself
_MISSING = "OpenTelemetry needs the extra otel: pip install '.[otel]' in a clone of Outlast"
_lock = threading.Lock()
_current: "_Instrumentation | None" = None


class AppProtocol(Protocol):
    """An app, as far as it is measured."""

    @property
    def store(self) -> StoreProtocol:
        """Where its tasks are."""

    @property
    def tasks_by_name(self) -> Collection[str]:
        """Names of its own tasks."""


def instrument(
    app: AppProtocol | None = None,
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

    meter = metrics.get_meter(_NAME, __version__, meter_provider)
    tracer = trace.get_tracer(_NAME, __version__, tracer_provider)
    with _lock:
        fresh, before = _Instrumentation(app, meter, meter_provider, Spans(tracer)), _current
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

    def __init__(self, app: AppProtocol | None, meter: "Meter", provider: "MeterProvider | None", spans: Spans) -> None:
        self._values = LabelValues(None if app is None else app.tasks_by_name)
        self.fleet = None if app is None else Fleet(app.store, keep=_KEPT)
        self.provider, self._spans = provider, spans
        self._adders = {key: _adder(meter, metric) for key, metric in PROCESS.items()}
        self._ends: list[Callable[[], None]] = []
        if app is not None:
            for metric in FLEET.values():
                _observe(meter, provider, metric)

    def begin(self) -> None:
        spans = self._spans
        self._ends = [
            subscribe(spans.start, events.TaskStarted),
            subscribe(spans.add_event, *SPAN_EVENTS),
            subscribe(self._add, *MEASURED),
            subscribe(spans.end, events.TaskEnded),  # after it was counted: an exemplar leads to the span
        ]

    def end(self) -> None:
        for end in self._ends:
            end()

    def _add(self, event: events.Event) -> None:
        for key, labels, amount in measures(event, self._values):
            self._adders[key](amount, _attributes(PROCESS[key], labels))


def _adder(meter: "Meter", metric: Metric) -> Callable[[float, dict[str, str]], None]:
    if metric.kind == "counter":
        return meter.create_counter(metric.otel, metric.unit, metric.text).add
    histogram = meter.create_histogram(
        metric.otel, metric.unit, metric.text, explicit_bucket_boundaries_advisory=BUCKETS
    )
    return histogram.record


def _observe(meter: "Meter", provider: "MeterProvider | None", metric: Metric) -> None:
    """Have a figure of the fleet asked for. A meter keeps the first callback for ever, so that one finds the app."""
    from opentelemetry.metrics import Observation  # noqa: PLC0415  # an extra

    def callback(_: "CallbackOptions") -> "Iterable[Observation]":
        current = _current
        if current is None or current.fleet is None or current.provider is not provider:
            return []
        found: Iterable[Figure] = current.fleet.figures()
        return [Observation(each.value, _attributes(metric, each.labels)) for each in found if each.metric is metric]

    create: Any = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
    create(metric.otel, [callback], metric.unit, metric.text)


def _attributes(metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
    return {f"outlast.{name}": value for name, value in zip(metric.labels, labels, strict=True)}
