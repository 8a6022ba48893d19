"""A worker's turn: settle, start and claim, within one transaction."""

import json
import sqlite3
from typing import Any

from outlast.errors import LeaseLostError
from outlast.ports.read_rows import FlowEvent
from outlast.ports.rows import Claim, Claimed, Kind, SettleAndClaim, SettleAndClaimResult, Settlement
from outlast.sql_files import load_statements
from outlast.stores.counters import NO_NOTE, CounterDelta
from outlast.stores.sqlite.connection import milliseconds
from outlast.stores.sqlite.counters import write_delta, write_event

SQL = load_statements(__package__)
_dumps = json.JSONEncoder(separators=(",", ":")).encode


def settle_and_claim(connection: sqlite3.Connection, asked: SettleAndClaim, now: int) -> SettleAndClaimResult:
    """Do all that a turn asks for.

    Raises:
        LeaseLostError: If the worker is not known any more.
    """
    known, paused, cooling = connection.execute(
        SQL["worker_and_pauses"], {"worker_id": asked.worker_id, "now": now}
    ).fetchone()
    if known is None:
        raise LeaseLostError(asked.worker_id)
    refused: list[int] = []
    if asked.done:
        changed = _change_held(connection, SQL["settle_done"], asked.done, now)
        write_event(connection, FlowEvent.DONE, changed, now)
        if changed != len(asked.done):
            refused += _refused_ids(connection, asked.done)
    if asked.settlements:
        tally = CounterDelta()
        for settlement in asked.settlements:
            if not settle(connection, settlement, now, tally):
                refused += _refused_ids(connection, [(settlement.task_id, settlement.epoch)])
        write_delta(connection, tally, now)
    if asked.start and _change_held(connection, SQL["mark_started"], asked.start, now) != len(asked.start):
        refused += _refused_ids(connection, asked.start)
    claimed = [] if asked.claim is None else _claim(connection, asked.claim, asked.worker_id, now, paused, cooling)
    return SettleAndClaimResult(claimed, refused)


def _change_held(connection: sqlite3.Connection, sql: str, tasks: list[tuple[int, int]], now: int) -> int:
    """Change a batch of tasks; return how many were still ours.

    A statement per epoch: nearly all are in their first, and a list of plain numbers is read much faster than pairs.
    """
    by_epoch: dict[int, list[int]] = {}
    for number, epoch in tasks:
        by_epoch.setdefault(epoch, []).append(number)
    return sum(
        connection.execute(sql, {"ids": _dumps(numbers), "epoch": epoch, "now": now}).rowcount
        for epoch, numbers in by_epoch.items()
    )


def _refused_ids(connection: sqlite3.Connection, tasks: list[tuple[int, int]]) -> list[int]:
    """Return those that somebody else has by now."""
    return [row[0] for row in connection.execute(SQL["lost_claims"], {"done": _dumps(tasks)})]


def settle(  # noqa: C901  # a case for each kind
    connection: sqlite3.Connection, settlement: Settlement, now: int, tally: CounterDelta
) -> bool:
    """Write what became of one task, but for the books; tell whether it was still ours."""
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
            row = connection.execute(SQL["settle_retry"], values).fetchone()
            if row is None:
                return False
            tally.failure(FlowEvent.RETRIED, row[3], settlement.note)
            if settlement.note is not None:
                _write_attempt(connection, settlement, row, now, "retry")
            return True
        case Kind.FAIL:
            return _settle_failed(connection, settlement, now, tally)
        case Kind.DONE:
            one = {"ids": _dumps([settlement.task_id]), "epoch": settlement.epoch, "now": now}
            changed = connection.execute(SQL["settle_done"], one).rowcount == 1
            tally.add(FlowEvent.DONE, int(changed))
            if changed and settlement.result is not None:
                kept = {"result": settlement.result, "keep": round(settlement.keep * 1000)}
                connection.execute(SQL["save_result"], {"id": settlement.task_id, "now": now, **kept})
            return changed
        case Kind.DEFER:
            row = connection.execute(SQL["settle_defer"], values).fetchone()
            if row is not None:
                tally.failure(FlowEvent.DEFERRED, row[0], settlement.note)
            return row is not None
        case Kind.CRASH:
            return _settle_crash(connection, settlement, now, tally)
        case Kind.RELEASE | Kind.PARK:
            return connection.execute(SQL[f"settle_{settlement.kind}"], values).rowcount == 1


def _settle_failed(connection: sqlite3.Connection, settlement: Settlement, now: int, tally: CounterDelta) -> bool:
    """End a task as a dead letter; tell whether it was still ours."""
    note = settlement.note or NO_NOTE
    values = {
        "id": settlement.task_id,
        "epoch": settlement.epoch,
        "now": now,
        "error": note.error_message,
        "spent": int(settlement.note is not None),
    }
    row = connection.execute(SQL["settle_fail"], values).fetchone()
    if row is None:
        return False
    tally.failure(FlowEvent.FAILED, row[3], settlement.note)
    _write_attempt(connection, settlement, row, now, "fail")
    connection.execute(
        SQL["add_dead_letter"], {"id": settlement.task_id, "now": now, "reason": settlement.reason, **note._asdict()}
    )
    return True


def _settle_crash(connection: sqlite3.Connection, settlement: Settlement, now: int, tally: CounterDelta) -> bool:
    """Count a crash, as a rescue does where a worker died; tell whether it was still ours."""
    note, reason = settlement.note or NO_NOTE, settlement.reason
    values = {"id": settlement.task_id, "epoch": settlement.epoch, "now": now, "error": note.error_message}
    more = {"reason": reason, "delay": milliseconds(settlement.delay)}
    row = connection.execute(SQL["settle_crash"], values | more).fetchone()
    if row is None:
        return False
    tally.failure(FlowEvent.LOST if reason is None else FlowEvent.FAILED, row[3], settlement.note)
    _write_attempt(connection, settlement, row, now, "lost")
    if reason is not None:
        letter = {"id": settlement.task_id, "now": now, "reason": reason}
        connection.execute(SQL["add_dead_letter"], letter | note._asdict())
    return True


def _write_attempt(
    connection: sqlite3.Connection,
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
    connection.execute(SQL["add_attempt"], values | (settlement.note or NO_NOTE)._asdict())


def _claim(
    connection: sqlite3.Connection, claim: Claim, worker_id: str, now: int, paused: str, cooling: int
) -> list[Claimed]:
    queues = tuple(dict.fromkeys(claim.queues))  # one that is named twice would give its tasks twice
    if paused != "[]":
        closed = set(json.loads(paused))
        queues = tuple(queue for queue in queues if queue not in closed)
    if cooling:  # rarely more than a few: `cool` has moved what there was. The claim passes over what is left.
        connection.execute(SQL["defer_cooling_tasks"], {"now": now})
    values = {"queues": _dumps(queues), "now": now, "limit": claim.limit}
    sql = SQL["claimable_suspects" if claim.suspect else "claimable_tasks"]
    rows: list[Any] = json.loads(connection.execute(sql, values).fetchone()[0])
    if not rows:
        return []
    begun = claim.start
    for query, part in (("claim_and_start", rows[:begun]), ("claim_without_start", rows[begun:])):
        if part:
            ids = _dumps([row[0] for row in part])
            values = {"ids": ids, "worker_id": worker_id, "now": now, "alone": int(claim.suspect)}
            connection.execute(SQL[query], values)
    if claim.suspect:
        return [Claimed._make([*row[:9], place < begun, True, bool(row[9]), row[10]]) for place, row in enumerate(rows)]
    return [Claimed._make([*row[:9], place < begun, False, bool(row[9]), 0]) for place, row in enumerate(rows)]
