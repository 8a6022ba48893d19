"""Keeps open pages live: one read of the store per tick and process, whatever the number of those who look.

While nobody looks, nothing is read. Every tick spends one statement: most often the pulse; when failures or waits have
changed and somebody has the overview open, or somebody watches a replay or a task, the ticks in between read that.
"""

import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio

from outlast.report.badges import badges
from outlast.web.live.news import News
from outlast.web.live.reading import Reading
from outlast.web.live.watched_tasks import task_part
from outlast.web.pages.overview import LIVE, overview_of
from outlast.web.pages.replays import replay_part

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.read_rows import Pulse

__all__ = ["LONGEST", "TICK", "Hub"]

TICK = 2.0
"""Seconds between two reads."""
LONGEST = 600.0
"""Seconds after which a stream ends; a browser opens the next one by itself."""
_LOOK_AGAIN = 0.25  # ticks between two looks of a stream at what the last one brought
_SAY_AGAIN = 60.0  # seconds after which the log is told again that the store does not answer
_TROUBLE = "The store does not answer"
_log = logging.getLogger("outlast.web")


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
        self._reading = Reading(app)
        self._said = float("-inf")

    def badges(self) -> Mapping[str, Any] | None:
        """Return the badges of the last pulse; None when there is none of late."""
        pulse = self._reading.pulse
        return None if pulse is None or self._reading.stale() else badges(pulse)

    def newest(self) -> Mapping[str, str]:
        """Return the largest numbers of the last pulse as text; none when there is no pulse of late."""
        pulse = self._reading.pulse
        return {} if pulse is None or self._reading.stale() else _newest(pulse)

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
                await anyio.sleep(self._tick * _LOOK_AGAIN)
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
            self._news.tell_pulse({"badges": _plain(pulse), "newest": _newest(pulse)})
            for view, prefix in looked_at:
                if part := self._part(view, pulse):
                    self._news.tell_parts(f"{view}{prefix}", self._render(part[0], prefix, part[1]))
        except Exception as error:  # noqa: BLE001  # the store may be down: those who look are told, and it goes on
            if monotonic() - self._said >= _SAY_AGAIN:
                self._said = monotonic()
                _log.warning("the dashboard cannot be kept live: %s", type(error).__name__)
            self._news.tell_trouble(_TROUBLE)

    def _part(self, view: str, pulse: "Pulse") -> tuple[str, Mapping[str, Any]] | None:
        """Return the template of what a view keeps up to date, and what it shows; None where nothing is known."""
        if view in LIVE:
            return "overview_live.html", overview_of(pulse, self._reading.board, LIVE[view])
        return task_part(view, self._reading.marks) or replay_part(view, self._reading.replays, pulse.workers)


def _plain(pulse: "Pulse") -> dict[str, Any]:
    return {name: badge._asdict() for name, badge in badges(pulse).items()}


def _newest(pulse: "Pulse") -> dict[str, str]:
    """Return the largest numbers as text: a browser would round those above 2**53."""
    return {"task": str(pulse.newest_task), "dead_letter": str(pulse.newest_dead_letter)}
