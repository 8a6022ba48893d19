"""Dead letters in words: why they died, how replays progress, and their arguments as an editable form."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from shlex import quote
from typing import Any, NamedTuple

from outlast.ports.rows import DeadLetterFilter, QueueRow, Reason, Status, Task, WorkerRow
from outlast.ports.triage import Replay, ReplayState
from outlast.report.text_format import category_look, count, counted
from outlast.units import rate_words, span

REASON_TEXTS: dict[str, str] = {
    Reason.EXHAUSTED: "it used up the attempts of its policy",
    Reason.PERMANENT: "a retry would not help",
    Reason.CRASH: "workers died while it was the only task running",
    Reason.UNDECODABLE: "its arguments cannot be decoded",
    Reason.UNREADABLE: "its error could not be judged, because the error's own code raised",
    Reason.CANARY: "it was the canary of a replay and failed again",
    Reason.EXPIRED: "it did not finish before it expired",
}
"""Why a task became a dead letter."""

STATUS_TEXTS: dict[str, str] = {
    Status.QUEUED: "it waits until it is due, or for a worker",
    Status.RUNNING: "a worker has it",
    Status.PARKED: "no worker knows its task name; it waits for one that does",
    Status.DONE: "it succeeded",
    Status.FAILED: "it is a dead letter",
    Status.CANCELLED: "it was cancelled",
    Status.DISCARDED: "it was a dead letter and was discarded",
}
"""What the status of a task means."""

_MAX_NUMBERS_SHOWN = 10
_CANARIES = 11  # one, then ten
_LAST_STAGE = 2  # the rest
_FILTER_FIELDS = {"task": "task_type", "group": "fingerprint"}
_FILTER_NAMES = ("category", "task", "group", "reason", "queue", "since", "until", "text")


class Facet(NamedTuple):
    """A value that a list can be filtered by, and how many rows have it; None if unknown."""

    name: str
    size: int | None


def facets(
    counts: Mapping[tuple[str, str], int], *, task: str | None, category: str | None
) -> tuple[list[Facet], list[Facet], int]:
    """Return the number of dead letters of each task and of each category, largest first, and the total.

    Args:
        counts: Dead letters by task and category.
        task: Filters the categories and the total.
        category: Filters the tasks and the total.
    """
    tasks, categories = Counter[str](), Counter[str]()
    for (name, kind), number in counts.items():
        if category in {None, kind}:
            tasks[name] += max(number, 0)
        if task in {None, name}:
            categories[kind] += max(number, 0)
    total = tasks.total() if task is None else tasks[task]
    return _sorted_facets(tasks), _sorted_facets(categories), total


def _sorted_facets(counts: Mapping[str, int]) -> list[Facet]:
    largest_first = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [Facet(name, number) for name, number in largest_first if number]


def blocked_reason(task: Task, queues: Sequence[QueueRow], workers: Sequence[WorkerRow]) -> str:
    """Return why no worker claims a task, if its queue or the workers show that; otherwise an empty text.

    Args:
        task: A queued task.
        queues: All queues.
        workers: All known workers.
    """
    if any(queue.paused for queue in queues if queue.name == task.queue):
        return f"its queue, {task.queue}, is paused"
    alive = [worker for worker in workers if worker.alive]
    if not alive:
        return "no worker is alive"
    if all(task.queue not in worker.queues for worker in alive):
        return f"no live worker serves its queue, {task.queue}"
    return ""


def handled_text(word: str, ids: Mapping[str, Sequence[int]]) -> str:
    """Return the outcome of a bulk action, such as ``12 replayed, 2 stayed: …``.

    Args:
        word: The outcome that was asked for: ``replayed`` or ``discarded``.
        ids: Ids of dead letters by their outcomes: the word, ``conflict`` and ``gone``.
    """
    texts = [f"{len(ids[word])} {word}"]
    if stayed := ids["conflict"]:
        whose = "its unique key is" if len(stayed) == 1 else "their unique keys are"
        texts.append(f"{len(stayed)} stayed: {whose} taken by another live task ({numbers_text(stayed)})")
    if gone := ids["gone"]:
        verb = "does" if len(gone) == 1 else "do"
        texts.append(f"{len(gone)} {verb} not exist any more ({numbers_text(gone)})")
    return ", ".join(texts)


def numbers_text(numbers: Sequence[int]) -> str:
    """Return numbers in one line; of many, only the first ten."""
    named = ", ".join(str(number) for number in numbers[:_MAX_NUMBERS_SHOWN])
    more = len(numbers) - _MAX_NUMBERS_SHOWN
    return f"{named} and {counted(more, 'other')}" if more > 0 else named


def dlq_command(verb: str, given: Mapping[str, str], reference: str = "MODULE:APP") -> str:
    """Return the shell command for all dead letters that match a filter.

    Args:
        verb: ``replay`` or ``discard``.
        given: The filter, by the names that the page and the command share.
        reference: The app, as ``MODULE:APP``.
    """
    options = [f"--{name} {quote(given[name])}" for name in _FILTER_NAMES if given.get(name)]
    return " ".join(["outlast dlq", verb, *(options or ["--all"]), "--app", quote(reference)])


class ReplayStage(NamedTuple):
    """A stage of a replay: its name, and its state ``done``, ``now``, ``failed`` or ``later``."""

    name: str
    state: str


_SHOWN_UNCHANGED = (
    "id", "total", "replayed", "conflicts", "conflict_ids", "stopped_by", "who", "reason", "created_at", "updated_at",
    "ended_at",
)  # fmt: skip


class ReplayLine(NamedTuple):
    """A replay as pages show it.

    Attributes:
        what: The filter of dead letters, in words.
        filters: The same filter, as parameters of the list of dead letters.
        told: Its progress, in a sentence or two.
        steps: One first, then ten, then the rest; empty for a replay without a canary.
        rate: The rate, in words.
        failures: The failures that stop it, in words.
        handled: Dead letters that were queued again, or stayed because of a conflict.
        left: Dead letters that are still to be handled.
        percent: Share of dead letters that were handled.
        can_stop: Whether it can be stopped.
        can_resume: Whether it can be resumed.
    """

    id: int
    state: str
    what: str
    filters: dict[str, str]
    told: str
    steps: tuple[ReplayStage, ...]
    rate: str
    failures: str
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
    """Return a replay as people see it; the row must be masked."""
    handled = replay.replayed + replay.conflicts
    replay = replay._replace(total=max(replay.total, handled))  # a canary that failed is replayed a second time
    left = max(replay.total - handled, 0) if replay.state is not ReplayState.DONE else 0
    params = filter_params(replay.filters)
    copied: dict[str, Any] = {name: getattr(replay, name) for name in _SHOWN_UNCHANGED}
    return ReplayLine(
        state=str(replay.state),
        what=filter_text(params, replay.filters),
        filters=params,
        told=_progress_text(replay, left),
        steps=_replay_steps(replay),
        rate=rate_text(replay.rate),
        failures=_failures_text(replay),
        handled=handled,
        left=left,
        percent=100 if not left else min(100 * handled // max(replay.total, 1), 99),
        can_stop=replay.state is ReplayState.RUNNING,
        can_resume=replay.state is ReplayState.STOPPED or (replay.state is ReplayState.CANCELLED and left > 0),
        **copied,
    )


def filter_params(dead_letter_filter: DeadLetterFilter) -> dict[str, str]:
    """Return a filter as the fields of a form and the parameters of a URL; times are UTC."""
    values = {name: getattr(dead_letter_filter, _FILTER_FIELDS.get(name, name)) for name in _FILTER_NAMES}
    return {
        name: form_time(value) if isinstance(value, datetime) else str(value) for name, value in values.items() if value
    }


def form_time(at: datetime) -> str:
    """Return a UTC time as a ``datetime-local`` field has it, without an offset."""
    return at.replace(tzinfo=None).isoformat(timespec="seconds" if at.second else "minutes")


def filter_text(params: Mapping[str, str], dead_letter_filter: DeadLetterFilter | None = None) -> str:
    """Return a filter in words: ``category rate limit, task fetch_page``."""
    shown = {**params, "category": category_look(params["category"]).label} if "category" in params else params
    texts = [f"{'before' if name == 'until' else name} {shown[name]}" for name in _FILTER_NAMES if name in shown]
    if dead_letter_filter is not None and dead_letter_filter.ids is not None:
        texts.insert(0, f"{counted(len(dead_letter_filter.ids), 'dead letter')} by number")
    return ", ".join(texts) or "all dead letters"


def rate_text(rate: float | None) -> str:
    """Return the rate of a replay: ``10 per second``, ``6 per minute``, ``without a rate limit``."""
    return "without a rate limit" if rate is None else rate_words(rate)


def _progress_text(replay: Replay, left: int) -> str:
    were = "was" if replay.replayed == 1 else "were"
    queued = f"{count(replay.replayed)} of {counted(replay.total, 'dead letter')} {were} queued again."
    whose = "its unique key is" if replay.conflicts == 1 else "their unique keys are"
    stayed = f" {count(replay.conflicts)} stayed: {whose} taken." if replay.conflicts else ""
    rest = f" {counted(left, 'dead letter was', 'dead letters were')} not replayed." if left else ""
    if not replay.total and replay.state is not ReplayState.RUNNING:
        return "There was nothing to replay."
    match replay.state:
        case ReplayState.DONE:
            return f"{queued}{stayed}"
        case ReplayState.STOPPED:
            return f"It stopped because {_failed_words(replay)} failed. {queued}{stayed}{rest}"
        case ReplayState.CANCELLED:
            return f"It was stopped by hand. {queued}{stayed}{rest}"
        case ReplayState.RUNNING:
            return f"{_running_text(replay, left)}{stayed}"


def _running_text(replay: Replay, left: int) -> str:
    if replay.canary and replay.stage == 0:
        if not replay.replayed:
            return "One dead letter is replayed first. It is about to be queued again."
        return "One dead letter was replayed first, with one attempt. If it succeeds, ten more follow."
    if replay.canary and replay.stage == 1:
        return (
            "The first one succeeded. Ten more are replayed, with one attempt each. If all succeed, the rest follows."
        )
    start = "The first ones succeeded. The rest is queued again" if replay.canary else "All are queued again"
    remaining = f"; about {span(left / replay.rate)} left" if replay.rate and left > replay.rate else ""
    return f"{start}, {rate_text(replay.rate)}{remaining}. {_failures_text(replay)}."


def _failures_text(replay: Replay) -> str:
    allowed = replay.allowed_failures
    if allowed is None:
        return "Failures do not stop it"
    return f"More than {counted(allowed, 'failure')} stop it" if allowed else "A failure stops it"


def _failed_words(replay: Replay) -> str:
    allowed = replay.allowed_failures
    is_rest = not replay.canary or replay.stage == _LAST_STAGE
    return f"more than {count(allowed)} of its tasks" if allowed and is_rest else "one of its tasks"


def _replay_steps(replay: Replay) -> tuple[ReplayStage, ...]:
    if not replay.canary:
        return ()
    names = ["One first"]
    if replay.total > _CANARIES:
        names += ["Then ten", f"The other {count(replay.total - _CANARIES)}"]
    elif replay.total > 1:
        names.append(f"Then {replay.total - 1}")
    return tuple(ReplayStage(name, _stage_state(replay, place)) for place, name in enumerate(names))


def _stage_state(replay: Replay, place: int) -> str:
    if place < replay.stage or replay.state is ReplayState.DONE:
        return "done"
    if place > replay.stage:
        return "later"
    return {ReplayState.STOPPED: "failed", ReplayState.RUNNING: "now"}.get(replay.state, "later")


# A masked value has an empty field, so that a page can replace the value but never shows it.

MAX_FIELDS = 60
"""Most fields of a form; a JSON Patch changes the other values."""
_MAX_TEXT_LENGTH = 2_000  # characters; longer texts have no field
_MAX_NUMBER_LENGTH = 60
_BOOLEANS = {"true": True, "false": False}


class ArgumentField(NamedTuple):
    """A plain value that can be edited.

    Attributes:
        name: Name of the form field, which reveals nothing of the arguments.
        path: JSON Pointer of the value.
        label: The same path as shown to people.
        kind: ``text``, ``number``, ``boolean`` or ``null``.
        text: What the field shows; empty for a masked value.
        masked: Whether the value is masked.
        lines: Height of the field, in lines.
    """

    name: str
    path: str
    label: str
    kind: str
    text: str
    masked: bool
    lines: int


class ArgumentFields(NamedTuple):
    """All fields, and whether some values have none because they are too many or too long."""

    rows: tuple[ArgumentField, ...]
    others: bool


class FieldError(ValueError):
    """The text of a field is not a valid value of its kind; the message names the field."""


def argument_fields(real: Any, shown: Any) -> ArgumentFields:
    """Return the form fields of a task's arguments.

    Args:
        real: The arguments as stored.
        shown: The same arguments, masked.
    """
    rows: list[ArgumentField] = []
    others = False
    for path, label, value, seen in _leaves(real, shown, "", ""):
        if len(rows) == MAX_FIELDS or isinstance(value, list | dict) or (value == seen and _is_not_editable(value)):
            others = True
            continue
        masked = type(value) is not type(seen) or value != seen
        kind, plain = _kind_and_text(value)
        text = "" if masked else plain
        lines = 1 if masked or not isinstance(value, str) else min(max(text.count("\n") + 1, len(text) // 80 + 1), 8)
        rows.append(ArgumentField(f"field-{len(rows) + 1}", path, label, kind, text, masked, lines))
    return ArgumentFields(tuple(rows), others)


def _leaves(real: Any, shown: Any, path: str, label: str) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield path, label, value and masked value of each plain value, and of empty objects and lists."""
    if isinstance(real, dict) and isinstance(shown, dict) and len(real) == len(shown) and real:
        for (key, value), (name, seen) in zip(real.items(), shown.items(), strict=True):
            pointer = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key != name:
                yield pointer, "", {}, {}  # a patch must not name a masked key, so it has no field
            else:
                yield from _leaves(value, seen, pointer, f"{label}.{name}" if label else name)
    elif isinstance(real, list) and isinstance(shown, list) and len(real) == len(shown) and real:
        for place, (value, seen) in enumerate(zip(real, shown, strict=True)):
            yield from _leaves(value, seen, f"{path}/{place}", f"{label}[{place}]")
    elif path:
        yield path, label, real, shown


def _is_not_editable(value: Any) -> bool:
    """Return whether a browser would not send the text back unchanged, as with carriage returns."""
    return isinstance(value, str) and (len(value) > _MAX_TEXT_LENGTH or not value.replace("\n", "").isprintable())


def _kind_and_text(value: Any) -> tuple[str, str]:
    if value is None:
        return "null", ""
    if isinstance(value, str):
        return "text", value
    return "boolean" if isinstance(value, bool) else "number", json.dumps(value)


def patch_operations(fields: ArgumentFields, typed: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the JSON Patch for the changed fields; empty if nothing changed.

    Args:
        fields: The fields that the form showed.
        typed: Submitted texts by field name. Missing fields stay unchanged.

    Raises:
        FieldError: If a text is not a valid value of its field's kind.
    """
    patch: list[dict[str, Any]] = []
    for field in fields.rows:
        text = typed.get(field.name, field.text).replace("\r\n", "\n")  # browsers send CRLF
        if text != field.text and (text or not field.masked):
            patch.append({"op": "replace", "path": field.path, "value": _parse_value(field, text)})
    return patch


def _parse_value(field: ArgumentField, text: str) -> Any:
    match field.kind:
        case "boolean":
            value = _BOOLEANS.get(text.strip().lower())
            if value is not None:
                return value
            raise FieldError(f"{field.label}: {text[:50]!r} is not a boolean; write true or false")
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
        raise FieldError(f"{field.label}: {text[:50]!r} is not a number; use a patch to change its type")
    return value


def _reject_constant(text: str) -> None:
    raise ValueError(text)
