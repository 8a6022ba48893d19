"""A scene with a broker, a store, and Celery workers as processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import celery.__main__
from celery import Celery

import outlast
from crash.processes import until
from outlast.ports.rows import DeadLetterFilter, Status, TaskFilter
from outlast.report.doctor import ledger_findings

HERE = Path(__file__).parent
LONG = 40.0
"""Seconds that anything may take on a machine that has much else to do."""


_nursery = multiprocessing.get_context("forkserver")
_nursery.set_forkserver_preload(["celery.bin.worker", "celery.backends.redis", "outlast.app", "outlast.engines.celery"])


VISIBLE = 1.0
"""Seconds after which the broker delivers again what was not acknowledged; the program sets it."""


class CeleryWorker:
    """One Celery worker, with a process of its own: as the command starts it, or forked off one that has Celery loaded."""

    def __init__(self, log, arguments, environment, *, by_command):
        self.log = log
        command = ["-A", "program:celery_app", "worker", "--without-mingle", "--without-gossip", "--without-heartbeat"]
        command += ["-l", "INFO", *arguments]
        log.touch()
        if by_command:
            python = [sys.executable, "-m", "celery", *command]
            with log.open("wb") as file:
                self.process = subprocess.Popen(
                    python, cwd=HERE, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
                )
        else:
            self.process = _nursery.Process(target=_serve, args=(str(log), command, environment))
            self.process.start()
        self.pid = self.process.pid

    @property
    def code(self):
        """How it ended; None while it lives."""
        return self.process.poll() if isinstance(self.process, subprocess.Popen) else self.process.exitcode

    def said(self):
        return self.log.read_text("utf-8", "replace")

    def wait_until_ready(self):
        until(lambda: " ready." in self.said() or self.code is not None, LONG, self.said)
        assert " ready." in self.said(), self.said()  # it may have come to where it kills itself by now
        return self

    def wait(self):
        until(lambda: self.code is not None, LONG, self.said)
        return self.code

    def pool(self):
        """Return the processes of its pool."""
        return _children_of(self.pid)

    def kill(self):
        """End it and its pool as kill -9 does."""
        for pid in (self.pid, *self.pool()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL

    def dies(self):
        """Wait until it has killed itself."""
        assert self.wait() == -signal.SIGKILL, self.said()

    def stop(self):
        """End it as a deploy does."""
        os.kill(self.pid, signal.SIGTERM)
        assert self.wait() == 0, self.said()


def _serve(log, command, environment):
    """Be a Celery worker; in a process that was forked for it."""
    os.environ.update(environment)
    os.chdir(HERE)
    sys.path.insert(0, str(HERE))
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = ["celery", *command]
    sys.exit(celery.__main__.main())


class Scene:
    """What a test works with.

    Attributes:
        app: Of ours, for looking and replaying; it runs nothing.
        client: A Celery app that only sends.
    """

    def __init__(self, folder, broker, url=None):
        self.folder, self.broker = folder, broker
        self.url = url or f"sqlite:///{folder}/outlast.db"
        self.app = outlast.App(self.url)
        self.app.create_schema()
        self.client = Celery("client", broker=broker, backend=broker)
        self.workers = []
        self._numbers, self._keys = count(1), count(1)
        (folder / "effects").touch()

    @property
    def store(self):
        return self.app.store

    def start(self, pool="solo", *options, by_command=False, **environment):
        """Start a Celery worker, and wait until it is ready."""
        number = next(self._numbers)
        given = {f"SCENE_{name.upper()}": str(value) for name, value in environment.items()}
        known = {"SCENE_FOLDER": str(self.folder), "SCENE_URL": self.url, "SCENE_BROKER": self.broker}
        arguments = ["--pool", pool, "-n", f"w{number}@scene", *options]
        log = self.folder / f"worker-{number}.log"
        self.workers.append(CeleryWorker(log, arguments, known | given, by_command=by_command))
        return self.workers[-1].wait_until_ready()

    def send(self, task, *args, **options):
        """Send a task with a key of its own; return its key and its result."""
        key = f"{task}{next(self._keys)}"
        kwargs = options.pop("kwargs", {})
        return key, self.client.send_task(f"program.{task}", (key, *args), kwargs, **options)

    def effects(self, key):
        """Return what a task has left, a line for each run."""
        lines = (line.split() for line in (self.folder / "effects").read_text().splitlines())
        return [words[1:] for words in lines if words[0] == key]

    def events(self, row):
        """Return what subscribers in the workers were told of a task."""
        return [words[0] for words in self.effects("event") if words[1] == str(row.id)]

    def mend(self, key):
        (self.folder / f"mended-{key}").touch()

    def row_of(self, result):
        """Return the row of a task of Celery's, None where it has none."""
        rows = [each for each in self.store.find(TaskFilter(limit=1000)) if each.unique_key == f"celery:{result.id}"]
        assert len(rows) < 2, "one task of Celery's has one row"
        return rows[0] if rows else None

    def settled(self, result, status=Status.DONE, deferrals=0):
        """Wait until a task's row has a status and was deferred so often, and return the row.

        The row of a first failure is added as QUEUED, and the decision about the failure is written afterwards.
        """

        def row():
            found = self.row_of(result)
            return found if found is not None and found.status is status and found.deferrals >= deferrals else None

        return until(row, LONG, lambda: f"{status}; it is {self.row_of(result)}\n{self.said()}")

    def history(self, row):
        return [(each.attempt, each.outcome, each.error_type) for each in self.store.attempts(row.id)]

    def letter_of(self, row):
        return next(each for each in self.store.dead_letters(DeadLetterFilter()) if each.original_task_id == row.id)

    def wait_until_redelivered(self):
        """Wait until the broker takes what a dead worker had in its hands for undelivered: after its visibility timeout.

        It looks when a worker begins, and then not for a while.
        """
        with self.client.connection_for_read() as connection:
            redis = connection.default_channel.client
            until(lambda: redis.zcount("unacked_index", time.time() - VISIBLE, "+inf") == 0, LONG, "redelivery")

    def said(self):
        return "\n".join(f"--- {each.pid}\n{each.said()[-4000:]}" for each in self.workers)

    def check_books(self):
        """See that the books are as what is there: the doctor finds nothing off."""
        found = ledger_findings(*self.store.counter_check())
        assert all(each.ok for each in found), found

    def end(self):
        for each in self.workers:
            if each.code is None:
                each.kill()
        self.client.close()
        self.app.close()


def _children_of(pid):
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
