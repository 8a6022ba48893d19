"""The beacon of each process that runs Celery's tasks: how its breakers stand, and what is ordered of them."""

import os
from contextlib import ExitStack

from outlast.beacon import keeper_of, process_name, shining
from outlast.engines.celery.engine import Engine
from outlast.ports.waiting import waiting_at_most

__all__ = ["Lights"]

_WAITS = 1.0  # seconds that a process waits for the store when it begins, and ends; Celery grants it four


class Lights:
    """Has one beacon in a process, however often it is told to begin.

    Args:
        engine: What is attached to what.

    Attributes:
        wanted: Whether a worker of that engine runs here, or has begun this process.
    """

    def __init__(self, engine: Engine) -> None:
        """Begin dark."""
        self.wanted = False
        self._engine, self._lit, self._pid = engine, ExitStack(), 0

    def begin(self) -> None:
        """Tell of the breakers of this process, and obey what stands."""
        if self._pid == os.getpid():
            return
        self._lit, self._pid = ExitStack(), os.getpid()
        with waiting_at_most(_WAITS):
            self._lit.enter_context(shining(keeper_of(self._engine.app.store), process_name, leased=False))

    def end(self) -> None:
        """Have the process forgotten."""
        if self._pid == os.getpid():
            self._pid = 0
            with waiting_at_most(_WAITS):
                self._lit.close()
