"""What has to be added to the books so that they tell what is really there. Pure."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from outlast.ports.read_rows import FlowEvent
from outlast.ports.rows import Status
from outlast.stores.books import DEAD, FlowKey, totals_of, unbounded_counts

__all__ = ["Found", "found_of", "missing", "shown_wrong"]

_LIVE = (Status.QUEUED, Status.RUNNING, Status.PARKED)
_ENDS = (
    (Status.DONE, FlowEvent.DONE, FlowEvent.PRUNED_DONE),
    (Status.CANCELLED, FlowEvent.CANCELLED, FlowEvent.PRUNED_CANCELLED),
    (Status.DISCARDED, FlowEvent.DISCARDED, FlowEvent.PRUNED_DISCARDED),
)


class Found(NamedTuple):
    """The books and what is there, of one moment.

    Attributes:
        booked: How often each happened, by the books.
        tasks: How many tasks there are of each status.
        letters: How many dead letters there are of each task, category and cause.
    """

    booked: Counter[FlowKey]
    tasks: dict[str, int]
    letters: dict[tuple[str, str, str], int]


def found_of(rows: Iterable[tuple[str, str, str, str, int]]) -> Found:
    """Read what the statement of a store gives: ``task``, ``letter`` or ``booked``, what, task, category and count."""
    found = Found(Counter(), {}, {})
    for kind, name, task_type, category, count in rows:
        if kind == "task":
            found.tasks[name] = count
        elif kind == "letter":
            found.letters[task_type, category, ""] = count
        else:
            found.booked[FlowKey(FlowEvent(name), task_type, category)] = count
    return found


def missing(found: Found) -> Counter[FlowKey]:
    """Return what the books lack. Nothing is negative: what they have too much of is taken for pruned or discarded."""
    more: Counter[FlowKey] = Counter()

    def total(event: FlowEvent) -> int:
        return sum(count for key, count in (*found.booked.items(), *more.items()) if key.event is event)

    for cause in {key[1:] for key in found.booked if key.event in DEAD} | set(found.letters):
        dead = sum(found.booked[FlowKey(event, *cause)] * sign for event, sign in DEAD.items())
        lack = found.letters.get(cause, 0) - dead
        more[FlowKey(FlowEvent.FAILED if lack > 0 else FlowEvent.DISCARDED, *cause)] += abs(lack)
    for status, event, pruned in _ENDS:
        here = found.tasks.get(status, 0)
        lack = max(0, here + max(0, total(pruned)) - total(event))
        more[FlowKey(event)] += lack
        if event is FlowEvent.DISCARDED:  # had failed before
            more[FlowKey(FlowEvent.FAILED)] += lack
        more[FlowKey(pruned)] += total(event) - here - total(pruned)
    live = total(FlowEvent.ENQUEUED) + total(FlowEvent.REPLAYED)
    live -= total(FlowEvent.DONE) + total(FlowEvent.FAILED) + total(FlowEvent.CANCELLED)
    lack = sum(found.tasks.get(status, 0) for status in _LIVE) - live
    if lack > 0:
        more[FlowKey(FlowEvent.ENQUEUED)] += lack
    else:
        more[FlowKey(FlowEvent.CANCELLED)] -= lack
        more[FlowKey(FlowEvent.PRUNED_CANCELLED)] -= lack
    return +more


def shown_wrong(found: Found, more: Counter[FlowKey], rebuilt: int) -> dict[str, int]:
    """Return by how much each count was wrong, nothing for those that were right; and how many letters were rebuilt."""
    running, parked = found.tasks.get(Status.RUNNING, 0), found.tasks.get(Status.PARKED, 0)
    booked = [(key.event, count) for key, count in found.booked.items()]
    before = unbounded_counts(totals_of(booked), running, parked)
    booked += [(key.event, count) for key, count in more.items()]
    after = unbounded_counts(totals_of(booked), running, parked)
    wrong = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    return wrong | {"rebuilt": rebuilt} if rebuilt else wrong
