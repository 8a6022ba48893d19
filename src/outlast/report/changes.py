"""What changed in the last hour, in sentences. Many changes of one kind are told as one."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from outlast.ports.read_rows import Change, FlowEvent, Pulse
from outlast.report.flow import by_category, failing, happened
from outlast.report.words import category_look, count, counted

__all__ = ["Sentence", "told"]

MANY = 10
"""From so many in an hour on, more or fewer is worth a sentence."""
TWICE = 2.0
TOGETHER = 3
"""Changes of one kind from which on they are told in one sentence."""
NAMED = 3
"""Of those, so many are named."""

_SOURCE_KINDS = {"healthy": "ok", "warning": "warn", "error": "bad", "disabled": "mute", "probation": "warn"}
_BREAKERS = {
    "open": ("bad", "Breaker of {} opened"),
    "half_open": ("warn", "Breaker of {} tries again"),
    "closed": ("ok", "Breaker of {} closed"),
}
_RUNS = {"done": "done", "aborted": "was aborted", "stopped": "was stopped"}


class Sentence(NamedTuple):
    """One sentence.

    Attributes:
        at: When; None for what happened over the whole hour.
        kind: ``ok``, ``info``, ``warn``, ``bad`` or ``mute``.
        text: The sentence.
        detail: More, such as the message of a failure; may be empty.
        page: Name of the page behind it.
        params: What narrows that page to it.
    """

    at: datetime | None
    kind: str
    text: str
    detail: str
    page: str
    params: Mapping[str, Any]


def told(pulse: Pulse, most: int = 12) -> list[Sentence]:
    """Return what changed in the last hour: first what the numbers say, then what happened, newest first.

    Args:
        pulse: What is known.
        most: How many sentences at most.
    """
    single = sorted(_happenings(_once(pulse.changes)), key=lambda said: said.at or pulse.at, reverse=True)
    return [*_numbers(pulse), *single][:most]


def _numbers(pulse: Pulse) -> Iterable[Sentence]:
    now, before = failing(pulse.last_hour), failing(pulse.hour_before)
    if _differs(now, before):
        share = by_category(pulse.last_hour)
        category, number = next(iter(share.items()), ("", 0))
        detail = f"Most often {category_look(category).label}: {count(number)}." if len(share) > 1 else ""
        text = f"Failures {_moved(now, before)}."
        yield Sentence(None, "bad" if now > before else "ok", text, detail, "failures", {})
    done, done_before = happened(pulse.last_hour, FlowEvent.DONE), happened(pulse.hour_before, FlowEvent.DONE)
    if _differs(done, done_before):
        kind = "warn" if done < done_before else "info"
        what = "Tasks done" if done and done_before else "Work"
        yield Sentence(None, kind, f"{what} {_moved(done, done_before)}.", "", "tasks", {"status": "DONE"})
    for event, text, page in (
        (FlowEvent.FAILED, "became dead letters", "dead_letters"),
        (FlowEvent.LOST, "went down with their worker", "failures"),
        (FlowEvent.REPLAYED, "replayed", "tasks"),
        (FlowEvent.DISCARDED, "discarded", "dead_letters"),
        (FlowEvent.CANCELLED, "cancelled", "tasks"),
    ):
        if number := happened(pulse.last_hour, event):
            yield _counted(event, number, text, page)


def _counted(event: FlowEvent, number: int, text: str, page: str) -> Sentence:
    kind = {FlowEvent.FAILED: "bad", FlowEvent.LOST: "warn"}.get(event, "info")
    if event is FlowEvent.CANCELLED:
        return Sentence(None, kind, f"{counted(number, 'task')} cancelled.", "", page, {"status": "CANCELLED"})
    if event in {FlowEvent.REPLAYED, FlowEvent.DISCARDED}:
        return Sentence(None, kind, f"{counted(number, 'dead letter')} {text}.", "", page, {})
    if number == 1:
        text = "became a dead letter" if event is FlowEvent.FAILED else "went down with its worker"
    return Sentence(None, kind, f"{counted(number, 'task')} {text}.", "", page, {})


def _differs(now: int, before: int) -> bool:
    high, low = max(now, before), min(now, before)
    return high >= MANY and high >= TWICE * low


def _moved(now: int, before: int) -> str:
    if not before:
        return f"began: {count(now)} in the last hour, none in the hour before"
    if not now:
        return f"ceased: none in the last hour, {count(before)} in the hour before"
    return f"{'rose' if now > before else 'fell'} from {count(before)} to {count(now)} an hour"


def _once(changes: Sequence[Change]) -> list[Change]:
    """Return changes once for each subject and state: what many processes told is one change."""
    seen: dict[tuple[str, str, str], Change] = {}
    for change in changes:
        seen.setdefault((change.kind, change.subject, change.after), change)
    return list(seen.values())


def _happenings(changes: Sequence[Change]) -> Iterable[Sentence]:
    alike: dict[tuple[str, str, str], list[Change]] = {}
    for change in changes:
        before = change.before if change.kind == "source" else ""
        after = change.after if change.kind in {"source", "group"} else ""
        key = (change.kind, before, after) if change.kind in {"source", "group", "worker"} else (*_own(change), "")
        alike.setdefault(key, []).append(change)
    for changes_alike in alike.values():
        if len(changes_alike) < TOGETHER:
            yield from (_one(change) for change in changes_alike)
        else:
            yield _many(changes_alike)


def _own(change: Change) -> tuple[str, str]:
    return change.kind, f"{change.subject} {change.after}"


def _one(change: Change) -> Sentence:
    match change.kind:
        case "group":
            text = f"New failure in {change.name}: {category_look(change.after).label}."
            return Sentence(change.at, "bad", text, change.text, "failure", {"fingerprint": change.subject})
        case "source":
            return _source(change)
        case "run":
            return _run(change)
        case "breaker":
            kind, text = _BREAKERS.get(change.after, ("info", "Breaker of {} changed"))
            return Sentence(change.at, kind, f"{text.format(change.name)}.", change.text, "waits", {})
        case "worker":
            return Sentence(change.at, "info", f"Worker {change.name} started.", change.text, "queues", {})
        case _:
            text = f"{change.name}: {change.before or 'nothing'} became {change.after or 'nothing'}."
            return Sentence(change.at, "info", text, change.text, "overview", {})


def _source(change: Change) -> Sentence:
    kind = _SOURCE_KINDS.get(change.after, "info")
    page, params = "source", {"number": change.subject}
    if change.after == "healthy":
        return Sentence(change.at, kind, f"Source {change.name} is well again.", "", page, params)
    text = f"Source {change.name} is {_state(change.after)} now"
    return Sentence(change.at, kind, f"{text}{_was(change.before)}.", change.text, page, params)


def _run(change: Change) -> Sentence:
    state, _, code = change.after.partition(" ")
    bad = state == "aborted" or code not in {"", "0"}
    kind = "bad" if bad else "ok" if state == "done" else "warn"
    ending = f" with exit code {code}" if code else ""
    text = f"Run of job {change.name} {_RUNS.get(state, state)}{ending}."
    return Sentence(change.at, kind, text, change.text, "run", {"run": change.subject})


def _many(changes: Sequence[Change]) -> Sentence:
    first = changes[0]
    names = list(dict.fromkeys(change.name for change in changes))
    detail = ", ".join(names[:NAMED]) + (f" and {count(len(names) - NAMED)} more" if len(names) > NAMED else "")
    at = max(change.at for change in changes)
    number = count(len(changes))
    if first.kind == "group":
        text = f"{number} new kinds of failure: {category_look(first.after).label}."
        return Sentence(at, "bad", text, f"In {detail}", "failures", {"category": first.after})
    if first.kind == "worker":
        return Sentence(at, "info", f"{number} workers started.", detail, "queues", {})
    if first.after == "healthy":
        return Sentence(at, "ok", f"{number} sources are well again.", detail, "sources", {"state": "healthy"})
    text = f"{number} sources are {_state(first.after)} now{_was(first.before, many=True)}."
    return Sentence(at, _SOURCE_KINDS.get(first.after, "info"), text, detail, "sources", {"state": first.after})


def _state(state: str) -> str:
    return {"error": "failing", "warning": "at a warning", "probation": "on probation"}.get(state, state)


def _was(before: str, *, many: bool = False) -> str:
    return f", {'were' if many else 'was'} {_state(before)}" if before else ""
