"""What keeps open pages live: one read of the store per tick and process, told to all who look."""

import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio

from outlast.report.flow import failed_attempts
from outlast.report.overview import badges
from outlast.web.pages.overview import LIVE_RANGES, PULSE_STEP, PULSE_WINDOW, Board, BoardReader, overview_data
from outlast.web.pages.replays import MAX_LISTED, is_replay_view, replay_update
from outlast.web.pages.tasks import task_mark, task_update, watched_task_ids

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.read_rows import Pulse
    from outlast.ports.store import Store
    from outlast.ports.triage import Replay


# What was told last to those who look, as events of a stream; each of them gets what it has not seen yet.
#
# Only the last word is kept, so a slow reader skips what is out of date, and costs no memory.

PART_SEPARATOR = "<!-- part -->"
"""Stands between the parts of a rendered fragment; those that did not change are not sent again."""
_PULSE_EVENT, _ERROR_EVENT = "pulse", "trouble"


class EventLog:
    """The last word on everything, with a number that grows."""

    def __init__(self) -> None:
        """Begin without any."""
        self._lock = threading.Lock()
        self._number = 0
        self._told: dict[str, tuple[int, str]] = {}

    def publish_pulse(self, data: Mapping[str, Any]) -> None:
        """Tell what every page shows; also that the store answers."""
        with self._lock:
            self._told.pop(_ERROR_EVENT, None)
            self._tell(_PULSE_EVENT, encode_event(_PULSE_EVENT, data))

    def publish_error(self, text: str) -> None:
        """Tell that the store does not answer."""
        with self._lock:
            self._told.pop(_PULSE_EVENT, None)
            self._tell(_ERROR_EVENT, encode_event(_ERROR_EVENT, text))

    def publish_parts(self, view: str, html: str) -> None:
        """Tell a fragment of a page.

        Args:
            view: Which page, and where it is mounted.
            html: Rendered; `PART` stands between its parts.
        """
        with self._lock:
            for place, part in enumerate(html.split(PART_SEPARATOR)):
                name, text = f"{view} {place}", encode_event("parts", part.strip())
                if part.strip() and self._told.get(name, (0, ""))[1] != text:
                    self._tell(name, text)

    def forget(self) -> None:
        """Forget all: it is too old to be told to somebody who comes now."""
        with self._lock:
            self._told.clear()

    def keep(self, views: Collection[str]) -> None:
        """Forget the fragments of pages that nobody looks at any more.

        Args:
            views: Those that somebody looks at.
        """
        with self._lock:
            general = {_PULSE_EVENT, _ERROR_EVENT}
            for name in [each for each in self._told if each not in general and each.rpartition(" ")[0] not in views]:
                del self._told[name]

    def since(self, seen: dict[str, int], view: str) -> Iterator[str]:
        """Return the events that one reader has not seen, in the order in which they were told.

        Args:
            seen: The number of each that it has seen; kept up to date.
            view: Which page it looks at.
        """
        with self._lock:
            mine = {
                name: told
                for name, told in self._told.items()
                if (name in {_PULSE_EVENT, _ERROR_EVENT} or name.rpartition(" ")[0] == view)
                and told[0] > seen.get(name, 0)
            }
        seen.update({name: number for name, (number, _) in mine.items()})
        return iter([text for _, text in sorted(mine.values())])

    def _tell(self, name: str, text: str) -> None:
        self._number += 1
        self._told[name] = (self._number, text)


def encode_event(name: str, data: object) -> str:
    """Return an event as a stream carries it: JSON has no line breaks of its own, so no text can end it early."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


# What keeps pages live is read here, one statement on every tick, whatever the number of those who look.

_STALE_SECONDS = 30.0  # seconds after which a pulse says nothing of now
_MIN_BOARD_SECONDS = 10.0  # seconds between two readings of the board at least
_MAX_BOARD_SECONDS = 30.0  # and at most: what it says of waits changes without a sign in the pulse
_ROLL_UP_AFTER = 60.0  # seconds: a delta that old is nobody else's to add up; workers do it otherwise
_ROLL_UP_EVERY = 30.0
_ROLL_UP_RETRY_SECONDS = 900.0  # seconds until it is tried again where it failed
_reader_log = logging.getLogger("outlast.web")


class LiveReader:
    """Reads the store, one thing at a time: most often the pulse, in between what else those who look need.

    Args:
        app: Whose store is read.

    Attributes:
        pulse: The last one.
        board: The last one that was read to its end.
        replays: The newest ones, as they were read last; None before somebody looked at them.
        marks: How the tasks stand whose pages are open, by number.
    """

    def __init__(self, app: "App") -> None:
        """Nothing is read before it is asked for."""
        self.pulse: Pulse | None = None
        self.board: Board | None = None
        self.replays: list[Replay] | None = None
        self.marks: dict[int, str] = {}
        self._app = app
        self._board_reading: BoardReader | None = None
        self._mark: object = None
        self._begun = self._rolled = self._at = float("-inf")
        self._between = self._cannot_roll_up = False
        self._turns: dict[str, int] = {}
        self._task = 0

    def forget(self) -> None:
        """Forget all but the pulse: nobody looked for so long that it says nothing of now."""
        self.board = self.replays = self._board_reading = self._mark = None
        self.marks = {}
        self._begun = float("-inf")

    def stale(self) -> bool:
        """Tell whether the last pulse is too old to say anything of now."""
        return monotonic() - self._at > _STALE_SECONDS

    def read(self, views: Collection[str]) -> "Pulse":
        """Read one thing, and return the last pulse.

        Args:
            views: What is looked at.
        """
        store, pulse = self._app.store, self.pulse
        if self.stale() or not any(map(is_replay_view, views)):
            self.replays = None  # what nobody looked at is out of date
        if pulse is None or self.stale() or self._between or not self._read_between_pulses(store, pulse, views):
            step = min(
                [LIVE_RANGES[view].step for view in views if view in LIVE_RANGES], default=LIVE_RANGES["overview"].step
            )
            self.pulse = pulse = store.pulse(window=PULSE_WINDOW, step=max(step, PULSE_STEP))
            self._at, self._between = monotonic(), False
        return pulse

    def _read_between_pulses(self, store: "Store", pulse: "Pulse", views: Collection[str]) -> bool:
        """Do what is done in place of a pulse, if anything is due; never twice in a row."""
        rests = monotonic() - self._rolled < _ROLL_UP_EVERY
        due = {
            "replays": any(map(is_replay_view, views)),
            "board": any(view in LIVE_RANGES for view in views)
            and (self._board_reading is not None or self._due(pulse)),
            "task": bool(watched_task_ids(views)),
            "roll up": (pulse.not_rolled_up or 0.0) > _ROLL_UP_AFTER and not rests,
        }
        if not any(due.values()):
            return False
        name = min((each for each in due if due[each]), key=lambda each: self._turns.get(each, 0))
        self._turns[name] = max(self._turns.values(), default=0) + 1
        self._between = True  # also where it fails: a pulse comes first
        match name:
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
        """Look at one of the tasks whose pages are open, the next one each time."""
        self._task = next((each for each in numbers if each > self._task), numbers[0])
        self.marks = {each: mark for each, mark in self.marks.items() if each in numbers}
        self.marks[self._task] = task_mark(store.get(self._task))

    def _roll_up(self, store: "Store") -> None:
        """Keep the books short; where that may not be, as in a database that can only be read, go on without it."""
        self._rolled = monotonic()
        try:
            store.roll_up()
        except Exception as error:  # noqa: BLE001  # pages can be read all the same; if not, the pulse says so
            self._rolled += _ROLL_UP_RETRY_SECONDS
            if not self._cannot_roll_up:
                self._cannot_roll_up = True
                _reader_log.warning("the dashboard cannot roll up the books, workers will: %s", type(error).__name__)

    def _read_board(self, store: "Store", pulse: "Pulse") -> None:
        if self._board_reading is None:
            self._mark, self._begun = _board_key(pulse), monotonic()
            self._board_reading = BoardReader(store)
        if board := self._board_reading.step(pulse.at):
            self.board, self._board_reading = board, None

    def _due(self, pulse: "Pulse") -> bool:
        age = monotonic() - self._begun
        changed = self.board is None or _board_key(pulse) != self._mark
        return age >= (_MIN_BOARD_SECONDS if changed else _MAX_BOARD_SECONDS)


def _board_key(pulse: "Pulse") -> object:
    """Return what changes when the board does."""
    return failed_attempts(pulse.last_hour), pulse.counts.get("dead_letters"), pulse.cooldowns, pulse.open_breakers


# Keeps open pages live: one read of the store per tick and process, whatever the number of those who look.
#
# While nobody looks, nothing is read. Every tick spends one statement: most often the pulse; when failures or waits
# have changed and somebody has the overview open, or somebody watches a replay or a task, the ticks in between read
# that.

TICK_SECONDS = 2.0
"""Seconds between two reads."""
MAX_STREAM_SECONDS = 600.0
"""Seconds after which a stream ends; a browser opens the next one by itself."""
_STREAM_POLL_TICKS = 0.25  # ticks between two looks of a stream at what the last one brought
_LOG_AGAIN_SECONDS = 60.0  # seconds after which the log is told again that the store does not answer
_STORE_DOWN_TEXT = "The store does not answer"
_log = logging.getLogger("outlast.web")


class LiveHub:
    """The one source of live updates of a process.

    Args:
        app: Whose store is read.
        render: Makes HTML of a template, where the dashboard is mounted, and values.
        tick: Seconds between two reads.
        longest: Seconds after which a stream ends.
    """

    def __init__(
        self,
        app: "App",
        render: Callable[[str, str, Mapping[str, Any]], str],
        *,
        tick: float = TICK_SECONDS,
        longest: float = MAX_STREAM_SECONDS,
    ) -> None:
        """Keep them; nothing is read before somebody looks."""
        self._app, self._render, self._tick, self._longest = app, render, tick, longest
        self._lock = threading.Lock()
        self._viewers: dict[object, tuple[str, str]] = {}
        self._ticking: threading.Thread | None = None
        self._over = threading.Event()
        self._news = EventLog()
        self._reading = LiveReader(app)
        self._said = float("-inf")

    def badges(self) -> Mapping[str, Any] | None:
        """Return the badges of the last pulse; None when there is none of late."""
        pulse = self._reading.pulse
        return None if pulse is None or self._reading.stale() else badges(pulse)

    def newest(self) -> Mapping[str, str]:
        """Return the largest numbers of the last pulse as text; none when there is no pulse of late."""
        pulse = self._reading.pulse
        return {} if pulse is None or self._reading.stale() else _newest_numbers(pulse)

    async def stream(self, view: str, prefix: str, still_allowed: Callable[[], bool]) -> AsyncIterator[str]:
        """Yield events for one page until it may not look any more, or has looked for long.

        Args:
            view: What page it is: ``overview``, ``replay-12``, ``task-12``, or any other.
            prefix: Where the dashboard is mounted.
            still_allowed: Tells whether whoever looks still may.
        """
        until, seen = monotonic() + self._longest, dict[str, int]()
        viewer, looks_at = object(), f"{view}{prefix}"
        self._join(viewer, view, prefix)
        try:
            yield "retry: 2000\n\n"
            while not self._over.is_set() and monotonic() < until and still_allowed():
                for event in self._news.since(seen, looks_at):
                    yield event
                await anyio.sleep(self._tick * _STREAM_POLL_TICKS)
        finally:
            self._leave(viewer)

    def close(self) -> None:
        """End all streams. Can be called from any thread."""
        self._over.set()

    def _join(self, viewer: object, view: str, prefix: str) -> None:
        with self._lock:
            self._viewers[viewer] = (view, prefix)
            if self._ticking is None and not self._over.is_set():
                self._ticking = threading.Thread(target=self._run, name="outlast-web-hub", daemon=True)
                self._ticking.start()

    def _leave(self, viewer: object) -> None:
        with self._lock:
            self._viewers.pop(viewer, None)

    def _run(self) -> None:
        if self._reading.stale():
            self._news.forget()
            self._reading.forget()
        while self._looked_at():
            begun = monotonic()
            self._beat()
            self._over.wait(max(self._tick - (monotonic() - begun), self._tick / 10))

    def _looked_at(self) -> bool:
        """Tell whether somebody looks; if nobody does, this thread is over, and whoever comes next starts another."""
        with self._lock:
            if self._viewers and not self._over.is_set():
                return True
            self._ticking = None
            return False

    def _beat(self) -> None:
        with self._lock:
            looked_at = sorted(set(self._viewers.values()))
        self._news.keep({f"{view}{prefix}" for view, prefix in looked_at})
        try:
            pulse = self._reading.read({view for view, _ in looked_at})
            self._news.publish_pulse({"badges": _badge_data(pulse), "newest": _newest_numbers(pulse)})
            for view, prefix in looked_at:
                if part := self._part(view, pulse):
                    self._news.publish_parts(f"{view}{prefix}", self._render(part[0], prefix, part[1]))
        except Exception as error:  # noqa: BLE001  # the store may be down: those who look are told, and it goes on
            if monotonic() - self._said >= _LOG_AGAIN_SECONDS:
                self._said = monotonic()
                _log.warning("the dashboard cannot be kept live: %s", type(error).__name__)
            self._news.publish_error(_STORE_DOWN_TEXT)

    def _part(self, view: str, pulse: "Pulse") -> tuple[str, Mapping[str, Any]] | None:
        """Return the template of what a view keeps up to date, and what it shows; None where nothing is known."""
        if view in LIVE_RANGES:
            return "overview_live.html", overview_data(pulse, self._reading.board, LIVE_RANGES[view])
        return task_update(view, self._reading.marks) or replay_update(view, self._reading.replays, pulse.workers)


def _badge_data(pulse: "Pulse") -> dict[str, Any]:
    return {name: badge._asdict() for name, badge in badges(pulse).items()}


def _newest_numbers(pulse: "Pulse") -> dict[str, str]:
    """Return the largest numbers as text: a browser would round those above 2**53."""
    return {"task": str(pulse.newest_task), "dead_letter": str(pulse.newest_dead_letter)}
