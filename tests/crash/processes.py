"""Processes of a test: each is known by its own pid, has a deadline, and is ended when the test is."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

import forked

_TESTS = Path(__file__).parents[1]
_EVERY = 0.03  # seconds between two looks


def until(condition, seconds, what):
    """Wait until a condition is true, and return what it returned; fail after so many seconds.

    Args:
        condition: Asked again and again.
        seconds: The deadline.
        what: For the message: text, or a function that returns it.
    """
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds:g} s: {what() if callable(what) else what}")
        time.sleep(_EVERY)


def _is_writable(url):
    connection = sqlite3.connect(url.partition("sqlite://")[2].replace("/", "", 1), timeout=1, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True


class Child:
    """One process of a program.

    Args:
        command: Its script and the arguments.
        environment: Its whole environment.
        log: Where it logs to.
    """

    def __init__(self, command, environment, log):
        self.log = log
        self.announced = False
        with log.open("wb") as file:
            self.process = forked.start([str(each) for each in command], environment, file)
        self.pid = self.process.pid

    @property
    def alive(self):
        return self.process.poll() is None

    def said(self):
        """Return what it has logged so far."""
        return self.log.read_text("utf-8", "replace")

    def send(self, number):
        """Send it a signal, if it is there; once this returns, a stopped process has stopped in all its threads."""
        if self.alive:
            self.process.send_signal(number)
            if number == signal.SIGSTOP:
                until(self._stands_still, 10, f"process {self.pid} stands still")

    def pause(self, url):
        """Stop it as SIGSTOP does, at a moment when it does not write to a SQLite file: nobody else could then."""
        self.send(signal.SIGSTOP)
        while url.startswith("sqlite") and not _is_writable(url):
            self.send(signal.SIGCONT)
            time.sleep(_EVERY)
            self.send(signal.SIGSTOP)

    def _stands_still(self):
        states = []
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(FileNotFoundError):  # a thread that ended a moment ago
                states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
        return set(states) <= {"T"}

    def kill(self):
        """End it as kill -9 does."""
        self.send(signal.SIGKILL)
        return self.wait()

    def stop(self, seconds=20.0):
        """End it as a deploy does; it has to end well."""
        self.send(signal.SIGTERM)
        code = self.wait(seconds)
        assert code == 0, f"ended with {code}:\n{self.said()[-4000:]}"

    def wait(self, seconds=20.0):
        """Return its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"process {self.pid} did not end within {seconds:g} s:\n{self.said()[-4000:]}")

    def dies(self, seconds=20.0):
        """Wait until it has killed itself."""
        code = self.wait(seconds)
        assert code == -signal.SIGKILL, f"ended with {code}:\n{self.said()[-4000:]}"


class Fleet:
    """All processes of a test.

    Args:
        folder: For what they log.
        url: Of the store.
        effects: The file of side effects.
    """

    def __init__(self, folder, url, effects):
        self.folder, self.url, self.effects = Path(folder), url, effects
        self.children = []
        self._numbers = count(1)

    def start(self, verb="work", *, at="", hold=-1, worker=None, **settings):
        """Start the program.

        Args:
            verb: ``work`` or ``replay``.
            at: Where it kills itself.
            hold: See `killing.arm`.
            worker: Settings of the worker.
            settings: Of the app.
        """
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(_TESTS)]),
            "CRASH_URL": self.url,
            "CRASH_EFFECTS": str(self.effects),
            "CRASH_SETTINGS": json.dumps(settings),
            "CRASH_WORKER": json.dumps(worker or {}),
            "CRASH_AT": at,
            "CRASH_HOLD": str(hold),
        }
        command = [_TESTS / "crash" / "program.py", verb]
        child = Child(command, environment, self.folder / f"child-{next(self._numbers)}.log")
        self.children.append(child)
        return child

    @property
    def alive(self):
        return [each for each in self.children if each.alive]

    def disband(self):
        """Stop all; one that has only begun to start ends by the signal itself."""
        for each in self.alive:
            each.send(signal.SIGTERM)
            code = each.wait()
            assert code in {0, -signal.SIGTERM}, f"ended with {code}:\n{each.said()[-4000:]}"

    def said(self, last=3000):
        """Return the ends of what all have logged."""
        return "\n".join(f"--- {each.pid} ({each.process.poll()})\n{each.said()[-last:]}" for each in self.children)

    def end(self):
        """End what still lives."""
        for each in self.children:
            each.send(signal.SIGKILL)  # also ends what is stopped
        for each in self.children:
            each.process.wait(20)
