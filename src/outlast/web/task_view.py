"""A task as pages show it: its arguments masked, its history drawn and told."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from outlast.ports.rows import Attempt, Cooldown, Task
from outlast.ports.store import Store
from outlast.queue.masking import masked_arguments, masked_text
from outlast.report.timeline import Timeline, timeline

__all__ = ["AttemptView", "TaskView", "masked_line", "payload_text", "task_view"]

MOST_ATTEMPTS = 15
"""Attempts that a page lists, the last ones."""
# Characters: a page stays below 100 kB with all that it loads, whatever is shown.
_LONGEST_PAYLOAD = 6_000
_LONGEST_MESSAGE = 4_096
_LONGEST_EARLIER_MESSAGE = 400
_LONGEST_LINE, _LOOKED_THROUGH = 240, 1024
_TRACEBACKS = 12_000  # for all attempts together


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
        resource=_masked(task.resource),
        unique_key=_masked(task.unique_key),
        last_error=_masked(task.last_error),
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
    return text[:_LONGEST_PAYLOAD], len(text) > _LONGEST_PAYLOAD


def masked_line(text: str | None) -> str:
    """Return a text without its secrets, in one line that a list has room for.

    No more of it is looked through than could be shown: fifty long texts would take longer than all the rest of a page.
    """
    line = " ".join(masked_text(text[:_LOOKED_THROUGH]).split()) if text else ""
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def _masked(text: str | None) -> str | None:
    return None if text is None else masked_text(text)[:_LONGEST_MESSAGE]


def _attempt_views(attempts: Sequence[Attempt]) -> list[AttemptView]:
    """Return the last attempts, newest first; a traceback that comes again is shown once, the newest in any case."""
    shown_at: dict[str, int] = {}
    room = _TRACEBACKS
    views = []
    for place in range(len(attempts), max(0, len(attempts) - MOST_ATTEMPTS), -1):
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
    longest = _LONGEST_MESSAGE if newest else _LONGEST_EARLIER_MESSAGE
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
        rule=_word(failure, "rule"),
        retryable=_of(failure, "retryable", bool),
        retry_after=_of(failure, "retry_after", int, float),
        http_status=_of(failure, "http_status", int),
        code=_word(failure, "code"),
        origin=_word(failure, "origin"),
        location=_word(failure, "location"),
        traceback=traceback,
        same_as=same_as,
        cut=bool(attempt.traceback) and not traceback and not same_as,
    )


def _word(failure: dict[str, Any], name: str) -> str:
    value = failure.get(name)
    return masked_text(value) if isinstance(value, str) else ""


def _of(failure: dict[str, Any], name: str, *kinds: type) -> Any:
    """Return a value of a stored failure; None for one of another kind, which another version may have written."""
    value = failure.get(name)
    return value if type(value) in kinds else None
