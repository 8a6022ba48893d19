"""One PostgreSQL and 1, 2 and 4 worker processes: how much a further worker is worth, beside the raw limit.

The limit is the same number of processes that claim and complete with plain SQL and do nothing else. Database and
workers share the machine, so there is no more to gain than its cores give.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from tests.servers.postgres import PostgresServer

from benchmarks.measure import Result, interleaved, rate
from benchmarks.queue_outlast import OutlastPostgres
from benchmarks.queue_raw_postgres import RawPostgres

ROUNDS = 5
CREWS = (1, 2, 4)
TASKS = {"Outlast": 40_000, "plain SQL": 60_000}
"""About a second's worth for one worker."""


def run() -> list[Result]:
    """Drain with crews of each size in turn, round by round."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outlast-bench-")))
        server = PostgresServer(folder / "postgres", durable=True, max_connections=80)
        stack.callback(server.stop)
        server.start()
        contenders = {"Outlast": OutlastPostgres(server.url), "plain SQL": RawPostgres(server.url)}
        for contender in contenders.values():
            contender.prepare()
            stack.enter_context(closing(contender))
        runs = {
            _named(name, crew): lambda contender=contender, name=name, crew=crew: contender.drain_reports(
                TASKS[name], crew
            )[0]
            for crew in CREWS
            for name, contender in contenders.items()
        }
        times = interleaved(runs, ROUNDS)
    results = []
    for name in TASKS:
        alone = _named(name, 1)
        results += [rate(times, _named(name, crew), (_named(name, crew), alone), None) for crew in CREWS]
    for crew in CREWS:
        ours, limit = _named("Outlast", crew), _named("plain SQL", crew)
        results.append(rate(times, ours, (ours, limit), None))
    return results


def _named(name: str, crew: int) -> str:
    return f"{name}, {crew} worker{'s' if crew > 1 else ''}"
