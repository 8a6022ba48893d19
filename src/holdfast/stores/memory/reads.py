"""What people look at, in memory. It may look at everything."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain

from holdfast import clock
from holdfast.decide.health import SourceState
from holdfast.ports.read_rows import (
    MOST_COUNTED,
    Change,
    FailureFilter,
    FailureGroup,
    FlowEvent,
    FlowPoint,
    Page,
    Pulse,
)
from holdfast.ports.reads import MOST_LOOKED_AT
from holdfast.ports.rows import Attempt, Status
from holdfast.stores.books import CHANGES, DEAD, FAILURES, HOUR, begin_of, parse_place, place, take, totals_of
from holdfast.stores.memory.book import Book, Told, moment, moment_or_none
from holdfast.stores.memory.booking import Books
from holdfast.stores.memory.breakers import known_breakers
from holdfast.stores.memory.tasks import counts
from holdfast.stores.triaging import group_fits

__all__ = ["MemoryReads", "group_of"]

_KEPT = 8 * 86400.0  # seconds


class MemoryReads:
    """The duty `Reads`, but for the lists of tasks and dead letters."""

    book: Book

    def pulse(self, *, window: float = HOUR, step: float = 60.0) -> Pulse:
        """Return all that changes from moment to moment."""
        with self.book.lock:
            now, book = clock.now(), self.book
            waiting = [row for row in book.tasks.values() if row.status is Status.QUEUED]
            due = [
                row.next_run_after for row in waiting if not book.queues.get(row.queue) and row.next_run_after <= now
            ]
            alive = sum(lease.expires_at > now for lease in book.leases.values())
            states = Counter(source.state for source in book.sources.values())
            return Pulse(
                at=moment(now),
                counts=counts(book),
                flow=tuple(self._flow(begin_of(now, window, step), step)),
                last_hour=self._hour(now - HOUR, now),
                hour_before=self._hour(now - 2 * HOUR, now - HOUR),
                retries_waiting=min(sum(row.retry_count > 0 for row in waiting), MOST_COUNTED),
                oldest_ready=now - min(due) if due else None,
                workers=alive,
                silent_workers=len(book.leases) - alive,
                sources={str(state): states[state] for state in SourceState},
                cooldowns=sum(each.until > now for each in book.cooldowns.values()),
                open_breakers=len({each.resource for each in known_breakers(book) if _is_open(each, now)}),
                paused_queues=sum(book.queues.values()),
                alerts_waiting=min(sum(each.alert.delivered_at is None for each in book.alerts.values()), MOST_COUNTED),
                running_jobs=sum(run.ended_at is None for run in book.runs.values()),
                newest_task=book.newest_task,
                newest_dead_letter=book.newest_letter,
                changes=tuple(sorted(_changes(book, moment(now - HOUR)), reverse=True)[:CHANGES]),
            )

    def _flow(self, begin: float, step: float) -> list[FlowPoint]:
        points: Counter[tuple[float, FlowEvent, str]] = Counter()
        for at, step_counts in self.book.books.flow.items():
            for key, count in step_counts.items():
                if at >= begin:
                    points[at // step * step, key.event, key.category] += count
        return sorted(FlowPoint(moment(at), event, category, count) for (at, event, category), count in points.items())

    def _hour(self, begin: float, end: float) -> dict[tuple[FlowEvent, str], int]:
        hour: Counter[tuple[FlowEvent, str]] = Counter()
        for at, step_counts in self.book.books.flow.items():
            for key, count in step_counts.items():
                if begin < at <= end:
                    hour[key.event, key.category] += count
        return dict(hour)

    def roll_up(self) -> int:
        """Drop what nobody looks at any more; all else is added up already."""
        with self.book.lock:
            return self.book.books.forget(clock.now() - _KEPT)

    def books(self) -> dict[str, int]:
        """Return how often each event happened."""
        with self.book.lock:
            return totals_of((key.event, count) for key, count in self.book.books.ever.items())

    def failures(self, which: FailureFilter, *, look: int = MOST_LOOKED_AT) -> Page[FailureGroup]:
        """Return groups of failures."""
        with self.book.lock:
            groups = [group_of(self.book.books, fingerprint) for fingerprint in self.book.books.groups]
            now = moment(clock.now())

        def order(group: FailureGroup) -> tuple[int, str]:
            return group.failures if which.largest else round(group.last_seen.timestamp() * 1000), group.fingerprint

        after = parse_place(which.after)
        ordered = sorted((each for each in groups if after is None or order(each) < after), key=order, reverse=True)
        rows, last, looked = take(((each, group_fits(each, which, now)) for each in ordered), which.limit, look)
        return Page(rows, None if last is None else place(*order(last)), looked)

    def failure(self, fingerprint: str) -> FailureGroup | None:
        """Return one."""
        with self.book.lock:
            return group_of(self.book.books, fingerprint) if fingerprint in self.book.books.groups else None

    def failure_flow(self, fingerprints: Sequence[str], *, window: float, step: float) -> dict[str, list[FlowPoint]]:
        """Return how often each of some groups failed, step by step."""
        with self.book.lock:
            begin, points = begin_of(clock.now(), window, step), Counter[tuple[str, float, FlowEvent]]()
            for at, step_counts in self.book.books.flow.items():
                for key, count in step_counts.items():
                    if at >= begin and key.event in FAILURES:
                        points[key.fingerprint, at // step * step, key.event] += count
            return {each: self._points(each, points) for each in fingerprints}

    def _points(self, fingerprint: str, points: Counter[tuple[str, float, FlowEvent]]) -> list[FlowPoint]:
        return sorted(
            FlowPoint(moment(at), event, self.book.books.groups[cause].error_category, count)
            for (cause, at, event), count in points.items()
            if cause == fingerprint
        )

    def failure_samples(self, fingerprint: str, limit: int = 5) -> list[Attempt]:
        """Return the last failed attempts of a group."""
        with self.book.lock:
            found = [
                each for history in self.book.attempts.values() for each in history if each.fingerprint == fingerprint
            ]
        return sorted(found, key=lambda each: each.finished_at, reverse=True)[:limit]

    def waiting_for(self, resource: str) -> int:
        """Return how many queued tasks depend on a resource."""
        with self.book.lock:
            rows = self.book.tasks.values()
            return min(sum(row.status is Status.QUEUED and row.resource == resource for row in rows), MOST_COUNTED)


def group_of(books: Books, fingerprint: str) -> FailureGroup:
    """Return a group of failures as people see it."""
    mine = [(key.event, count) for key, count in books.ever.items() if key.fingerprint == fingerprint]
    group = books.groups[fingerprint]
    return FailureGroup(
        fingerprint=fingerprint,
        task_type=group.task_type,
        error_type=group.error_type,
        error_category=group.error_category,
        error_message=group.error_message,
        first_seen=moment(group.first_seen),
        last_seen=moment(group.last_seen),
        failures=sum(count for event, count in mine if event in FAILURES),
        dead=sum(count * DEAD.get(event, 0) for event, count in mine),
        note=group.note,
        acknowledged_at=moment_or_none(group.acknowledged_at),
        acknowledged_by=group.acknowledged_by,
        snoozed_until=moment_or_none(group.snoozed_until),
    )


def _changes(book: Book, since: datetime) -> Iterator[Change]:
    """Return what changed since then, in any order."""
    found = chain(_new_groups(book), _source_changes(book), _ended_runs(book), _told_breakers(book), _workers(book))
    return (each for each in found if each.at > since)


def _new_groups(book: Book) -> Iterator[Change]:
    for fingerprint, group in book.books.groups.items():
        at, name = moment(group.first_seen), group.task_type
        yield Change(at, "group", fingerprint, name, "", group.error_category, group.error_message)


def _source_changes(book: Book) -> Iterator[Change]:
    for number, polls in book.polls.items():
        source = book.sources.get(number)
        name = "" if source is None else source.name or source.url
        for poll in polls:
            if poll.after is not None:
                yield Change(poll.at, "source", str(number), name, poll.before or "", poll.after, poll.error or "")


def _ended_runs(book: Book) -> Iterator[Change]:
    for run in book.runs.values():
        if run.ended_at is not None:
            code = "" if run.exit_code is None else f" {run.exit_code}"
            yield Change(run.ended_at, "run", run.id, run.job, "", f"{run.state}{code}", "")


def _is_open(told: Told, now: float) -> bool:
    """Tell whether a breaker is open, and is not tried by the next call."""
    return told.state == "open" and (told.until is None or told.until > now)


def _told_breakers(book: Book) -> Iterator[Change]:
    latest = {(each.resource, each.before, each.state): each for each in sorted(known_breakers(book), key=_told_at)}
    for told in latest.values():
        if told.before or told.state != "closed":
            at, name = moment(told.updated_at), told.resource
            yield Change(at, "breaker", name, name, told.before, told.state, told.reason)


def _workers(book: Book) -> Iterator[Change]:
    for lease in book.leases.values():
        worker = lease.worker
        yield Change(worker.started_at, "worker", worker.id, worker.name, "", worker.state, "")


def _told_at(told: Told) -> float:
    return told.updated_at
