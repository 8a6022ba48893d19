"""Tasks: which there are, how each came to where it stands, and what can be done about it."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from shlex import quote
from typing import TYPE_CHECKING, Any

from outlast.ports.read_rows import MAX_ROWS_SCANNED, TaskLine
from outlast.ports.rows import DeadLetterFilter, Status, Task, TaskFilter
from outlast.queue.masking import masked_text
from outlast.report.dead_letters import STATUS_TEXTS, blocked_reason
from outlast.web.filters import choice_param, row_param, text_param
from outlast.web.routing import ActionResult, ActionRoute, NotFoundError, PageRequest, PageRoute, parse_row_number
from outlast.web.task_view import audit_views, edit_views, masked_line, task_view

if TYPE_CHECKING:
    from outlast.ports.store import Store


# Tasks whose pages are open: each is looked at from time to time, and its page is told when it moved on.

GONE_MARK = "gone"
"""Mark of a task that is not there any more."""
_TASK_VIEW = re.compile(r"task-([1-9]\d{0,18})", re.ASCII)
_MAX_ID = 2**63 - 1  # what both databases hold


def watched_task_ids(views: Iterable[str]) -> list[int]:
    """Return the numbers of the tasks whose pages are among these, the lowest first."""
    numbers = {int(found[1]) for view in views if (found := _TASK_VIEW.fullmatch(view))}
    return sorted(number for number in numbers if number <= _MAX_ID)


def task_mark(task: "Task | None") -> str:
    """Return a word that is another one as soon as the page of a task would show something else."""
    if task is None:
        return GONE_MARK
    moments = f"{task.updated_at.timestamp():.3f}-{task.next_run_after.timestamp():.3f}"
    return f"{task.status}-{task.lease_epoch}-{task.attempt}-{moments}"


def task_update(view: str, marks: Mapping[int, str]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the template that tells the page of a task how it stands, and what it shows; None where that is not known.

    Args:
        view: The page.
        marks: By the number of the task.
    """
    number = next(iter(watched_task_ids([view])), 0)
    return ("task_mark.html", {"mark": marks[number]}) if number in marks else None


_PATH = "/tasks"
_ROWS = 50
_WAITING = {Status.QUEUED, Status.PARKED}
_ENDED = {Status.DONE, Status.CANCELLED, Status.DISCARDED}


def read_tasks(asked: PageRequest) -> Mapping[str, Any]:
    """Return a page of tasks, newest first, and how many there are of each status."""
    store, query = asked.app.store, asked.query
    status = choice_param(query, "status", Status)
    which = TaskFilter(
        status=None if status is None else Status(status),
        queue=text_param(query, "queue"),
        task_type=text_param(query, "task"),
        before=row_param(query),
        limit=_ROWS,
    )
    found = store.task_lines(which)
    counts = store.counts()
    given = {"status": status, "queue": which.queue, "task": which.task_type}
    return {
        "rows": [_mask_line(row) for row in found.rows],
        "next": found.next,
        "looked": found.looked,
        "stopped": found.next is not None and len(found.rows) < _ROWS,
        "given": {name: value for name, value in given.items() if value},
        "first_page": which.before is None,
        "counts": {str(each): counts.get(each, 0) for each in Status},
        "known_tasks": sorted(asked.app.tasks_by_name),
        "_look": MAX_ROWS_SCANNED,
        "_stands": STATUS_TEXTS,
    }


def _mask_line(row: TaskLine) -> TaskLine:
    return row._replace(
        last_error=None if row.last_error is None else masked_line(row.last_error),
        resource=None if row.resource is None else masked_text(row.resource),
    )


def read_task(asked: PageRequest) -> Mapping[str, Any]:
    """Return a task with its history.

    Raises:
        NotThereError: If there is none of that number (any more).
    """
    store, task = asked.app.store, _find_task(asked)
    letter = _dead_letter_number(store, task)
    subjects = [f"task:{task.id}", *([] if letter is None else [f"dead_letter:{letter}"])]
    due = task.status is Status.QUEUED and task.next_run_after <= store.now()
    return {
        "history": task_view(store, task),
        "letter": letter,
        "edits": edit_views(store, task.id),
        "by_hand": audit_views(store, *subjects),
        "waiting": task.status in _WAITING,
        "_mark": "" if task.status in _ENDED else task_mark(task),
        "due": due,
        "held_up": blocked_reason(task, store.queues(), store.workers()) if task.status is Status.QUEUED else "",
        "stands": STATUS_TEXTS[task.status],
        "shell": f"outlast tasks show {task.id} --app {quote(asked.reference)}",
    }


def _find_task(asked: PageRequest) -> Task:
    task = asked.app.store.get(parse_row_number(asked.path["number"]))
    if task is None:
        message = f"there is no task {asked.path['number']} (any more): finished ones are kept for a while only"
        raise NotFoundError(message)
    return task


def _dead_letter_number(store: "Store", task: Task) -> int | None:
    """Return the number of a task's dead letter, which was written in the moment in which it failed."""
    if task.status is not Status.FAILED or task.failed_at is None:
        return None
    then = DeadLetterFilter(
        task_type=task.task_type, since=task.failed_at, until=task.failed_at + timedelta(milliseconds=1), limit=500
    )
    return next((row.id for row in store.dead_letter_lines(then).rows if row.original_task_id == task.id), None)


def cancel(asked: PageRequest) -> ActionResult:
    """Cancel a task that waits; what runs is left to run."""
    task = _find_task(asked)
    if asked.app.tasks.cancel(task.id):
        return _changed_result(task, f"task {task.id} was cancelled", "cancelled")
    return _unchanged_result(asked, task, "only a task that waits can be cancelled")


def run_now(asked: PageRequest) -> ActionResult:
    """Make a task that waits due now."""
    task = _find_task(asked)
    if asked.app.tasks.run_now(task.id):
        return _changed_result(task, f"task {task.id} is due now", "hurried")
    return _unchanged_result(asked, task, "only a task that waits can be made due now")


def _changed_result(task: Task, message: str, outcome: str) -> ActionResult:
    return ActionResult(message, f"{_PATH}/{task.id}", {"outcome": outcome, "number": task.id})


def _unchanged_result(asked: PageRequest, task: Task, why: str) -> ActionResult:
    stands = _find_task(asked).status
    message = f"task {task.id} is {stands.lower()}, and was left as it is: {why}"
    return ActionResult(
        message, f"{_PATH}/{task.id}", {"outcome": "left", "number": task.id, "status": stands}, ok=False
    )


PAGES = (
    PageRoute("tasks", _PATH, "tasks.html", read_tasks),
    PageRoute("task", f"{_PATH}/{{number}}", "task.html", read_task),
)
ACTIONS = (
    ActionRoute("cancel_task", f"{_PATH}/{{number}}/cancel", cancel),
    ActionRoute("hurry_task", f"{_PATH}/{{number}}/hurry", run_now),
)
