"""A job whose handler does nothing, beside a plain map of the same function over a pool of as many threads.

The map knows nothing of a target that failed. What the job takes longer is what its books cost: without a ledger, with
one on a real SQLite file, and on a real PostgreSQL with its default durability. Then: how much memory a stream of a
million targets needs, and whether targets cost more where there are many.
"""

from __future__ import annotations

import gc
import logging
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.postgres import PostgresServer

import outlast
from benchmarks.measure import Result, interleaved, ratio
from benchmarks.queue_worker import resident

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.jobs.context import JobContext
    from outlast.jobs.job import Job

ROUNDS = 7
TARGETS = 20_000
TOGETHER = 8
FEW, MANY = 10_000, 100_000
GROWTH_ROUNDS = 5
STREAM = 1_000_000
MIB = 1024**2
MAP, BARE, SQLITE, POSTGRES = "ThreadPoolExecutor.map", "job, ledger=False", "job, SQLite", "job, PostgreSQL"
MOST = {BARE: 3.0, SQLITE: 30.0}
SLOWER = 1.5
MOST_MEMORY = 50.0


def run() -> list[Result]:
    """Return the results."""
    with ExitStack() as stack, _quiet():
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outlast-bench-")))
        server = PostgresServer(folder / "postgres", durable=True)
        stack.callback(server.stop)
        server.start()
        places = {BARE: "memory://", SQLITE: f"sqlite:///{folder / 'jobs.db'}", POSTGRES: server.url}
        jobs = {name: _job(stack, place, ledger=name != BARE) for name, place in places.items()}
        return [*_overhead(jobs), *(_growth(name, jobs[name]) for name in (SQLITE, POSTGRES)), *_memory(jobs)]


def _job(stack: ExitStack, place: str, *, ledger: bool) -> Job:
    app = stack.enter_context(closing(outlast.App(place)))
    app.create_schema()
    return app.job("nothing", max_failure_rate=0.0, ledger=ledger)(_handle)


def _handle(context: JobContext | None, target: int) -> None:
    """The same function for all."""


def _overhead(jobs: dict[str, Job]) -> list[Result]:
    contenders = {MAP: _mapped} | {name: partial(_timed, job, TARGETS) for name, job in jobs.items()}
    times = interleaved(contenders, ROUNDS)
    return [ratio(times, name, MAP, MOST.get(name)) for name in contenders]


def _mapped() -> float:
    start = time.perf_counter()
    with ThreadPoolExecutor(TOGETHER) as pool:
        for _ in pool.map(partial(_handle, None), range(TARGETS)):
            pass
    return (time.perf_counter() - start) / TARGETS


def _timed(job: Job, number: int) -> float:
    """Return the seconds for each target of a run."""
    start = time.perf_counter()
    summary = job.run(range(number), concurrency=TOGETHER)
    if summary.success_targets != number or summary.exit_code:
        raise RuntimeError(f"not all targets were handled: {summary}")
    return (time.perf_counter() - start) / number


def _growth(name: str, job: Job) -> Result:
    """What a target costs in a run of many, beside one in a run of few."""
    many, few = f"{MANY:,} targets", f"{FEW:,} targets"
    times = interleaved({few: partial(_timed, job, FEW), many: partial(_timed, job, MANY)}, GROWTH_ROUNDS)
    result = ratio(times, many, few, SLOWER)
    return Result(f"a target of {many}, {name}", result.ratio, few, SLOWER, result.seconds)


def _memory(jobs: dict[str, Job]) -> Iterator[Result]:
    """How much more memory a stream takes at its most than a run of few had left behind."""
    for name in (BARE, SQLITE):
        _timed(jobs[name], FEW)
        gc.collect()
        before, most = resident(), 0

        def stream() -> Iterator[int]:
            nonlocal most
            for number in range(STREAM):
                if number % FEW == 0:
                    most = max(most, resident())
                yield number

        start = time.perf_counter()
        summary = jobs[name].run(stream(), concurrency=TOGETHER)
        seconds = time.perf_counter() - start
        if summary.success_targets != STREAM:
            raise RuntimeError(f"not all targets were handled: {summary}")
        most = max(most, resident())
        what = f"memory for {STREAM:,} targets of a stream, {name}"
        yield Result(what, (most - before) / MIB, f"over {FEW:,}", MOST_MEMORY, seconds, unit="MiB")


@contextmanager
def _quiet() -> Iterator[None]:
    log = logging.getLogger("outlast")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
