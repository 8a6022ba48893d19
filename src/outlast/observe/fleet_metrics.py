"""Figures of the fleet, read from the store: within bounded time, by one reader at once, and never with an error."""

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import NamedTuple, Protocol

from outlast.forks import after_fork
from outlast.observe.metrics import FLEET_METRICS, Metric
from outlast.ports.read_rows import Pulse

READ_TIMEOUT = 3.0
"""Seconds in which the store has to answer; Prometheus waits for 10."""
_LOG_EVERY = 60.0  # seconds between two records of trouble
_FLOW_WINDOW = 60.0  # seconds of flow, which is not looked at here
log = logging.getLogger("outlast.metrics")


class MeteredStore(Protocol):
    """A store, as far as it is read here."""

    def pulse(self, *, window: float = ..., step: float = ...) -> Pulse:
        """Return all that changes from moment to moment."""

    def event_totals(self) -> dict[str, int]:
        """Return how often each event happened, ever."""


class FleetReading(NamedTuple):
    """What the store said."""

    pulse: Pulse
    books: dict[str, int]


class FleetSample(NamedTuple):
    """One value of a metric of the fleet."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


class FleetReader:
    """Reads the figures of a store.

    Whoever asks while they are read gets the same answer. A store that does not answer in time is down; while it hangs,
    it is not asked again, so that no threads pile up.

    Args:
        store: Where they are.
        keep: Seconds for which an answer holds; 0 for asking each time.
        timeout: Seconds in which it has to answer.
    """

    def __init__(self, store: MeteredStore, *, keep: float = 0.0, timeout: float = READ_TIMEOUT) -> None:
        """Ask nothing yet."""
        self._store, self._keep, self._timeout = store, keep, timeout
        self._told_at: float | None = None
        self._latest: tuple[Future[FleetReading | None], float]
        self._begin_anew()
        after_fork(self._begin_anew)

    def figures(self) -> Iterator[FleetSample]:
        """Return all figures; of a store that is down there is one, which says so."""
        reading = self.read()
        yield FleetSample(FLEET_METRICS["up"], (), 0 if reading is None else 1)
        if reading is not None:
            yield from _samples(reading)

    def read(self) -> FleetReading | None:
        """Return what the store says; None if it is down."""
        future, began = self._begin()
        try:
            return future.result(timeout=max(0.0, began + self._timeout - time.monotonic()))
        except TimeoutError:
            self._tell("no answer within %g s", self._timeout)
            return None

    def _begin(self) -> "tuple[Future[FleetReading | None], float]":
        with self._lock:
            future, began = self._latest
            if not future.done() or (began and time.monotonic() - self._read_at < self._keep):
                return self._latest
            self._latest = future, began = Future(), time.monotonic()
        try:
            threading.Thread(target=self._ask, args=(future,), name="outlast-metrics", daemon=True).start()
        except RuntimeError as error:  # no more threads
            self._failed(error)
            self._done(future, None)
        return future, began

    def _ask(self, future: "Future[FleetReading | None]") -> None:
        reading = None
        try:
            pulse = self._store.pulse(window=_FLOW_WINDOW, step=_FLOW_WINDOW)
            reading = FleetReading(pulse, self._store.event_totals())
        except BaseException as error:  # noqa: BLE001  # whatever it is, the store is down and a scrape is answered
            self._failed(error)
        finally:
            self._done(future, reading)

    def _done(self, future: "Future[FleetReading | None]", reading: FleetReading | None) -> None:
        self._read_at = time.monotonic()
        future.set_result(reading)

    def _begin_anew(self) -> None:
        """Forget what is under way; after a fork, its thread and who held the lock are in the parent alone."""
        self._lock = threading.Lock()
        self._read_at = 0.0
        nothing: Future[FleetReading | None] = Future()
        nothing.set_result(None)
        self._latest = (nothing, 0.0)

    def _failed(self, error: BaseException) -> None:
        with suppress(Exception):
            from outlast.classify import classify  # noqa: PLC0415  # only trouble needs it
            from outlast.record.log_text import failure_keys, first_line  # noqa: PLC0415  # only trouble needs it

            failure = classify(error)
            about = f"{failure.exception_name}: {first_line(failure.message)}"
            self._tell("%s: %s", failure.category.value, about, **failure_keys(failure))

    def _tell(self, text: str, *args: object, **keys: object) -> None:
        """Log that the store is down, at most once a minute."""
        now = time.monotonic()
        if self._told_at is not None and now - self._told_at < _LOG_EVERY:
            return
        self._told_at = now
        with suppress(Exception):  # a handler that raises must not change what is found
            log.warning(f"the store gives no figures: {text}", *args, extra=keys)  # noqa: G004  # text is ours


def _samples(reading: FleetReading) -> Iterator[FleetSample]:
    pulse = reading.pulse
    for event, count in reading.books.items():
        yield FleetSample(FLEET_METRICS["tasks"], (str(event),), count)
    for status, count in pulse.counts.items():
        if status != "dead_letters":
            yield FleetSample(FLEET_METRICS["tasks_by_status"], (str(status),), count)
    yield FleetSample(FLEET_METRICS["dead_letters"], (), pulse.counts.get("dead_letters", 0))
    yield FleetSample(FLEET_METRICS["oldest_ready"], (), pulse.oldest_ready or 0.0)
    yield FleetSample(FLEET_METRICS["workers"], ("alive",), pulse.workers)
    yield FleetSample(FLEET_METRICS["workers"], ("silent",), pulse.silent_workers)
    for state, count in pulse.sources.items():
        yield FleetSample(FLEET_METRICS["sources"], (str(state),), count)
    yield FleetSample(FLEET_METRICS["cooling_resources"], (), pulse.cooldowns)
    for key in ("retries_waiting", "open_breakers", "paused_queues", "alerts_waiting", "running_jobs"):
        yield FleetSample(FLEET_METRICS[key], (), getattr(pulse, key))
