"""What keeps pages live is read here, one statement on every tick, whatever the number of those who look."""

import logging
from collections.abc import Collection, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from outlast.report.flow import failing
from outlast.web.live.board import Board, BoardReading
from outlast.web.live.watched_tasks import mark_of, watched
from outlast.web.pages.overview import FINEST, LIVE, WINDOW
from outlast.web.pages.replays import LISTED, is_replay_view

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.read_rows import Pulse
    from outlast.ports.store import Store
    from outlast.ports.triage_rows import Replay

__all__ = ["Reading"]

_STALE = 30.0  # seconds after which a pulse says nothing of now
_BOARD_EVERY = 10.0  # seconds between two readings of the board at least
_BOARD_LASTS = 30.0  # and at most: what it says of waits changes without a sign in the pulse
_LEFT_ALONE = 60.0  # seconds: a delta that old is nobody else's to add up; workers do it otherwise
_ROLL_UP_EVERY = 30.0
_ROLL_UP_AGAIN = 900.0  # seconds until it is tried again where it failed
_log = logging.getLogger("outlast.web")


class Reading:
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
        self._board_reading: BoardReading | None = None
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
        return monotonic() - self._at > _STALE

    def read(self, views: Collection[str]) -> "Pulse":
        """Read one thing, and return the last pulse.

        Args:
            views: What is looked at.
        """
        store, pulse = self._app.store, self.pulse
        if self.stale() or not any(map(is_replay_view, views)):
            self.replays = None  # what nobody looked at is out of date
        if pulse is None or self.stale() or self._between or not self._aside(store, pulse, views):
            step = min([LIVE[view].step for view in views if view in LIVE], default=LIVE["overview"].step)
            self.pulse = pulse = store.pulse(window=WINDOW, step=max(step, FINEST))
            self._at, self._between = monotonic(), False
        return pulse

    def _aside(self, store: "Store", pulse: "Pulse", views: Collection[str]) -> bool:
        """Do what is done in place of a pulse, if anything is due; never twice in a row."""
        rests = monotonic() - self._rolled < _ROLL_UP_EVERY
        due = {
            "replays": any(map(is_replay_view, views)),
            "board": any(view in LIVE for view in views) and (self._board_reading is not None or self._due(pulse)),
            "task": bool(watched(views)),
            "roll up": (pulse.not_rolled_up or 0.0) > _LEFT_ALONE and not rests,
        }
        if not any(due.values()):
            return False
        name = min((each for each in due if due[each]), key=lambda each: self._turns.get(each, 0))
        self._turns[name] = max(self._turns.values(), default=0) + 1
        self._between = True  # also where it fails: a pulse comes first
        match name:
            case "replays":
                self.replays = store.replay_runs(limit=LISTED)
            case "board":
                self._read_board(store, pulse)
            case "task":
                self._read_task(store, watched(views))
            case _:
                self._roll_up(store)
        return True

    def _read_task(self, store: "Store", numbers: Sequence[int]) -> None:
        """Look at one of the tasks whose pages are open, the next one each time."""
        self._task = next((each for each in numbers if each > self._task), numbers[0])
        self.marks = {each: mark for each, mark in self.marks.items() if each in numbers}
        self.marks[self._task] = mark_of(store.get(self._task))

    def _roll_up(self, store: "Store") -> None:
        """Keep the books short; where that may not be, as in a database that can only be read, go on without it."""
        self._rolled = monotonic()
        try:
            store.roll_up()
        except Exception as error:  # noqa: BLE001  # pages can be read all the same; if not, the pulse says so
            self._rolled += _ROLL_UP_AGAIN
            if not self._cannot_roll_up:
                self._cannot_roll_up = True
                _log.warning("the dashboard cannot roll up the books, workers will: %s", type(error).__name__)

    def _read_board(self, store: "Store", pulse: "Pulse") -> None:
        if self._board_reading is None:
            self._mark, self._begun = _mark(pulse), monotonic()
            self._board_reading = BoardReading(store)
        if board := self._board_reading.step(pulse.at):
            self.board, self._board_reading = board, None

    def _due(self, pulse: "Pulse") -> bool:
        age = monotonic() - self._begun
        changed = self.board is None or _mark(pulse) != self._mark
        return age >= (_BOARD_EVERY if changed else _BOARD_LASTS)


def _mark(pulse: "Pulse") -> object:
    """Return what changes when the board does."""
    return failing(pulse.last_hour), pulse.counts.get("dead_letters"), pulse.cooldowns, pulse.open_breakers
