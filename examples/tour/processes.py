"""The processes of the live tour, and the stream of work for them."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

_PATIENCE, _STEP = 2.0, 0.02  # seconds that a process has to end, and between two looks
_TURN = 0.25  # seconds
_RATE, _SWELL = 8.0, 6.0  # tasks per second, and by how much that goes up and down
_POISON_AT, _POISON_EVERY = 12.0, 60.0  # seconds


class Processes:
    """A worker, a monitor and a job, each in a process of its own; one that dies is started again.

    Attributes:
        deaths: How often one had to be.
    """

    def __init__(self) -> None:
        """Start none yet."""
        self.deaths = 0
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for role in ("worker", "monitor", "job"):
            self._start(role)
        return self

    def __exit__(self, *_: object) -> None:
        for urge in (subprocess.Popen.terminate, subprocess.Popen.terminate, subprocess.Popen.kill):
            for process in self._running.values():
                urge(process)
            if self._ended():
                return

    def tend(self) -> None:
        """Start again what has died."""
        for role, process in list(self._running.items()):
            if process.poll() is not None:
                self.deaths += 1
                self._start(role)

    def _ended(self) -> bool:
        end = time.monotonic() + _PATIENCE
        while any(process.poll() is None for process in self._running.values()):
            if time.monotonic() >= end:
                return False
            time.sleep(_STEP)
        return True

    def _start(self, role: str) -> None:
        self._running[role] = subprocess.Popen(
            [sys.executable, "-m", "examples.tour.world", role],
            stdin=subprocess.PIPE,  # which ends when this process does
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the tour, which stops them in its own time
        )


@contextmanager
def streaming(chance: random.Random) -> Iterator[None]:
    """Within the block, enqueue tasks in a steady stream that swells and ebbs."""
    over = threading.Event()
    thread = threading.Thread(target=_stream, args=(over, chance), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _stream(over: threading.Event, chance: random.Random) -> None:
    from examples.tour import world

    begun, poison_at, number, owed = time.monotonic(), _POISON_AT, 0, 0.0
    kinds: dict[Callable[[], object], int] = {
        lambda: world.fetch_page.enqueue(f"/pages?number={number}"): 60,
        lambda: world.read_prices.enqueue(chance.choice(["north", "south", "west"])): 12,
        lambda: world.send_mail.enqueue(f"reader{number}@example.com"): 14,
        lambda: world.pay.enqueue(number): 12,
        lambda: world.fetch_page.enqueue("/missing"): 1,
        lambda: world.fetch_page.enqueue("/broken"): 1,
        lambda: world.fetch_page.enqueue("/stall"): 1,
        lambda: world.sync_account.enqueue(f"user{number}", "open-sesame"): 1,
        lambda: world.convert.enqueue(5): 1,
    }
    for enqueue in kinds:  # one of each, so that there is something to see at once
        enqueue()
    while not over.wait(_TURN):
        now = time.monotonic() - begun
        owed += _TURN * (_RATE + _SWELL * math.sin(now / 4))
        while owed >= 1:
            number, owed = number + 1, owed - 1
            chance.choices(list(kinds), list(kinds.values()))[0]()
        if now >= poison_at:
            poison_at += _POISON_EVERY
            world.poison.enqueue()
