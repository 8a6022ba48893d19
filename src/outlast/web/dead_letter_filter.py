"""Which dead letters are meant, as an address or a form says it."""

from collections.abc import Mapping
from datetime import datetime

from outlast.failure import Category
from outlast.ports.rows import DeadLetterFilter, Reason
from outlast.web.narrowing import before_of, choice_of, moment_of, text_of

__all__ = ["NAMES", "which_of"]

NAMES = ("category", "task", "group", "reason", "queue", "since", "until", "text")
"""What narrows, by the names that pages and the command line share."""


def which_of(query: Mapping[str, str], now: datetime, limit: int | None = None) -> DeadLetterFilter:
    """Return what was asked for.

    Args:
        query: What was sent, by `NAMES` and ``before``.
        now: From which ``2h`` counts.
        limit: How many at most.

    Raises:
        RefusedError: If something in it cannot be meant.
    """
    return DeadLetterFilter(
        task_type=text_of(query, "task"),
        queue=text_of(query, "queue"),
        category=choice_of(query, "category", Category),
        reason=choice_of(query, "reason", Reason),
        fingerprint=text_of(query, "group"),
        since=moment_of(query, "since", now),
        until=moment_of(query, "until", now),
        text=text_of(query, "text"),
        before=before_of(query),
        limit=limit,
    )
