"""Limits of resources in memory."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast import clock
from holdfast.decide.limits import Limit, Standing, reserve, weigh
from holdfast.ports.limits import Ask, LimitRow
from holdfast.ports.rows import Status
from holdfast.stores.limiting import SHOWN_FOR, busy_beside, limit_row
from holdfast.stores.memory.book import Book, moment

__all__ = ["MemoryLimits"]


class Slot(NamedTuple):
    """Taken while its task is running by this epoch."""

    task_id: int
    epoch: int
    resource: str


class MemoryLimits:
    """The duty `Limits`."""

    book: Book

    def admit(self, asks: Sequence[Ask]) -> dict[int, float]:
        """Let claimed tasks start as far as their resources allow."""
        waits: dict[int, float] = {}
        with self.book.lock:
            for ask in asks:
                waits |= self._admit(ask)
        return waits

    def reserve_retries(self, limit: Limit, count: int) -> list[float]:
        """Give so many retries a place each."""
        with self.book.lock:
            waits, standing = reserve(limit, self._known(limit), count, clock.now())
            self.book.limits[limit.resource] = (limit, standing)
            return waits

    def limits(self) -> list[LimitRow]:
        """Return the limits that were asked for within a day."""
        with self.book.lock:
            now = clock.now()
            return [
                limit_row(limit, standing, self._running(limit), now, moment)
                for _, (limit, standing) in sorted(self.book.limits.items())
                if standing.asked_at > now - SHOWN_FOR
            ]

    def _admit(self, ask: Ask) -> dict[int, float]:
        limit = ask.limit
        taken = [(task_id, epoch) for task_id, epoch, _ in self._slots(limit.resource)]
        weighed = weigh(
            limit,
            self._known(limit),
            ask.candidates,
            busy=busy_beside(ask, taken),
            mean=ask.mean,
            now=clock.now(),
            chance=clock.chance,
        )
        self.book.limits[limit.resource] = (limit, weighed.standing)
        if limit.concurrency is not None:
            for each in weighed.admitted:
                self.book.slots[each.task_id] = (each.epoch, limit.resource)
        return weighed.waits

    def _known(self, limit: Limit) -> Standing | None:
        known = self.book.limits.get(limit.resource)
        return None if known is None else known[1]

    def _running(self, limit: Limit) -> int | None:
        return None if limit.concurrency is None else len(self._slots(limit.resource))

    def _slots(self, resource: str) -> list[Slot]:
        """Return the slots of a resource that are taken, and forget those that are not any more."""
        live, book = list[Slot](), self.book
        for task_id, (epoch, name) in list(book.slots.items()):
            row = book.tasks.get(task_id)
            if name != resource:
                continue
            if row is not None and row.status is Status.RUNNING and row.lease_epoch == epoch:
                live.append(Slot(task_id, epoch, name))
            else:
                del book.slots[task_id]
        return live
