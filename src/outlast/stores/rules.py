"""How much is kept of a past that only grows."""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from functools import cache
from typing import NamedTuple

from outlast.decide.limits import LimitState, ResourceLimit
from outlast.errors import ConfigError
from outlast.failure import Category, Failure, Origin
from outlast.ports.job_rows import TargetDone, TargetStatus
from outlast.ports.rows import Note
from outlast.ports.store import LimitRequest, LimitRow

CYCLES_KEPT = 1000
"""Cycles of a profile."""
POLLS_KEPT = 200
"""Lines in the history of a source."""


# What answers make of a cooldown. Pure: a store reads the row, asks, and writes, all in one transaction.

COOLDOWN_TAIL = 60.0
"""Seconds behind the end of a cooldown in which tasks wait that met what began it: they were put off after it began."""


class CooldownState(NamedTuple):
    """A cooldown as it is kept, also after its end; times are in the store's unit.

    Attributes:
        capped: Answers in a row that asked for longer than the cap.
        probing: Whether it is the time of a probe.
    """

    until: float
    reason: str
    capped: int = 0
    probing: bool = False


def merge_cooldown(known: CooldownState | None, answer: CooldownState, now: float) -> CooldownState:
    """Return what an answer makes of a cooldown; the longer of the two stays.

    Args:
        known: What there was.
        answer: What the answer asks for; `capped` is 1 if it asked for longer than that.
        now: The time.
    """
    if known is None:
        return answer
    longer = answer if answer.until > known.until else known
    waits = known.until > now and not known.probing
    row = max(known.capped, 1) if waits else known.capped + 1
    return CooldownState(longer.until, longer.reason, row if answer.capped else 0)


# What the stores share about limits: rows for people, and which slots count.

LIMIT_SHOWN_FOR = 86400.0
"""Seconds for which a limit is shown after somebody has asked."""


def busy_slots(ask: LimitRequest, slots: Collection[tuple[int, int]]) -> int:
    """Return how many slots are taken by others than those who ask: an answer may have been lost on its way."""
    return len(set(slots).difference((each.task_id, each.epoch) for each in ask.candidates))


def limit_row(
    limit: ResourceLimit, standing: LimitState, running: int | None, now: float, moment: Callable[[float], datetime]
) -> LimitRow:
    """Return a limit as people see it; times that are over are left out."""

    def ahead(time: float) -> datetime | None:
        return moment(time) if time > now else None

    slack = 0.0 if limit.rate is None else (limit.burst - 1) / limit.rate
    retry_slack = 0.0 if limit.retries is None else (limit.retry_burst - 1) / limit.retries
    retries_until = max(standing.retry_spread - retry_slack, standing.retry_again)
    return LimitRow(
        *limit,
        running=running,
        next_start=None if limit.rate is None else ahead(standing.tat - slack),
        waiting_until=ahead(max(standing.spread, standing.slot_spread)),
        retries_until=None if limit.retries is None else ahead(retries_until),
        mean=standing.mean,
        asked_at=moment(standing.asked_at),
    )


# What counts where a target is given more than once.


def replaces_result(new: TargetStatus, known: TargetStatus) -> bool:
    """Tell whether a result is written over one that is known: the last word counts, but a success stays one."""
    return new is TargetStatus.SUCCESS or known is not TargetStatus.SUCCESS


def latest_results(targets: Iterable[TargetDone]) -> list[TargetDone]:
    """Return each target once, with what counts, by its id: neighbours in a table are written together."""
    words: dict[str, TargetDone] = {}
    for each in targets:
        known = words.get(each.source_id)
        if known is None or replaces_result(each.status, known.status):
            words[each.source_id] = each
    return [words[source_id] for source_id in sorted(words)]


# What is said of a run whose id is taken.


def run_exists_error(run_id: str) -> ConfigError:
    """Return the error, to be raised."""
    return ConfigError(f"there is a run {run_id} already; every run has an id of its own")


# What is noted of an attempt whose worker died: nobody was there to say more.


@cache
def worker_lost_note() -> Note:
    """Return the note; all of them are of one cause. Which worker it was, the attempt says."""
    failure = Failure(
        category=Category.UNKNOWN,
        retryable=True,
        origin=Origin.PROCESS,
        exception_name="WorkerLost",
        message="worker lost: its process died, or its lease ran out, while the task was running",
        rule="worker lost",
    )
    return Note(failure.exception_name, failure.message, str(failure.category), failure.fingerprint, failure.to_json())
