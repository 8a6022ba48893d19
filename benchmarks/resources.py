"""Tasks of many resources: enqueueing with a computed resource, and claiming when each resource has a limit of its own."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import deque
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.servers.postgres import PostgresServer

import outlast
from benchmarks.measure import Result, interleaved, ratio
from outlast.ports.rows import Claim, SettleAndClaim, WorkerRow
from outlast.queue.admission import Admission

if TYPE_CHECKING:
    from collections.abc import Callable

SINGLES, BULK = 200, 20_000
CLAIMS, LIMIT = 100, 10
"""Claims of a round, and tasks per claim: a worker with the default concurrency."""
ROUNDS = 9
COUNTS = (1, 200, 10_000)
"""Resources that are limited."""
COMPUTED = 0.75
"""For single calls. In bulk, the index of resources takes most of the difference, so that is only shown."""
MORE, FEW = 1.2, 4.0
_numbers = itertools.count()


def run() -> list[Result]:
    """Return the results."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outlast-bench-")))
        server = PostgresServer(folder / "postgres", durable=True, max_connections=50)
        stack.callback(server.stop)
        server.start()
        results = []
        for database in ("SQLite", "PostgreSQL"):
            apps = {}
            for count in COUNTS:
                url = f"sqlite:///{folder}/{count}.db"
                if database == "PostgreSQL":
                    server.execute(f"CREATE DATABASE resources{count}")
                    url = server.url.removesuffix(server.database) + f"resources{count}"
                apps[count] = stack.enter_context(closing(_app(url)))
            results += [*_enqueueing(database, apps[1]), *_claiming(database, apps)]
        return results


def _app(url: str) -> outlast.App:
    app = outlast.App(url)
    app.create_schema()
    app.task(name="plain")(_nothing)
    app.task(name="computed", resource=host_of)(_nothing)
    app.limit("*", rate=100_000, burst=100_000)
    now = datetime.now(UTC)
    worker = WorkerRow("w", "w", "host", 1, ("default",), 500, "running", 0, True, now, now)  # noqa: FBT003  # a row
    app.store.register(worker, 3600.0)
    return app


def host_of(url: str) -> str:
    """Return the resource of a task."""
    return url[8:].partition("/")[0]


def _enqueueing(database: str, app: outlast.App) -> list[Result]:
    """A task whose resource is computed from its arguments, and one without a resource."""
    plain, computed = app.tasks_by_name["plain"], app.tasks_by_name["computed"]

    def one_by_one(task: outlast.TaskDefinition[Any, Any]) -> Callable[[], float]:
        def enqueue() -> float:
            start = time.perf_counter()
            for n in range(SINGLES):
                task.enqueue(url=f"https://host{n}.example/")
            return SINGLES / (time.perf_counter() - start)

        return enqueue

    def in_bulk(task: outlast.TaskDefinition[Any, Any]) -> Callable[[], float]:
        def enqueue() -> float:
            calls = _calls(COUNTS[-1], BULK)
            start = time.perf_counter()
            task.enqueue_many(calls)
            return BULK / (time.perf_counter() - start)

        return enqueue

    results = []
    for what, made, bound in (("enqueue", one_by_one, COMPUTED), ("enqueue in bulk", in_bulk, None)):
        times = interleaved({"computed resource": made(computed), "no resource": made(plain)}, ROUNDS)
        found = ratio(times, "computed resource", "no resource", bound)
        name = f"{database}, {what}, computed resource"
        results.append(Result(name, found.ratio, "no resource", bound, 1 / found.seconds, at_least=True))
    return results


def _claiming(database: str, apps: dict[int, outlast.App]) -> list[Result]:
    """Claim batches and ask for their limits, as a worker does; each app knows as many resources as its number."""

    def claims(count: int, app: outlast.App) -> Callable[[], float]:
        task = app.tasks_by_name["computed"]
        _claim_all(app)
        task.enqueue_many(_calls(count, count))
        _claim_all(app)

        def claim() -> float:
            task.enqueue_many(_calls(count, CLAIMS * LIMIT))
            start = time.perf_counter()
            batches = _claim_all(app)
            return (time.perf_counter() - start) / batches

        return claim

    names = {f"{count:,} limited resources": claims(count, app) for count, app in apps.items()}
    times = interleaved(names, ROUNDS)
    one, some, many = names
    results = []
    for against, bound in ((some, MORE), (one, FEW)):
        found = ratio(times, many, against, bound)
        results.append(Result(f"{database}, claim with {many}", found.ratio, against, bound, found.seconds))
    return results


def _calls(count: int, size: int) -> list[dict[str, str]]:
    """Return calls for the hosts; neighbours in the queue are not neighbours in the table of limits."""
    return [{"url": f"https://host{next(_numbers) * 7919 % count}.example/"} for _ in range(size)]


def _claim_all(app: outlast.App) -> int:
    """Claim all tasks in batches, ask for their limits, and settle them; return the number of batches."""
    admission, held, batches = Admission(app.store, app.tasks_by_name, app.limits), list[tuple[int, int]](), 0
    while True:
        claimed = app.store.settle_and_claim(
            SettleAndClaim("w", held, [], [], Claim(("default",), LIMIT, LIMIT))
        ).claimed
        batch = admission.admit_ready(deque(claimed)).batch
        held = [(each.id, each.epoch) for _, each in batch]
        if not batch:
            return batches
        batches += 1


def _nothing(url: str) -> None:
    pass
