"""Queues and workers: what waits where, who works, and what they have in their hands."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from outlast.ports.read_rows import TaskLine
from outlast.ports.rows import QueueRow, Status, TaskFilter, WorkerRow
from outlast.web.filters import paginate
from outlast.web.routing import ActionResult, ActionRoute, InvalidInputError, NotFoundError, PageRequest, PageRoute
from outlast.web.task_view import masked_line

_PATH = "/queues"
# Rows: a page stays below 100 kB with all that it loads.
_QUEUES = 25
_WORKERS = 15
_MAX_UNSERVED = 10
_MAX_TASKS = 200  # tasks in hand that one page tells
_MAX_TASKS_PER_WORKER = 6  # of one worker
_MAX_NAME_CHARS = 200


class WorkerTasks(NamedTuple):
    """A worker and what it has in its hands.

    Attributes:
        worker: Who.
        says: ``running``, ``silent`` when its lease ran out, or why it does not claim.
        tasks: The newest tasks that it holds.
        more: How many it holds besides.
    """

    worker: WorkerRow
    says: str
    tasks: list[TaskLine]
    more: int


def read_queues(asked: PageRequest) -> Mapping[str, Any]:
    """Return the queues and the workers."""
    store = asked.app.store
    workers = sorted(store.workers(), key=lambda each: (each.alive, each.name))
    served = {name for worker in workers if worker.alive for name in worker.queues}
    queues = _add_empty_queues(store.queues(), served)
    shown, queue_part = paginate(queues, asked.query, "queue_page", _QUEUES)
    known, worker_part = paginate(workers, asked.query, "worker_page", _WORKERS)
    held = store.task_lines(TaskFilter(status=Status.RUNNING, limit=_MAX_TASKS)).rows if workers else []
    unserved = [queue.name for queue in queues if queue.ready and not queue.paused and queue.name not in served]
    return {
        "queues": shown,
        "workers": [_worker_tasks(worker, held) for worker in known],
        "pages": {"queues": queue_part, "workers": worker_part},
        "totals": {
            "ready": sum(queue.ready for queue in queues),
            "scheduled": sum(queue.scheduled for queue in queues),
            "running": sum(queue.running for queue in queues),
            "parked": sum(queue.parked for queue in queues),
            "paused": sum(queue.paused for queue in queues),
            "alive": sum(worker.alive for worker in workers),
            "silent": sum(not worker.alive for worker in workers),
        },
        "unserved": unserved[:_MAX_UNSERVED],
        "more_unserved": max(0, len(unserved) - _MAX_UNSERVED),
    }


def _add_empty_queues(queues: list[QueueRow], served: set[str]) -> list[QueueRow]:
    """Return queues by name, also those that are empty and that workers look into: one of them can be paused."""
    empty = served - {queue.name for queue in queues}
    more = [QueueRow(name, paused=False, ready=0, scheduled=0, running=0, parked=0) for name in empty]
    return sorted([*queues, *more], key=lambda queue: queue.name)


def _worker_tasks(worker: WorkerRow, held: list[TaskLine]) -> WorkerTasks:
    tasks = [row for row in held if row.worker_id == worker.id][:_MAX_TASKS_PER_WORKER]
    says = masked_line(worker.state) if worker.alive else "silent"
    return WorkerTasks(worker._replace(state=says), says, tasks, max(0, worker.tasks - len(tasks)))


def pause(asked: PageRequest) -> ActionResult:
    """Have nothing claimed from a queue; one that nobody has used yet can be paused too."""
    return _pause_queue(asked, asked.path["name"])


def pause_named(asked: PageRequest) -> ActionResult:
    """Do the same for a queue whose name was typed."""
    return _pause_queue(asked, "".join(asked.form.get("name", [])[:1]).strip())


def _pause_queue(asked: PageRequest, name: str) -> ActionResult:
    if not name or len(name) > _MAX_NAME_CHARS:
        message = f"give the name of a queue, of {_MAX_NAME_CHARS} characters at most"
        raise InvalidInputError(message)
    known = {row.name for row in asked.app.tasks.queues()}
    asked.app.tasks.pause(name)
    more = "" if name in known else "; it has no tasks yet"
    return ActionResult(
        f"queue {name} is paused{more}: what runs is left to run", _PATH, {"queue": name, "paused": True}
    )


def resume(asked: PageRequest) -> ActionResult:
    """Have a queue claimed from again.

    Raises:
        NotThereError: If it is neither paused nor has tasks.
    """
    name = asked.path["name"]
    paused = {row.name: row.paused for row in asked.app.tasks.queues()}
    if name not in paused:
        message = f"queue {name} is not paused and has no tasks; is the name right?"
        raise NotFoundError(message)
    asked.app.tasks.resume(name)
    message = f"queue {name} is open again" if paused[name] else f"queue {name} was not paused"
    return ActionResult(message, _PATH, {"queue": name, "paused": False})


PAGES = (PageRoute("queues", _PATH, "queues.html", read_queues),)
ACTIONS = (
    ActionRoute("pause_named_queue", f"{_PATH}/pause", pause_named),
    ActionRoute("pause_queue", f"{_PATH}/{{name}}/pause", pause),
    ActionRoute("resume_queue", f"{_PATH}/{{name}}/resume", resume),
)
