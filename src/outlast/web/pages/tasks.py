"""Tasks: which there are, how each came to where it stands, and what can be done about it."""

from collections.abc import Mapping
from datetime import timedelta
from shlex import quote
from typing import TYPE_CHECKING, Any

from outlast.ports.read_rows import TaskLine
from outlast.ports.reads import MOST_LOOKED_AT
from outlast.ports.rows import DeadLetterFilter, Status, Task, TaskFilter
from outlast.queue.masking import masked_text
from outlast.report.lines import STANDS, held_up
from outlast.web.lineage import by_hand, lineage_of
from outlast.web.live.watched_tasks import mark_of
from outlast.web.narrowing import before_of, choice_of, text_of
from outlast.web.routing import Action, Asked, Done, NotThereError, Page, number
from outlast.web.task_view import masked_line, task_view

if TYPE_CHECKING:
    from outlast.ports.store import Store

__all__ = ["ACTIONS", "PAGES"]

_PATH = "/tasks"
_ROWS = 50
_WAITING = {Status.QUEUED, Status.PARKED}
_OVER = {Status.DONE, Status.CANCELLED, Status.DISCARDED}


def read_tasks(asked: Asked) -> Mapping[str, Any]:
    """Return a page of tasks, newest first, and how many there are of each status."""
    store, query = asked.app.store, asked.query
    status = choice_of(query, "status", Status)
    which = TaskFilter(
        status=None if status is None else Status(status),
        queue=text_of(query, "queue"),
        task_type=text_of(query, "task"),
        before=before_of(query),
        limit=_ROWS,
    )
    found = store.task_lines(which)
    counts = store.counts()
    given = {"status": status, "queue": which.queue, "task": which.task_type}
    return {
        "rows": [_line(row) for row in found.rows],
        "next": found.next,
        "looked": found.looked,
        "stopped": found.next is not None and len(found.rows) < _ROWS,
        "given": {name: value for name, value in given.items() if value},
        "first_page": which.before is None,
        "counts": {str(each): counts.get(each, 0) for each in Status},
        "known_tasks": sorted(asked.app.tasks_by_name),
        "_look": MOST_LOOKED_AT,
        "_stands": STANDS,
    }


def _line(row: TaskLine) -> TaskLine:
    return row._replace(
        last_error=None if row.last_error is None else masked_line(row.last_error),
        resource=None if row.resource is None else masked_text(row.resource),
    )


def read_task(asked: Asked) -> Mapping[str, Any]:
    """Return a task with its history.

    Raises:
        NotThereError: If there is none of that number (any more).
    """
    store, task = asked.app.store, _task(asked)
    letter = _letter_of(store, task)
    subjects = [f"task:{task.id}", *([] if letter is None else [f"dead_letter:{letter}"])]
    due = task.status is Status.QUEUED and task.next_run_after <= store.now()
    return {
        "history": task_view(store, task),
        "letter": letter,
        "edits": lineage_of(store, task.id),
        "by_hand": by_hand(store, *subjects),
        "waiting": task.status in _WAITING,
        "_mark": "" if task.status in _OVER else mark_of(task),
        "due": due,
        "held_up": held_up(task, store.queues(), store.workers()) if task.status is Status.QUEUED else "",
        "stands": STANDS[task.status],
        "shell": f"outlast tasks show {task.id} --app {quote(asked.reference)}",
    }


def _task(asked: Asked) -> Task:
    task = asked.app.store.get(number(asked.path["number"]))
    if task is None:
        message = f"there is no task {asked.path['number']} (any more): finished ones are kept for a while only"
        raise NotThereError(message)
    return task


def _letter_of(store: "Store", task: Task) -> int | None:
    """Return the number of a task's dead letter, which was written in the moment in which it failed."""
    if task.status is not Status.FAILED or task.failed_at is None:
        return None
    then = DeadLetterFilter(
        task_type=task.task_type, since=task.failed_at, until=task.failed_at + timedelta(milliseconds=1), limit=500
    )
    return next((row.id for row in store.dead_letter_lines(then).rows if row.original_task_id == task.id), None)


def cancel(asked: Asked) -> Done:
    """Cancel a task that waits; what runs is left to run."""
    task = _task(asked)
    if asked.app.tasks.cancel(task.id):
        return _done(task, f"task {task.id} was cancelled", "cancelled")
    return _left(asked, task, "only a task that waits can be cancelled")


def hurry(asked: Asked) -> Done:
    """Make a task that waits due now."""
    task = _task(asked)
    if asked.app.tasks.hurry(task.id):
        return _done(task, f"task {task.id} is due now", "hurried")
    return _left(asked, task, "only a task that waits can be made due now")


def _done(task: Task, message: str, outcome: str) -> Done:
    return Done(message, f"{_PATH}/{task.id}", {"outcome": outcome, "number": task.id})


def _left(asked: Asked, task: Task, why: str) -> Done:
    stands = _task(asked).status
    message = f"task {task.id} is {stands.lower()}, and was left as it is: {why}"
    return Done(message, f"{_PATH}/{task.id}", {"outcome": "left", "number": task.id, "status": stands}, ok=False)


PAGES = (
    Page("tasks", _PATH, "tasks.html", read_tasks),
    Page("task", f"{_PATH}/{{number}}", "task.html", read_task),
)
ACTIONS = (
    Action("cancel_task", f"{_PATH}/{{number}}/cancel", cancel),
    Action("hurry_task", f"{_PATH}/{{number}}/hurry", hurry),
)
