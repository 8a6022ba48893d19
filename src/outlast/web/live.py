"""Live updates of open pages: one thread per process reads the store once per tick, for all viewers."""

import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING

import anyio

from outlast.report.flow import failed_attempts
from outlast.report.overview import badges
from outlast.web.pages.overview import (
    LIVE_RANGES,
    PULSE_STEP,
    PULSE_WINDOW,
    Board,
    board_steps,
    overview_data,
    read_marks,
)
from outlast.web.pages.replays import MAX_LISTED, is_replay_view, replay_update
from outlast.web.pages.tasks import task_mark, task_update, watched_task_ids
from outlast.web.routing import PageData

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.read_rows import Pulse
    from outlast.ports.store import Store
    from outlast.ports.triage import ChartMark, Replay


PART_SEPARATOR = "<!-- part -->"
"""Separates the parts of a rendered fragment; unchanged parts are not sent again."""
_EVENTS_FOR_ALL = ("pulse", "trouble")


class EventLog:
    """The latest event of each kind, numbered in the order of publication.

    Older events are dropped, so a slow viewer skips them and needs no memory.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._events: dict[str, tuple[int, str]] = {}

    def publish_for_all(self, name: str, data: object) -> None:
        """Publish to all pages what every page shows, or that the store does not answer: one replaces the other.

        Args:
            name: ``pulse`` or ``trouble``.
            data: Data for JSON.
        """
        with self._lock:
            self._events = {each: event for each, event in self._events.items() if each not in _EVENTS_FOR_ALL}
            self._publish(name, encode_event(name, data))

    def publish_parts(self, view: str, html: str) -> None:
        """Publish the changed parts of a page.

        Args:
            view: Name of the view, followed by the mount path.
            html: The rendered parts, separated by `PART_SEPARATOR`.
        """
        with self._lock:
            for place, part in enumerate(html.split(PART_SEPARATOR)):
                name, text = f"{view} {place}", encode_event("parts", part.strip())
                if part.strip() and self._events.get(name, (0, ""))[1] != text:
                    self._publish(name, text)

    def forget(self) -> None:
        """Drop all events, because they are too old for a new viewer."""
        with self._lock:
            self._events.clear()

    def keep(self, views: Collection[str]) -> None:
        """Drop the parts of all other views.

        Args:
            views: The views that someone has open.
        """
        with self._lock:
            kept = {"", *views}  # events for all views have no view in their name
            for name in [each for each in self._events if each.rpartition(" ")[0] not in kept]:
                del self._events[name]

    def since(self, seen: dict[str, int], view: str) -> Iterator[str]:
        """Return the events that a viewer has not seen, in the order of publication.

        Args:
            seen: Number of the last event of each kind that the viewer has seen; updated.
            view: The viewer's view.
        """
        with self._lock:
            unseen = {
                name: event
                for name, event in self._events.items()
                if name.rpartition(" ")[0] in {"", view} and event[0] > seen.get(name, 0)
            }
        seen.update({name: number for name, (number, _) in unseen.items()})
        return iter([text for _, text in sorted(unseen.values())])

    def _publish(self, name: str, text: str) -> None:
        self._number += 1
        self._events[name] = (self._number, text)


def encode_event(name: str, data: object) -> str:
    """Return a server-sent event. JSON contains no line breaks, so no text can end the event early."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


_STALE_SECONDS = 30.0  # age at which a pulse is too old to show
_MIN_BOARD_SECONDS = 10.0  # between two readings of the board
_MAX_BOARD_SECONDS = 30.0  # between two readings of the board; its waits may change without a change in the pulse
_ROLL_UP_AFTER = 60.0  # age of a delta at which no worker seems to roll it up
_ROLL_UP_EVERY = 30.0
_ROLL_UP_RETRY_SECONDS = 900.0  # pause after a rollup that failed
_log = logging.getLogger("outlast.web")


class LiveReader:
    """Reads the store, one statement at a time: mostly the pulse, in between what the open views need.

    Args:
        app: The app whose store is read.

    Attributes:
        pulse: The last pulse.
        board: The last complete board.
        chart_marks: The events that people have marked; None if they were not read.
        replays: The newest replays, as last read; None if no view shows them.
        marks: Marks of the tasks whose pages are open, by number.
    """

    def __init__(self, app: "App") -> None:
        self.pulse: Pulse | None = None
        self.board: Board | None = None
        self.replays: list[Replay] | None = None
        self.marks: dict[int, str] = {}
        self._app = app
        self.chart_marks: list[ChartMark] | None = None
        self._board_steps: Iterator[Board | None] | None = None
        self._board_key: object = None
        self._board_started = self._rolled_up_at = self._pulse_at = float("-inf")
        self._pulse_is_next = self._cannot_roll_up = False
        self._last_turns: dict[str, int] = {}
        self._task = 0

    def forget(self) -> None:
        """Drop everything but the pulse, because it is out of date."""
        self.board = self.replays = self.chart_marks = self._board_steps = self._board_key = None
        self.marks = {}
        self._board_started = float("-inf")

    def stale(self) -> bool:
        """Return whether the last pulse is too old to show."""
        return monotonic() - self._pulse_at > _STALE_SECONDS

    def recent_pulse(self) -> "Pulse | None":
        """Return the last pulse; None if it is too old to show."""
        return None if self.stale() else self.pulse

    def read(self, views: Collection[str]) -> "Pulse":
        """Run one statement, and return the last pulse.

        Args:
            views: The views that someone has open.
        """
        store, pulse = self._app.store, self.pulse
        if self.stale() or not any(map(is_replay_view, views)):
            self.replays = None  # out of date
        if pulse is None or self.stale() or self._pulse_is_next or not self._read_between_pulses(store, pulse, views):
            self.pulse = pulse = store.pulse(window=PULSE_WINDOW, step=PULSE_STEP)  # of which each range takes sums
            self._pulse_at, self._pulse_is_next = monotonic(), False
        return pulse

    def _read_between_pulses(self, store: "Store", pulse: "Pulse", views: Collection[str]) -> bool:
        """Read something other than the pulse if it is due; return whether it was. A pulse always comes next."""
        has_rested = monotonic() - self._rolled_up_at >= _ROLL_UP_EVERY
        is_overview = any(view in LIVE_RANGES for view in views)
        due = {
            "marks": is_overview and self.chart_marks is None,
            "replays": any(map(is_replay_view, views)),
            "board": is_overview and (self._board_steps is not None or self._is_board_due(pulse)),
            "task": bool(watched_task_ids(views)),
            "roll up": (pulse.not_rolled_up or 0.0) > _ROLL_UP_AFTER and has_rested,
        }
        if not any(due.values()):
            return False
        name = min((each for each in due if due[each]), key=lambda each: self._last_turns.get(each, 0))
        self._last_turns[name] = max(self._last_turns.values(), default=0) + 1
        self._pulse_is_next = True  # also if this fails
        match name:
            case "marks":
                self.chart_marks = read_marks(store, PULSE_WINDOW)
            case "replays":
                self.replays = store.replay_runs(limit=MAX_LISTED)
            case "board":
                self._read_board(store, pulse)
            case "task":
                self._read_task(store, watched_task_ids(views))
            case _:
                self._roll_up(store)
        return True

    def _read_task(self, store: "Store", numbers: Sequence[int]) -> None:
        """Read one of the tasks whose pages are open, the next one each time."""
        self._task = next((each for each in numbers if each > self._task), numbers[0])
        self.marks = {each: mark for each, mark in self.marks.items() if each in numbers}
        self.marks[self._task] = task_mark(store.get(self._task))

    def _roll_up(self, store: "Store") -> None:
        """Roll up counter deltas. Where that fails, as in a read-only database, go on without it."""
        self._rolled_up_at = monotonic()
        try:
            store.roll_up()
        except Exception as error:  # noqa: BLE001  # pages work without it; an outage shows when the pulse is read
            self._rolled_up_at += _ROLL_UP_RETRY_SECONDS
            if not self._cannot_roll_up:
                self._cannot_roll_up = True
                _log.warning("the dashboard cannot roll up the counters, workers will: %s", type(error).__name__)

    def _read_board(self, store: "Store", pulse: "Pulse") -> None:
        if self._board_steps is None:
            self._board_key, self._board_started = _board_key(pulse), monotonic()
            self._board_steps = board_steps(store, pulse.at)
        steps, self._board_steps = self._board_steps, None  # if this step fails, the board is read anew
        board = next(steps)
        if board is None:
            self._board_steps = steps
        else:
            self.board, self.chart_marks = board, None  # marks are read again next

    def _is_board_due(self, pulse: "Pulse") -> bool:
        age = monotonic() - self._board_started
        changed = self.board is None or _board_key(pulse) != self._board_key
        return age >= (_MIN_BOARD_SECONDS if changed else _MAX_BOARD_SECONDS)


def _board_key(pulse: "Pulse") -> object:
    """Return a value that changes when the board probably does."""
    return failed_attempts(pulse.last_hour), pulse.counts.get("dead_letters"), pulse.cooldowns, pulse.open_breakers


TICK_SECONDS = 2.0
"""Seconds between two reads of the store."""
MAX_STREAM_SECONDS = 600.0
"""Seconds after which a stream ends; the browser then opens a new one."""
_STREAM_POLL_TICKS = 0.25  # ticks between two checks of a stream for new events
_LOG_AGAIN_SECONDS = 60.0  # between two log messages that the store does not answer
_STORE_DOWN_TEXT = "The store does not answer"


class LiveHub:
    """The source of all live updates of a process. Nothing is read while no page is open.

    Args:
        app: The app whose store is read.
        render: Renders a template, given its name, the mount path and the values.
        tick: Seconds between two reads of the store.
        longest: Seconds after which a stream ends.
    """

    def __init__(
        self,
        app: "App",
        render: Callable[[str, str, PageData], str],
        *,
        tick: float = TICK_SECONDS,
        longest: float = MAX_STREAM_SECONDS,
    ) -> None:
        self._render, self._tick, self._longest = render, tick, longest
        self._lock = threading.Lock()
        self._viewers: dict[object, tuple[str, str]] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._event_log = EventLog()
        self._reader = LiveReader(app)
        self._logged_at = float("-inf")

    def badges(self) -> PageData | None:
        """Return the badges of the last pulse; None if there is no recent one."""
        pulse = self._reader.recent_pulse()
        return None if pulse is None else badges(pulse)

    def newest(self) -> Mapping[str, str]:
        """Return the newest row numbers of the last pulse as text; empty if there is no recent pulse."""
        pulse = self._reader.recent_pulse()
        return {} if pulse is None else _newest_numbers(pulse)

    async def stream(self, view: str, prefix: str, still_allowed: Callable[[], bool]) -> AsyncIterator[str]:
        """Yield events for one page until its viewer loses access or `MAX_STREAM_SECONDS` have passed.

        Args:
            view: Name of the view: ``overview``, ``replay-12``, ``task-12``, or any other.
            prefix: Mount path of the dashboard.
            still_allowed: Returns whether the viewer still has access.
        """
        until, seen = monotonic() + self._longest, dict[str, int]()
        viewer, mounted_view = object(), f"{view}{prefix}"
        self._join(viewer, view, prefix)
        try:
            yield "retry: 2000\n\n"
            while not self._closed.is_set() and monotonic() < until and still_allowed():
                for event in self._event_log.since(seen, mounted_view):
                    yield event
                await anyio.sleep(self._tick * _STREAM_POLL_TICKS)
        finally:
            self._leave(viewer)

    def close(self) -> None:
        """End all streams. Can be called from any thread."""
        self._closed.set()

    def _join(self, viewer: object, view: str, prefix: str) -> None:
        with self._lock:
            self._viewers[viewer] = (view, prefix)
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="outlast-web-hub", daemon=True)
                self._thread.start()

    def _leave(self, viewer: object) -> None:
        with self._lock:
            self._viewers.pop(viewer, None)

    def _run(self) -> None:
        if self._reader.stale():
            self._event_log.forget()
            self._reader.forget()
        while self._has_viewers():
            started = monotonic()
            self._tick_once()
            self._closed.wait(max(self._tick - (monotonic() - started), self._tick / 10))

    def _has_viewers(self) -> bool:
        """Return whether a page is open. If not, this thread ends, and the next viewer starts another."""
        with self._lock:
            if self._viewers and not self._closed.is_set():
                return True
            self._thread = None
            return False

    def _tick_once(self) -> None:
        with self._lock:
            views = sorted(set(self._viewers.values()))
        self._event_log.keep({f"{view}{prefix}" for view, prefix in views})
        try:
            pulse = self._reader.read({view for view, _ in views})
            shown = {name: badge._asdict() for name, badge in badges(pulse).items()}
            self._event_log.publish_for_all("pulse", {"badges": shown, "newest": _newest_numbers(pulse)})
            for view, prefix in views:
                if update := self._view_update(view, pulse):
                    self._event_log.publish_parts(f"{view}{prefix}", self._render(update[0], prefix, update[1]))
        except Exception as error:  # noqa: BLE001  # the store may be down: viewers see that, and the thread goes on
            if monotonic() - self._logged_at >= _LOG_AGAIN_SECONDS:
                self._logged_at = monotonic()
                _log.warning("the dashboard cannot update open pages: %s", type(error).__name__)
            self._event_log.publish_for_all("trouble", _STORE_DOWN_TEXT)

    def _view_update(self, view: str, pulse: "Pulse") -> tuple[str, PageData] | None:
        """Return the template and the data that update a view; None if there is nothing to show."""
        if view in LIVE_RANGES:
            return "overview_live.html", overview_data(
                pulse, self._reader.board, LIVE_RANGES[view], self._reader.chart_marks
            )
        return task_update(view, self._reader.marks) or replay_update(view, self._reader.replays, pulse.workers)


def _newest_numbers(pulse: "Pulse") -> dict[str, str]:
    """Return the newest row numbers as text, because a browser rounds numbers above 2**53."""
    return {"task": str(pulse.newest_task), "dead_letter": str(pulse.newest_dead_letter)}
