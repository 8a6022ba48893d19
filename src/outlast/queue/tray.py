"""What passes between the pump, which talks to the store, and the runners, which run tasks.

Made for the pace of tasks that do nothing: appending to a deque needs no lock, and the pump is woken once per batch.
"""

from collections import deque
from threading import Event

from outlast.queue.settling import Outcome

__all__ = ["Tray"]


class Tray:
    """Outcomes on their way back.

    Attributes:
        outcomes: What runners have finished and the pump has not taken yet.
        wake: Set when the pump has something to do.
        hungry: Set when a runner has nothing left to run: no use in waiting for more outcomes.
    """

    __slots__ = ("hungry", "outcomes", "wake")

    def __init__(self) -> None:
        """Begin empty."""
        self.outcomes: deque[list[Outcome]] = deque()
        self.wake = Event()
        self.hungry = Event()

    def put(self, outcomes: list[Outcome], *, more: bool) -> None:
        """Hand in what became of one task.

        Args:
            outcomes: To be written.
            more: Whether other tasks wait for this runner.
        """
        self.outcomes.append(outcomes)
        if not more:
            if not self.hungry.is_set():
                self.hungry.set()
            if not self.wake.is_set():
                self.wake.set()
        elif len(self.outcomes) == 1:
            self.wake.set()

    def take(self) -> list[list[Outcome]]:
        """Take all that is there."""
        self.hungry.clear()
        self.wake.clear()
        taken = []
        while self.outcomes:
            taken.append(self.outcomes.popleft())
        return taken
