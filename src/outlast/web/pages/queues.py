"""The page of queues and workers, with the actions that pause and resume queues."""

from outlast.ports.read_rows import TaskLine
from outlast.ports.rows import QueueRow, Status, TaskFilter, WorkerRow
from outlast.web.routing import PageData, PagePosition, PageRequest, PageRoute, page_parameter, paginate
from outlast.web.task_view import masked_line

# Rows: a page stays below 100 kB with all that it loads.
_QUEUES = 25
_WORKERS = 15
_MAX_UNSERVED = 10
_MAX_TASKS = 200  # claimed tasks that are read for the page
_MAX_TASKS_PER_WORKER = 6


def read_queues(request: PageRequest) -> PageData:
    """Return the queues and the workers."""
    store = request.app.store
    workers = sorted(store.workers(), key=lambda each: (each.alive, each.name))
    served = {name for worker in workers if worker.alive for name in worker.queues}
    queues = _add_empty_queues(store.queues(), served)
    shown_queues, queue_part = paginate(queues, request.values["queue_page"], _QUEUES)
    shown_workers, worker_part = paginate(workers, request.values["worker_page"], _WORKERS)
    claimed = store.task_lines(TaskFilter(status=Status.RUNNING, limit=_MAX_TASKS)).rows if workers else []
    unserved = [queue.name for queue in queues if queue.ready and not queue.paused and queue.name not in served]
    return {
        "queues": shown_queues,
        "workers": [_worker_tasks(worker, claimed) for worker in shown_workers],
        "pages": {"queues": queue_part, "workers": worker_part},
        "totals": {
            **{
                name: sum(getattr(queue, name) for queue in queues)
                for name in ("ready", "scheduled", "running", "parked", "paused")
            },
            "alive": sum(worker.alive for worker in workers),
            "silent": sum(not worker.alive for worker in workers),
        },
        "unserved": unserved[:_MAX_UNSERVED],
        "more_unserved": max(0, len(unserved) - _MAX_UNSERVED),
    }


def _add_empty_queues(queues: list[QueueRow], served: set[str]) -> list[QueueRow]:
    """Return queues by name, including empty ones that workers serve, so that they can be paused."""
    empty = served - {queue.name for queue in queues}
    more = [QueueRow(name, paused=False, ready=0, scheduled=0, running=0, parked=0) for name in empty]
    return sorted([*queues, *more], key=lambda queue: queue.name)


def _worker_tasks(worker: WorkerRow, claimed: list[TaskLine]) -> PageData:
    """Return a worker, its state (``silent`` if its lease expired) and the newest tasks that it has claimed."""
    tasks = [row for row in claimed if row.worker_id == worker.id][:_MAX_TASKS_PER_WORKER]
    state = masked_line(worker.state) if worker.alive else "silent"
    more = max(0, worker.tasks - len(tasks))
    return {"worker": worker._replace(state=state), "says": state, "tasks": tasks, "more": more}


_PARAMETERS = (page_parameter("queue_page"), page_parameter("worker_page"))
_RETURNS = {"queues": list[QueueRow], "workers": list[PageData], "pages": dict[str, PagePosition]}
PAGES = (PageRoute("queues", "/queues", "queues.html", read_queues, _PARAMETERS, _RETURNS),)
