"""Settles, starts and claims tasks for a PostgreSQL worker: in one statement if possible, always in one transaction."""

from collections.abc import Iterable, Sequence
from typing import Any

from outlast.errors import LeaseLostError
from outlast.ports.rows import Claim, Claimed, Kind, SettleAndClaim, SettleAndClaimResult, Settlement
from outlast.stores.counters import EVENTS, NO_NOTE, CounterDelta, failure_event
from outlast.stores.postgres.connection import PostgresCursor, dumps
from outlast.stores.shared_methods import Statements

_MAX_CLAIM = 1000
"""Tasks that one statement claims at most; the statement settle_and_claim in claim.sql has the same number."""
_NO_CLAIM = Claim((), 0, 0)


def settle_and_claim(cursor: PostgresCursor, request: SettleAndClaim) -> tuple[SettleAndClaimResult, bool]:
    """Settle, start and claim what a worker asks for; also return whether ready tasks wait for a cooldown.

    Raises:
        LeaseLostError: If the store no longer knows the worker. Nothing is changed.
    """
    claim = request.claim or _NO_CLAIM
    if not request.settlements and not claim.suspect and claim.limit <= _MAX_CLAIM:
        return _settle_and_claim_in_one(cursor, request, claim)
    with cursor.connection.transaction():
        if not cursor.fetch("hold_lease", {"worker_id": request.worker_id}):
            raise LeaseLostError(request.worker_id)
        refused = settle(cursor, request.settlements)
        result, cooling = _settle_and_claim_in_one(cursor, request, _NO_CLAIM if claim.suspect else claim)
        claimed = result.claimed
        if claim.suspect:
            claimed = _claim_suspect(cursor, request.worker_id, claim)
        while 0 < len(claimed) < claim.limit and len(claimed) % _MAX_CLAIM == 0:
            rest = claim._replace(limit=claim.limit - len(claimed), start=max(claim.start - len(claimed), 0))
            only_claim = SettleAndClaim(request.worker_id, [], [], [], rest)
            more, _ = _settle_and_claim_in_one(cursor, only_claim, rest)
            if not more.claimed:
                break
            claimed += more.claimed
    return SettleAndClaimResult(claimed, result.refused + refused), cooling


def _settle_and_claim_in_one(
    cursor: PostgresCursor, request: SettleAndClaim, claim: Claim
) -> tuple[SettleAndClaimResult, bool]:
    """Settle successes, mark starts and claim, in one statement."""
    done, start = sorted(request.done), sorted(set(request.start).difference(request.done))
    values = {
        "worker_id": request.worker_id,
        "done": _array_literal([pair[0] for pair in done]),
        "done_epochs": _array_literal([pair[1] for pair in done]),
        "starts": _array_literal([pair[0] for pair in start]),
        "start_epochs": _array_literal([pair[1] for pair in start]),
        "queues": list(dict.fromkeys(claim.queues)),
        "most": str(min(claim.limit, _MAX_CLAIM)),
        "start": str(claim.start),
    }
    rows = cursor.fetch("settle_and_claim", values)
    known, changed, cooling = rows[0][:3]
    if not known:
        raise LeaseLostError(request.worker_id)
    refused = [] if changed == len(done) + len(start) else _refused_ids(cursor, request.done + request.start)
    return SettleAndClaimResult([Claimed(*row[3:]) for row in rows if row[3] is not None], refused), cooling


def _claim_suspect(cursor: PostgresCursor, worker_id: str, claim: Claim) -> list[Claimed]:
    queues = list(dict.fromkeys(claim.queues))
    values = {"worker_id": worker_id, "queues": queues, "most": claim.limit, "start": claim.start}
    return [Claimed(*row) for row in cursor.fetch("claim_suspect", values)]


def settle(cursor: PostgresCursor, settlements: Sequence[Settlement]) -> list[int]:
    """Write the outcomes of tasks, one statement per kind; return the tasks that another worker holds by now."""
    changed: set[int] = set()
    delta = CounterDelta()
    for kind in Kind:
        by_id = {each.task_id: each for each in settlements if each.kind is kind}
        if by_id:
            values = {"settlements": dumps([_settlement_record(each) for each in by_id.values()])}
            for number, task_type in cursor.fetch(f"settle_{kind}", values):
                changed.add(number)
                if kind in EVENTS:
                    delta.failure(failure_event(by_id[number]), task_type, by_id[number].note)
    if delta.counts:
        count_failures(cursor, delta)
    left = [(each.task_id, each.epoch) for each in settlements if each.task_id not in changed]
    return _refused_ids(cursor, left) if left else []


def count_failures(db: Statements, delta: CounterDelta) -> None:
    """Write a counter delta of failures. Statements that settle successes count them by themselves."""
    counts = [key._asdict() | {"n": count} for key, count in delta.counts.items()]
    groups = [
        {"task_type": name} | note._replace(failure="", traceback="")._asdict() for name, note in delta.groups.values()
    ]
    db.change("record_failures", {"counts": dumps(counts), "groups": dumps(groups)})


def _settlement_record(settlement: Settlement) -> dict[str, Any]:
    """Return a settlement as the statement of its kind reads it."""
    record = {"id": settlement.task_id, "epoch": settlement.epoch, "delay": settlement.delay}
    match settlement.kind:
        case Kind.DONE:
            return record | {"result": settlement.result, "keep": settlement.keep}
        case Kind.RETRY | Kind.FAIL | Kind.DEFER | Kind.CRASH:
            noted = {"noted": settlement.note is not None, "reason": settlement.reason, "suspect": settlement.suspect}
            return record | noted | (settlement.note or NO_NOTE)._asdict()
        case Kind.RELEASE | Kind.PARK:
            return record


def _refused_ids(cursor: PostgresCursor, tasks: Sequence[tuple[int, int]]) -> list[int]:
    values = {"ids": _array_literal([pair[0] for pair in tasks]), "epochs": _array_literal([pair[1] for pair in tasks])}
    return cursor.column("lost_claims", values)


def _array_literal(numbers: Iterable[int]) -> str:
    """Return an array literal for PostgreSQL; psycopg would inspect every element."""
    return "{" + ",".join(map(str, numbers)) + "}"
