"""Metrics for Prometheus (extra ``metrics``): figures of the fleet at each scrape, and what happened in this process.

>>> from outlast.observe.prometheus import metrics
>>> end = metrics(app)  # in prometheus_client's own registry, or in one that you give
"""

import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from outlast.errors import ConfigError
from outlast.observe.fleet_metrics import FleetReader, MeteredStore
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


class MeteredApp(Protocol):
    """An app, as far as it is measured."""

    @property
    def store(self) -> MeteredStore:
        """Where its tasks are."""

    @property
    def tasks_by_name(self) -> Collection[str]:
        """Names of its own tasks."""


class _Registration(NamedTuple):
    """An app that is measured: where, and how that ends."""

    registry: "CollectorRegistry"
    end: Callable[[], None]


def metrics(app: MeteredApp, *, registry: "CollectorRegistry | None" = None) -> Callable[[], None]:
    """Register the metrics of an app, and count what happens in this process from now on.

    Each scrape reads the figures of the fleet from the store, within three seconds; of a store that is down it says
    ``outlast_up 0``.

    Args:
        app: What is measured.
        registry: Where; by default ``prometheus_client.REGISTRY``.

    Returns:
        A function that ends it.

    Raises:
        ConfigError: If prometheus-client is not installed, or the registry has metrics of these names already.
    """
    library = _prometheus_client()
    with _lock:
        return _register(app, library.REGISTRY if registry is None else registry).end


def exposition(app: MeteredApp) -> tuple[bytes, str]:
    """Return what a scrape of an app is answered with: the body and its content type.

    It has all that is in the registry which `metrics` was given for the app, your own metrics among it. Where that was
    never called, it has Outlast's metrics alone, and counting begins with the first call.

    Raises:
        ConfigError: If prometheus-client is not installed.
    """
    library = _prometheus_client()
    with _lock:
        watch = _registrations.get(app) or _register(app, library.CollectorRegistry())
    return library.generate_latest(watch.registry), library.CONTENT_TYPE_LATEST


@contextmanager
def exposing(app: MeteredApp) -> Iterator[Callable[[], tuple[bytes, str]]]:
    """Count what happens in this process within the block, and give what `exposition` returns.

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
    tally = MetricTotals(LabelValues(app.tasks_by_name))
    collector = _Collector(FleetReader(app.store), tally)
    try:
        registry.register(collector)
    except ValueError as error:
        message = "the registry has metrics of Outlast already; end those first, or give another registry"
        raise ConfigError(message) from error
    unsubscribe = subscribe(tally.add, *MEASURED_EVENTS)
    known = weakref.ref(app)  # what is kept for an app must not keep the app

    def end() -> None:
        unsubscribe()
        with suppress(KeyError):  # ended before
            registry.unregister(collector)
        measured = known()
        with _lock:
            if measured is not None and _registrations.get(measured) is watch:
                del _registrations[measured]

    watch = _Registration(registry, end)
    _registrations[app] = watch
    return watch


class _Collector:
    """What the registry asks at each scrape."""

    def __init__(self, fleet: FleetReader, tally: MetricTotals) -> None:
        self._fleet, self._tally = fleet, tally

    def describe(self) -> "list[Family]":
        """Return all metrics without values, so that registering them reads nothing."""
        return [_family(metric) for metric in METRICS.values()]

    def collect(self) -> "Iterator[Family]":
        """Return all metrics with what there is."""
        families: dict[str, Any] = {key: _family(metric) for key, metric in FLEET_METRICS.items()}
        for metric, labels, value in self._fleet.figures():
            families[metric.key].add_metric(labels, value)
        yield from (family for family in families.values() if family.samples)
        for key, counted in self._tally.counters().items():
            family = _family(PROCESS_METRICS[key])
            for labels, count in counted.items():
                family.add_metric(labels, count)
            yield family
        for key, taken in self._tally.histograms().items():
            family = _family(PROCESS_METRICS[key])
            for labels, each in taken.items():
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
