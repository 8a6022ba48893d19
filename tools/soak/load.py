"""The load: tasks of every kind, and people who replay, cancel and discard. It keeps a list of what it was told."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from outlast.classify import classify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from random import Random

    from outlast.app import App

_MOST_LIVE = 1500
_EXPECTED = {"network", "database_busy", "system", "api_temporary"}
_KEYS = 12
_GATES = 4
_SOURCES = 30


class Load(threading.Thread):
    """Enqueues until it is told to stop.

    Args:
        app: Whose tasks.
        folder: Where the gates are.
        chance: What is random about it.
        per_second: Tasks.

    Attributes:
        kinds: What each number is, of all that was ever asked for.
        known: The task of each number for which the store has said so.
        shared: Numbers for which another task with the same key was there.
        cancelled: Tasks of which the store said that they were cancelled.
        refused: How often the store could not be reached, by class of the error.
        surprises: Errors that no outage explains.
    """

    def __init__(self, app: App, folder: Path, chance: Random, per_second: float) -> None:
        super().__init__(name="load", daemon=True)
        self._app, self._folder, self._chance, self._pace = app, folder, chance, per_second
        self._number = 0
        self._over = threading.Event()
        self._fresh: list[int] = []
        self._paused = False
        self.kinds: dict[int, str] = {}
        self.known: dict[int, int] = {}
        self.shared: set[int] = set()
        self.cancelled: set[int] = set()
        self.refused: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.surprises: list[str] = []
        self.ledgers: Counter[str] = Counter()

    def prepare(self) -> None:
        """Create the tables and the sources."""
        self._app.create_schema()
        for number in range(_SOURCES):
            self._app.sources.add(f"https://soak.invalid/{number}", profile="feed", name=f"source {number}")

    def run(self) -> None:
        """Go on until told to stop, at about the pace that was asked for."""
        batch = 20
        while not self._over.wait(batch / self._pace * self._chance.uniform(0.5, 1.5)):
            with self.trying("look"):
                counts = self._app.store.counts()
                if counts["QUEUED"] < _MOST_LIVE:
                    self._enqueue(batch)
            for chance, what in self._other:
                if self._chance.random() < chance:
                    with self.trying(what.__name__):
                        what()
                        self.done[what.__name__.strip("_")] += 1

    def finish(self) -> None:
        """Stop, undo what would keep tasks waiting, and mend all that was broken."""
        self._over.set()
        self.join(120)
        for gate in range(_GATES):
            (self._folder / f"gate-{gate}").touch()
        self.insist("resume", lambda: self._app.tasks.resume("mended"))
        self.insist("cancel", self._cancel_fresh)
        self.replay_fixable()

    def replay_fixable(self) -> None:
        """Have all that can succeed now run again; a canary that met a shut gate is one of them."""
        for reason in ("permanent", "canary"):
            self.insist("replay", partial(self._app.dead_letters.replay, task="fixable", reason=reason))

    def insist(self, what: str, action: Callable[[], object], seconds: float = 60.0) -> None:
        """Do something that has to succeed, as soon as the store lets us."""
        limit = time.monotonic() + seconds
        while True:
            try:
                action()
            except Exception as error:  # noqa: BLE001  # told if it goes on
                if time.monotonic() > limit:
                    self.surprises.append(f"{what} did not succeed: {error!r}")
                    return
                time.sleep(0.5)
            else:
                return

    @contextmanager
    def trying(self, what: str) -> Iterator[None]:
        """Within the block the store may be down; whatever else is wrong is kept."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # it is judged
            failure = classify(error)
            self.refused[failure.exception_name or type(error).__name__] += 1
            if failure.category not in _EXPECTED:
                self.surprises.append(f"{what}: {failure.exception_name}: {failure.message}")

    @property
    def _other(self) -> list[tuple[float, Callable[[], object]]]:
        return [
            (0.10, self._enqueue_keyed), (0.03, self._enqueue_never), (0.008, self._enqueue_poison),
            (0.03, self._cancel_fresh), (0.02, self._cancel_some), (0.02, self._replay), (0.02, self._canary),
            (0.01, self._discard), (0.02, self._gate), (0.02, self._pause), (0.05, self._ledger),
        ]  # fmt: skip

    def _numbers(self, kind: str, count: int) -> range:
        first = self._number + 1
        self._number += count
        numbers = range(first, first + count)
        self.kinds.update(dict.fromkeys(numbers, kind))
        return numbers

    def _add(self, kind: str, count: int, arguments: Callable[[], dict[str, Any]] = dict, **options: Any) -> list[int]:
        numbers = self._numbers(kind, count)
        calls = [{"n": n, **arguments()} for n in numbers]
        added = self._app.tasks_by_name[kind].enqueue_many(calls, **options)
        self.known.update({n: each.id for n, each in zip(numbers, added, strict=True)})
        return [each.id for each in added]

    def _enqueue(self, count: int) -> None:
        draw = self._chance
        kind = draw.choices(
            ["note", "gentle", "slow", "flaky", "broken", "fixable", "limited", "timed"], [40, 15, 8, 12, 5, 8, 8, 4]
        )[0]
        if kind in {"slow", "timed"}:
            count //= 4
        arguments: Callable[[], dict[str, Any]] = {
            "slow": lambda: {"seconds": round(draw.uniform(0.01, 0.3), 3)},
            "flaky": lambda: {"failures": draw.randint(1, 3)},
            "fixable": lambda: {"gate": f"gate-{draw.randrange(_GATES)}"},
        }.get(kind, dict)
        options = {"priority": draw.randint(0, 9)} | ({"delay": 1} if draw.random() < 0.1 else {})
        self._add(kind, count, arguments, **options)

    def _enqueue_keyed(self) -> None:
        key = f"key-{self._chance.randrange(_KEYS)}"
        (n,) = self._numbers("keyed", 1)
        added = self._app.tasks_by_name["keyed"].enqueue(n=n, key=key, unique_key=key)
        if added.created:
            self.known[n] = added.id
        else:
            self.shared.add(n)

    def _enqueue_poison(self) -> None:
        self._add("poison", 1)

    def _enqueue_never(self) -> None:
        self._fresh += self._add("never", 3, delay=3600)

    def _cancel_fresh(self) -> None:
        waiting = [row.id for row in self._app.tasks.list(task="never", limit=1000) if row.status == "QUEUED"]
        self.cancelled.update(self._app.tasks.cancel(*waiting) if waiting else ())

    def _cancel_some(self) -> None:
        numbers = list(self.known.values())[-200:]
        chosen = self._chance.sample(numbers, min(3, len(numbers)))
        self.cancelled.update(self._app.tasks.cancel(*chosen) if chosen else ())

    def _replay(self) -> None:
        self._app.dead_letters.replay(task="fixable", limit=50, why="soak")

    def _canary(self) -> None:
        if not self._app.dead_letters.replays(running=True):
            self._app.dead_letters.replay_later(task="fixable", limit=100, why="soak")

    def _discard(self) -> None:
        self._app.dead_letters.discard(task="broken", limit=5, why="soak")

    def _gate(self) -> None:
        gate = self._folder / f"gate-{self._chance.randrange(_GATES)}"
        if gate.exists():
            gate.unlink()
        else:
            gate.touch()

    def _pause(self) -> None:
        (self._app.tasks.resume if self._paused else self._app.tasks.pause)("mended")
        self._paused = not self._paused

    def _ledger(self) -> None:
        """See that the books are right at this very moment, whatever goes on."""
        from outlast.report.doctor import ledger_findings  # noqa: PLC0415  # read where it is used

        off = [each.text for each in ledger_findings(*self._app.store.counter_check()) if each.ok is False]
        self.ledgers["off" if off else "right"] += 1
        self.surprises += [f"the books, in the midst of it: {text}" for text in off]
