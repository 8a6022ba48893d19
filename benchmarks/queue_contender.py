"""What every queue has to be able to do to be measured, and how its workers are run.

A contender lives in `queue_<name>.py`: a `Contender` for the side that enqueues, and `work(place, duty)` for the worker,
which runs in a process of its own (`queue_worker.py`). Its place is a file for SQLite and a URL for PostgreSQL.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks.queue_worker import DRAIN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

DEADLINE = 120.0
"""Seconds within which a worker has to say what it is asked for."""

ROOT = Path(__file__).parents[1]


class Contender(ABC):
    """One queue on one database.

    Attributes:
        module: The name of its file, without `queue_`, and of the place where its worker finds its tasks.
        drained: How many tasks a round drains: about a second's worth.
        singles: How many tasks a round enqueues one by one.
        bulk: How many tasks a round enqueues in bulk; 0 if the queue cannot.
        per_call: How many of them go into one call.
    """

    module: str
    drained: int
    singles: int
    bulk: int = 0
    per_call: int = 1_000

    def __init__(self, place: str) -> None:
        self.place = place

    @abstractmethod
    def prepare(self) -> None:
        """Create the tables, once, and connect."""

    @abstractmethod
    def clear(self) -> None:
        """Throw away all tasks, done or not."""

    @abstractmethod
    def enqueue_one(self, number: int) -> None:
        """Enqueue one task; it is durable on return."""

    def enqueue_bulk(self, count: int) -> None:
        """Enqueue many tasks, `per_call` at a time."""
        raise NotImplementedError

    @abstractmethod
    def left(self) -> int:
        """Return how many tasks are not done."""

    def fill(self, count: int) -> None:
        """Enqueue what a drain then finds; this is not measured."""
        if self.bulk:
            self.enqueue_bulk(count)
        else:
            for number in range(count):
                self.enqueue_one(number)

    def batches(self, count: int) -> Iterator[range]:
        """Split the numbers of the tasks into what goes into one call each."""
        for first in range(0, count, self.per_call):
            yield range(first, min(first + self.per_call, count))

    def close(self) -> None:  # noqa: B027, not all have something to close
        """Give up connections."""

    def pad(self, each: int) -> None:
        """Add so many scheduled, cooling and finished tasks, by SQL that makes them in the database."""
        raise NotImplementedError

    def claim(self, limit: int) -> float:
        """Claim tasks and complete them; return the seconds that the claim took."""
        raise NotImplementedError

    def one_by_one(self) -> float:
        """Return the seconds per task that is enqueued alone."""
        self.clear()
        start = time.perf_counter()
        for number in range(self.singles):
            self.enqueue_one(number)
        return (time.perf_counter() - start) / self.singles

    def in_bulk(self) -> float:
        """Return the seconds per task that is enqueued in bulk."""
        self.clear()
        start = time.perf_counter()
        self.enqueue_bulk(self.bulk)
        return (time.perf_counter() - start) / self.bulk

    def drain(self, workers: int = 1) -> float:
        """Return the seconds per task from the start of the first to the end of the last."""
        return self.drain_reports(self.drained, workers)[0]

    def drain_reports(self, count: int, workers: int = 1) -> tuple[float, list[dict[str, Any]]]:
        """Drain a number of tasks; return the seconds per task and what each worker reported."""
        self.clear()
        self.fill(count)
        crew = [WorkerProcess(self, DRAIN, count) for _ in range(workers)]
        try:
            for worker in crew:
                worker.expect("ready")
            for worker in crew:
                worker.go()
            reports = [json.loads(worker.expect("drained")) for worker in crew]
        finally:
            for worker in crew:
                worker.end()
        calls, left = sum(report["calls"] for report in reports), self.left()
        if calls != count or left:
            raise RuntimeError(f"{self.module}: {calls} calls for {count} tasks, and {left} left")
        busy = [report for report in reports if report["calls"]]
        seconds = max(report["end"] for report in busy) - min(report["first"] for report in busy)
        return seconds / count, reports


class WorkerProcess:
    """A worker in a process of its own, which is killed if it does not answer in time."""

    def __init__(self, contender: Contender, kind: str, count: int = 0) -> None:
        command = [sys.executable, "-m", "benchmarks.queue_worker", contender.module, contender.place, kind, str(count)]
        self._name = f"{contender.module} ({kind})"
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, it lives as long as the process
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, bufsize=1, cwd=ROOT
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.kill()

    def go(self) -> None:
        """Let a worker that is ready start."""
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def begin(self) -> None:
        """Wait until a worker is ready, and let it start."""
        self.expect("ready")
        self.go()

    def expect(self, word: str, within: float = DEADLINE) -> str:
        """Wait for a line that begins with a word; return the rest of it.

        Raises:
            RuntimeError: The worker ended, or did not say it in time; it is killed then.
        """
        limit = time.monotonic() + within
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, limit - time.monotonic()))
            except queue.Empty:
                raise self._failed(f"did not say '{word}' within {within:g} s") from None
            if line is None:
                raise self._failed(f"ended before it said '{word}'")
            if line.split(" ", 1)[0] == word:
                return line[len(word) :].strip()

    def end(self) -> None:
        """Wait for a worker that has done its work, not for long."""
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self.kill()

    def kill(self) -> None:
        """End the process at once, as kill -9 does."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._errors.close()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _failed(self, what: str) -> RuntimeError:
        self._process.kill()
        self._process.wait()
        self._errors.seek(0)
        return RuntimeError(f"the worker of {self._name} {what}\n{self._errors.read()[-3000:]}")
