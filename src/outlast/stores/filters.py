"""Filters of dead letters and failure groups: stored form and matching. Shared by all stores; no I/O."""

import json
from collections.abc import Iterable
from datetime import datetime

from outlast.ports.read_rows import FailureFilter, FailureGroup, FlowEvent
from outlast.ports.rows import DeadLetterFilter, Note
from outlast.stores.counters import CounterDelta

GROUP_RETENTION = 90 * 86400.0
"""Seconds after its last failure that a group without dead letters and note is kept."""
MAX_CONFLICT_IDS = 100
"""Ids of conflicting dead letters that a replay stores at most."""
_TIME_FIELDS = ("since", "until")


def write_filter(filters: DeadLetterFilter, max_failures: int | None = None) -> str:
    """Return a filter and the maximum failures of its replay as JSON text, without fields that are None."""
    fields = {name: value for name, value in filters._asdict().items() if value is not None}
    if max_failures is not None:
        fields["max_failures"] = max_failures
    fields |= {name: fields[name].isoformat() for name in _TIME_FIELDS if name in fields}
    return json.dumps(fields, ensure_ascii=False)


def read_filter(text: str) -> DeadLetterFilter:
    """Return the filter that `write_filter` wrote."""
    fields = json.loads(text)
    fields.pop("max_failures", None)  # of the replay
    fields |= {name: datetime.fromisoformat(fields[name]) for name in _TIME_FIELDS if name in fields}
    if "ids" in fields:
        fields["ids"] = tuple(fields["ids"])
    return DeadLetterFilter(**fields)


def text_matches(text: str, error_type: str, error_message: str) -> bool:
    """Return whether a text is part of an error's class name or message, ignoring case."""
    return text.casefold() in f"{error_type}\n{error_message}".casefold()


def group_matches(group: FailureGroup, filters: FailureFilter, now: datetime) -> bool:
    """Return whether a failure group matches a filter."""
    return (
        filters.category in {None, group.error_category}
        and filters.task_type in {None, group.task_type}
        and (group.dead > 0 or not filters.dead)
        and filters.standing in {None, group.standing(now)}
        and (filters.since is None or group.last_seen >= filters.since)
        and (filters.until is None or group.first_seen < filters.until)
        and (filters.text is None or text_matches(filters.text, group.error_type, group.error_message))
    )


def observed_delta(rows: Iterable[tuple[str, str, str, str, str, str]]) -> CounterDelta:
    """Return the counter delta for decisions of a program in observe mode."""
    delta = CounterDelta()
    for name, decision, category, fingerprint, error_type, error_message in rows:
        note = Note(error_type, error_message, category, fingerprint, "{}")
        delta.failure(FlowEvent(f"would_{decision}"), name, note)
    return delta


_INDEXED = ("ids", "fingerprint", "task_type", "category")
"""Filters of dead letters that have an index, the most selective first."""


def by_filter(filters: DeadLetterFilter) -> str:
    """Return the suffix of the statement that uses the most selective index for a filter."""
    return next((f"_by_{name}" for name in _INDEXED if getattr(filters, name) is not None), "")
