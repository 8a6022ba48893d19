"""Rules and constants that both stores share: retention, cooldowns, limits, job targets. No I/O."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache

from outlast import clock
from outlast.decide.limits import LimitState, ResourceLimit, admit_candidates
from outlast.errors import SchemaError
from outlast.failure import Category, Failure, Origin
from outlast.ports.job_rows import TargetDone, TargetStatus
from outlast.ports.rows import Note
from outlast.ports.store import LimitRequest, LimitRow

CYCLES_KEPT = 1000
"""Cycles that are kept per profile."""
POLLS_KEPT = 200
"""History entries that are kept per source."""
COOLDOWN_TAIL = 60.0
"""Seconds after the end of a cooldown within which the tasks that triggered it are due; they were deferred later."""


LIMIT_SHOWN_FOR = 86400.0
"""Seconds for which a limit is shown after its last use."""


def admit_requests(
    requests: Iterable[LimitRequest],
    known: dict[str, LimitState],
    slots: dict[str, list[tuple[int, int]]],
    now: float,
) -> tuple[dict[int, float], list[tuple[int, int, str]]]:
    """Decide about all requests of a transaction.

    Args:
        requests: The requests.
        known: The stored states by resource; updated.
        slots: The taken slots by resource, as (task id, epoch); updated.
        now: The time by the store's clock.

    Returns:
        The seconds that refused tasks wait, by task id, and the slots to store: task id, epoch and resource.
    """
    waits, fresh = dict[int, float](), list[tuple[int, int, str]]()
    for limit, candidates, mean in requests:
        name = limit.resource
        taken = slots.setdefault(name, [])
        busy = len(set(taken).difference((each.task_id, each.epoch) for each in candidates))  # after a lost answer
        decision = admit_candidates(
            limit, known.get(name), candidates, busy=busy, mean=mean, now=now, chance=clock.random
        )
        known[name] = decision.standing
        waits |= decision.waits
        if limit.concurrency is not None:
            pairs = [(each.task_id, each.epoch) for each in decision.admitted]
            taken += pairs
            fresh += [(*pair, name) for pair in pairs]
    return waits, fresh


def limit_row(limit: ResourceLimit, state: LimitState, running: int | None, now: float) -> LimitRow:
    """Return a limit for display, without times that have passed."""

    def if_future(time: float) -> datetime | None:
        return datetime.fromtimestamp(time, UTC) if time > now else None

    slack = 0.0 if limit.rate is None else (limit.burst - 1) / limit.rate
    retry_slack = 0.0 if limit.retries is None else (limit.retry_burst - 1) / limit.retries
    retries_until = max(state.retry_spread - retry_slack, state.retry_again)
    return LimitRow(
        *limit,
        running=running,
        next_start=None if limit.rate is None else if_future(state.tat - slack),
        waiting_until=if_future(max(state.spread, state.slot_spread)),
        retries_until=None if limit.retries is None else if_future(retries_until),
        mean=state.mean,
        asked_at=datetime.fromtimestamp(state.asked_at, UTC),
    )


def latest_results(targets: Iterable[TargetDone]) -> list[TargetDone]:
    """Return the effective result of each target, ordered by id so that neighbouring rows are written together.

    The last result wins, but only a success replaces a success.
    """
    latest: dict[str, TargetDone] = {}
    for each in targets:
        known = latest.get(each.source_id)
        if known is None or each.status is TargetStatus.SUCCESS or known.status is not TargetStatus.SUCCESS:
            latest[each.source_id] = each
    return [latest[source_id] for source_id in sorted(latest)]


@cache
def worker_lost_note() -> Note:
    """Return the note for an attempt whose worker died. The attempt itself names the worker."""
    failure = Failure(
        category=Category.UNKNOWN,
        retryable=True,
        origin=Origin.PROCESS,
        exception_name="WorkerLost",
        message="worker lost: its process died, or its lease ran out, while the task was running",
        rule="worker lost",
    )
    return Note(failure.exception_name, failure.message, str(failure.category), failure.fingerprint, failure.to_json())


def missing_tables_error(missing: Sequence[str], version: int) -> SchemaError:
    """Return the error of a database in which some of the tables do not exist."""
    tables = f"the table {missing[0]} is" if len(missing) == 1 else f"the tables {', '.join(missing)} are"
    return SchemaError(
        version,
        version,
        f"{tables} missing from the database; restore a backup, or drop the other Outlast tables, schema_version "
        "included, and create all of them with: outlast db init",
    )
