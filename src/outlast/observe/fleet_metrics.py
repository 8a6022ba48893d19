"""Metrics of the whole fleet, read from the store with a timeout and without raising errors."""

import logging
import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import NamedTuple, Protocol

from outlast.forks import after_fork
from outlast.observe.metrics import FLEET_METRICS, Metric
from outlast.ports.read_rows import Pulse

READ_TIMEOUT = 3.0
"""Seconds to wait for the store. Prometheus waits 10 s for a scrape."""
_LOG_EVERY = 60.0  # seconds between two log records about a store that is down
_FLOW_WINDOW = 60.0  # seconds of flow, which is not used here
log = logging.getLogger("outlast.metrics")


class MeteredStore(Protocol):
    """The methods of a store that metrics need."""

    def pulse(self, *, window: float = ..., step: float = ...) -> Pulse:
        """Return the current counts."""

    def event_totals(self) -> dict[str, int]:
        """Return how often each event has happened so far."""


class MeteredApp(Protocol):
    """The attributes of an app that metrics need."""

    @property
    def store(self) -> MeteredStore:
        """The store with its tasks."""

    @property
    def tasks_by_name(self) -> Collection[str]:
        """The names of its own tasks."""


class FleetReading(NamedTuple):
    """The data of one read of the store."""

    pulse: Pulse
    books: dict[str, int]


class FleetSample(NamedTuple):
    """One value of a fleet metric."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


class FleetReader:
    """Reads the fleet metrics from a store.

    Callers that ask during a read share its result. A store that does not answer in time counts as down. While a read
    hangs, no other read starts, so that threads do not pile up.

    Args:
        store: The store to read.
        keep: Seconds for which a result is reused; 0 reads each time.
        timeout: Seconds to wait for the store.
    """

    def __init__(self, store: MeteredStore, *, keep: float = 0.0, timeout: float = READ_TIMEOUT) -> None:
        self._store, self._keep, self._timeout = store, keep, timeout
        self._logged_at: float | None = None
        self._latest: tuple[Future[FleetReading | None], float]
        self._reset()
        after_fork(self._reset)

    def samples(self) -> Iterator[FleetSample]:
        """Yield all fleet metrics. If the store is down, yield only ``up`` with 0."""
        reading = self.read()
        yield FleetSample(FLEET_METRICS["up"], (), 0 if reading is None else 1)
        if reading is not None:
            yield from _samples(reading)

    def read(self) -> FleetReading | None:
        """Return the data of the store; None if it is down."""
        future, started_at = self._start_read()
        try:
            return future.result(timeout=max(0.0, started_at + self._timeout - time.monotonic()))
        except TimeoutError:
            self._log_store_down("no answer within %g s", self._timeout)
            return None

    def _start_read(self) -> "tuple[Future[FleetReading | None], float]":
        """Return the latest read and its start time on the monotonic clock; start a read if there is no current one."""
        with self._lock:
            future, started_at = self._latest
            if not future.done() or (started_at and time.monotonic() - self._read_at < self._keep):
                return self._latest
            self._latest = future, started_at = Future(), time.monotonic()
        try:
            threading.Thread(target=self._read_store, args=(future,), name="outlast-metrics", daemon=True).start()
        except RuntimeError as error:  # no more threads
            self._log_error(error)
            self._finish(future, None)
        return future, started_at

    def _read_store(self, future: "Future[FleetReading | None]") -> None:
        reading = None
        try:
            pulse = self._store.pulse(window=_FLOW_WINDOW, step=_FLOW_WINDOW)
            reading = FleetReading(pulse, self._store.event_totals())
        except BaseException as error:  # noqa: BLE001  # the store counts as down, and the scrape gets an answer
            self._log_error(error)
        finally:
            self._finish(future, reading)

    def _finish(self, future: "Future[FleetReading | None]", reading: FleetReading | None) -> None:
        self._read_at = time.monotonic()
        future.set_result(reading)

    def _reset(self) -> None:
        """Forget a read under way. After a fork, its thread and the holder of the lock exist only in the parent."""
        self._lock = threading.Lock()
        self._read_at = 0.0
        nothing: Future[FleetReading | None] = Future()
        nothing.set_result(None)
        self._latest = (nothing, 0.0)

    def _log_error(self, error: BaseException) -> None:
        with suppress(Exception):
            from outlast.classify import classify  # noqa: PLC0415  # only needed for errors

            failure = classify(error)
            self._log_store_down("%s: %s", failure.category.value, failure.summary, **failure.log_keys())

    def _log_store_down(self, text: str, *args: object, **keys: object) -> None:
        """Log that the store is down, at most once per minute."""
        now = time.monotonic()
        if self._logged_at is not None and now - self._logged_at < _LOG_EVERY:
            return
        self._logged_at = now
        with suppress(Exception):  # a log handler that raises must not change the result
            log.warning(f"no metrics from the store: {text}", *args, extra=keys)  # noqa: G004  # text is a constant


def _samples(reading: FleetReading) -> Iterator[FleetSample]:
    pulse = reading.pulse
    by_label = {
        "tasks": reading.books,
        "tasks_by_status": {status: count for status, count in pulse.counts.items() if status != "dead_letters"},
        "workers": {"alive": pulse.workers, "silent": pulse.silent_workers},
        "sources": pulse.sources,
    }
    for key, counts in by_label.items():
        yield from (FleetSample(FLEET_METRICS[key], (str(label),), count) for label, count in counts.items())
    yield FleetSample(FLEET_METRICS["dead_letters"], (), pulse.counts.get("dead_letters", 0))
    yield FleetSample(FLEET_METRICS["oldest_ready"], (), pulse.oldest_ready or 0.0)
    yield FleetSample(FLEET_METRICS["cooling_resources"], (), pulse.cooldowns)
    for key in ("retries_waiting", "open_breakers", "paused_queues", "alerts_waiting", "running_jobs"):
        yield FleetSample(FLEET_METRICS[key], (), getattr(pulse, key))
