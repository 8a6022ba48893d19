"""Many workers on one PostgreSQL, simulated turn by turn: ``python tools/simulate_scale.py`` prints the page's tables.

A worker settles a batch and claims the next in one turn. The turn computes on one of the database's cores, then its log
is written, one after the other for all; who finds no core free waits in line. Then the worker runs its batch and comes
again. What a turn, a task and its log cost is measured (``make bench ARGS="--only workers costs"``), the rest follows.
There is no chance in it, so the same costs give the same table.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

_TURNS = 20_000
BATCHES = {0.0: 500, 0.01: 10, 0.1: 3, 1.0: 1}
"""Tasks of a turn, by the seconds that a task takes: counted at a worker that runs ten at once."""


@dataclass(frozen=True)
class Costs:
    """What was measured.

    Attributes:
        turn: Seconds that the database computes for a turn, whatever is in it.
        per_task: Seconds that each task of a turn adds.
        call: Seconds that a worker computes for a task that does nothing.
        log: Bytes of write-ahead log for a task that is claimed and settled.
        flush: Seconds that a write of the log takes at least.
        disk: Bytes of log that can be written in a second.
        network: Seconds there and back.
    """

    turn: float = 0.00042
    per_task: float = 0.0000148
    call: float = 0.0000077
    log: int = 850
    flush: float = 0.0001
    disk: float = 200e6
    network: float = 0.0005


@dataclass(frozen=True)
class Fleet:
    """Who works.

    Attributes:
        workers: Processes.
        cores: Of the database.
        task: Seconds that a task takes, waiting for somebody else.
        concurrency: Tasks that a worker runs at once.
        shared: Whether the workers compute on the database's cores too.
    """

    workers: int
    cores: int = 2
    task: float = 0.0
    concurrency: int = 10
    shared: bool = False


class Line:
    """Servers with one line before them: the first come is the first served."""

    def __init__(self, servers: int) -> None:
        self._free = [0.0] * servers
        self.busy = 0.0

    def served(self, asked: float, seconds: float) -> float:
        """Return when somebody who asks now is done."""
        start = max(asked, heapq.heappop(self._free))
        heapq.heappush(self._free, start + seconds)
        self.busy += seconds
        return start + seconds


def simulate(fleet: Fleet, costs: Costs | None = None) -> tuple[float, float]:
    """Return tasks per second, and how much of the database's cores or of its log is in use, whichever is more."""
    costs = costs or Costs()
    batch = BATCHES[fleet.task]
    cores, log = Line(fleet.cores), Line(1)
    order = count()
    # They do not begin at the same moment: a crowd that does would leave its mark on everything behind it.
    events = [(worker * 0.001, next(order)) for worker in range(fleet.workers)]
    heapq.heapify(events)
    turns, end = max(_TURNS // max(1, batch // 10), 50 * fleet.workers), 0.0
    for _ in range(turns):
        now, _order = heapq.heappop(events)
        computed = cores.served(now + costs.network / 2, costs.turn + costs.per_task * batch)
        answered = log.served(computed, costs.flush + costs.log * batch / costs.disk) + costs.network / 2
        own = costs.call * batch
        called = cores.served(answered, own) if fleet.shared else answered + own
        ready = max(called, now + batch * fleet.task / fleet.concurrency)  # the slots go on while a turn is under way
        heapq.heappush(events, (ready, next(order)))
        end = max(end, ready)
    return turns * batch / end, min(1.0, max(cores.busy / fleet.cores, log.busy) / end)


def fleets() -> list[tuple[str, ...]]:
    """Return the table of fleets: by workers, by how long a task takes, and by the cores of the database."""
    sizes = [(cores, task) for cores in (2, 16) for task in BATCHES]
    found = [("workers", *(f"{_span(task)}, {cores} cores" for cores, task in sizes))]
    for workers in (1, 4, 10, 30, 100):
        outcomes = [simulate(Fleet(workers, cores, task)) for cores, task in sizes]
        found.append((str(workers), *(f"{_rounded(rate):,} ({used:.0%})" for rate, used in outcomes)))
    return found


def one_machine() -> list[tuple[str, ...]]:
    """Return the table of what the bench measures: tasks that do nothing, and all of it on two cores."""
    costs = Costs(network=0.0)
    rates = {workers: simulate(Fleet(workers, shared=True), costs)[0] for workers in (1, 2, 4)}
    rows = [(str(each), f"{_rounded(rate):,}", f"{rate / rates[1]:.1f}") for each, rate in rates.items()]
    return [("workers", "tasks per second", "against one worker"), *rows]


def table(found: list[tuple[str, ...]]) -> str:
    """Write rows as Markdown."""
    head, *rest = found
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ("---:",) * len(head), *rest])


def _rounded(rate: float) -> int:
    """Round to two digits: there is no more in it."""
    size = 10 ** max(0, len(str(int(rate))) - 2)
    return round(rate / size) * size


def _span(seconds: float) -> str:
    return "no-op" if not seconds else f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s"


def main() -> None:
    """Print both tables."""
    print(table(one_machine()), end="\n\n")
    print(table(fleets()))


if __name__ == "__main__":
    main()
