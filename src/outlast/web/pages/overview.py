"""The overview page: the headline, charts of failures and throughput, failing groups, waits and recent changes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from outlast.operations import Parameter, choice_kind
from outlast.ports.read_rows import BreakerRow, FailureFilter, FailureGroup, FlowEvent, FlowPoint, Pulse
from outlast.ports.triage import ChartMark
from outlast.queue.masking import masked_row
from outlast.report.breakers import breakers_by_resource
from outlast.report.flow import Flow, FlowCounts, event_count, failed_attempts, flow_of, series_of, steps_of
from outlast.report.overview import ChangeLine, Headline, headline, is_rise, recent_changes
from outlast.report.text_format import group_title
from outlast.web.charts import Series, category_series, sparkline, stacked_chart
from outlast.web.routing import PageData, PageRequest, PageRoute
from outlast.web.task_view import masked_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.ports.store import Store


# The board (failing groups and waits) is read one statement at a time: live pages may only spend one per tick.

DAY, HALF_HOUR = 86_400.0, 1_800.0
_MAX_GROUPS_READ = 40
_SHOWN_GROUPS = 6
_SHOWN_WAITS = 5


class GroupLine(NamedTuple):
    """A group of failures as a list shows it, masked.

    Attributes:
        standing: ``open``, ``acknowledged`` or ``snoozed``.
        trend: Failures in each half hour of the last day, oldest first.
        tasks: The tasks that failed with this cause, the most frequent first; of the last failures only.
        title: The error and its task, or how many tasks it has.
    """

    fingerprint: str
    task_type: str
    error_type: str
    error_category: str
    error_message: str
    first_seen: datetime
    last_seen: datetime
    failures: int
    dead: int
    note: str
    acknowledged_at: datetime | None
    acknowledged_by: str
    snoozed_until: datetime | None
    snoozed_by: str
    standing: str
    trend: tuple[int, ...]
    tasks: tuple[str, ...]
    title: str

    @property
    def lately(self) -> int:
        """Failures in the last 30 to 60 minutes."""
        return sum(self.trend[-2:])


class WaitingResource(NamedTuple):
    """A resource that is in cooldown or has an open breaker.

    Attributes:
        resource: Its name, masked.
        how: ``cooldown`` or ``breaker``.
        until: When it is called again; None if unknown.
        reason: The reason, masked.
        tasks: How many queued tasks need it.
    """

    resource: str
    how: str
    until: datetime | None
    reason: str
    tasks: int = 0


class Board(NamedTuple):
    """The failing groups and the unavailable resources."""

    groups: tuple[GroupLine, ...]
    waits: tuple[WaitingResource, ...]


def board_steps(store: "Store", now: datetime) -> "Iterator[Board | None]":
    """Read a board, one statement per step; yield None after each step but the last, and then the board.

    Args:
        store: The store to read.
        now: The store's time, at which the trends end.
    """
    groups = store.failures(FailureFilter(limit=_MAX_GROUPS_READ)).rows
    names = [group.fingerprint for group in groups]
    yield None
    flows = store.failure_flow(names, window=DAY, step=HALF_HOUR) if names else {}
    yield None
    tasks = store.tasks_by_group(names) if names else {}
    yield None
    cooling = [WaitingResource(row.resource, "cooldown", row.until, row.reason) for row in store.cooldowns()]
    yield None
    waits = []
    for each in [*cooling, *_open_breakers(store.breakers(), now)][:_SHOWN_WAITS]:
        yield None
        number = store.waiting_for(each.resource)
        waits.append(masked_row(each, masked_line)._replace(tasks=number))
    lines = group_lines(groups, flows, tasks, now)
    lines.sort(key=lambda line: (-line.lately, -line.last_seen.timestamp()))
    yield Board(tuple(lines[:_SHOWN_GROUPS]), tuple(waits))


def read_board(store: "Store", now: datetime) -> Board:
    """Read the whole board and return it."""
    return next(board for board in board_steps(store, now) if board is not None)


def read_marks(store: "Store", window: float) -> list[ChartMark]:
    """Return the marks of the last `window` seconds, newest first, masked."""
    return [masked_row(mark, masked_line) for mark in store.chart_marks(window=window)]


def group_lines(
    groups: list[FailureGroup],
    flows: Mapping[str, list[FlowPoint]],
    tasks: Mapping[str, Mapping[str, int]],
    now: datetime,
) -> list[GroupLine]:
    """Return groups with their trends and tasks, masked."""
    steps, lines = steps_of(now, DAY, HALF_HOUR), []
    for group in groups:
        names = tuple(tasks.get(group.fingerprint) or [group.task_type])  # attempts may be pruned
        trend = series_of(flows.get(group.fingerprint, []), steps, HALF_HOUR)
        lines.append(
            GroupLine(*masked_row(group), group.standing(now), trend, names, group_title(group.error_type, names))
        )
    return lines


def _open_breakers(rows: list[BreakerRow], now: datetime) -> list[WaitingResource]:
    """Return each resource whose breaker is open in at least one process, once."""
    found = [
        next(row for row in each.processes if row.state == "open")
        for each in breakers_by_resource(rows, now)
        if each.state == "open"
    ]
    return [WaitingResource(row.resource, "breaker", row.until, row.reason) for row in found]


class ChartRange(NamedTuple):
    """A time range of the charts.

    Attributes:
        name: Its name in the URL.
        label: Its name on the page.
        window: Its length in seconds.
        step: Seconds that one bar covers.
    """

    name: str
    label: str
    window: float
    step: float


_MINUTES = ChartRange("10m", "10 minutes", 600.0, 20.0)
_HOUR = ChartRange("1h", "1 hour", 3_600.0, 120.0)
RANGES = (
    _MINUTES,
    _HOUR,
    ChartRange("24h", "24 hours", 86_400.0, 3_600.0),
    ChartRange("7d", "7 days", 7 * 86_400.0, 21_600.0),
)
"""The ranges to choose from; a page shows the last two as they were when it was loaded."""
LIVE_RANGES = {"overview": _HOUR, "overview-10m": _MINUTES}
"""The ranges that are updated live, by the view that shows them."""
PULSE_WINDOW, PULSE_STEP = _HOUR.window, _MINUTES.step
"""Window and step in seconds of the pulse that serves all live ranges."""
_PULSE_FIGURES = (
    *("retries_waiting", "oldest_ready", "workers", "silent_workers", "sources", "cooldowns", "open_breakers"),
    *("paused_queues", "alerts_waiting", "running_jobs"),
)
_TREND_LABEL = "Failures in the last 24 hours"
_MINUTE = 60.0


def overview_data(pulse: Pulse, board: Board | None, chosen: ChartRange, marks: Sequence[ChartMark] | None) -> PageData:
    """Return the data of the overview, for the page and its JSON.

    Args:
        pulse: The current pulse.
        board: The board; None while it is still being read.
        chosen: The time range of the charts.
        marks: Marked events; None while they are still being read, and the charts stay as they are.
    """
    masked = pulse._replace(changes=tuple(masked_row(each, masked_line) for each in pulse.changes))
    flow = flow_of(pulse.flow, pulse.at, chosen.window, chosen.step)
    steps, noun = (flow.steps, flow.step), ("task done", "tasks done")
    done = Series("done", False, "Tasks done", noun, flow.done, "tasks", {"status": "DONE"})  # noqa: FBT003
    return {
        "at": pulse.at,
        "range": chosen.name,
        "headline": headline(masked),
        "counts": pulse.counts,
        "last_hour": _hour_counts(pulse.last_hour),
        "hour_before": _hour_counts(pulse.hour_before),
        **{name: getattr(pulse, name) for name in _PULSE_FIGURES},
        "changes": recent_changes(masked),
        "flow": flow,
        "groups": board.groups if board else None,
        "waits": board.waits if board else None,
        "marks": marks,
        "_ranges": RANGES,
        "_view": next((view for view, each in LIVE_RANGES.items() if each is chosen), ""),
        "_rising": is_rise(failed_attempts(pulse.last_hour), failed_attempts(pulse.hour_before)),
        "_failures": stacked_chart(
            "chart-failures", "Failures by category", category_series(flow.failures), *steps, marks=marks or ()
        ),
        "_throughput": stacked_chart(
            "chart-done", "Tasks done per minute", [done], *steps, per=_MINUTE, marks=marks or ()
        ),
        "_trends": {each.fingerprint: sparkline(each.trend, _TREND_LABEL) for each in (board.groups if board else ())},
    }


def _read_overview(request: PageRequest) -> PageData:
    """Return the data for the requested range, or else for the smallest one whose charts show something."""
    store, name = request.app.store, request.values["range"]
    empty = []
    for chosen in RANGES if name is None else [each for each in RANGES if each.name == name]:
        pulse = store.pulse(window=chosen.window, step=chosen.step)
        flow = flow_of(pulse.flow, pulse.at, chosen.window, chosen.step)
        if flow.failures or any(flow.done):
            break
        empty.append((pulse, chosen))
    else:
        pulse, chosen = empty[0]
    return overview_data(pulse, read_board(store, pulse.at), chosen, read_marks(store, chosen.window))


def _hour_counts(counts: FlowCounts) -> dict[str, int]:
    return {
        "done": event_count(counts, FlowEvent.DONE),
        "enqueued": event_count(counts, FlowEvent.ENQUEUED),
        "failures": failed_attempts(counts),
        "dead": event_count(counts, FlowEvent.FAILED),
    }


_RANGE = Parameter("range", choice_kind(each.name for each in RANGES), "The time range of the charts.")
_RETURNS = {"headline": Headline, "changes": list[ChangeLine], "flow": Flow, "groups": list[GroupLine]}
PAGES = (PageRoute("overview", "/", "overview.html", _read_overview, (_RANGE,), _RETURNS),)
