"""Keeps open pages live: one read of the store per tick and process, whatever the number of those who look.

While nobody looks, nothing is read. Every tick spends one statement: most often the pulse; when failures or waits have
changed and somebody has the overview open, the ticks in between read the rest of it, one statement each.
"""

import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio

from holdfast.report.badges import badges
from holdfast.report.flow import failing
from holdfast.web.board import Board, BoardReading
from holdfast.web.news import News
from holdfast.web.pages.overview import LIVE, overview_of

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.ports.read_rows import Pulse
    from holdfast.ports.store import Store

__all__ = ["LONGEST", "TICK", "Hub"]

TICK = 2.0
"""Seconds between two reads."""
LONGEST = 600.0
"""Seconds after which a stream ends; a browser opens the next one by itself."""
_LOOK_AGAIN = 0.1  # seconds between two looks of a stream at what the last tick brought
_STALE = 30.0  # seconds after which a pulse says nothing of now
_BOARD_EVERY = 10.0  # seconds between two readings of the board at least
_ROLL_UP_EVERY = 30.0
_OVERVIEW, _TEMPLATE = "overview", "overview_live.html"
_TROUBLE = "The store does not answer"
_log = logging.getLogger("holdfast.web")


class Hub:
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
        tick: float = TICK,
        longest: float = LONGEST,
    ) -> None:
        """Keep them; nothing is read before somebody looks."""
        self._app, self._render, self._tick, self._longest = app, render, tick, longest
        self._lock = threading.Lock()
        self._viewers: dict[object, tuple[str, str]] = {}
        self._ticking: threading.Thread | None = None
        self._over = threading.Event()
        self._news = News()
        self._reader = _Reader(app)

    def badges(self) -> Mapping[str, Any] | None:
        """Return the badges of the last pulse; None when there is none of late."""
        pulse = self._reader.pulse
        return None if pulse is None or self._reader.stale() else badges(pulse)

    async def stream(self, view: str, prefix: str, still_allowed: Callable[[], bool]) -> AsyncIterator[str]:
        """Yield events for one page until it may not look any more, or has looked for long.

        Args:
            view: What page it is: ``overview``, or any other.
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
                await anyio.sleep(_LOOK_AGAIN)
        finally:
            self._leave(viewer)

    def close(self) -> None:
        """End all streams. Can be called from any thread."""
        self._over.set()

    def _join(self, viewer: object, view: str, prefix: str) -> None:
        with self._lock:
            self._viewers[viewer] = (view, prefix)
            if self._ticking is None and not self._over.is_set():
                self._ticking = threading.Thread(target=self._run, name="holdfast-web-hub", daemon=True)
                self._ticking.start()

    def _leave(self, viewer: object) -> None:
        with self._lock:
            self._viewers.pop(viewer, None)

    def _run(self) -> None:
        if self._reader.stale():
            self._news.forget()
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
            mounts = sorted({prefix for view, prefix in self._viewers.values() if view == _OVERVIEW})
        try:
            pulse = self._reader.read(whole=bool(mounts))
            self._news.tell_pulse({"badges": _plain(pulse), "newest": _newest(pulse)})
            shown = overview_of(pulse, self._reader.board, LIVE) if mounts else {}
            for prefix in mounts:
                self._news.tell_parts(f"{_OVERVIEW}{prefix}", self._render(_TEMPLATE, prefix, shown))
        except Exception as error:  # noqa: BLE001  # the store may be down: those who look are told, and it goes on
            _log.warning("the dashboard cannot be kept live: %s", type(error).__name__)
            self._news.tell_trouble(_TROUBLE)


class _Reader:
    """Reads the store, one thing at a time.

    Attributes:
        pulse: The last one.
        board: The last one that was read to its end.
    """

    def __init__(self, app: "App") -> None:
        self.pulse: Pulse | None = None
        self.board: Board | None = None
        self._app = app
        self._reading: BoardReading | None = None
        self._mark: object = None
        self._begun = self._rolled = self._at = float("-inf")
        self._between = False

    def stale(self) -> bool:
        """Tell whether the last pulse is too old to say anything of now."""
        return monotonic() - self._at > _STALE

    def read(self, *, whole: bool) -> "Pulse":
        """Read one thing, and return the last pulse.

        Args:
            whole: Whether the board is wanted too.
        """
        store, pulse = self._app.store, self.pulse
        if pulse is None or self.stale() or self._between or not self._aside(store, pulse, whole=whole):
            self.pulse = pulse = store.pulse(window=LIVE.window, step=LIVE.step)
            self._at, self._between = monotonic(), False
        return pulse

    def _aside(self, store: "Store", pulse: "Pulse", *, whole: bool) -> bool:
        """Do what is done in place of a pulse, if anything is due; never twice in a row."""
        if whole and (self._reading or self._due(pulse)):
            self._between = True
            self._reading = self._reading or self._begin(store, pulse)
            if board := self._reading.step(pulse.at):
                self.board, self._reading = board, None
            return True
        if not pulse.workers and monotonic() - self._rolled >= _ROLL_UP_EVERY:  # workers do it otherwise
            self._between, self._rolled = True, monotonic()
            store.roll_up()
            return True
        return False

    def _begin(self, store: "Store", pulse: "Pulse") -> BoardReading:
        self._mark, self._begun = _mark(pulse), monotonic()
        return BoardReading(store)

    def _due(self, pulse: "Pulse") -> bool:
        changed = self.board is None or _mark(pulse) != self._mark
        return changed and monotonic() - self._begun >= _BOARD_EVERY


def _mark(pulse: "Pulse") -> object:
    """Return what changes when the board does."""
    return failing(pulse.last_hour), pulse.counts.get("dead_letters"), pulse.cooldowns, pulse.open_breakers


def _plain(pulse: "Pulse") -> dict[str, Any]:
    return {name: badge._asdict() for name, badge in badges(pulse).items()}


def _newest(pulse: "Pulse") -> dict[str, str]:
    """Return the largest numbers as text: a browser would round those above 2**53."""
    return {"task": str(pulse.newest_task), "dead_letter": str(pulse.newest_dead_letter)}
