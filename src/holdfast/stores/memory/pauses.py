"""Queues, cooldowns and periodic tasks in memory: what holds tasks back and what brings them."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from holdfast import clock
from holdfast.ports.rows import Cooldown, NewTask, QueueRow, Status
from holdfast.stores.cooled import LATE, Cooled, cooled
from holdfast.stores.memory.book import LIVE, Book, Row, moment
from holdfast.stores.memory.tasks import add

__all__ = ["MemoryCooldowns", "MemoryPeriodic", "MemoryQueues"]


class MemoryQueues:
    """The duty `Queues`."""

    book: Book

    def pause(self, queue: str) -> None:
        """Have nothing claimed from a queue."""
        with self.book.lock:
            self.book.queues[queue] = True

    def resume(self, queue: str) -> None:
        """Have it claimed from again."""
        with self.book.lock:
            self.book.queues.pop(queue, None)

    def queues(self) -> list[QueueRow]:
        """Return the queues that exist or are paused."""
        with self.book.lock:
            live = [row for row in self.book.tasks.values() if row.status in LIVE]
            names = {row.queue for row in live} | self.book.queues.keys()
            return [self._row(name, live) for name in sorted(names)]

    def _row(self, name: str, live: list[Row]) -> QueueRow:
        now = clock.now()
        mine = [row for row in live if row.queue == name]
        waiting = [row for row in mine if row.status is Status.QUEUED]
        return QueueRow(
            name=name,
            paused=self.book.queues.get(name, False),
            ready=sum(row.next_run_after <= now for row in waiting),
            scheduled=sum(row.next_run_after > now for row in waiting),
            running=sum(row.status is Status.RUNNING for row in mine),
            parked=sum(row.status is Status.PARKED for row in mine),
        )


class MemoryCooldowns:
    """The duty `Cooldowns`."""

    book: Book

    def cool(self, resource: str, seconds: float, reason: str, *, capped: bool = False) -> int:
        """Leave a resource alone from now on."""
        with self.book.lock:
            now = clock.now()
            answer = Cooled(now + seconds, reason, int(capped))
            after = cooled(self.book.cooldowns.get(resource), answer, now)
            self.book.cooldowns[resource] = after
            self.book.move_cooling(now)
            return after.capped

    def probe(self, resource: str, hold: float) -> bool:
        """Ask to be the one who tries a resource."""
        with self.book.lock:
            now, known = clock.now(), self.book.cooldowns.get(resource)
            if known is None or known.until > now:
                return known is None
            if known.capped:
                self.book.cooldowns[resource] = known._replace(until=now + hold, probing=True)
            return True

    def warm(self, resource: str) -> None:
        """End a cooldown by hand; what waits for another time than its end has its own reason."""
        with self.book.lock:
            now = clock.now()
            until = self.book.cool_until(resource)
            self.book.cooldowns.pop(resource, None)
            for row in self.book.tasks.values():
                if row.status is Status.QUEUED and row.resource == resource and _waits_for(row, until):
                    row.next_run_after = min(row.next_run_after, now)

    def cooldowns(self) -> list[Cooldown]:
        """Return those that run."""
        with self.book.lock:
            now, known = clock.now(), sorted(self.book.cooldowns.items())
            return [
                Cooldown(resource, moment(row.until), row.reason, row.capped)
                for resource, row in known
                if row.until > now
            ]


def _waits_for(row: Row, until: float) -> bool:
    """Tell whether a task waits for the end of a cooldown: moved by it, or put off when it met what began it."""
    return row.next_run_after == until or (row.deferred_at is not None and row.next_run_after <= until + LATE)


class MemoryPeriodic:
    """The duty `Periodic`."""

    book: Book

    def now(self) -> datetime:
        """Return the time."""
        return moment(clock.now())

    def set_periodic(self, first_runs: Mapping[str, float]) -> None:
        """Make known what there is."""
        with self.book.lock:
            for name, seconds in first_runs.items():
                self.book.periodic.setdefault(name, clock.now() + seconds)

    def due_periodic(self, names: Sequence[str]) -> list[tuple[str, datetime]]:
        """Return those whose time has come."""
        with self.book.lock:
            now = clock.now()
            return [(name, moment(due)) for name, due in self.book.periodic.items() if name in names and due <= now]

    def run_periodic(self, name: str, due: datetime, seconds: float, task: NewTask) -> bool:
        """Enqueue a task, if nobody else has done it for this time already."""
        with self.book.lock:
            known = self.book.periodic.get(name)
            if known is None or moment(known) != due:
                return False
            now = clock.now()
            add(self.book, [task], now)
            self.book.periodic[name] = now + seconds
            return True
