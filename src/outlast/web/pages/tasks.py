"""The pages of tasks: the list, one task and its live updates, periodic tasks, and performance."""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from shlex import quote
from urllib.parse import urlencode

from outlast.operations import NAME, QUEUE, ROW, Parameter, choice_kind
from outlast.ports.read_rows import MAX_ROWS_SCANNED, FlowEvent, TaskLine
from outlast.ports.rows import DeadLetterFilter, Status, Task, TaskFilter
from outlast.ports.store import Store
from outlast.ports.triage import ChartMark
from outlast.queue.masking import masked_row, task_search
from outlast.report.dead_letters import STATUS_TEXTS, blocked_reason
from outlast.report.flow import steps_of
from outlast.report.performance import TaskPerformance, latency_over_time, performance_by_task
from outlast.web.charts import Series, stacked_chart
from outlast.web.pages.overview import RANGES, read_marks
from outlast.web.routing import BEFORE, PageData, PageRequest, PageRoute, page_parameter, paginate, require
from outlast.web.task_view import TaskView, audit_views, edit_views, masked_line, task_view

GONE_MARK = "gone"
"""Mark of a task that does not exist any more."""
_TASK_VIEW = re.compile(r"task-([1-9]\d{0,18})", re.ASCII)
_MAX_ID = 2**63 - 1  # largest integer of both databases


def watched_task_ids(views: Iterable[str]) -> list[int]:
    """Return the numbers of the tasks that these live views show, lowest first."""
    numbers = {int(found[1]) for view in views if (found := _TASK_VIEW.fullmatch(view))}
    return sorted(number for number in numbers if number <= _MAX_ID)


def task_mark(task: "Task | None") -> str:
    """Return a mark that changes whenever the page of a task would change."""
    if task is None:
        return GONE_MARK
    times = f"{task.updated_at.timestamp():.3f}-{task.next_run_after.timestamp():.3f}"
    return f"{task.status}-{task.lease_epoch}-{task.attempt}-{times}"


def task_update(view: str, marks: Mapping[int, str]) -> tuple[str, PageData] | None:
    """Return the template and the data that update the live view of a task; None if its mark is unknown.

    Args:
        view: Name of the view.
        marks: Marks by the number of the task.
    """
    number = next(iter(watched_task_ids([view])), 0)
    return ("task_mark.html", {"mark": marks[number]}) if number in marks else None


_PATH = "/tasks"
_ROWS = 40
_WAITING = {Status.QUEUED, Status.PARKED}
_ENDED = {Status.DONE, Status.CANCELLED, Status.DISCARDED}


def read_tasks(request: PageRequest) -> PageData:
    """Return a page of tasks, newest first, and the number of tasks of each status."""
    store, values = request.app.store, request.values
    given = {name: value for name, value in values.items() if value and name != BEFORE.name}
    status, text, before = values["status"] and Status(values["status"]), values["text"], values["before"]
    search = text and task_search(text)
    found = store.task_lines(TaskFilter(status, values["queue"], values["task"], before, _ROWS, search))
    counts = store.counts()
    by_number = _task_by_number(store, text) if text and len(given) == 1 and before is None else []
    return {
        "rows": [masked_row(row, masked_line) for row in {row.id: row for row in (*by_number, *found.rows)}.values()],
        "next": found.next,
        "looked": found.looked,
        "stopped": found.next is not None and len(found.rows) < _ROWS,
        "given": given,
        "first_page": before is None,
        "counts": {str(each): counts.get(each, 0) for each in Status},
        "known_tasks": sorted(request.app.tasks_by_name),
        "_back": urlencode(given),
        "_look": MAX_ROWS_SCANNED,
        "_stands": STATUS_TEXTS,
    }


def _task_by_number(store: Store, text: str) -> list[TaskLine]:
    """Return the task that has the text as its id."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < _MAX_ID):
        return []
    rows = store.task_lines(TaskFilter(before=int(text) + 1, limit=1)).rows
    return [row for row in rows if row.id == int(text)]


def read_task(request: PageRequest) -> PageData:
    """Return a task with its history.

    Raises:
        LookupError: If the task does not exist.
    """
    store, task = request.app.store, _find_task(request)
    dead_letter = _dead_letter_number(store, task)
    subjects = [f"task:{task.id}", *([] if dead_letter is None else [f"dead_letter:{dead_letter}"])]
    due = task.status is Status.QUEUED and task.next_run_after <= store.now()
    return {
        "history": task_view(store, task),
        "dead_letter_id": dead_letter,
        "edits": edit_views(store, task.id),
        "by_hand": audit_views(store, *subjects),
        "waiting": task.status in _WAITING,
        "_mark": "" if task.status in _ENDED else task_mark(task),
        "due": due,
        "held_up": blocked_reason(task, store.queues(), store.workers()) if task.status is Status.QUEUED else "",
        "stands": STATUS_TEXTS[task.status],
        "shell": f"outlast tasks show {task.id} --app {quote(request.reference)}",
    }


def _find_task(request: PageRequest) -> Task:
    message = f"task {request.path['task_id']} does not exist: finished tasks are pruned after a while"
    return require(request.app.store.get(request.values["task_id"]), message)


def _dead_letter_number(store: Store, task: Task) -> int | None:
    """Return the number of a task's dead letter, found by the time at which the task failed; None if there is none."""
    if task.status is not Status.FAILED or task.failed_at is None:
        return None
    criteria = DeadLetterFilter(
        task_type=task.task_type, since=task.failed_at, until=task.failed_at + timedelta(milliseconds=1), limit=500
    )
    return next((row.id for row in store.dead_letter_lines(criteria).rows if row.original_task_id == task.id), None)


def _read_periodic(request: PageRequest) -> PageData:
    rows, part = paginate(request.app.store.periodic(), request.values["page"], _ROWS)
    return {
        "tasks": [{**row._asdict(), "here": row.name in request.app.schedule.names()} for row in rows],
        "pages": {"tasks": part},
    }


_PERFORMANCE_RANGES = {each.name: each for each in RANGES[1:]}  # ten minutes say little about percentiles
_MAX_PERFORMANCE_ROWS = 60
_LATENCY_UNITS = (("ms", 0.001, 10.0), ("s", 1.0, 600.0), ("min", 60.0, math.inf))


def _read_performance(request: PageRequest) -> PageData:
    store, name, task = request.app.store, request.values["range"], request.values["task"]
    _, _, window, step = _PERFORMANCE_RANGES[name]
    sample = store.finished_sample(window=window)
    flow = store.pulse(window=window, step=step).flow
    ended = sum(point.count for point in flow if point.event in {FlowEvent.DONE, FlowEvent.FAILED})
    rows = [row for row in performance_by_task(sample, ended * 60.0 / window) if task in {None, row.task_type}]
    sample = [each for each in sample if task in {None, each.task_type}]
    steps, marks = steps_of(store.now(), window, step), read_marks(store, window)
    latency = latency_over_time(sample, steps, step)
    unit, size = next((unit, size) for unit, size, most in _LATENCY_UNITS if max(latency) < most)
    counts = tuple(round(each / size) for each in latency)
    series = Series("done", False, "Latency", (unit, unit), counts, "performance", {"range": name})  # noqa: FBT003
    return {
        "range": name,
        "task": task,
        "tasks": rows[:_MAX_PERFORMANCE_ROWS],
        "sampled": len(sample),
        "latency": {"steps": steps, "p95": latency},
        "marks": marks,
        "_more": max(0, len(rows) - _MAX_PERFORMANCE_ROWS),
        "_ranges": _PERFORMANCE_RANGES.values(),
        "_chart": stacked_chart(
            "chart-latency", f"Queue latency, 95th percentile in {unit}", [series], steps, step, marks=marks
        ),
    }


_TASK = Parameter("task", NAME, "Only this task.")
_FILTERS = (
    Parameter("status", choice_kind(Status), "Only tasks with this status."),
    Parameter("queue", QUEUE, "Only tasks of this queue."),
    _TASK,
    Parameter("text", NAME, "An id, a unique key, or a part of the arguments as JSON text."),
    BEFORE,
)
_ID = Parameter("task_id", ROW, "The id of the task.", required=True)
_SCOPE = (Parameter("range", choice_kind(_PERFORMANCE_RANGES), "The time range.", default="24h"), _TASK)
_LIST = {"rows": list[TaskLine], "next": str | None, "counts": dict[str, int]}
_ONE = {"history": TaskView, "dead_letter_id": int | None, "edits": list[PageData]}
_PERIODIC = {"tasks": list[PageData]}
_PERFORMANCE = {"tasks": list[TaskPerformance], "sampled": int, "marks": list[ChartMark]}
PAGES = (
    PageRoute("tasks", _PATH, "tasks.html", read_tasks, _FILTERS, _LIST),
    PageRoute("task", f"{_PATH}/{{task_id}}", "task.html", read_task, (_ID,), _ONE),
    PageRoute("periodic", "/periodic", "periodic.html", _read_periodic, (page_parameter("page"),), _PERIODIC),
    PageRoute("performance", "/performance", "performance.html", _read_performance, _SCOPE, _PERFORMANCE),
)
