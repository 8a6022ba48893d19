"""Settles, starts and claims tasks for a SQLite worker, within one transaction."""

import json
from sqlite3 import Connection
from typing import Any

from outlast.errors import LeaseLostError
from outlast.ports.read_rows import FlowEvent
from outlast.ports.rows import Claim, Claimed, Kind, SettleAndClaim, SettleAndClaimResult, Settlement
from outlast.stores.counters import NO_NOTE, CounterDelta
from outlast.stores.sqlite.connection import execute, milliseconds
from outlast.stores.sqlite.counters import write_delta, write_event

_dumps = json.JSONEncoder(separators=(",", ":")).encode


def settle_and_claim(connection: Connection, request: SettleAndClaim, now: int) -> SettleAndClaimResult:
    """Settle, start and claim what a worker asks for.

    Raises:
        LeaseLostError: If the store no longer knows the worker.
    """
    known, paused, cooling = execute(
        connection, "worker_and_pauses", {"worker_id": request.worker_id, "now": now}
    ).fetchone()
    if known is None:
        raise LeaseLostError(request.worker_id)
    refused: list[int] = []
    if request.done:
        changed = _change_held(connection, "settle_done", request.done, now)
        write_event(connection, FlowEvent.DONE, changed, now)
        if changed != len(request.done):
            refused += _refused_ids(connection, request.done)
    if request.settlements:
        delta = CounterDelta()
        for settlement in request.settlements:
            if not settle(connection, settlement, now, delta):
                refused += _refused_ids(connection, [(settlement.task_id, settlement.epoch)])
        write_delta(connection, delta, now)
    if request.start and _change_held(connection, "mark_started", request.start, now) != len(request.start):
        refused += _refused_ids(connection, request.start)
    claimed = (
        [] if request.claim is None else _claim(connection, request.claim, request.worker_id, now, paused, cooling)
    )
    return SettleAndClaimResult(claimed, refused)


def _change_held(connection: Connection, name: str, tasks: list[tuple[int, int]], now: int) -> int:
    """Change a batch of tasks; return how many still had their epoch.

    One statement per epoch, because nearly all tasks have the first and a list of numbers is parsed faster than pairs.
    """
    by_epoch: dict[int, list[int]] = {}
    for number, epoch in tasks:
        by_epoch.setdefault(epoch, []).append(number)
    return sum(
        execute(connection, name, {"ids": _dumps(numbers), "epoch": epoch, "now": now}).rowcount
        for epoch, numbers in by_epoch.items()
    )


def _refused_ids(connection: Connection, tasks: list[tuple[int, int]]) -> list[int]:
    """Return the tasks that another worker holds by now."""
    return [row[0] for row in execute(connection, "lost_claims", {"done": _dumps(tasks)})]


def settle(  # noqa: C901  # one case for each kind
    connection: Connection, settlement: Settlement, now: int, delta: CounterDelta
) -> bool:
    """Write the outcome of one task, without the counters; return whether the task still had its epoch."""
    values = {
        "id": settlement.task_id,
        "epoch": settlement.epoch,
        "now": now,
        "delay": milliseconds(settlement.delay),
        "error": settlement.note.error_message if settlement.note else None,
        "suspect": int(settlement.suspect),
    }
    match settlement.kind:
        case Kind.RETRY:
            row = execute(connection, "settle_retry", values).fetchone()
            if row is None:
                return False
            delta.failure(FlowEvent.RETRIED, row[3], settlement.note)
            if settlement.note is not None:
                _write_attempt(connection, settlement, row, now, "retry")
            return True
        case Kind.FAIL:
            return _settle_failed(connection, settlement, now, delta)
        case Kind.DONE:
            one = {"ids": _dumps([settlement.task_id]), "epoch": settlement.epoch, "now": now}
            changed = execute(connection, "settle_done", one).rowcount == 1
            delta.add(FlowEvent.DONE, int(changed))
            if changed and settlement.result is not None:
                kept = {"result": settlement.result, "keep": round(settlement.keep * 1000)}
                execute(connection, "save_result", {"id": settlement.task_id, "now": now, **kept})
            return changed
        case Kind.DEFER:
            row = execute(connection, "settle_defer", values).fetchone()
            if row is not None:
                delta.failure(FlowEvent.DEFERRED, row[0], settlement.note)
            return row is not None
        case Kind.CRASH:
            return _settle_crash(connection, settlement, now, delta)
        case Kind.RELEASE | Kind.PARK:
            return execute(connection, f"settle_{settlement.kind}", values).rowcount == 1


def _settle_failed(connection: Connection, settlement: Settlement, now: int, delta: CounterDelta) -> bool:
    """Turn a task into a dead letter; return whether it still had its epoch."""
    note = settlement.note or NO_NOTE
    values = {
        "id": settlement.task_id,
        "epoch": settlement.epoch,
        "now": now,
        "error": note.error_message,
        "spent": int(settlement.note is not None),
    }
    row = execute(connection, "settle_fail", values).fetchone()
    if row is None:
        return False
    delta.failure(FlowEvent.FAILED, row[3], settlement.note)
    _write_attempt(connection, settlement, row, now, "fail")
    execute(
        connection,
        "add_dead_letter",
        {"id": settlement.task_id, "now": now, "reason": settlement.reason, **note._asdict()},
    )
    return True


def _settle_crash(connection: Connection, settlement: Settlement, now: int, delta: CounterDelta) -> bool:
    """Count a crash like the rescue from a dead worker does; return whether the task still had its epoch."""
    note, reason = settlement.note or NO_NOTE, settlement.reason
    values = {"id": settlement.task_id, "epoch": settlement.epoch, "now": now, "error": note.error_message}
    more = {"reason": reason, "delay": milliseconds(settlement.delay)}
    row = execute(connection, "settle_crash", values | more).fetchone()
    if row is None:
        return False
    delta.failure(FlowEvent.LOST if reason is None else FlowEvent.FAILED, row[3], settlement.note)
    _write_attempt(connection, settlement, row, now, "lost")
    if reason is not None:
        dead_letter = {"id": settlement.task_id, "now": now, "reason": reason}
        execute(connection, "add_dead_letter", dead_letter | note._asdict())
    return True


def _write_attempt(
    connection: Connection,
    settlement: Settlement,
    row: tuple[int, str | None, int | None, str],
    now: int,
    kind: str,
) -> None:
    """Add a failed attempt to a task's history."""
    attempt, worker_id, started_at, _ = row
    values = {
        "task_id": settlement.task_id,
        "attempt": attempt,
        "outcome": kind,
        "worker_id": worker_id,
        "started_at": started_at,
        "now": now,
        "delay": settlement.delay if kind == "retry" else None,
    }
    execute(connection, "add_attempt", values | (settlement.note or NO_NOTE)._asdict())


def _claim(connection: Connection, claim: Claim, worker_id: str, now: int, paused: str, cooling: int) -> list[Claimed]:
    queues = tuple(dict.fromkeys(claim.queues))  # a duplicate would return its tasks twice
    if paused != "[]":
        paused_queues = set(json.loads(paused))
        queues = tuple(queue for queue in queues if queue not in paused_queues)
    if cooling:  # rarely more than a few, because `start_cooldown` has deferred the others; the claim skips the rest
        execute(connection, "defer_cooling_tasks", {"now": now})
    values = {"queues": _dumps(queues), "now": now, "limit": claim.limit}
    name = "claimable_suspects" if claim.suspect else "claimable_tasks"
    rows: list[Any] = json.loads(execute(connection, name, values).fetchone()[0])
    if not rows:
        return []
    start = claim.start
    for query, part in (("claim_and_start", rows[:start]), ("claim_without_start", rows[start:])):
        if part:
            ids = _dumps([row[0] for row in part])
            values = {"ids": ids, "worker_id": worker_id, "now": now, "alone": int(claim.suspect)}
            execute(connection, query, values)
    return [
        Claimed._make([*row[:9], place < start, claim.suspect, bool(row[9]), row[10], row[11] if claim.suspect else 0])
        for place, row in enumerate(rows)
    ]
