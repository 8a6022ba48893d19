"""What the overview says in words: whether all is well, what is not, and what changed in the last hour."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from outlast.ports.read_rows import FlowEvent, Pulse
from outlast.report.flow import by_category, failing, happened
from outlast.report.words import category_look, count, counted, span

__all__ = ["Headline", "Point", "headline", "points", "rise"]

MANY = 10
"""Failures in an hour from which on a rise is worth a word."""
TWICE = 2.0
LATE = 300.0
"""Seconds for which a ready task waits when its queue does not keep up."""
STALLED = 20
"""Alerts that wait when their channel does not take them."""

_WEIGHT = {"bad": 0, "warn": 1, "info": 2, "mute": 3, "ok": 4}


class Point(NamedTuple):
    """One thing worth knowing, and the list behind it.

    Attributes:
        kind: How bad it is: ``bad``, ``warn``, ``info`` or ``ok``.
        text: In words.
        page: Name of the page that shows more.
        params: What narrows that page to it.
    """

    kind: str
    text: str
    page: str
    params: Mapping[str, Any]


class Headline(NamedTuple):
    """Whether all is well.

    Attributes:
        kind: ``ok``, ``warn``, ``bad``, or ``mute`` where nothing has happened yet.
        title: The answer in one line.
        text: What else there is to say.
        page: Name of the page behind the title; empty for none.
        params: What narrows that page.
        points: What else is not as it should be, the worst first.
    """

    kind: str
    title: str
    text: str
    page: str
    params: Mapping[str, Any]
    points: tuple[Point, ...]


def headline(pulse: Pulse) -> Headline:
    """Return the answer to the question whether all is well."""
    found = points(pulse)
    if found:
        first, *others = found
        return Headline(first.kind, first.text, _standing(pulse), first.page, first.params, tuple(others))
    if not pulse.newest_task and not sum(pulse.sources.values()) and not pulse.running_jobs:
        text = "Enqueue a task, start a worker, add a source or run a job: it shows here at once."
        return Headline("mute", "Nothing has happened yet", text, "", {}, ())
    return Headline("ok", "All is well", _standing(pulse), "", {}, ())


def points(pulse: Pulse) -> tuple[Point, ...]:
    """Return what is not as it should be, the worst first."""
    return tuple(sorted(_points(pulse), key=lambda point: _WEIGHT[point.kind]))


def rise(now: int, before: int) -> bool:
    """Tell whether there were markedly more failures in an hour than in the one before."""
    return now >= MANY and now >= TWICE * before


def _points(pulse: Pulse) -> Iterable[Point]:
    waiting = pulse.counts.get("QUEUED", 0)
    if not pulse.workers and waiting:
        yield Point("bad", f"No worker is alive: {counted(waiting, 'task waits', 'tasks wait')}", "queues", {})
    now, before = failing(pulse.last_hour), failing(pulse.hour_before)
    dead, dead_before = happened(pulse.last_hour, FlowEvent.FAILED), happened(pulse.hour_before, FlowEvent.FAILED)
    if rise(now, before):
        text = f"{counted(now, 'failure')} in the last hour, {count(before)} in the hour before{_mostly(pulse)}"
        yield Point("bad" if dead else "warn", text, *_failures(pulse))
    if dead:
        became = counted(dead, "task became a dead letter", "tasks became dead letters")
        text = f"{became} in the last hour, {count(dead_before)} in the hour before"
        yield Point("bad", text, "dead_letters", {"since": "1h"})
    yield from _hurdles(pulse)
    yield from _sources(pulse.sources)


def _hurdles(pulse: Pulse) -> Iterable[Point]:
    if pulse.workers and pulse.oldest_ready is not None and pulse.oldest_ready >= LATE:
        yield Point("warn", f"A ready task has waited for {span(pulse.oldest_ready)}", "queues", {})
    if pulse.silent_workers:
        said = counted(pulse.silent_workers, "worker has gone silent", "workers have gone silent")
        yield Point("warn", said, "queues", {})
    if pulse.open_breakers:
        yield Point("warn", counted(pulse.open_breakers, "breaker is open", "breakers are open"), "waits", {})
    if pulse.cooldowns:
        yield Point("warn", counted(pulse.cooldowns, "resource cools down", "resources cool down"), "waits", {})
    if pulse.paused_queues:
        yield Point("warn", counted(pulse.paused_queues, "queue is paused", "queues are paused"), "queues", {})
    if pulse.alerts_waiting >= STALLED:
        yield Point("warn", f"{counted(pulse.alerts_waiting, 'alert')} wait to be delivered", "health", {})


def _sources(states: Mapping[str, int]) -> Iterable[Point]:
    for state, kind, one, many in (
        ("error", "warn", "source fails", "sources fail"),
        ("disabled", "info", "source is disabled", "sources are disabled"),
    ):
        if number := states.get(state, 0):
            yield Point(kind, counted(number, one, many), "sources", {"state": state})


def _mostly(pulse: Pulse) -> str:
    """Say what most failures of the last hour are, and of which task if all that is new of it is of one."""
    share = by_category(pulse.last_hour)
    if not share:
        return ""
    category, number = next(iter(share.items()))
    tasks = {change.name for change in pulse.changes if change.kind == "group" and change.after == category}
    where = f" in {tasks.pop()}" if len(tasks) == 1 else ""
    how = "all" if len(share) == 1 else "mostly" if number * 2 > sum(share.values()) else "most often"
    return f": {how} {category_look(category).label}{where}"


def _failures(pulse: Pulse) -> tuple[str, dict[str, Any]]:
    share = by_category(pulse.last_hour)
    category, number = next(iter(share.items()))
    return "failures", {"category": category} if number * 2 > sum(share.values()) else {}


def _standing(pulse: Pulse) -> str:
    """Say what runs, in one line."""
    parts = [f"{counted(happened(pulse.last_hour, FlowEvent.DONE), 'task')} done in the last hour"]
    failures = failing(pulse.last_hour)
    if failures and not rise(failures, failing(pulse.hour_before)):
        parts.append(f"{counted(failures, 'attempt')} failed")
    parts.append(counted(pulse.workers, "worker") + " alive")
    if dead := pulse.counts.get("dead_letters", 0):
        parts.append(counted(dead, "dead letter waits", "dead letters wait") + " for a decision")
    return ", ".join(parts) + "."
