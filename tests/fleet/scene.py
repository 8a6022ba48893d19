"""A database, an app on it in this process, and the processes of the fleet's program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from itertools import count
from pathlib import Path

from crash.processes import Child, Fleet, until
from fleet import program

LEASE = {"lease": 20.0, "heartbeat": 0.5}
"""Longer than any pause of a busy machine; who is to be taken for dead has a shorter one."""
_TESTS = Path(__file__).parents[1]


@cache
def fake_time():
    """Return the library by which a process has another time of day; the program only starts one that has it."""
    command = ["faketime", "-m", "-f", "+0", sys.executable, "-c", "import os; print(os.environ['LD_PRELOAD'])"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout.strip()


class FleetScene(Fleet):
    """What a test works with.

    Attributes:
        app: For enqueueing and looking; it runs nothing.
    """

    def __init__(self, folder, url, api="", way=None):
        super().__init__(folder, way or url, "")
        self.api, self._logs = api, count(1)
        self.app = program.build(url, folder, api, **LEASE)
        self.app.create_schema()

    @property
    def store(self):
        return self.app.store

    @property
    def fleet(self):
        """Itself, for those who start monitors in a scene."""
        return self

    @staticmethod
    def environment(**more):
        """Return the environment of a process that finds the modules of tests."""
        path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(_TESTS)])
        return os.environ | {"PYTHONPATH": path} | more

    def start(self, *, url=None, skew=None, worker=None, **settings):
        """Start a worker.

        Args:
            url: Another way to the database.
            skew: How wrong its clock is, such as ``+3h``; None for right.
            worker: Settings of the worker.
            settings: Of the app.
        """
        environment = self.environment(
            FLEET_URL=url or self.url,
            FLEET_FOLDER=str(self.folder),
            FLEET_API=self.api,
            FLEET_SETTINGS=json.dumps(LEASE | settings),
            FLEET_WORKER=json.dumps(worker or {}),
        )
        script = _TESTS / "fleet" / "program.py"
        if skew is None:
            return self._forked([script], environment)
        # of the time of day alone: no clock that only counts seconds is hours off
        environment |= {"LD_PRELOAD": fake_time(), "FAKETIME": skew, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        environment |= {"DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}
        return self.launch([sys.executable, str(script)], environment)

    def start_job(self, verb, count):
        """Start a process that runs a job of the jobs' program."""
        environment = self.environment(JOB_URL=self.url, JOB_FOLDER=str(self.folder), JOB_COUNT=str(count))
        return self.launch([sys.executable, str(_TESTS / "integration" / "job_program.py"), verb], environment)

    def _forked(self, command, environment):
        self.children.append(Child(command, environment, self.folder / f"fleet-{next(self._logs)}.log"))
        return self.children[-1]

    def launch(self, command, environment):
        """Start any process of the scene by a command, which ends with it."""
        child = Child.__new__(Child)
        child.announced, child.log = False, self.folder / f"fleet-{next(self._logs)}.log"
        with child.log.open("wb") as file:
            child.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        child.pid = child.process.pid
        self.children.append(child)
        return child

    def add(self, task, count=1, *, options=None, **arguments):
        """Enqueue tasks of a kind; return their numbers."""
        definition = self.app.tasks_by_name[task]
        new = [definition.prepare((), arguments, options or {}) for _ in range(count)]
        return [each.id for each in self.store.enqueue(new)]

    def ran(self, name):
        """Return in which processes something ran, in order."""
        return program.left(self.folder, name)

    def ran_targets(self):
        """Return which targets of jobs ran, each with its process, in order."""
        path = self.folder / "effects"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [tuple(map(int, line.split())) for line in lines]

    def begun(self, count):
        """Wait until so many workers are there."""
        until(lambda: sum(each.alive for each in self.store.workers()) == count, 40, self.said)

    def settled(self, seconds=60.0):
        """Wait until nothing is live any more."""

        def live():
            counts = self.store.counts()
            return counts["QUEUED"] + counts["RUNNING"] + counts["PARKED"]

        until(lambda: not live(), seconds, lambda: f"all settled; {self.store.counts()}\n{self.said()}")

    def balanced(self):
        """See that the books agree with what is there."""
        books, there = self.store.counter_check()
        assert books == there

    def end(self):
        super().end()
        self.app.close()
