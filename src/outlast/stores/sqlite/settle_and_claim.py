"""Settles, starts and claims tasks for a SQLite worker, within one transaction."""

import json
from sqlite3 import Connection
from typing import Any

from outlast.errors import LeaseLostError
from outlast.ports.read_rows import FlowEvent
from outlast.ports.rows import Claim, Claimed, Kind, SettleAndClaim, SettleAndClaimResult, Settlement
from outlast.stores.counters import NO_NOTE, CounterDelta, failure_event
from outlast.stores.sqlite.connection import dumps, execute, milliseconds
from outlast.stores.sqlite.counters import write_delta, write_event

_ATTEMPT_OUTCOMES = {Kind.RETRY: "retry", Kind.FAIL: "fail", Kind.CRASH: "lost"}


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
        execute(connection, name, {"ids": dumps(numbers), "epoch": epoch, "now": now}).rowcount
        for epoch, numbers in by_epoch.items()
    )


def _refused_ids(connection: Connection, tasks: list[tuple[int, int]]) -> list[int]:
    """Return the tasks that another worker holds by now."""
    return [row[0] for row in execute(connection, "lost_claims", {"done": dumps(tasks)})]


def settle(connection: Connection, settlement: Settlement, now: int, delta: CounterDelta) -> bool:
    """Write the outcome of one task, without the counters; return whether the task still had its epoch."""
    kind, given = settlement.kind, settlement.note
    note = given or NO_NOTE
    values = {
        "id": settlement.task_id,
        "epoch": settlement.epoch,
        "now": now,
        "delay": milliseconds(settlement.delay),
        "error": None if given is None and kind in {Kind.RETRY, Kind.DEFER} else note.error_message,
        "spent": int(given is not None),
        "suspect": int(settlement.suspect),
        "reason": settlement.reason,
    }
    if kind is Kind.DONE:
        changed = execute(connection, "settle_done", values | {"ids": dumps([settlement.task_id])}).rowcount == 1
        delta.add(FlowEvent.DONE, int(changed))
        if changed and settlement.result is not None:
            kept = {"result": settlement.result, "keep": round(settlement.keep * 1000)}
            execute(connection, "save_result", values | kept)
        return changed
    statement = execute(connection, f"settle_{kind}", values)
    if kind in {Kind.RELEASE, Kind.PARK}:
        return statement.rowcount == 1
    row = statement.fetchone()
    if row is None:
        return False
    event = failure_event(settlement)
    delta.failure(event, row[0], given)
    if kind in _ATTEMPT_OUTCOMES and (given is not None or kind is not Kind.RETRY):
        _, attempt, worker_id, started_at = row
        history = {"task_id": settlement.task_id, "attempt": attempt, "worker_id": worker_id, "started_at": started_at}
        history |= {"outcome": _ATTEMPT_OUTCOMES[kind], "delay": settlement.delay if kind is Kind.RETRY else None}
        execute(connection, "add_attempt", history | {"now": now} | note._asdict())
    if event is FlowEvent.FAILED:
        execute(connection, "add_dead_letter", values | note._asdict())
    return True


def _claim(connection: Connection, claim: Claim, worker_id: str, now: int, paused: str, cooling: int) -> list[Claimed]:
    queues = tuple(dict.fromkeys(claim.queues))  # a duplicate would return its tasks twice
    if paused != "[]":
        paused_queues = set(json.loads(paused))
        queues = tuple(queue for queue in queues if queue not in paused_queues)
    if cooling:  # rarely more than a few, because `start_cooldown` has deferred the others; the claim skips the rest
        execute(connection, "defer_cooling_tasks", {"now": now})
    values = {"queues": dumps(queues), "now": now, "limit": claim.limit}
    name = "claimable_suspects" if claim.suspect else "claimable_tasks"
    rows: list[Any] = json.loads(execute(connection, name, values).fetchone()[0])
    if not rows:
        return []
    start = claim.start
    for query, part in (("claim_and_start", rows[:start]), ("claim_without_start", rows[start:])):
        if part:
            ids = dumps([row[0] for row in part])
            values = {"ids": ids, "worker_id": worker_id, "now": now, "alone": int(claim.suspect)}
            execute(connection, query, values)
    return [
        Claimed._make([*row[:9], place < start, claim.suspect, bool(row[9]), row[10], row[11] if claim.suspect else 0])
        for place, row in enumerate(rows)
    ]
