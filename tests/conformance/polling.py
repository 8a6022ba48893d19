"""What the tests of sources do again and again, in few words."""

from __future__ import annotations

import threading
from datetime import timedelta

from outlast.decide.source_health import SourceRules, SourceState, after_failure
from outlast.failure import Category, Failure, Origin
from outlast.ports.source_rows import Closing, NewAlert, NewSource, Poll, SourceChange, SourceFilter, Transition

EVERYTHING = SourceFilter()
FAILURE = Failure(
    Category.ACCESS_DENIED, False, Origin.HTTP, 403, exception_name="HTTPStatusError", message="403 Forbidden"
).to_dict()


def add_feeds(store, count=1, profile="feed", begin=1):
    """Add sources and return their numbers."""
    new = [NewSource(f"https://feeds.test/{number}", profile) for number in range(begin, begin + count)]
    return [each.id for each in store.add_sources(new)]


def change(store, *numbers, epoch=None, health=None, **changes):
    """Write columns of sources as they are given; return the transitions."""

    def write(source, now):
        changed = source._replace(**changes)
        return SourceChange(changed._replace(health=changed.health._replace(**health or {})))

    return store.change_sources(dict.fromkeys(numbers, (epoch, write)))


def later(store, seconds=3600.0):
    """Return a time by the store's clock."""
    return store.now() + timedelta(seconds=seconds)


def poll(outcome="unchanged", **changes):
    """Return what records a poll: an outcome, a line in the history, and the end of the lease."""

    def write(source, now):
        line = Poll(source.id, source.cycle, now, outcome, attempts=1)
        return SourceChange(source._replace(outcome=outcome, leased_until=None, **changes), line)

    return write


def record(store, *claimed, outcome="unchanged", **changes):
    """Write the outcome of claimed sources."""
    return store.change_sources({each.id: (each.epoch, poll(outcome, **changes)) for each in claimed})


def fail(rules=SourceRules(), category=Category.ACCESS_DENIED):  # noqa: B008  # it is frozen
    """Return what counts a failure against a source and tells when it is disabled."""

    def write(source, now):
        health = after_failure(source.health, category, rules, now)
        moved = None
        if health.state is not source.state:
            moved = Transition(
                source.id, source.url, source.state, health.state, health.consecutive_failures, "403 Forbidden"
            )
        told = health.state if health.state is SourceState.DISABLED else None
        line = Poll(
            source.id,
            source.cycle,
            now,
            "failed",
            4,
            403,
            category.value,
            "403 Forbidden",
            before=moved and moved.before,
            after=moved and moved.after,
        )
        alert = NewAlert(f"source:{source.id}", told, f"{source.url} is {health.state}", "403 Forbidden")
        changed = source._replace(health=health, last_error="403 Forbidden", last_failure=FAILURE, pending=None)
        return SourceChange(changed, line, moved, (alert,))

    return write


def end(cycle, last, sources, now):
    """End a cycle without more ado."""
    return Closing(cycle._replace(ended_at=now), withdraw=False, changes=[])


def run_cycle(store, profile="feed", close=end, **more):
    """Open a cycle, poll all of it, and end it."""
    cycle = store.open_cycle(profile, **more)
    record(store, *store.claim_sources(cycle.id, "m1", 10_000, 60))
    return store.close_cycle(cycle.id, close)


def opened(place, count):
    """Open the same data several times, as so many processes would."""
    return [place.open() for _ in range(count)]


def at_once(action, *arguments):
    """Map a function in threads, all at the same moment; return what it gave, or raise what it did."""
    calls = list(zip(*arguments, strict=True))
    barrier = threading.Barrier(len(calls))
    given: list[object] = [None] * len(calls)
    errors: list[BaseException] = []

    def run(place, call):
        try:
            barrier.wait(30)
            given[place] = action(*call)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    return given
