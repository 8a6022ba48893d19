"""The cycles in which sources are polled, in memory."""

from datetime import datetime
from itertools import islice

from holdfast import clock
from holdfast.decide.health import SourceState
from holdfast.ports.source_rows import Closed, Cycle, Poll, Source
from holdfast.ports.sources import Close
from holdfast.stores.kept import CYCLES
from holdfast.stores.memory.alerts import raise_alerts
from holdfast.stores.memory.book import Book, moment
from holdfast.stores.memory.sources import note_poll, write_changes

__all__ = ["MemoryCycles"]

_CLOSED = ("health", "last_error", "last_failure", "not_before", "pending")


class MemoryCycles:
    """The duty `Sources`, as far as it is about cycles."""

    book: Book

    def open_cycle(self, profile: str, *, everything: bool = False) -> Cycle | None:
        """Return the profile's cycle that runs, else begin one."""
        with self.book.lock:
            running = [each for each in self.book.cycles.values() if each.profile == profile and each.ended_at is None]
            if running:
                return running[0]
            now = moment(clock.now())
            mine = (source for source in self.book.sources.values() if source.profile == profile)
            due = [source for source in mine if _is_due(source, now, everything=everything)]
            if not due:
                return None
            cycle = Cycle(next(self.book.cycle_ids), profile, now, None, len(due))
            self.book.cycles[cycle.id] = cycle
            for source in due:
                self.book.sources[source.id] = source._replace(cycle=cycle.id, outcome=None, leased_until=None)
                self.book.source_owners.pop(source.id, None)
            return cycle

    def claim_sources(self, cycle_id: int, owner: str, limit: int, lease: float) -> list[Source]:
        """Take sources of a cycle that have no outcome."""
        with self.book.lock:
            now = clock.now()
            free = (
                source._replace(epoch=source.epoch + 1, leased_until=moment(now + lease))
                for source in self._of(cycle_id)
                if source.outcome is None and (source.leased_until is None or source.leased_until <= moment(now))
            )
            taken = list(islice(free, limit))
            for source in taken:
                self.book.sources[source.id] = source
                self.book.source_owners[source.id] = owner
            return taken

    def renew_sources(self, owner: str, lease: float) -> int:
        """Renew the leases of what a monitor holds."""
        with self.book.lock:
            until, held = moment(clock.now() + lease), self._held(owner)
            for source in held:
                self.book.sources[source.id] = source._replace(leased_until=until)
            return len(held)

    def release_sources(self, owner: str) -> int:
        """Give back what a monitor holds."""
        with self.book.lock:
            held = self._held(owner)
            for source in held:
                self.book.sources[source.id] = source._replace(leased_until=None)
                del self.book.source_owners[source.id]
            return len(held)

    def close_cycle(self, cycle_id: int, close: Close) -> Closed | None:
        """End a cycle."""
        with self.book.lock:
            cycle, sources, now = self.book.cycles.get(cycle_id), self._of(cycle_id), clock.now()
            if cycle is None or cycle.ended_at is not None or any(source.outcome is None for source in sources):
                return None
            before = [each for each in self._of_profile(cycle.profile) if each.ended_at is not None]
            shown = [
                source._replace(etag=None, last_modified=None, content_hash=None, memory=None) for source in sources
            ]
            closing = close(cycle, before[-1] if before else None, shown, moment(now))
            if closing.withdraw:
                for source in sources:
                    self._withdraw(source, moment(now))
            transitions = write_changes(self.book, closing.changes, now, _CLOSED)
            raise_alerts(self.book, closing.alerts, now)
            self.book.cycles[cycle_id] = closing.cycle
            for old in self._of_profile(cycle.profile)[:-CYCLES]:
                del self.book.cycles[old.id]
            return Closed(closing.cycle, transitions)

    def cycles(self, profile: str | None, limit: int) -> list[Cycle]:
        """Return cycles, newest first."""
        with self.book.lock:
            return self._of_profile(profile)[::-1][:limit]

    def _of(self, cycle_id: int) -> list[Source]:
        return [source for source in self.book.sources.values() if source.cycle == cycle_id]

    def _of_profile(self, profile: str | None) -> list[Cycle]:
        return [cycle for cycle in self.book.cycles.values() if profile in {None, cycle.profile}]

    def _held(self, owner: str) -> list[Source]:
        held = [self.book.sources[number] for number, name in self.book.source_owners.items() if name == owner]
        return [source for source in held if source.outcome is None]

    def _withdraw(self, source: Source, now: datetime) -> None:
        """Forget a failure that does not count, but for a line in the history."""
        failure = source.pending
        if failure is None:
            return
        self.book.sources[source.id] = source._replace(pending=None)
        line = Poll(source.id, source.cycle, now, "withdrawn", http_status=failure.get("http_status"))
        note_poll(self.book, line._replace(category=failure.get("category"), error=failure.get("message")))


def _is_due(source: Source, now: datetime, *, everything: bool) -> bool:
    if source.not_before is not None and source.not_before > now:
        return False
    if source.state is SourceState.DISABLED:
        return source.health.disabled_by == "rule"
    return everything or source.next_poll_at <= now
