"""Sources in memory."""

from collections.abc import Mapping, Sequence

from holdfast import clock
from holdfast.decide.health import Health, SourceState
from holdfast.ports.source_rows import (
    NewAlert,
    NewSource,
    Poll,
    Source,
    SourceAdded,
    SourceChange,
    SourceFilter,
    Transition,
)
from holdfast.ports.sources import Change
from holdfast.stores.kept import POLLS
from holdfast.stores.memory.alerts import raise_alerts
from holdfast.stores.memory.book import Book, moment

__all__ = ["MemorySources", "note_poll", "write_changes"]

_CHANGEABLE = tuple(name for name in Source._fields if name not in {"id", "url", "profile", "created_at"})


class MemorySources:
    """The duty `Sources`, as far as it is about each of them; `MemoryCycles` has the rest."""

    book: Book

    def add_sources(self, sources: Sequence[NewSource]) -> list[SourceAdded]:
        """Add sources, due now."""
        with self.book.lock:
            known = {(source.profile, source.url): source.id for source in self.book.sources.values()}
            added = []
            for each in sources:
                number = known.get((each.profile, each.url))
                if number is None:
                    created = known[each.profile, each.url] = _add(self.book, each)
                    added.append(SourceAdded(created, created=True))
                else:
                    added.append(SourceAdded(number, created=False))
            return added

    def remove_sources(self, source_ids: Sequence[int], alerts: Mapping[int, NewAlert] | None = None) -> int:
        """Remove sources with their history, and tell of it."""
        with self.book.lock:
            gone = sorted(self.book.sources.keys() & set(source_ids))
            for number in gone:
                del self.book.sources[number]
                self.book.source_owners.pop(number, None)
                self.book.polls.pop(number, None)
            told = alerts or {}
            raise_alerts(self.book, [told[number] for number in gone if number in told], clock.now())
            return len(gone)

    def source(self, source_id: int) -> Source | None:
        """Return one."""
        with self.book.lock:
            return self.book.sources.get(source_id)

    def sources(self, which: SourceFilter) -> list[Source]:
        """Return sources by number."""
        with self.book.lock:
            return [source for source in self.book.sources.values() if _is_meant(source, which)][: which.limit]

    def source_counts(self, profile: str | None = None) -> dict[SourceState, int]:
        """Return how many there are of each state."""
        with self.book.lock:
            counts = dict.fromkeys(SourceState, 0)
            for source in self.book.sources.values():
                counts[source.state] += profile in {None, source.profile}
            return counts

    def polls(self, source_id: int, limit: int) -> list[Poll]:
        """Return a source's history, newest first."""
        with self.book.lock:
            return self.book.polls.get(source_id, [])[::-1][:limit]

    def recent_polls(self, source_ids: Sequence[int], limit: int) -> dict[int, list[Poll]]:
        """Return the last lines of the history of some sources, newest first."""
        return {number: self.polls(number, limit) for number in source_ids}

    def waiting_sources(self, limit: int) -> list[tuple[int, str]]:
        """Return sources that were put off."""
        with self.book.lock:
            now = moment(clock.now())
            waiting = [
                (each.id, each.url)
                for each in self.book.sources.values()
                if each.outcome == "deferred"
                and each.is_active
                and each.not_before is not None
                and each.not_before > now
            ]
            return sorted(waiting)[:limit]

    def change_sources(self, changes: Mapping[int, tuple[int | None, Change]]) -> list[Transition]:
        """Change sources by number; nothing is written before all is decided."""
        with self.book.lock:
            now, made = clock.now(), []
            for number, (epoch, change) in sorted(changes.items(), key=lambda item: item[0]):
                source = self.book.sources.get(number)
                if source is not None and (epoch is None or (epoch == source.epoch and source.outcome is None)):
                    made.append(change(source, moment(now)))
            return write_changes(self.book, [each for each in made if each is not None], now)


def write_changes(
    book: Book, changes: Sequence[SourceChange], now: float, fields: Sequence[str] = _CHANGEABLE
) -> list[Transition]:
    """Write what became of sources, of the fields that may change; return the transitions."""
    for change in changes:
        number = change.source.id
        new = book.sources[number]._replace(**{name: getattr(change.source, name) for name in fields})
        book.sources[number] = new
        if new.leased_until is None:
            book.source_owners.pop(number, None)
        if change.poll is not None:
            note_poll(book, change.poll)
        raise_alerts(book, change.alerts, now)
    return [change.transition for change in changes if change.transition is not None]


def note_poll(book: Book, poll: Poll) -> None:
    """Add a line to a source's history."""
    lines = book.polls.setdefault(poll.source_id, [])
    lines.append(poll)
    del lines[:-POLLS]


def _add(book: Book, source: NewSource) -> int:
    number, now = next(book.source_ids), moment(clock.now())
    book.sources[number] = Source(
        id=number,
        url=source.url,
        profile=source.profile,
        name=source.name,
        selector=source.selector,
        health=Health(),
        last_error=None,
        last_failure=None,
        next_poll_at=now,
        not_before=None,
        etag=None,
        last_modified=None,
        content_hash=None,
        memory=None,
        cycle=0,
        outcome=None,
        pending=None,
        epoch=0,
        leased_until=None,
        created_at=now,
    )
    return number


def _is_meant(source: Source, which: SourceFilter) -> bool:
    return (
        which.profile in {None, source.profile}
        and which.state in {None, source.state}
        and which.url in {None, source.url}
        and (which.text is None or which.text in source.url or which.text in source.name)
        and (which.after is None or source.id > which.after)
    )
