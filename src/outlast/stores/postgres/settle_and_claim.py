"""A worker's turn in PostgreSQL: one statement where it can be, one transaction always."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from outlast.errors import LeaseLostError
from outlast.ports.read_rows import FlowEvent
from outlast.ports.rows import Claim, Claimed, Kind, Note, SettleAndClaim, SettleAndClaimResult, Settlement
from outlast.stores.counters import NO_NOTE, CounterDelta
from outlast.stores.postgres.connection import Connection

_MAX_CLAIM = 1000
"""Tasks that one statement claims at most; the same number is in settle_and_claim (claim.sql)."""
_NO_CLAIM = Claim((), 0, 0)
_EVENT_BY_KIND = {
    Kind.RETRY: FlowEvent.RETRIED,
    Kind.FAIL: FlowEvent.FAILED,
    Kind.DEFER: FlowEvent.DEFERRED,
    Kind.CRASH: FlowEvent.LOST,
}
_dumps = json.JSONEncoder(separators=(",", ":")).encode


def settle_and_claim(
    connection: Connection, sql: dict[str, bytes], asked: SettleAndClaim
) -> tuple[SettleAndClaimResult, bool]:
    """Do all that a turn asks for; tell also whether ready tasks of cooling resources are in the way.

    Raises:
        LeaseLostError: If the worker is not known any more; nothing was done.
    """
    cursor = connection.cursor(binary=True)
    claim = asked.claim or _NO_CLAIM
    if not asked.settlements and not claim.suspect and claim.limit <= _MAX_CLAIM:
        return _settle_and_claim_in_one(cursor, sql, asked, claim)
    with connection.transaction():
        if not cursor.execute(sql["hold_lease"], {"worker_id": asked.worker_id}).fetchall():
            raise LeaseLostError(asked.worker_id)
        refused = settle(cursor, sql, asked.settlements)
        turned, cooling = _settle_and_claim_in_one(cursor, sql, asked, _NO_CLAIM if claim.suspect else claim)
        claimed = turned.claimed
        if claim.suspect:
            claimed = _claim_suspect(cursor, sql, asked.worker_id, claim)
        while 0 < len(claimed) < claim.limit and len(claimed) % _MAX_CLAIM == 0:
            rest = claim._replace(limit=claim.limit - len(claimed), start=max(claim.start - len(claimed), 0))
            more = _settle_and_claim_in_one(cursor, sql, SettleAndClaim(asked.worker_id, [], [], [], rest), rest)[
                0
            ].claimed
            if not more:
                break
            claimed += more
    return SettleAndClaimResult(claimed, turned.refused + refused), cooling


def _settle_and_claim_in_one(
    cursor: Any, sql: dict[str, bytes], asked: SettleAndClaim, claim: Claim
) -> tuple[SettleAndClaimResult, bool]:
    """Settle successes, mark starts and claim, by one statement."""
    done, start = sorted(asked.done), sorted(set(asked.start).difference(asked.done))
    values = {
        "worker_id": asked.worker_id,
        "done": _array_literal([pair[0] for pair in done]),
        "done_epochs": _array_literal([pair[1] for pair in done]),
        "begun": _array_literal([pair[0] for pair in start]),
        "begun_epochs": _array_literal([pair[1] for pair in start]),
        "queues": list(dict.fromkeys(claim.queues)),
        "most": str(min(claim.limit, _MAX_CLAIM)),
        "start": str(claim.start),
    }
    rows = cursor.execute(sql["settle_and_claim"], values, prepare=True).fetchall()
    known, changed, cooling = rows[0][:3]
    if not known:
        raise LeaseLostError(asked.worker_id)
    refused = [] if changed == len(done) + len(start) else _refused_ids(cursor, sql, asked.done + asked.start)
    return SettleAndClaimResult([Claimed(*row[3:]) for row in rows if row[3] is not None], refused), cooling


def _claim_suspect(cursor: Any, sql: dict[str, bytes], worker_id: str, claim: Claim) -> list[Claimed]:
    queues = list(dict.fromkeys(claim.queues))
    values = {"worker_id": worker_id, "queues": queues, "most": claim.limit, "start": claim.start}
    return [Claimed._make(row) for row in cursor.execute(sql["claim_suspect"], values).fetchall()]


def settle(cursor: Any, sql: dict[str, bytes], settlements: Sequence[Settlement]) -> list[int]:
    """Write what became of tasks, a statement per kind; return those that somebody else has by now."""
    changed: set[int] = set()
    tally = CounterDelta()
    for kind in Kind:
        given = {each.task_id: each for each in settlements if each.kind is kind}
        if given:
            values = {"settlements": _dumps([_settlement_record(each) for each in given.values()])}
            for number, task_type in cursor.execute(sql[f"settle_{kind}"], values):
                changed.add(number)
                if kind in _EVENT_BY_KIND:
                    ended = given[number].reason is not None
                    tally.failure(FlowEvent.FAILED if ended else _EVENT_BY_KIND[kind], task_type, given[number].note)
    if tally.counts:
        count_failures(cursor, sql, tally)
    left = [(each.task_id, each.epoch) for each in settlements if each.task_id not in changed]
    return _refused_ids(cursor, sql, left) if left else []


def count_failures(cursor: Any, sql: dict[str, bytes], tally: CounterDelta) -> None:
    """Tell the books of what failed; successes are told of by the statements that settle them."""
    counts = [key._asdict() | {"n": count} for key, count in tally.counts.items()]
    groups = [{"task_type": name} | _group_sample(note) for name, note in tally.groups.values()]
    cursor.execute(sql["record_failures"], {"counts": _dumps(counts), "groups": _dumps(groups)})


def _group_sample(note: Note) -> dict[str, str]:
    """Return of a note what a group shows."""
    return {name: value for name, value in note._asdict().items() if name not in {"failure", "traceback"}}


def _settlement_record(settlement: Settlement) -> dict[str, Any]:
    """Return a settlement as the statements of its kind read it."""
    record = {"id": settlement.task_id, "epoch": settlement.epoch, "delay": settlement.delay}
    match settlement.kind:
        case Kind.DONE:
            return record | {"result": settlement.result, "keep": settlement.keep}
        case Kind.RETRY | Kind.FAIL | Kind.DEFER | Kind.CRASH:
            noted = {"noted": settlement.note is not None, "reason": settlement.reason, "suspect": settlement.suspect}
            return record | noted | (settlement.note or NO_NOTE)._asdict()
        case Kind.RELEASE | Kind.PARK:
            return record


def _refused_ids(cursor: Any, sql: dict[str, bytes], tasks: Sequence[tuple[int, int]]) -> list[int]:
    values = {"ids": _array_literal([pair[0] for pair in tasks]), "epochs": _array_literal([pair[1] for pair in tasks])}
    return [row[0] for row in cursor.execute(sql["lost_claims"], values)]


def _array_literal(numbers: Iterable[int]) -> str:
    """Write an array as PostgreSQL reads it; psycopg would look at every element."""
    return "{" + ",".join(map(str, numbers)) + "}"
