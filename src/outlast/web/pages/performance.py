"""The page of task performance: throughput, failure rate, durations and queue latency."""

from outlast.ports.read_rows import FlowEvent
from outlast.report.flow import steps_of
from outlast.report.performance import latency_over_time, performance_by_task
from outlast.web.charts import Series, stacked_chart
from outlast.web.filters import choice_param, text_param
from outlast.web.pages.overview import read_marks
from outlast.web.routing import PageData, PageRequest, PageRoute

_RANGES = {
    "1h": (3_600.0, 120.0, "1 hour"),
    "24h": (86_400.0, 3_600.0, "24 hours"),
    "7d": (604_800.0, 21_600.0, "7 days"),
}
_ROWS = 60


def _read_performance(request: PageRequest) -> PageData:
    store, query = request.app.store, request.query
    name = choice_param(query, "range", _RANGES) or "24h"
    window, step, _ = _RANGES[name]
    task = text_param(query, "task")
    sample = store.finished_sample(window=window)
    flow = store.pulse(window=window, step=step).flow
    ended = sum(point.count for point in flow if point.event in {FlowEvent.DONE, FlowEvent.FAILED})
    rows = [row for row in performance_by_task(sample, ended * 60.0 / window) if task in {None, row.task_type}]
    steps, marks = steps_of(store.now(), window, step), read_marks(store, window)
    latency = latency_over_time([each for each in sample if task in {None, each.task_type}], steps, step)
    milliseconds = tuple(round(each * 1000) for each in latency)
    series = Series("done", "", False, "Latency", ("ms", "ms"), milliseconds, "performance", {"range": name})  # noqa: FBT003
    return {
        "range": name,
        "task": task,
        "tasks": rows[:_ROWS],
        "sampled": len(sample),
        "latency": {"steps": steps, "p95": latency},
        "marks": marks,
        "_more": max(0, len(rows) - _ROWS),
        "_ranges": [(each, label) for each, (*_, label) in _RANGES.items()],
        "_chart": stacked_chart(
            "chart-latency", "Queue latency, 95th percentile in ms", [series], steps, step, marks=marks
        ),
    }


PAGES = (PageRoute("performance", "/performance", "performance.html", _read_performance),)
