"""A contender's worker, in a process of its own: python -m benchmarks.queue_worker CONTENDER PLACE KIND COUNT.

It speaks with the benchmark in lines. It writes `ready` once everything is imported and connected, so that nobody's
start-up is measured, and waits for a line. A drain ends with `drained` and its report as JSON; a worker that serves
writes `start NUMBER TIME` for every task. All times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import queue
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

DRAIN, SERVE, HOLD, INSIDE = "drain", "serve", "hold", "inside"
"""Run what is queued and end; run until ended; the same with tasks that never end; enqueue from within, and run."""

HELD = 120.0
"""Seconds for which a task goes on that is to be interrupted."""

RSS_MARKS = (10_000, 100_000)
"""After how many tasks the memory of the process is read."""


class Duty:
    """What a worker has to do, and what is noted while it does.

    Args:
        kind: One of the kinds above.
        count: How many tasks there are.
    """

    def __init__(self, kind: str, count: int) -> None:
        self.kind, self.count = kind, count
        self.hold = HELD if kind == HOLD else 0.0
        self.rss: list[int] = []
        self.first = self.last = 0.0
        self.calls = 0
        self._computed = 0.0
        self.when_all_called: Callable[[], object] | None = None
        self.seen: queue.SimpleQueue[float] = queue.SimpleQueue()
        self._numbers = itertools.count(1)  # tasks may run in threads, and its `next` is atomic
        self._marks = frozenset((1, count, *RSS_MARKS))

    def ready(self) -> None:
        """Say that the worker could start, and wait for the word."""
        say("ready")
        sys.stdin.readline()
        self._computed = time.process_time()

    def start(self, number: int) -> None:
        """The body of every task: as little as can be."""
        if self.kind == INSIDE:
            self.seen.put(time.monotonic())
            return
        if self.kind != DRAIN:
            say(f"start {number} {time.monotonic()}")
            return
        self.calls = call = next(self._numbers)
        if call in self._marks:
            self._mark(call)

    def drained(self, end: float | None = None) -> None:
        """Report a drain that is over.

        Args:
            end: When the last task was done for good; by default now.
        """
        report = {"first": self.first, "end": end or time.monotonic(), "calls": self.calls, "rss": self.rss}
        report["cpu"] = time.process_time() - self._computed
        say(f"drained {json.dumps(report)}")

    def _mark(self, call: int) -> None:
        if call == 1:
            self.first = time.monotonic()
        if call in RSS_MARKS:
            self.rss.append(resident())
        if call == self.count:
            self.last = time.monotonic()
            if self.when_all_called:
                self.when_all_called()


def resident() -> int:
    """Return this process's resident memory in bytes."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def say(line: str) -> None:
    """Write a line in one go, as several threads may."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    contender, place, kind, count = sys.argv[1:]
    module = importlib.import_module(f"benchmarks.queue_{contender}")
    module.work(place, importlib.import_module("benchmarks.queue_worker").Duty(kind, int(count)))
