"""A long run on one database, from its beginning to the balance."""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from tools.soak.saying import counted, left_told

if TYPE_CHECKING:
    from tools.soak.crew import Crew
    from tools.soak.places import Place

_TELL_EVERY = 5.0
_SETTLE = 240.0
"""Seconds within which all that is left has to be done, once nothing happens any more."""


class Settings(NamedTuple):
    """Of one run."""

    place: str
    seconds: float
    seed: int
    per_second: float
    keep: bool
    workers: int

    @property
    def crew(self) -> dict[str, int]:
        """How many processes of each kind there are."""
        return {"worker": self.workers, "monitor": 2 if self.workers > 2 else 1, "web": 1, "job": 1}


def run(settings: Settings) -> int:
    """Run it; return how many things were off."""
    from tools.soak.places import PLACES  # noqa: PLC0415  # it starts no server before it is asked to

    folder = Path(tempfile.mkdtemp(prefix=f"outlast-soak-{settings.place}-"))
    place = PLACES[settings.place](folder)
    try:
        off = _Run(settings, place, folder).go()
    finally:
        place.end()
    if off or settings.keep:
        print(f"[{settings.place}] all that was left is in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return len(off)


class _Run:
    def __init__(self, settings: Settings, place: Place, folder: Path) -> None:
        os.environ.update(SOAK_URL=place.url, SOAK_FOLDER=str(folder), **place.environment)
        from tools.soak import program  # noqa: PLC0415  # it reads the environment
        from tools.soak.crew import Crew  # noqa: PLC0415  # behind the others
        from tools.soak.load import Load  # noqa: PLC0415  # it imports Outlast
        from tools.soak.looking import Looking  # noqa: PLC0415  # behind the others
        from tools.soak.mischief import Mischief  # noqa: PLC0415  # it imports the program

        self.settings, self.place, self.folder, self.program = settings, place, folder, program
        port, token = _free_port(), secrets.token_urlsafe(24)
        self.crew: Crew = Crew(folder, place.url, port, token, place.environment)
        self.load = Load(program.app, folder, Random(f"load {settings.seed}"), settings.per_second)
        self.mischief = Mischief(self.crew, place, Random(f"mischief {settings.seed}"))
        self.looking = Looking(port, token)
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{self.settings.place} {time.monotonic() - self.began:5.0f} s] {text}", flush=True)

    def go(self) -> list[str]:
        """Do all of it; return what was off."""
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # that the database is away is no news here
        for note in self.place.notes:
            self.say(f"note: {note}")
        try:
            self.load.prepare()
            self._suffer()
            left = self._settle()
            return self._balance(left)
        finally:
            self.crew.end()
            self.program.app.close()

    def _suffer(self) -> None:
        self.crew.tend(self.settings.crew)
        self.load.start()
        self.looking.start()
        self.mischief.start()
        told = time.monotonic()
        while time.monotonic() - self.began < self.settings.seconds:
            time.sleep(0.1)
            self.crew.tend(self.settings.crew)
            if time.monotonic() - told >= _TELL_EVERY:
                told = time.monotonic()
                self.say(self._progress())
        self.mischief.finish()
        self.load.finish()

    def _progress(self) -> str:
        happened = ", ".join(counted(count, name) for name, count in self.mischief.counts.most_common(4))
        said = sum(self.looking.answers.values())
        return (
            f"{len(self.load.known):,} enqueued, {self._lines():,} calls, {happened or 'nothing happened yet'}; "
            f"{counted(said, 'page')}; {counted(sum(self.load.refused.values()), 'refusal')}"
        )

    def _lines(self) -> int:
        file = self.program.effects()
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def _settle(self) -> list[str]:
        """Let workers do what is left, in peace."""
        crew = {kind: number for kind, number in self.settings.crew.items() if kind != "job"}
        limit = time.monotonic() + _SETTLE
        told = time.monotonic()
        live: list[tuple[object, ...]] = []
        while time.monotonic() < limit:
            self.crew.tend(crew)
            live = self._live()
            if any(row[:2] == ("letter", "fixable") for row in live):
                self.load.replay_fixable()  # one that was called before its gate was open
            if not live:
                break
            if time.monotonic() - told >= _TELL_EVERY:
                told = time.monotonic()
                self.say(f"nothing happens any more; still to do: {left_told(live)}")
            time.sleep(0.3)
        self.looking.finish()
        bad = self.crew.disband()
        return [*bad, *([f"not done within {_SETTLE:g} s: {left_told(live)}"] if live else [])]

    def _live(self) -> list[tuple[object, ...]]:
        try:
            tasks = self.place.rows(
                "SELECT task_type, status, count(*) FROM task_queue WHERE status IN ('QUEUED', 'RUNNING', 'PARKED') "
                "AND task_type NOT LIKE '%tick' GROUP BY task_type, status"
            )
            replays = self.place.rows(
                "SELECT 'replay', state, count(*) FROM replays WHERE state = 'running' GROUP BY state"
            )
            letters = self.place.rows(
                "SELECT 'letter', task_type, count(*) FROM dead_letter_queue WHERE task_type = 'fixable' "
                "AND reason IN ('permanent', 'canary') GROUP BY task_type"
            )
            unseen = self.place.rows(
                "SELECT 'source', 'unpolled', count(*) FROM sources "
                "WHERE id NOT IN (SELECT source_id FROM source_polls)"
            )
            periodic = self.place.rows(
                "SELECT 'periodic task', 'not run yet', 1 "
                "WHERE NOT EXISTS (SELECT 1 FROM task_queue WHERE task_type LIKE '%tick')"
            )
        except Exception as error:  # noqa: BLE001  # the database is only just back
            return [("database", repr(error), 1)]
        return [*tasks, *replays, *letters, *periodic, *(row for row in unseen if row[2])]

    def _balance(self, off: list[str]) -> list[str]:
        from tools.soak.books import Books, effects_in  # noqa: PLC0415  # at the end

        effects = effects_in(self.program.effects())
        elapsed = time.monotonic() - self.began
        books = Books(self.place, self.load, effects, self.program.app.settings.crash_limit)
        off = [*off, *books.check(elapsed, self.program.TICK), *self.crew.surprises(), *self.mischief.errors]
        off += [*dict.fromkeys(self.load.surprises), *dict.fromkeys(self.looking.broken)]
        doctor = self._doctor()
        off += [text for text, ok in doctor if not ok]
        self._sum_up(books.statuses(), Counter(effect.what.partition(":")[0] for effect in effects), doctor)
        for text in off:
            self.say(f"OFF: {text[:1500]}")
        return off

    def _doctor(self) -> list[tuple[str, bool]]:
        command = [sys.executable, "-m", "outlast", "doctor", "--json", "--app", "tools.soak.program:app"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[2])
        try:
            told = json.loads(done.stdout)
        except ValueError:
            return [(f"the doctor ended with {done.returncode}: {done.stdout[-500:]} {done.stderr[-500:]}", False)]
        return [(f"doctor: {each['check']}: {each['text']}", each["ok"] is not False) for each in told["findings"]]

    def _sum_up(self, statuses: Counter[str], calls: Counter[str], doctor: list[tuple[str, bool]]) -> None:
        load = self.load
        table = {
            "asked for": f"{len(load.kinds):,} tasks, {len(load.known):,} told to be there, "
            f"{len(load.shared):,} of a key that was taken",
            "ended as": ", ".join(f"{number:,} {name.lower()}" for name, number in sorted(statuses.items())),
            "calls": ", ".join(f"{number:,} {name}" for name, number in calls.most_common()),
            "happened": ", ".join(counted(number, name) for name, number in self.mischief.counts.most_common())
            or "nothing",
            "by hand": ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in sorted(load.done.items())),
            "refused": ", ".join(f"{number} {name}" for name, number in load.refused.most_common()) or "nothing",
            "processes": ", ".join(counted(number, kind) for kind, number in self.crew.counts.items()),
            "pages": ", ".join(
                f"{number} with {status or 'no answer'}" for status, number in self.looking.answers.most_common()
            ),
            "books": f"{load.ledgers['right']} times right in the midst of it; at the end: "
            + next((text for text, _ in doctor if "ledger" in text), "no word of the doctor"),
        }
        self.say("the end")
        for name, text in table.items():
            print(f"[{self.settings.place}]   {name:<10} {text}", flush=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
