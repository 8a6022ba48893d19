"""The processes of a long run: commands of Outlast, known by their pids, that are killed, frozen and replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

_ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = "tools.soak.program"
_ARGUMENTS = {
    "worker": ["worker", f"{_PROGRAM}:app", "--concurrency", "4"],
    "monitor": ["monitor", f"{_PROGRAM}:watch"],
    "web": ["web", f"{_PROGRAM}:app", "--read-only", "--port"],
    "job": ["job", "run", f"{_PROGRAM}:collect", "--no-progress"],
}

_SPARED = 0.7
"""How often nothing happens to one that has only begun to start; a busy machine would come to nothing else."""
_LASTING = {"worker": "worker", "monitor": "monitor"}
"""Those that never end by themselves, and under which name they log."""


class Member:
    """One process.

    Args:
        kind: What it does.
        command: Its arguments.
        environment: Its environment.
        log: Where it writes to.
    """

    def __init__(self, kind: str, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.kind, self.log = kind, log
        self.told_to_end = False
        self.thaws_at: float | None = None
        self.born = time.monotonic()
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "outlast", *command],
                env=environment, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            )  # fmt: skip

    @property
    def alive(self) -> bool:
        """Whether it runs, or stands still."""
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        if self.alive:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    def kill(self) -> None:
        """End it as kill -9 does."""
        self.told_to_end = True
        self.send(signal.SIGKILL)
        self.process.wait(30)

    def freeze(self, seconds: float) -> None:
        """Have it stand still for so long."""
        self.send(signal.SIGSTOP)
        self.thaws_at = time.monotonic() + seconds

    def thaw(self) -> None:
        """Let it go on."""
        self.send(signal.SIGCONT)
        self.thaws_at = None

    def stop(self) -> None:
        """Tell it to end, as a deploy does."""
        self.told_to_end = True
        self.send(signal.SIGTERM)

    def said(self) -> str:
        """Return what it has written."""
        return self.log.read_text("utf-8", "replace")


class Crew:
    """All of them.

    Args:
        folder: For their logs, and for what the program leaves.
        url: Of the store.
        port: For the dashboard.
        token: That opens it.
        more: Further environment.
    """

    def __init__(self, folder: Path, url: str, port: int, token: str, more: dict[str, str]) -> None:
        self._logs = folder / "logs"
        self._logs.mkdir()
        self._port = port
        home = folder / "home"
        home.mkdir()
        self._environment = os.environ | more | {
            "SOAK_URL": url, "SOAK_FOLDER": str(folder), "OUTLAST_WEB_READ_TOKEN": token, "HOME": str(home),
            "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(_ROOT)]),
        }  # fmt: skip
        self.members: list[Member] = []
        self.ended: list[Member] = []
        self.counts: Counter[str] = Counter()

    def start(self, kind: str) -> Member:
        """Start one more."""
        command = [*_ARGUMENTS[kind], *([str(self._port)] if kind == "web" else [])]
        self.counts[kind] += 1
        member = Member(kind, command, self._environment, self._logs / f"{kind}-{self.counts[kind]}.log")
        self.members.append(member)
        return member

    def of(self, kind: str) -> list[Member]:
        """Return those that live."""
        return [each for each in self.members if each.kind == kind and each.alive]

    def some(self, kind: str, chance: Random) -> Member | None:
        """Return one that lives and does not stand still; mostly one that has begun."""
        there = [each for each in self.of(kind) if each.thaws_at is None]
        begun = [each for each in there if each.log.stat().st_size]
        if not begun and chance.random() < _SPARED:
            return None
        return chance.choice(begun or there) if there else None

    def tend(self, wanted: dict[str, int]) -> None:
        """Start what is missing, as a supervisor does; wake up whose time has come."""
        for member in self.members:
            if member.thaws_at is not None and time.monotonic() >= member.thaws_at:
                member.thaw()
        self.ended += [each for each in self.members if not each.alive]
        self.members = [each for each in self.members if each.alive]
        for kind, number in wanted.items():
            for _ in range(number - len(self.of(kind))):
                self.start(kind)

    def surprises(self) -> list[str]:
        """Name those that had begun and ended though nobody told them to; who is ended by poison is killed."""
        return [
            f"{each.log.name} ended by itself with {each.process.returncode}: {each.said()[-600:]}"
            for each in self.ended
            if not each.told_to_end and each.kind in _LASTING and each.process.returncode != -signal.SIGKILL
            if f"INFO outlast.{_LASTING[each.kind]}: " in each.said() and "no task came to an end" not in each.said()
        ]

    def disband(self, seconds: float = 60.0) -> list[str]:
        """Stop all; name those that did not end well."""
        for member in self.members:
            member.thaw()
            member.stop()
        bad = []
        limit = time.monotonic() + seconds
        for member in self.members:
            try:
                code = member.process.wait(max(0.1, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                bad.append(f"{member.log.name} did not end within {seconds:g} s: {member.said()[-600:]}")
                member.kill()
                continue
            fine = {0, 1, -signal.SIGTERM} if member.kind == "job" else {0, -signal.SIGTERM}
            if code not in fine:
                bad.append(f"{member.log.name} ended with {code}: {member.said()[-600:]}")
        self.ended += self.members
        self.members = []
        return bad

    def end(self) -> None:
        """End whatever is left."""
        for member in self.members:
            if member.alive:
                member.kill()
