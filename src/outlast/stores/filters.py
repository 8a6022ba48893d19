"""What stores have in common when people clear up: how a filter is written down, and which groups are meant. Pure."""

import json
from collections.abc import Iterable
from datetime import datetime

from outlast.ports.read_rows import FailureFilter, FailureGroup, FlowEvent
from outlast.ports.rows import DeadLetterFilter, Note
from outlast.stores.counters import CounterDelta

GROUP_RETENTION = 90 * 86400.0
"""Seconds after its last failure for which a group is kept that has no dead letters and no note."""
MAX_CONFLICT_IDS = 100
"""Dead letters that stayed whose numbers a replay keeps."""
_TIME_FIELDS = ("since", "until")


def write_filter(filters: DeadLetterFilter) -> str:
    """Return a filter as JSON text; what does not narrow is left out."""
    given = {name: value for name, value in filters._asdict().items() if value is not None}
    return json.dumps(
        given | {name: given[name].isoformat() for name in _TIME_FIELDS if name in given}, ensure_ascii=False
    )


def read_filter(text: str) -> DeadLetterFilter:
    """Return the filter that `write_filter` wrote."""
    given = json.loads(text)
    given |= {name: datetime.fromisoformat(given[name]) for name in _TIME_FIELDS if name in given}
    if "ids" in given:
        given["ids"] = tuple(given["ids"])
    return DeadLetterFilter(**given)


def text_matches(text: str, error_type: str, error_message: str) -> bool:
    """Tell whether an error has a text in its name or its message, upper and lower case alike."""
    return text.casefold() in f"{error_type}\n{error_message}".casefold()


def group_matches(group: FailureGroup, filters: FailureFilter, now: datetime) -> bool:
    """Tell whether a filter means a group."""
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
    """Return what a program that only observes adds to the books."""
    tally = CounterDelta()
    for name, decision, category, fingerprint, error_type, error_message in rows:
        note = Note(error_type, error_message, category, fingerprint, "{}")
        tally.failure(FlowEvent(f"would_{decision}"), name, note)
    return tally
