"""What happened in this process, added up: counters and histograms that any thread may add to."""

import threading
from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

from outlast.forks import after_fork
from outlast.observe.label_values import LabelValues
from outlast.observe.measuring import measures
from outlast.observe.metric_names import BUCKETS, PROCESS
from outlast.record.events import Event

__all__ = ["Histogram", "Tally"]

Labels = tuple[str, ...]


class Histogram(NamedTuple):
    """Amounts that were taken in.

    Attributes:
        buckets: How many are not above each bound of `BUCKETS`; the last one counts all of them.
        sum: All of them added up.
    """

    buckets: tuple[int, ...]
    sum: float


class Tally:
    """Adds up what events tell.

    Args:
        values: Where the values of labels come from.
    """

    def __init__(self, values: LabelValues) -> None:
        """Begin with nothing."""
        self._values = values
        self._lock = threading.Lock()
        self._counters: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, tuple[list[int], list[float]]]] = {}
        for metric in PROCESS.values():
            if metric.kind == "histogram":
                self._histograms[metric.key] = {}
            else:
                self._counters[metric.key] = {}
        after_fork(self._unlock)

    def add(self, event: Event) -> None:
        """Take an event in; a handler for the bus."""
        for key, labels, amount in measures(event, self._values):
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
        """Forget who held the lock; after a fork it is in the parent alone."""
        self._lock = threading.Lock()
