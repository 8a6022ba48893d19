"""What is said of dead letters and tasks, in one line each."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from shlex import quote
from typing import Any, NamedTuple

from outlast.ports.rows import DeadLetterFilter, QueueRow, Reason, Status, Task, WorkerRow
from outlast.ports.triage import Replay, ReplayState
from outlast.report.text_format import category_look, count, counted, span
from outlast.units import rate_words

REASON_TEXTS: dict[str, str] = {
    Reason.EXHAUSTED: "it used up the attempts that its policy allows",
    Reason.PERMANENT: "trying again would not help",
    Reason.CRASH: "workers died while it ran alone",
    Reason.UNDECODABLE: "its arguments cannot be read",
    Reason.CANARY: "it was tried first for a replay, and failed again",
    Reason.EXPIRED: "it could not be done within its time",
}
"""Why a task became a dead letter."""

STATUS_TEXTS: dict[str, str] = {
    Status.QUEUED: "it waits for its time or for a worker",
    Status.RUNNING: "a worker has it",
    Status.PARKED: "no worker knows a task of its name; it waits for one that does",
    Status.DONE: "it succeeded",
    Status.FAILED: "it is a dead letter",
    Status.CANCELLED: "somebody cancelled it",
    Status.DISCARDED: "it was a dead letter, and somebody discarded it",
}
"""What the status of a task means."""

_MAX_NUMBERS_SHOWN = 10
_COMMAND_OPTIONS = ("task", "queue", "category", "reason", "group", "since", "until", "text")


class Facet(NamedTuple):
    """A value that narrows a list, and how many there are of it; None where that is not known."""

    name: str
    size: int | None


def facets(
    counts: Mapping[tuple[str, str], int], *, task: str | None, category: str | None
) -> tuple[list[Facet], list[Facet], int]:
    """Return how many dead letters there are of each task and of each category, the largest first, and in all.

    Args:
        counts: By task and category.
        task: Narrows the categories, and the whole.
        category: Narrows the tasks, and the whole.
    """
    tasks: dict[str, int] = {}
    categories: dict[str, int] = {}
    whole = 0
    for (name, kind), number in counts.items():
        if number <= 0:
            continue
        if category in {None, kind}:
            tasks[name] = tasks.get(name, 0) + number
        if task in {None, name}:
            categories[kind] = categories.get(kind, 0) + number
        if category in {None, kind} and task in {None, name}:
            whole += number
    return _sorted_facets(tasks), _sorted_facets(categories), whole


def _sorted_facets(counts: Mapping[str, int]) -> list[Facet]:
    return [Facet(name, count) for name, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))]


def blocked_reason(task: Task, queues: Sequence[QueueRow], workers: Sequence[WorkerRow]) -> str:
    """Return why nobody takes up a task that is ready, where that can be seen; otherwise an empty text.

    Args:
        task: It waits, and its time has come.
        queues: All that exist.
        workers: All that are known.
    """
    if any(queue.paused for queue in queues if queue.name == task.queue):
        return f"its queue, {task.queue}, is paused"
    alive = [worker for worker in workers if worker.alive]
    if not alive:
        return "no worker is alive"
    if all(task.queue not in worker.queues for worker in alive):
        return f"no worker that is alive looks into its queue, {task.queue}"
    return ""


def handled_text(word: str, handled: Sequence[tuple[int, str]]) -> str:
    """Return what became of many dead letters, such as ``12 replayed, 2 stayed: …``.

    Args:
        word: What was asked for: ``replayed`` or ``discarded``.
        handled: Numbers and outcomes: the word, ``conflict`` or ``gone``.
    """
    by_outcome: dict[str, list[int]] = {}
    for number, outcome in handled:
        by_outcome.setdefault(outcome, []).append(number)
    said = [f"{len(by_outcome.get(word, []))} {word}"]
    if stayed := by_outcome.get("conflict"):
        one = len(stayed) == 1
        whose = "its unique key is" if one else "their unique keys are"
        said.append(f"{len(stayed)} stayed: {whose} taken by another live task ({numbers_text(stayed)})")
    if gone := by_outcome.get("gone"):
        was = "was" if len(gone) == 1 else "were"
        said.append(f"{len(gone)} {was} not there any more ({numbers_text(gone)})")
    return ", ".join(said)


def numbers_text(numbers: Sequence[int]) -> str:
    """Return numbers in one line, the first ones of many."""
    named = ", ".join(str(number) for number in numbers[:_MAX_NUMBERS_SHOWN])
    more = len(numbers) - _MAX_NUMBERS_SHOWN
    return f"{named} and {counted(more, 'other')}" if more > 0 else named


def dlq_command(verb: str, given: Mapping[str, str], reference: str = "MODULE:APP") -> str:
    """Return the command that does something to all dead letters of a filter, to be pasted into a shell.

    Args:
        verb: ``replay`` or ``discard``.
        given: What narrows, by the names that page and command share.
        reference: Where the app is.
    """
    options = [f"--{name} {quote(given[name])}" for name in _COMMAND_OPTIONS if given.get(name)]
    return " ".join(["outlast dlq", verb, *(options or ["--all"]), "--app", quote(reference)])


# Replays in steps as people are told of them: how far one is, what comes next, why it stopped.

_FILTER_LABELS = {
    "category": "category",
    "task": "task",
    "group": "group",
    "reason": "reason",
    "queue": "queue",
    "since": "since",
    "until": "before",
    "text": "text",
}


class ReplayStage(NamedTuple):
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
    steps: tuple[ReplayStage, ...]
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
    given = filter_params(replay.which)
    return ReplayLine(
        id=replay.id,
        state=str(replay.state),
        what=filter_text(given, replay.which),
        given=given,
        told=_progress_text(replay, left),
        steps=_replay_steps(replay),
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


def filter_params(which: DeadLetterFilter) -> dict[str, str]:
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


def filter_text(given: Mapping[str, str], which: DeadLetterFilter | None = None) -> str:
    """Return which dead letters are meant, in words: ``category rate limit, task fetch_page``."""
    said = [
        f"{label} {category_look(given[name]).label if name == 'category' else given[name]}"
        for name, label in _FILTER_LABELS.items()
        if name in given
    ]
    if which is not None and which.ids is not None:
        said.insert(0, f"{counted(len(which.ids), 'dead letter')} by number")
    return ", ".join(said) or "all dead letters"


def rate_text(rate: float | None) -> str:
    """Return how fast a replay goes: ``10 per second``, ``6 per minute``, ``as fast as it goes``."""
    return "as fast as it goes" if rate is None else rate_words(rate)


def _progress_text(replay: Replay, left: int) -> str:
    were = "was" if replay.replayed == 1 else "were"
    queued = f"{count(replay.replayed)} of {counted(replay.total, 'dead letter')} {were} queued again."
    stayed = f" {_conflicts_text(replay.conflicts)}" if replay.conflicts else ""
    rest = f" {counted(left, 'dead letter stays where it was', 'dead letters stay where they were')}." if left else ""
    match replay.state:
        case ReplayState.DONE:
            return f"{queued}{stayed}" if replay.total else "There was nothing to replay."
        case ReplayState.STOPPED:
            return f"It stopped by itself, because a task of it did not end well. {queued}{stayed}{rest}"
        case ReplayState.CANCELLED:
            return f"Somebody stopped it. {queued}{stayed}{rest}"
        case ReplayState.RUNNING:
            return f"{_running_text(replay, left)}{stayed}"


def _conflicts_text(conflicts: int) -> str:
    one = conflicts == 1
    return f"{count(conflicts)} stayed: {'its' if one else 'their'} unique {'key is' if one else 'keys are'} taken."


def _running_text(replay: Replay, left: int) -> str:
    if replay.canary and replay.stage == 0:
        if not replay.replayed:
            return "One is tried first. It is about to be queued again."
        return "One is tried first: it is queued again and gets one attempt. If it succeeds, ten more follow."
    if replay.canary and replay.stage == 1:
        return "The first one succeeded. Ten more are tried, with one attempt each; if they succeed, the rest follows."
    before = "The first ones succeeded. The rest is queued again" if replay.canary else "All are queued again"
    soon = f"; about {span(left / replay.rate)} to go" if replay.rate and left > replay.rate else ""
    return f"{before}, {rate_text(replay.rate)}{soon}. A failure stops it."


def _replay_steps(replay: Replay) -> tuple[ReplayStage, ...]:
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
    return tuple(ReplayStage(name, state) for name, state in zip(names, states, strict=True))


# The arguments of a dead letter as a form: a field for every plain value, and from what was typed a JSON Patch.
#
# A value that is masked has an empty field: what is typed there replaces it, and what it is stays unknown.

MAX_FIELDS = 60
"""Fields that a form has; what is not among them is changed by a patch."""
_MAX_TEXT_LENGTH = 2_000  # characters of a text that has a field
_MAX_NUMBER_LENGTH = 60
_BOOLEANS = {"true": True, "false": False}


class ArgumentField(NamedTuple):
    """A plain value that can be edited.

    Attributes:
        name: In the form; it tells nothing of the arguments.
        path: Where it stands, as a patch names it.
        label: The same, as it is shown.
        kind: ``text``, ``number``, ``boolean`` or ``null``.
        text: What the field shows; empty for what is masked.
        masked: Whether it is.
        lines: How many it has room for.
    """

    name: str
    path: str
    label: str
    kind: str
    text: str
    masked: bool
    lines: int


class ArgumentFields(NamedTuple):
    """All fields, and whether some values have none, for they are too many or too long."""

    rows: tuple[ArgumentField, ...]
    others: bool


class FieldError(ValueError):
    """What was typed is no value of the kind that stands there; the message names the field."""


def argument_fields(real: Any, shown: Any) -> ArgumentFields:
    """Return the fields of arguments.

    Args:
        real: The arguments as they are.
        shown: The same, masked.
    """
    rows: list[ArgumentField] = []
    others = False
    for path, label, value, seen in _leaves(real, shown, "", ""):
        if len(rows) == MAX_FIELDS or isinstance(value, list | dict) or (value == seen and _is_not_editable(value)):
            others = True
            continue
        masked = type(value) is not type(seen) or value != seen
        text = "" if masked else _field_text(value)
        lines = 1 if masked or not isinstance(value, str) else min(max(text.count("\n") + 1, len(text) // 80 + 1), 8)
        rows.append(ArgumentField(f"field-{len(rows) + 1}", path, label, _field_kind(value), text, masked, lines))
    return ArgumentFields(tuple(rows), others)


def _leaves(real: Any, shown: Any, path: str, label: str) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield plain values with where they stand; for what can have no field, an empty object or a list."""
    if isinstance(real, dict) and isinstance(shown, dict) and len(real) == len(shown) and real:
        for (key, value), (name, seen) in zip(real.items(), shown.items(), strict=True):
            pointer = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key != name:
                yield pointer, "", {}, {}  # no patch may name what is masked, so it has no field
            else:
                yield from _leaves(value, seen, pointer, f"{label}.{name}" if label else name)
    elif isinstance(real, list) and isinstance(shown, list) and len(real) == len(shown) and real:
        for place, (value, seen) in enumerate(zip(real, shown, strict=True)):
            yield from _leaves(value, seen, f"{path}/{place}", f"{label}[{place}]")
    elif path:
        yield path, label, real, shown


def _is_not_editable(value: Any) -> bool:
    """Tell whether a field would not give back what it was given: browsers change the ends of lines, for one."""
    return isinstance(value, str) and (len(value) > _MAX_TEXT_LENGTH or not value.replace("\n", "").isprintable())


def _field_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "null" if value is None else "text"


def _field_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)


def patch_operations(fields: ArgumentFields, typed: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the patch that makes of the arguments what was typed; empty where nothing was changed.

    Args:
        fields: As the form showed them.
        typed: By the names of the fields. What is not there is left as it is.

    Raises:
        FieldError: If something typed is no value of its kind.
    """
    patch: list[dict[str, Any]] = []
    for field in fields.rows:
        text = typed.get(field.name)
        if text is None:
            continue
        text = text.replace("\r\n", "\n")  # as browsers send every line
        if text == field.text or (field.masked and not text):
            continue
        patch.append({"op": "replace", "path": field.path, "value": _parse_value(field, text)})
    return patch


def _parse_value(field: ArgumentField, text: str) -> Any:
    match field.kind:
        case "boolean":
            if text.strip().lower() in _BOOLEANS:
                return _BOOLEANS[text.strip().lower()]
            message = f"{field.label}: {text[:50]!r} is neither true nor false"
            raise FieldError(message)
        case "number":
            return _parse_number(field, text.strip())
        case _:
            return text


def _parse_number(field: ArgumentField, text: str) -> int | float:
    try:
        value = json.loads(text, parse_constant=_reject_constant) if len(text) <= _MAX_NUMBER_LENGTH else None
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        message = f"{field.label}: {text[:50]!r} is no number; a patch can make it something else"
        raise FieldError(message)
    return value


def _reject_constant(text: str) -> None:
    raise ValueError(text)
