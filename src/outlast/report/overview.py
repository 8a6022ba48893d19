"""The texts of the overview: its headline, the changes of the last hour, and the badges of the menu."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from outlast.ports.read_rows import Change, FlowEvent, Pulse
from outlast.report.flow import event_count, failed_attempts, failures_by_category
from outlast.report.text_format import category_look, count, counted
from outlast.units import span

CHANGE_MINIMUM = 10
"""Events in an hour from which a rise or fall is reported."""
CHANGE_FACTOR = 2.0
"""How many times as many events as in the other hour make a rise or fall."""
LATE_SECONDS = 300.0
"""Seconds that a ready task may wait before its queue counts as slow."""
STALLED_ALERTS = 20
"""Undelivered alerts from which their channel counts as stalled."""

_SILENT_WORKERS = ("worker has gone silent", "workers have gone silent")
_PAUSED_QUEUES = ("queue is paused", "queues are paused")
_FAILING_SOURCES = ("source fails", "sources fail")
_SEVERITY_ORDER = {"bad": 0, "warn": 1, "info": 2, "mute": 3, "ok": 4}


class HeadlinePoint(NamedTuple):
    """One problem, and the page that lists it.

    Attributes:
        kind: Severity: ``bad``, ``warn``, ``info`` or ``ok``.
        text: The problem in words.
        page: Name of the page that shows more.
        params: Filter of that page.
    """

    kind: str
    text: str
    page: str
    params: Mapping[str, Any]


class Headline(NamedTuple):
    """Whether everything works.

    Attributes:
        kind: ``ok``, ``warn``, ``bad``, or ``mute`` if nothing has happened yet.
        title: The answer in one line.
        text: More details.
        page: Name of the page behind the title; empty for none.
        params: Filter of that page.
        points: Further problems, worst first.
    """

    kind: str
    title: str
    text: str
    page: str
    params: Mapping[str, Any]
    points: tuple[HeadlinePoint, ...]


def headline(pulse: Pulse) -> Headline:
    """Return whether everything works: the worst problem first, or that there is none."""
    found = points(pulse)
    if found:
        first, *others = found
        return Headline(first.kind, first.text, _status_text(pulse), first.page, first.params, tuple(others))
    if not pulse.newest_task and not sum(pulse.sources.values()) and not pulse.running_jobs:
        text = "Enqueue a task, start a worker, add a source or run a job: it appears here immediately."
        return Headline("mute", "Nothing has happened yet", text, "", {}, ())
    return Headline("ok", "All is well", _status_text(pulse), "", {}, ())


def points(pulse: Pulse) -> tuple[HeadlinePoint, ...]:
    """Return all problems, worst first."""
    return tuple(sorted(_collect_points(pulse), key=lambda point: _SEVERITY_ORDER[point.kind]))


def is_rise(now: int, before: int) -> bool:
    """Return whether there were many more failures in an hour than in the hour before."""
    return now >= CHANGE_MINIMUM and now >= CHANGE_FACTOR * before


def _collect_points(pulse: Pulse) -> Iterable[HeadlinePoint]:
    waiting = pulse.counts.get("QUEUED", 0)
    if not pulse.workers and waiting:
        yield HeadlinePoint("bad", f"No worker is alive: {counted(waiting, 'task waits', 'tasks wait')}", "queues", {})
    now, before = failed_attempts(pulse.last_hour), failed_attempts(pulse.hour_before)
    dead, dead_before = event_count(pulse.last_hour, FlowEvent.FAILED), event_count(pulse.hour_before, FlowEvent.FAILED)
    if is_rise(now, before):
        text = f"{counted(now, 'failure')} in the last hour, {count(before)} in the hour before"
        reason, params = _main_category(pulse)
        yield HeadlinePoint("bad" if dead else "warn", f"{text}: {reason}", "failures", params)
    if dead:
        became = counted(dead, "task became a dead letter", "tasks became dead letters")
        text = f"{became} in the last hour, {count(dead_before)} in the hour before"
        yield HeadlinePoint("bad", text, "dead_letters", {"since": "1h"})
    yield from _blockage_points(pulse)


def _blockage_points(pulse: Pulse) -> Iterable[HeadlinePoint]:
    if pulse.workers and pulse.oldest_ready is not None and pulse.oldest_ready >= LATE_SECONDS:
        yield HeadlinePoint("warn", f"A ready task has waited for {span(pulse.oldest_ready)}", "queues", {})
    for number, texts, page in (
        (pulse.silent_workers, _SILENT_WORKERS, "queues"),
        (pulse.open_breakers, ("breaker is open", "breakers are open"), "waits"),
        (pulse.cooldowns, ("resource is in cooldown", "resources are in cooldown"), "waits"),
        (pulse.paused_queues, _PAUSED_QUEUES, "queues"),
    ):
        if number:
            yield HeadlinePoint("warn", counted(number, *texts), page, {})
    if pulse.alerts_waiting >= STALLED_ALERTS:
        yield HeadlinePoint("warn", f"{counted(pulse.alerts_waiting, 'alert')} wait to be delivered", "health", {})
    for state, kind, texts in (
        ("error", "warn", _FAILING_SOURCES),
        ("disabled", "info", ("source is disabled", "sources are disabled")),
    ):
        if number := pulse.sources.get(state, 0):
            yield HeadlinePoint(kind, counted(number, *texts), "sources", {"state": state})


def _main_category(pulse: Pulse) -> tuple[str, dict[str, Any]]:
    """Return the most frequent category of the last hour in words, and as a filter if most failures have it.

    The words name the task if all new groups of the category are of one task.
    """
    share = failures_by_category(pulse.last_hour)
    category, number = next(iter(share.items()))
    tasks = {change.name for change in pulse.changes if change.kind == "group" and change.after == category}
    where = f" in {tasks.pop()}" if len(tasks) == 1 else ""
    is_most = number * 2 > sum(share.values())
    most = "mostly" if is_most else "most often"
    text = f"{'all' if len(share) == 1 else most} {category_look(category).label}{where}"
    return text, {"category": category} if is_most else {}


def _status_text(pulse: Pulse) -> str:
    """Return throughput, failures, workers and dead letters in one line."""
    parts = [f"{counted(event_count(pulse.last_hour, FlowEvent.DONE), 'task')} done in the last hour"]
    failures = failed_attempts(pulse.last_hour)
    if failures and not is_rise(failures, failed_attempts(pulse.hour_before)):
        parts.append(f"{counted(failures, 'attempt')} failed")
    parts.append(counted(pulse.workers, "worker") + " alive")
    if dead := pulse.counts.get("dead_letters", 0):
        parts.append(counted(dead, "dead letter waits", "dead letters wait") + " for a decision")
    return ", ".join(parts) + "."


GROUP_FROM = 3
"""Changes of one kind from which they share one sentence."""
NAMES_SHOWN = 3
"""How many of them that sentence names."""

_SOURCE_KINDS = {"healthy": "ok", "warning": "warn", "error": "bad", "disabled": "mute", "probation": "warn"}
_BREAKER_TEXTS = {
    "open": ("bad", "Breaker of {} opened"),
    "half_open": ("warn", "Breaker of {} is half-open"),
    "closed": ("ok", "Breaker of {} closed"),
}
_RUN_TEXTS = {"done": "done", "aborted": "was aborted", "stopped": "was stopped"}


class ChangeLine(NamedTuple):
    """A change, in one sentence.

    Attributes:
        at: When it happened; None for a change over the whole hour.
        kind: ``ok``, ``info``, ``warn``, ``bad`` or ``mute``.
        text: The sentence.
        detail: Details, such as the message of a failure; may be empty.
        page: Name of the page that shows more.
        params: Filter of that page.
        times: How often it happened; `at` is the last time.
    """

    at: datetime | None
    kind: str
    text: str
    detail: str
    page: str
    params: Mapping[str, Any]
    times: int = 1


def recent_changes(pulse: Pulse, most: int = 12) -> list[ChangeLine]:
    """Return the changes of the last hour: first those in the counts, then single events, newest first.

    Events with the same sentence share one line.

    Args:
        pulse: The pulse of the last hour.
        most: Most sentences to return.
    """
    events = sorted(_change_lines(_deduplicate(pulse.changes)), key=lambda line: line.at or pulse.at, reverse=True)
    times = Counter(line.text for line in events)
    newest = {line.text: line for line in reversed(events)}
    lines = [newest[text]._replace(times=number) for text, number in times.items()]
    return [*_count_lines(pulse), *lines][:most]


def _count_lines(pulse: Pulse) -> Iterable[ChangeLine]:
    now, before = failed_attempts(pulse.last_hour), failed_attempts(pulse.hour_before)
    if _is_notable(now, before):
        share = failures_by_category(pulse.last_hour)
        category, number = next(iter(share.items()), ("", 0))
        detail = f"Most often {category_look(category).label}: {count(number)}." if len(share) > 1 else ""
        text = f"Failures {_trend_text(now, before)}."
        yield ChangeLine(None, "bad" if now > before else "ok", text, detail, "failures", {})
    done, done_before = event_count(pulse.last_hour, FlowEvent.DONE), event_count(pulse.hour_before, FlowEvent.DONE)
    if _is_notable(done, done_before):
        kind = "warn" if done < done_before else "info"
        what = "Tasks done" if done and done_before else "Work"
        yield ChangeLine(None, kind, f"{what} {_trend_text(done, done_before)}.", "", "tasks", {"status": "DONE"})
    for event, kind, texts, page, params in (
        (FlowEvent.FAILED, "bad", ("task became a dead letter", "tasks became dead letters"), "dead_letters", {}),
        (FlowEvent.LOST, "warn", ("task lost its worker", "tasks lost their worker"), "failures", {}),
        (FlowEvent.REPLAYED, "info", ("dead letter replayed", "dead letters replayed"), "tasks", {}),
        (FlowEvent.DISCARDED, "info", ("dead letter discarded", "dead letters discarded"), "dead_letters", {}),
        (FlowEvent.CANCELLED, "info", ("task cancelled", "tasks cancelled"), "tasks", {"status": "CANCELLED"}),
    ):
        if number := event_count(pulse.last_hour, event):
            yield ChangeLine(None, kind, f"{counted(number, *texts)}.", "", page, params)


def _is_notable(now: int, before: int) -> bool:
    high, low = max(now, before), min(now, before)
    return high >= CHANGE_MINIMUM and high >= CHANGE_FACTOR * low


def _trend_text(now: int, before: int) -> str:
    if not before:
        return f"started: {count(now)} in the last hour, none in the hour before"
    if not now:
        return f"stopped: none in the last hour, {count(before)} in the hour before"
    return f"{'rose' if now > before else 'fell'} from {count(before)} to {count(now)} per hour"


def _deduplicate(changes: Sequence[Change]) -> list[Change]:
    """Return one change for each subject and state: many processes may report the same change."""
    seen: dict[tuple[str, str, str], Change] = {}
    for change in changes:
        seen.setdefault((change.kind, change.subject, change.after), change)
    return list(seen.values())


def _change_lines(changes: Sequence[Change]) -> Iterable[ChangeLine]:
    alike: dict[tuple[str, ...], list[Change]] = {}
    for change in changes:
        match change.kind:
            case "source":
                key: tuple[str, ...] = (change.kind, change.before, change.after)
            case "group":
                key = (change.kind, change.after)
            case "worker":
                key = (change.kind,)
            case _:
                key = (change.kind, change.subject, change.after)
        alike.setdefault(key, []).append(change)
    for changes_alike in alike.values():
        if len(changes_alike) < GROUP_FROM:
            yield from (_single_line(change) for change in changes_alike)
        else:
            yield _group_line(changes_alike)


def _single_line(change: Change) -> ChangeLine:
    match change.kind:
        case "group":
            text = f"New failure in {change.name}: {category_look(change.after).label}."
            return ChangeLine(change.at, "bad", text, change.text, "failure", {"fingerprint": change.subject})
        case "source" if change.after == "healthy":
            text = f"Source {change.name} is healthy again."
            return ChangeLine(change.at, "ok", text, "", "source", {"source_id": change.subject})
        case "source":
            kind = _SOURCE_KINDS.get(change.after, "info")
            text = f"Source {change.name} is {_state_text(change.after)} now{_previous_state_text(change.before)}."
            return ChangeLine(change.at, kind, text, change.text, "source", {"source_id": change.subject})
        case "run":
            return _run_line(change)
        case "breaker":
            kind, text = _BREAKER_TEXTS.get(change.after, ("info", "Breaker of {} changed"))
            return ChangeLine(change.at, kind, f"{text.format(change.name)}.", change.text, "waits", {})
        case "worker":
            return ChangeLine(change.at, "info", f"Worker {change.name} started.", change.text, "queues", {})
        case _:
            text = f"{change.name}: {change.before or 'nothing'} became {change.after or 'nothing'}."
            return ChangeLine(change.at, "info", text, change.text, "overview", {})


def _run_line(change: Change) -> ChangeLine:
    state, _, code = change.after.partition(" ")
    kind = "ok" if state == "done" else "warn"
    if state == "aborted" or code not in {"", "0"}:
        kind = "bad"
    ending = f" with exit code {code}" if code else ""
    text = f"Run of job {change.name} {_RUN_TEXTS.get(state, state)}{ending}."
    return ChangeLine(change.at, kind, text, change.text, "run", {"run_id": change.subject})


def _group_line(changes: Sequence[Change]) -> ChangeLine:
    first = changes[0]
    names = list(dict.fromkeys(change.name for change in changes))
    detail = ", ".join(names[:NAMES_SHOWN]) + (
        f" and {count(len(names) - NAMES_SHOWN)} more" if len(names) > NAMES_SHOWN else ""
    )
    at, number = max(change.at for change in changes), count(len(changes))
    if first.kind == "group":
        text = f"{number} new kinds of failure: {category_look(first.after).label}."
        return ChangeLine(at, "bad", text, f"In {detail}", "failures", {"category": first.after})
    if first.kind == "worker":
        return ChangeLine(at, "info", f"{number} workers started.", detail, "queues", {})
    if first.after == "healthy":
        return ChangeLine(at, "ok", f"{number} sources are healthy again.", detail, "sources", {"state": "healthy"})
    text = f"{number} sources are {_state_text(first.after)} now{_previous_state_text(first.before, many=True)}."
    return ChangeLine(at, _SOURCE_KINDS.get(first.after, "info"), text, detail, "sources", {"state": first.after})


def _state_text(state: str) -> str:
    return {"error": "failing", "warning": "at a warning", "probation": "on probation"}.get(state, state)


def _previous_state_text(before: str, *, many: bool = False) -> str:
    return f", {'were' if many else 'was'} {_state_text(before)}" if before else ""


_THOUSAND, _MILLION = 1_000, 1_000_000
_COMPACT_DECIMALS_BELOW = 10


class Badge(NamedTuple):
    """A small number beside a page's name in the menu.

    Attributes:
        text: A short number.
        kind: ``warn``, ``bad``, ``info`` or ``mute``.
        title: What the number counts, in words.
    """

    text: str
    kind: str
    title: str


def badges(pulse: Pulse) -> dict[str, Badge]:
    """Return the badges by name of the page; pages without a number have none."""
    now, before = failed_attempts(pulse.last_hour), failed_attempts(pulse.hour_before)
    dead, dying = pulse.counts.get("dead_letters", 0), event_count(pulse.last_hour, FlowEvent.FAILED)
    running, jobs = pulse.counts.get("RUNNING", 0), pulse.running_jobs
    errors, silent, paused = pulse.sources.get("error", 0), pulse.silent_workers, pulse.paused_queues
    failing, waits = errors + pulse.sources.get("warning", 0), pulse.open_breakers + pulse.cooldowns
    waits_text = f"{counted(pulse.cooldowns, 'cooldown')}, {counted(pulse.open_breakers, 'open breaker')}"
    rows = (  # of two rows for a page, the last one counts
        ("failures", now, "warn" if is_rise(now, before) else "mute", f"{counted(now, 'failure')} in the last hour"),
        ("dead_letters", dead, "bad" if dying else "mute", counted(dead, "dead letter")),
        ("tasks", running, "mute", counted(running, "task runs", "tasks run")),
        ("queues", silent, "warn", counted(silent, *_SILENT_WORKERS)),
        ("queues", paused, "warn", counted(paused, *_PAUSED_QUEUES)),
        ("sources", failing, "bad" if errors else "warn", counted(failing, *_FAILING_SOURCES)),
        ("jobs", jobs, "info", counted(jobs, "job run has not ended", "job runs have not ended")),
        ("waits", waits, "warn", waits_text),
    )
    found = {page: Badge(compact(number), kind, title) for page, number, kind, title in rows if number}
    if not pulse.workers and pulse.counts.get("QUEUED", 0):
        found["queues"] = Badge("!", "bad", "No worker is alive and tasks wait")
    return found


def compact(number: int) -> str:
    """Return a number in at most four characters: ``7``, ``940``, ``1.2k``, ``38k``, ``2.1M``."""
    if number < _THOUSAND:
        return str(number)
    size, unit = (_THOUSAND, "k") if number < _MILLION else (_MILLION, "M")
    many = number / size
    return f"{many:.1f}{unit}" if many < _COMPACT_DECIMALS_BELOW else f"{many:.0f}{unit}"
