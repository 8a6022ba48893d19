"""A task as pages show it: arguments, failed attempts, timeline, edits and audit entries, all masked."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from outlast.ports.rows import Attempt, Cooldown, Task
from outlast.ports.store import Store
from outlast.ports.triage import PayloadEdit
from outlast.queue.dead_letters import masked_edit
from outlast.queue.masking import masked_arguments, masked_row, masked_text, masked_texts
from outlast.report.text_format import shortened
from outlast.report.timeline import Timeline, timeline
from outlast.web.routing import PageData

SHOWN_ATTEMPTS = 15
"""How many failed attempts, the last ones, a page lists."""
# These limits keep a page with all its files below 100 kB.
_MAX_PAYLOAD_CHARS = 6_000
_MAX_MESSAGE_CHARS = 4_096
_MAX_EARLIER_MESSAGE_CHARS = 400
_MAX_LINE_CHARS, _MAX_MASKED_CHARS = 240, 1024
_MAX_TRACEBACK_CHARS = 12_000  # for all attempts together


class AttemptView(NamedTuple):
    """A failed attempt as a page shows it.

    Attributes:
        place: Position among all failed attempts of the task, from 1.
        number: Number of the start.
        outcome: ``retry``, ``fail`` or ``lost``.
        seconds: How long it ran; None if its start is unknown, or stored as equal to its end, as for the first attempt
            in another engine, of which only the failure is seen.
        delay: Seconds until the next attempt was due; None if there was none.
        category: Category of the failure.
        rule: The rule that decided the category.
        retryable: Whether a retry may help; None if unknown.
        retry_after: Seconds that the server asked to wait.
        http_status: HTTP status of the response.
        code: SQLSTATE, errno or code of an API.
        origin: The service that was called.
        location: File and function of the user's code.
        traceback: Masked traceback; empty if there is none, or another attempt shows the same one.
        same_as: Place of the attempt that shows the same traceback; 0 for none.
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
        task: The task, masked and without its arguments.
        payload: Its arguments as indented text, masked.
        payload_cut: Whether the text is only the beginning.
        attempts: The last failed attempts, newest first.
        earlier: How many earlier failed attempts are not listed.
        drawn: Its timeline.
        cooldown: The cooldown of its resource, if there is one.
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
    shown = masked_row(task)._replace(parameters="")
    drawn = timeline(task, attempts, store.now(), cooldown)
    views, cooldown = _attempt_views(attempts), cooldown and masked_row(cooldown)
    return TaskView(shown, payload, cut, views, len(attempts) - len(views), drawn, cooldown)


def payload_text(parameters: str) -> tuple[str, bool]:
    """Return the arguments of a task as indented text, masked, and whether the text was cut.

    Args:
        parameters: The arguments as stored.
    """
    value = masked_arguments(parameters)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return text[:_MAX_PAYLOAD_CHARS], len(text) > _MAX_PAYLOAD_CHARS


def masked_line(text: str | None) -> str:
    """Return a text in one short line, masked.

    Only the part that may be shown is masked: fifty long texts would take longer than the rest of a page.
    """
    return shortened(" ".join(masked_text(text[:_MAX_MASKED_CHARS]).split()), _MAX_LINE_CHARS) if text else ""


def mask_optional(text: str | None) -> str | None:
    """Return a text, masked; None for None."""
    return None if text is None else masked_text(text)


def _attempt_views(attempts: Sequence[Attempt]) -> list[AttemptView]:
    """Return the last attempts, newest first. Equal tracebacks are shown once; the newest is always shown."""
    shown_at: dict[str, int] = {}
    room = _MAX_TRACEBACK_CHARS
    views = []
    for place in range(len(attempts), max(0, len(attempts) - SHOWN_ATTEMPTS), -1):
        attempt = attempts[place - 1]
        newest, text = place == len(attempts), attempt.traceback
        same_as = shown_at.get(text, 0)
        shown = "" if same_as else masked_text(text)
        if len(shown) > room:
            shown = f"… beginning left out …\n{shown[-room:]}" if newest else ""
        if shown:
            shown_at[text] = place
            room -= min(room, len(shown))
        views.append(_attempt_view(place, attempt, shown, same_as, newest=newest))
    return views


def _attempt_view(place: int, attempt: Attempt, traceback: str, same_as: int, *, newest: bool) -> AttemptView:
    started, failure = attempt.started_at, masked_texts(attempt.failure)
    message = masked_text(attempt.error_message)
    longest = _MAX_MESSAGE_CHARS if newest else _MAX_EARLIER_MESSAGE_CHARS
    same = ("outcome", "worker_id", "finished_at", "delay", "error_type", "fingerprint")
    copied: dict[str, Any] = {name: getattr(attempt, name) for name in same}
    copied |= {name: _typed_value(failure, name, str) or "" for name in ("rule", "code", "origin", "location")}
    return AttemptView(
        place=place,
        number=attempt.attempt,
        started_at=started,
        seconds=None
        if started is None or started >= attempt.finished_at
        else (attempt.finished_at - started).total_seconds(),
        error_message=message if len(message) <= longest else f"{message[:longest]}…",
        category=attempt.error_category,
        retryable=_typed_value(failure, "retryable", bool),
        retry_after=_typed_value(failure, "retry_after", int, float),
        http_status=_typed_value(failure, "http_status", int),
        traceback=traceback,
        same_as=same_as,
        cut=bool(attempt.traceback) and not traceback and not same_as,
        **copied,
    )


def _typed_value(failure: dict[str, Any], name: str, *kinds: type) -> Any:
    """Return a value of a stored failure; None if it has another type, which another version may have written."""
    value = failure.get(name)
    return value if type(value) in kinds else None


_MAX_EDITS = 20
_MAX_CHANGED_VALUES = 30  # of one edit
_MAX_VALUE_CHARS = 300
_MAX_AUDIT_ENTRIES = 20
_EDIT_ACTION = "edit_dead_letter"  # edits are listed separately, with their changes
_ABSENT = object()


class ChangedValue(NamedTuple):
    """A value that an edit changed, masked; None before it was added or after it was removed."""

    path: str
    before: str | None
    after: str | None


def audit_views(store: "Store", *subjects: str) -> list[PageData]:
    """Return the audit entries of these subjects except edits, newest first."""
    found = [entry for subject in subjects for entry in store.audits(subject=subject, limit=_MAX_AUDIT_ENTRIES)]
    return [
        {"at": entry.at, "who": entry.who, "action": entry.action, "reason": masked_text(entry.reason)}
        for entry in sorted(found, key=lambda entry: -entry.id)
        if entry.action != _EDIT_ACTION
    ]


def edit_views(store: "Store", task_id: int) -> list[PageData]:
    """Return the edits of a task with the values that they changed, newest first."""
    return [_edit_view(masked_edit(edit)) for edit in reversed(store.edits(task_id)[-_MAX_EDITS:])]


def _edit_view(edit: PayloadEdit) -> PageData:
    changed = [*_differences(_parse_json(edit.before), _parse_json(edit.after), "")]
    visible = {each.path for each in changed}
    for operation in _patch_operations(edit.patch):
        path = str(operation.get("path", ""))
        if path not in visible and not any(each.startswith(f"{path}/") for each in visible):
            changed.append(ChangedValue(path, "masked", "masked"))  # both values are masked, so they look equal
    shown = tuple(each._replace(path=masked_text(each.path)) for each in changed[:_MAX_CHANGED_VALUES])
    return {
        "at": edit.at,
        "who": edit.who,
        "reason": masked_text(edit.reason),
        "changed": shown,
        "more": len(changed) - len(shown),
    }


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
    return shortened(json.dumps(value, ensure_ascii=False), _MAX_VALUE_CHARS)
