"""Metrics for Prometheus (extra ``metrics``): fleet metrics, read at each scrape, and metrics of this process.

>>> from outlast.observe.prometheus import metrics
>>> stop = metrics(app)  # in the default registry of prometheus_client, or in one you give
"""

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.errors import ConfigError
from outlast.observe.fleet_metrics import FleetReader, MeteredApp
from outlast.observe.metrics import (
    BUCKETS,
    FLEET_METRICS,
    MEASURED_EVENTS,
    METRICS,
    PROCESS_METRICS,
    LabelValues,
    Metric,
    MetricTotals,
)
from outlast.record.bus import subscribe

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric as Family

__all__ = ["MeteredApp", "exposing", "exposition", "metrics"]

_MISSING = "metrics for Prometheus need the extra metrics: pip install 'outlast[metrics]'"
_BUCKET_LABELS = (*(str(float(each)) for each in BUCKETS), "+Inf")
_registrations: "weakref.WeakKeyDictionary[MeteredApp, _Registration]" = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class _Registration(NamedTuple):
    """The registry of an app with metrics, and the function that ends them."""

    registry: "CollectorRegistry"
    end: Callable[[], None]


def metrics(app: MeteredApp, *, registry: "CollectorRegistry | None" = None) -> Callable[[], None]:
    """Register the metrics of an app and start counting events of this process.

    Each scrape reads the fleet metrics from the store, with a timeout of 3 seconds. If the store is down, the scrape
    returns ``outlast_up 0`` and no other fleet metrics.

    Args:
        app: The app to measure.
        registry: The registry; by default ``prometheus_client.REGISTRY``.

    Returns:
        A function that unregisters the metrics and stops counting.

    Raises:
        ConfigError: If prometheus-client is not installed, or the registry already has metrics with these names.
    """
    library = _prometheus_client()
    with _lock:
        return _register(app, library.REGISTRY if registry is None else registry).end


def exposition(app: MeteredApp) -> tuple[bytes, str]:
    """Return the body of a scrape and its content type.

    It contains everything in the registry that `metrics` was called with for the app, including your own metrics.
    Without such a call it contains only the metrics of Outlast, and counting starts with the first scrape.

    Raises:
        ConfigError: If prometheus-client is not installed.
    """
    library = _prometheus_client()
    with _lock:
        registration = _registrations.get(app) or _register(app, library.CollectorRegistry())
    return library.generate_latest(registration.registry), library.CONTENT_TYPE_LATEST


@contextmanager
def exposing(app: MeteredApp) -> Iterator[Callable[[], tuple[bytes, str]]]:
    """Count events of this process within the block. Yields a function that returns the same as `exposition`.

    Raises:
        ConfigError: If prometheus-client is not installed.
    """
    library = _prometheus_client()
    with _lock:
        own = None if app in _registrations else _register(app, library.CollectorRegistry())
    try:
        yield lambda: exposition(app)
    finally:
        if own is not None:
            own.end()


def _prometheus_client() -> Any:
    try:
        import prometheus_client  # noqa: PLC0415  # an extra, and importing Outlast must not import it
    except ImportError as error:
        raise ConfigError(_MISSING) from error
    return prometheus_client


def _register(app: MeteredApp, registry: "CollectorRegistry") -> _Registration:
    totals = MetricTotals(LabelValues(app.tasks_by_name))
    collector = _Collector(FleetReader(app.store), totals)
    try:
        registry.register(collector)
    except ValueError as error:
        raise ConfigError(
            "the registry already has metrics of Outlast; end those first, or give another registry"
        ) from error
    unsubscribe = subscribe(totals.add, *MEASURED_EVENTS)
    app_ref = weakref.ref(app)  # the registration must not keep the app alive

    def end() -> None:
        unsubscribe()
        with suppress(KeyError):  # already unregistered
            registry.unregister(collector)
        live_app = app_ref()
        with _lock:
            if live_app is not None and _registrations.get(live_app) is registration:
                del _registrations[live_app]

    registration = _Registration(registry, end)
    _registrations[app] = registration
    return registration


class _Collector:
    """The collector that the registry calls at each scrape."""

    def __init__(self, fleet: FleetReader, totals: MetricTotals) -> None:
        self._fleet, self._totals = fleet, totals

    def describe(self) -> "list[Family]":
        """Return all metrics without values, so that registering them does not read the store."""
        return [_family(metric) for metric in METRICS.values()]

    def collect(self) -> "Iterator[Family]":
        """Yield all metrics with their values."""
        families: dict[str, Any] = {key: _family(metric) for key, metric in FLEET_METRICS.items()}
        for metric, labels, value in self._fleet.samples():
            families[metric.key].add_metric(labels, value)
        yield from (family for family in families.values() if family.samples)
        for key, counted in self._totals.counters().items():
            family = _family(PROCESS_METRICS[key])
            for labels, count in counted.items():
                family.add_metric(labels, count)
            yield family
        for key, observed in self._totals.histograms().items():
            family = _family(PROCESS_METRICS[key])
            for labels, each in observed.items():
                family.add_metric(labels, list(zip(_BUCKET_LABELS, each.buckets, strict=True)), each.sum)
            yield family


def _family(metric: Metric) -> Any:
    from prometheus_client import core  # noqa: PLC0415  # an extra

    kinds = {
        "counter": core.CounterMetricFamily,
        "gauge": core.GaugeMetricFamily,
        "histogram": core.HistogramMetricFamily,
    }
    return kinds[metric.kind](metric.family, metric.text, labels=metric.labels)
