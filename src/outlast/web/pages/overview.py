"""The overview: is it well, what fails and since when, what waits for what, what changed in the last hour."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from outlast.ports.read_rows import FlowEvent, Pulse
from outlast.report.changes import told
from outlast.report.flow import Flow, failing, flow_of, happened, is_young
from outlast.report.overview import headline, rise
from outlast.web.charts import Chart, Series, category_series, spark, stacked
from outlast.web.live.board import Board, read_board
from outlast.web.routing import Action, Asked, Page
from outlast.web.task_view import masked_line

__all__ = ["ACTIONS", "FINEST", "LIVE", "PAGES", "WINDOW", "Range", "overview_of"]


class Range(NamedTuple):
    """A stretch of time that the charts can show.

    Attributes:
        name: In the address.
        label: For people.
        window: Seconds.
        step: Seconds that one bar covers.
    """

    name: str
    label: str
    window: float
    step: float


_MINUTES = Range("10m", "10 minutes", 600.0, 20.0)
_HOUR = Range("1h", "1 hour", 3_600.0, 120.0)
_RANGES = (_MINUTES, _HOUR, Range("24h", "24 hours", 86_400.0, 3_600.0), Range("7d", "7 days", 7 * 86_400.0, 21_600.0))
LIVE = {"overview": _HOUR, "overview-10m": _MINUTES}
"""The ranges that are kept up to date, by the view that shows them."""
WINDOW, FINEST = _HOUR.window, _MINUTES.step
"""One pulse of this window and step has what all of them need."""
_MINUTE = 60.0


def overview_of(pulse: Pulse, board: Board | None, chosen: Range) -> dict[str, Any]:
    """Return what the overview shows and its twin tells.

    Args:
        pulse: What is known of this moment.
        board: What is known beside it; None while it is still being read.
        chosen: What the charts show.
    """
    masked = pulse._replace(changes=tuple(_masked(change) for change in pulse.changes))
    flow = flow_of(pulse.flow, pulse.at, chosen.window, chosen.step)
    return {
        "at": pulse.at,
        "range": chosen.name,
        "headline": headline(masked),
        "counts": pulse.counts,
        "last_hour": _hour(pulse.last_hour),
        "hour_before": _hour(pulse.hour_before),
        "retries_waiting": pulse.retries_waiting,
        "oldest_ready": pulse.oldest_ready,
        "workers": pulse.workers,
        "silent_workers": pulse.silent_workers,
        "sources": pulse.sources,
        "cooldowns": pulse.cooldowns,
        "open_breakers": pulse.open_breakers,
        "paused_queues": pulse.paused_queues,
        "alerts_waiting": pulse.alerts_waiting,
        "running_jobs": pulse.running_jobs,
        "changes": told(masked),
        "flow": flow,
        "groups": board.groups if board else None,
        "waits": board.waits if board else None,
        "_ranges": _RANGES,
        "_view": next((view for view, each in LIVE.items() if each is chosen), ""),
        "_rising": rise(failing(pulse.last_hour), failing(pulse.hour_before)),
        "_failures": _failures(flow),
        "_throughput": _throughput(flow),
        "_trends": _trends(board),
    }


def _overview(asked: Asked) -> Mapping[str, Any]:
    chosen = next((each for each in _RANGES if each.name == asked.query.get("range")), None)
    store = asked.app.store
    if chosen is None:
        pulse = store.pulse(window=WINDOW, step=FINEST)
        chosen = _MINUTES if is_young(pulse) else _HOUR
    else:
        pulse = store.pulse(window=chosen.window, step=chosen.step)
    return overview_of(pulse, read_board(store, pulse.at), chosen)


def _masked(change: Any) -> Any:
    return change._replace(name=masked_line(change.name), text=masked_line(change.text))


def _hour(counts: Mapping[tuple[FlowEvent, str], int]) -> dict[str, int]:
    return {
        "done": happened(counts, FlowEvent.DONE),
        "enqueued": happened(counts, FlowEvent.ENQUEUED),
        "failures": failing(counts),
        "dead": happened(counts, FlowEvent.FAILED),
    }


def _failures(flow: Flow) -> Chart:
    return stacked("chart-failures", "Failures by category", category_series(flow.failures), flow.steps, flow.step)


def _throughput(flow: Flow) -> Chart:
    noun = ("task done", "tasks done")
    series = Series("done", "", False, "Tasks done", noun, flow.done, "tasks", {"status": "DONE"})  # noqa: FBT003
    return stacked("chart-done", "Tasks done per minute", [series], flow.steps, flow.step, per=_MINUTE)


def _trends(board: Board | None) -> dict[str, Any]:
    groups = board.groups if board else ()
    return {group.fingerprint: spark(group.trend, "Failures in the last 24 hours") for group in groups}


PAGES: tuple[Page, ...] = (Page("overview", "/", "overview.html", _overview),)
ACTIONS: tuple[Action, ...] = ()
