"""What the stores share about limits: rows for people, and which slots count."""

from collections.abc import Callable, Collection
from datetime import datetime

from outlast.decide.limits import Limit, Standing
from outlast.ports.limits import Ask, LimitRow

__all__ = ["SHOWN_FOR", "busy_beside", "limit_row"]

SHOWN_FOR = 86400.0
"""Seconds for which a limit is shown after somebody has asked."""


def busy_beside(ask: Ask, slots: Collection[tuple[int, int]]) -> int:
    """Return how many slots are taken by others than those who ask: an answer may have been lost on its way."""
    return len(set(slots).difference((each.task_id, each.epoch) for each in ask.candidates))


def limit_row(
    limit: Limit, standing: Standing, running: int | None, now: float, moment: Callable[[float], datetime]
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
