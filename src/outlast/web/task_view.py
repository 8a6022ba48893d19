"""A task as pages show it: its arguments masked, its history drawn and told."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.ports.rows import Attempt, Cooldown, Task
from outlast.ports.store import Store
from outlast.queue.dead_letters import masked_edit
from outlast.queue.masking import masked_arguments, masked_text
from outlast.report.timeline import Timeline, timeline

if TYPE_CHECKING:
    from outlast.ports.triage import PayloadEdit


SHOWN_ATTEMPTS = 15
"""Attempts that a page lists, the last ones."""
# Characters: a page stays below 100 kB with all that it loads, whatever is shown.
_MAX_PAYLOAD_CHARS = 6_000
_MAX_MESSAGE_CHARS = 4_096
_MAX_EARLIER_MESSAGE_CHARS = 400
_MAX_LINE_CHARS, _MAX_MASKED_CHARS = 240, 1024
_MAX_TRACEBACK_CHARS = 12_000  # for all attempts together


class AttemptView(NamedTuple):
    """A failed attempt as a page shows it.

    Attributes:
        place: Among all failed attempts of the task, from 1.
        number: Of the start.
        outcome: ``retry``, ``fail`` or ``lost``.
        seconds: How long it ran; None where its start is not known, or is written as the moment of its end: of the
            first attempt in another engine only the failure is seen.
        delay: Seconds until the next one was due; None where none followed.
        category: What the failure is.
        rule: That decided so.
        retryable: Whether trying again may help, as it was judged.
        retry_after: Seconds that the other side asked to wait.
        http_status: Of the answer.
        code: SQLSTATE, errno or code of an API.
        origin: What was talked to.
        location: File and function of the user's code.
        traceback: Masked; empty where there is none, or it is that of another attempt.
        same_as: Place of the attempt that has the same traceback; 0 for none.
        cut: Whether the traceback was left out because the page would be too large.
    """

    place: int
    number: int
    outcome: str
    worker_id: str | None
    started_at: datetime | None
    finished_at: datetime
    seconds: float | None
    delay: float | None
    error_type: str
    error_message: str
    category: str
    fingerprint: str
    rule: str
    retryable: bool | None
    retry_after: float | None
    http_status: int | None
    code: str
    origin: str
    location: str
    traceback: str
    same_as: int
    cut: bool


class TaskView(NamedTuple):
    """A task with its history.

    Attributes:
        task: Its free text is masked, its arguments are left out.
        payload: Arguments as text of many lines, masked.
        payload_cut: Whether that is only its beginning.
        attempts: The last failed attempts, newest first.
        earlier: Failed attempts that are not listed.
        drawn: Its time.
        cooldown: Of its resource, while that cools down.
    """

    task: Task
    payload: str
    payload_cut: bool
    attempts: list[AttemptView]
    earlier: int
    drawn: Timeline
    cooldown: Cooldown | None


def task_view(store: Store, task: Task) -> TaskView:
    """Return a task as pages show it."""
    attempts = store.attempts(task.id)
    cooldown = None
    if task.resource is not None and task.status == "QUEUED":
        cooldown = next((each for each in store.cooldowns() if each.resource == task.resource), None)
    payload, cut = payload_text(task.parameters)
    shown = task._replace(
        parameters="",
        resource=_mask_optional(task.resource),
        unique_key=_mask_optional(task.unique_key),
        last_error=_mask_optional(task.last_error),
    )
    drawn = timeline(task, attempts, store.now(), cooldown)
    if cooldown is not None:
        cooldown = cooldown._replace(resource=masked_text(cooldown.resource), reason=masked_text(cooldown.reason))
    views = _attempt_views(attempts)
    return TaskView(shown, payload, cut, views, len(attempts) - len(views), drawn, cooldown)


def payload_text(parameters: str) -> tuple[str, bool]:
    """Return the arguments of a task as text of many lines, masked, and whether that is only their beginning.

    Args:
        parameters: As they are stored.
    """
    value = masked_arguments(parameters)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return text[:_MAX_PAYLOAD_CHARS], len(text) > _MAX_PAYLOAD_CHARS


def masked_line(text: str | None) -> str:
    """Return a text without its secrets, in one line that a list has room for.

    No more of it is looked through than could be shown: fifty long texts would take longer than all the rest of a page.
    """
    line = " ".join(masked_text(text[:_MAX_MASKED_CHARS]).split()) if text else ""
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[: _MAX_LINE_CHARS - 1]}…"


def _mask_optional(text: str | None) -> str | None:
    return None if text is None else masked_text(text)[:_MAX_MESSAGE_CHARS]


def _attempt_views(attempts: Sequence[Attempt]) -> list[AttemptView]:
    """Return the last attempts, newest first; a traceback that comes again is shown once, the newest in any case."""
    shown_at: dict[str, int] = {}
    room = _MAX_TRACEBACK_CHARS
    views = []
    for place in range(len(attempts), max(0, len(attempts) - SHOWN_ATTEMPTS), -1):
        attempt = attempts[place - 1]
        newest, text = place == len(attempts), attempt.traceback
        same_as = shown_at.get(text, 0)
        shown = "" if same_as else masked_text(text)
        if len(shown) > room:
            shown = f"… the beginning is left out …\n{shown[-room:]}" if newest else ""
        if shown:
            shown_at[text] = place
            room -= min(room, len(shown))
        views.append(_attempt_view(place, attempt, shown, same_as, newest=newest))
    return views


def _attempt_view(place: int, attempt: Attempt, traceback: str, same_as: int, *, newest: bool) -> AttemptView:
    started, failure = attempt.started_at, attempt.failure
    message = masked_text(attempt.error_message)
    longest = _MAX_MESSAGE_CHARS if newest else _MAX_EARLIER_MESSAGE_CHARS
    return AttemptView(
        place=place,
        number=attempt.attempt,
        outcome=attempt.outcome,
        worker_id=attempt.worker_id,
        started_at=started,
        finished_at=attempt.finished_at,
        seconds=None
        if started is None or started >= attempt.finished_at
        else (attempt.finished_at - started).total_seconds(),
        delay=attempt.delay,
        error_type=attempt.error_type,
        error_message=message if len(message) <= longest else f"{message[:longest]}…",
        category=attempt.error_category,
        fingerprint=attempt.fingerprint,
        rule=_text_value(failure, "rule"),
        retryable=_typed_value(failure, "retryable", bool),
        retry_after=_typed_value(failure, "retry_after", int, float),
        http_status=_typed_value(failure, "http_status", int),
        code=_text_value(failure, "code"),
        origin=_text_value(failure, "origin"),
        location=_text_value(failure, "location"),
        traceback=traceback,
        same_as=same_as,
        cut=bool(attempt.traceback) and not traceback and not same_as,
    )


def _text_value(failure: dict[str, Any], name: str) -> str:
    value = failure.get(name)
    return masked_text(value) if isinstance(value, str) else ""


def _typed_value(failure: dict[str, Any], name: str, *kinds: type) -> Any:
    """Return a value of a stored failure; None for one of another kind, which another version may have written."""
    value = failure.get(name)
    return value if type(value) in kinds else None


# What became of a task by hand: who changed its arguments, when and why, without its secrets.

_MAX_EDITS = 20  # edits of a task that are shown
_MAX_CHANGED_VALUES = 30  # values of one edit
_MAX_VALUE_CHARS = 300  # characters of a value
_MAX_AUDIT_ENTRIES = 20  # entries of the audit log
_EDIT_ACTION = "edit_dead_letter"  # which is told with what was changed
_ABSENT = object()


class ChangedValue(NamedTuple):
    """A value that an edit has changed, masked; None for what was not there before, or is not there any more."""

    path: str
    before: str | None
    after: str | None


class EditView(NamedTuple):
    """An edit as pages show it.

    Attributes:
        changed: What is other than it was; what is masked on both sides is named from the patch.
        more: How many further values are.
    """

    at: datetime
    who: str
    reason: str
    changed: tuple[ChangedValue, ...]
    more: int


class AuditView(NamedTuple):
    """Something that somebody asked for, from the audit log."""

    at: datetime
    who: str
    action: str
    reason: str


def audit_views(store: "Store", *subjects: str) -> list[AuditView]:
    """Return what was asked for about a task and its dead letter but edits, newest first."""
    found = [entry for subject in subjects for entry in store.audits(subject=subject, limit=_MAX_AUDIT_ENTRIES)]
    return [
        AuditView(entry.at, entry.who, entry.action.replace("_", " "), masked_text(entry.reason))
        for entry in sorted(found, key=lambda entry: -entry.id)
        if entry.action != _EDIT_ACTION
    ]


def edit_views(store: "Store", task_id: int) -> list[EditView]:
    """Return the edits of a task, newest first."""
    return [_edit_view(masked_edit(edit)) for edit in reversed(store.edits(task_id)[-_MAX_EDITS:])]


def _edit_view(edit: "PayloadEdit") -> EditView:
    changed = [*_differences(_parse_json(edit.before), _parse_json(edit.after), "")]
    told = {each.path for each in changed}
    for operation in _patch_operations(edit.patch):
        path = str(operation.get("path", ""))
        if path not in told and not any(each.startswith(f"{path}/") for each in told):
            changed.append(ChangedValue(path, "masked", "masked"))  # it was replaced, and neither value is shown
    shown = tuple(each._replace(path=masked_text(each.path)) for each in changed[:_MAX_CHANGED_VALUES])
    return EditView(edit.at, edit.who, masked_text(edit.reason), shown, len(changed) - len(shown))


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _patch_operations(text: str) -> list[dict[str, Any]]:
    value = _parse_json(text)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _differences(before: Any, after: Any, path: str) -> Iterator[ChangedValue]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            yield from _differences(before.get(key, _ABSENT), after.get(key, _ABSENT), f"{path}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, f"{path}/{place}")
    elif before != after or type(before) is not type(after):
        yield ChangedValue(path, _value_text(before), _value_text(after))


def _value_text(value: Any) -> str | None:
    if value is _ABSENT:
        return None
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[: _MAX_VALUE_CHARS - 1]}…"
