"""All that happens to a program in a bad week, within minutes: by chance, and the same chance for the same seed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from tools.soak.program import LEASE

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tools.soak.crew import Crew
    from tools.soak.places import Place

_EVERY = 1.6
"""Seconds between two of them, about."""


class Mischief(threading.Thread):
    """Goes on until it is told to stop, and leaves nothing broken behind.

    Args:
        crew: Whose members suffer.
        place: Whose database does.
        chance: What is random about it.

    Attributes:
        counts: How often each thing happened.
        errors: What went wrong with the mischief itself.
    """

    def __init__(self, crew: Crew, place: Place, chance: Random) -> None:
        super().__init__(name="mischief", daemon=True)
        self._crew, self._place, self._chance = crew, place, chance
        self._over = threading.Event()
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []
        self.latest = ""

    def run(self) -> None:
        """Let one thing after the other happen."""
        while not self._over.wait(_EVERY * self._chance.uniform(0.3, 1.7)):
            what, share = zip(*self._choices(), strict=True)
            chosen = self._chance.choices(what, share)[0]
            try:
                if chosen():
                    self.latest = chosen.__name__.strip("_").replace("_", " ")
                    self.counts[self.latest] += 1
            except Exception as error:  # noqa: BLE001  # told at the end
                self.errors.append(f"{chosen.__name__}: {error!r}")

    def finish(self) -> None:
        """Stop; what it has begun it ends."""
        self._over.set()
        self.join(120)
        self._place.clear()

    def _choices(self) -> list[tuple[Callable[[], bool], float]]:
        choices: list[tuple[Callable[[], bool], float]] = [
            (self._killed_worker, 40), (self._frozen_worker, 14), (self._deployed_worker, 10),
            (self._killed_monitor, 6), (self._frozen_monitor, 4), (self._killed_job, 6),
            (self._killed_web, 2), (self._killed_crew, 3),
        ]  # fmt: skip
        if self._place.restarts:
            choices.append((self._restarted_database, 12))
        if self._place.fills:
            choices.append((self._full_disk, 8))
        return choices

    def _kill(self, kind: str) -> bool:
        member = self._crew.some(kind, self._chance)
        if member is not None:
            member.kill()
        return member is not None

    def _freeze(self, kind: str) -> bool:
        member = self._crew.some(kind, self._chance)
        if member is not None:
            member.freeze(LEASE * self._chance.uniform(0.5, 3.0))
        return member is not None

    def _killed_worker(self) -> bool:
        return self._kill("worker")

    def _frozen_worker(self) -> bool:
        return self._freeze("worker")

    def _deployed_worker(self) -> bool:
        member = self._crew.some("worker", self._chance)
        if member is not None:
            member.stop()
        return member is not None

    def _killed_monitor(self) -> bool:
        return self._kill("monitor")

    def _frozen_monitor(self) -> bool:
        return self._freeze("monitor")

    def _killed_job(self) -> bool:
        return self._kill("job")

    def _killed_web(self) -> bool:
        return self._kill("web")

    def _killed_crew(self) -> bool:
        for kind in ("worker", "monitor", "job"):
            while self._kill(kind):
                pass
        return True

    def _restarted_database(self) -> bool:
        self._place.restart(self._chance.choice([0.0, 0.0, 0.5, LEASE * 1.5]))
        return True

    def _full_disk(self) -> bool:
        self._place.fill()
        try:
            time.sleep(self._chance.uniform(1.0, 5.0))
            if self._chance.random() < 0.5:
                self._kill("worker")
        finally:
            self._place.clear()
        return True
