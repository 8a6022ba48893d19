"""A worker's turn in memory: settle, start and claim."""

from heapq import nsmallest
from typing import assert_never

from holdfast.errors import ConfigError
from holdfast.ports.read_rows import FlowEvent
from holdfast.ports.rows import Claim, Claimed, Kind, Reason, Settlement, Status, Turn, Turned
from holdfast.stores.books import NO_NOTE, Tally
from holdfast.stores.memory.book import Book, Row

__all__ = ["settle", "turn"]


def turn(book: Book, asked: Turn, now: float) -> Turned:
    """Do all that a turn of a known worker asks for."""
    if any(each.kind is Kind.FAIL and each.reason is None for each in asked.settlements):
        message = "a dead letter needs a reason"
        raise ConfigError(message)
    done = [Settlement(task_id, epoch, Kind.DONE) for task_id, epoch in asked.done]
    refused = [each.task_id for each in done + asked.settlements if not settle(book, each, now)]
    refused += [task_id for task_id, epoch in asked.start if not _start(book, task_id, epoch, now)]
    claimed = [] if asked.claim is None else _claim(book, asked.claim, asked.worker_id, now)
    return Turned(claimed, refused)


def settle(book: Book, settlement: Settlement, now: float) -> bool:
    """Write what became of one task; tell whether it was still the caller's."""
    row = book.tasks.get(settlement.task_id)
    if row is None or row.lease_epoch != settlement.epoch:
        return False
    if row.status is Status.RUNNING:  # else it was settled before, and only the answer got lost
        tally = Tally()
        _change(book, row, settlement, now, tally)
        book.books.write(tally, now)
        row.updated_at, row.alone = now, False
        if settlement.kind not in {Kind.RELEASE, Kind.PARK}:
            crashed = settlement.kind is Kind.CRASH and settlement.reason is None
            row.suspect = settlement.suspect or crashed
    return True


def _change(  # noqa: C901  # a case for each kind
    book: Book, row: Row, settlement: Settlement, now: float, tally: Tally
) -> None:
    note = settlement.note
    match settlement.kind:
        case Kind.DONE:
            row.status, row.finished_at = Status.DONE, now
            tally.add(FlowEvent.DONE)
            if settlement.result is not None:
                book.results[row.id] = (settlement.result, now + settlement.keep)
        case Kind.RETRY:
            row.status, row.retry_count, row.deferred_at = Status.QUEUED, row.retry_count + 1, None
            row.last_error = None if note is None else note.error_message
            row.next_run_after = now + settlement.delay
            tally.failure(FlowEvent.RETRIED, row.task_type, note)
            if note is not None:
                book.note_attempt(row, "retry", note, now, settlement.delay)
        case Kind.DEFER:
            row.uncount_start()
            row.status, row.deferrals = Status.QUEUED, row.deferrals + 1
            row.deferred_at = now if row.deferred_at is None else row.deferred_at
            row.last_error = row.last_error if note is None else note.error_message
            row.next_run_after = max(now + settlement.delay, book.cool_until(row.resource))
            tally.failure(FlowEvent.DEFERRED, row.task_type, note)
        case Kind.FAIL:
            row.status, row.failed_at = Status.FAILED, now
            tally.failure(FlowEvent.FAILED, row.task_type, note)
            row.retry_count += note is not None
            row.last_error = (note or NO_NOTE).error_message
            book.note_attempt(row, "fail", note or NO_NOTE, now)
            book.add_letter(row, Reason(str(settlement.reason)), note or NO_NOTE, now)
        case Kind.CRASH:
            _crash(book, row, settlement, now, tally)
        case Kind.RELEASE:
            row.uncount_start()
            row.status = Status.QUEUED
            if settlement.delay > 0:
                row.next_run_after = now + settlement.delay
        case Kind.PARK:
            row.uncount_start()
            row.status = Status.PARKED
        case _:
            assert_never(settlement.kind)


def _crash(book: Book, row: Row, settlement: Settlement, now: float, tally: Tally) -> None:
    """Count a crash, as a rescue does where a worker died."""
    note, reason = settlement.note or NO_NOTE, settlement.reason
    tally.failure(FlowEvent.LOST if reason is None else FlowEvent.FAILED, row.task_type, settlement.note)
    row.status, row.last_error, row.crash_count = Status.QUEUED, note.error_message, row.crash_count + 1
    book.note_attempt(row, "lost", note, now)
    if reason is None:
        row.next_run_after = now + settlement.delay
    else:
        row.status, row.failed_at = Status.FAILED, now
        book.add_letter(row, reason, note, now)


def _start(book: Book, task_id: int, epoch: int, now: float) -> bool:
    """Mark the start of a task that was only held; tell whether it was still the caller's."""
    row = book.tasks.get(task_id)
    if row is None or row.lease_epoch != epoch:
        return False
    if row.status is Status.RUNNING and row.started_at is None:
        row.attempt, row.started_at = row.attempt + 1, now
    return True


def _claim(book: Book, claim: Claim, worker_id: str, now: float) -> list[Claimed]:
    book.move_cooling(now)
    places = {queue: place for place, queue in reversed(list(enumerate(claim.queues))) if not book.queues.get(queue)}
    ready = (
        row
        for row in book.tasks.values()
        if row.status is Status.QUEUED
        and row.suspect == claim.suspect
        and row.queue in places
        and row.next_run_after <= now
    )

    def order(row: Row) -> tuple[int, int, float, int]:
        return 0 if claim.suspect else row.priority, places[row.queue], row.next_run_after, row.id

    rows = nsmallest(claim.limit, ready, key=order)
    return [_take(row, claim, worker_id, now, started=place < claim.start) for place, row in enumerate(rows)]


def _take(row: Row, claim: Claim, worker_id: str, now: float, *, started: bool) -> Claimed:
    """Put a task into a worker's hands."""
    claimed = Claimed(
        id=row.id,
        epoch=row.lease_epoch + 1,
        task_type=row.task_type,
        parameters=row.parameters,
        attempt=row.attempt + 1,
        retry_count=row.retry_count,
        resource=row.resource,
        expires_in=None if row.expires_at is None else row.expires_at - now,
        deferred_for=0.0 if row.deferred_at is None else now - row.deferred_at,
        started=started,
        suspect=claim.suspect,
        canary=row.canary,
        crash_count=row.crash_count if claim.suspect else 0,
    )
    row.status, row.worker_id, row.updated_at = Status.RUNNING, worker_id, now
    row.lease_epoch += 1
    row.attempt += started
    row.started_at = now if started else None
    row.alone = started and claim.suspect
    return claimed
