"""Replays in steps as people are told of them: how far one is, what comes next, why it stopped."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from outlast.ports.rows import DeadLetterFilter
from outlast.ports.triage_rows import Replay, ReplayState
from outlast.report.words import category_look, count, counted, span
from outlast.units import rate_words

__all__ = ["ReplayLine", "Step", "form_time", "given_of", "rate_text", "replay_line", "what_text"]

_LABELS = {
    "category": "category",
    "task": "task",
    "group": "group",
    "reason": "reason",
    "queue": "queue",
    "since": "since",
    "until": "before",
    "text": "text",
}


class Step(NamedTuple):
    """One of the steps of a replay: its name, and ``done``, ``now``, ``failed`` or ``later``."""

    name: str
    state: str


class ReplayLine(NamedTuple):
    """A replay as pages show it.

    Attributes:
        what: Which dead letters were meant, in words.
        given: The same, as the list of dead letters is narrowed.
        told: How it stands, in a sentence or two.
        steps: One first, ten, the rest; empty where it does not go in steps.
        rate: In words.
        handled: Dead letters that were dealt with: queued again, or left because of a conflict.
        left: Those that are still to come.
        percent: How much of it is dealt with.
        can_stop: Whether there is something to stop.
        can_resume: Whether it can go on.
    """

    id: int
    state: str
    what: str
    given: dict[str, str]
    told: str
    steps: tuple[Step, ...]
    rate: str
    total: int
    replayed: int
    conflicts: int
    conflict_ids: tuple[int, ...]
    handled: int
    left: int
    percent: int
    stopped_by: str
    who: str
    reason: str
    can_stop: bool
    can_resume: bool
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None


def replay_line(replay: Replay) -> ReplayLine:
    """Return a replay as pages show it; its texts have to be masked before."""
    handled = replay.replayed + replay.conflicts
    replay = replay._replace(total=max(replay.total, handled))  # what failed again is taken a second time
    left = max(replay.total - handled, 0) if replay.state is not ReplayState.DONE else 0
    given = given_of(replay.which)
    return ReplayLine(
        id=replay.id,
        state=str(replay.state),
        what=what_text(given, replay.which),
        given=given,
        told=_told(replay, left),
        steps=_steps(replay),
        rate=rate_text(replay.rate),
        total=replay.total,
        replayed=replay.replayed,
        conflicts=replay.conflicts,
        conflict_ids=replay.conflict_ids,
        handled=handled,
        left=left,
        percent=100 if not left else min(100 * handled // max(replay.total, 1), 99),
        stopped_by=replay.stopped_by,
        who=replay.who,
        reason=replay.reason,
        can_stop=replay.state is ReplayState.RUNNING,
        can_resume=replay.state is ReplayState.STOPPED or (replay.state is ReplayState.CANCELLED and left > 0),
        created_at=replay.created_at,
        updated_at=replay.updated_at,
        ended_at=replay.ended_at,
    )


def given_of(which: DeadLetterFilter) -> dict[str, str]:
    """Return what narrows dead letters, as forms show it and addresses carry it; times are UTC."""
    values = {
        "category": which.category,
        "task": which.task_type,
        "group": which.fingerprint,
        "reason": which.reason,
        "queue": which.queue,
        "since": form_time(which.since),
        "until": form_time(which.until),
        "text": which.text,
    }
    return {name: str(value) for name, value in values.items() if value}


def form_time(at: datetime | None) -> str | None:
    """Return a time as a field of a form has it: UTC, without saying so."""
    return None if at is None else at.replace(tzinfo=None).isoformat(timespec="seconds" if at.second else "minutes")


def what_text(given: Mapping[str, str], which: DeadLetterFilter | None = None) -> str:
    """Return which dead letters are meant, in words: ``category rate limit, task fetch_page``."""
    said = [
        f"{label} {category_look(given[name]).label if name == 'category' else given[name]}"
        for name, label in _LABELS.items()
        if name in given
    ]
    if which is not None and which.ids is not None:
        said.insert(0, f"{counted(len(which.ids), 'dead letter')} by number")
    return ", ".join(said) or "all dead letters"


def rate_text(rate: float | None) -> str:
    """Return how fast a replay goes: ``10 per second``, ``6 per minute``, ``as fast as it goes``."""
    return "as fast as it goes" if rate is None else rate_words(rate)


def _told(replay: Replay, left: int) -> str:
    were = "was" if replay.replayed == 1 else "were"
    queued = f"{count(replay.replayed)} of {counted(replay.total, 'dead letter')} {were} queued again."
    stayed = f" {_stayed(replay.conflicts)}" if replay.conflicts else ""
    rest = f" {counted(left, 'dead letter stays where it was', 'dead letters stay where they were')}." if left else ""
    match replay.state:
        case ReplayState.DONE:
            return f"{queued}{stayed}" if replay.total else "There was nothing to replay."
        case ReplayState.STOPPED:
            return f"It stopped by itself, because a task of it did not end well. {queued}{stayed}{rest}"
        case ReplayState.CANCELLED:
            return f"Somebody stopped it. {queued}{stayed}{rest}"
        case ReplayState.RUNNING:
            return f"{_going(replay, left)}{stayed}"


def _stayed(conflicts: int) -> str:
    one = conflicts == 1
    return f"{count(conflicts)} stayed: {'its' if one else 'their'} unique {'key is' if one else 'keys are'} taken."


def _going(replay: Replay, left: int) -> str:
    if replay.canary and replay.stage == 0:
        if not replay.replayed:
            return "One is tried first. It is about to be queued again."
        return "One is tried first: it is queued again and gets one attempt. If it succeeds, ten more follow."
    if replay.canary and replay.stage == 1:
        return "The first one succeeded. Ten more are tried, with one attempt each; if they succeed, the rest follows."
    before = "The first ones succeeded. The rest is queued again" if replay.canary else "All are queued again"
    soon = f"; about {span(left / replay.rate)} to go" if replay.rate and left > replay.rate else ""
    return f"{before}, {rate_text(replay.rate)}{soon}. A failure stops it."


def _steps(replay: Replay) -> tuple[Step, ...]:
    if not replay.canary:
        return ()
    names = ["One first"]
    if replay.total > 1:
        names.append("Then ten" if replay.total > 11 else f"Then {replay.total - 1}")  # noqa: PLR2004  # one and ten
    if replay.total > 11:  # noqa: PLR2004  # one and ten
        names.append(f"The other {count(replay.total - 11)}")
    here = (
        "failed" if replay.state is ReplayState.STOPPED else "now" if replay.state is ReplayState.RUNNING else "later"
    )
    states = [
        "done"
        if place < replay.stage or replay.state is ReplayState.DONE
        else here
        if place == replay.stage
        else "later"
        for place in range(len(names))
    ]
    return tuple(Step(name, state) for name, state in zip(names, states, strict=True))
