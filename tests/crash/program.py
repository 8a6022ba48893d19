"""The program that is killed: an app whose tasks leave one line in a file each time they run.

As a script it is a worker, or replays dead letters; what it is to do stands in its environment:
``CRASH_URL``, ``CRASH_EFFECTS`` (the file), ``CRASH_SETTINGS`` (of the app, as JSON), ``CRASH_WORKER`` (of the worker, as
JSON), ``CRASH_AT`` (where it kills itself, see `killing`), ``CRASH_HOLD`` (how many tasks it holds in reserve),
``CRASH_FULL`` (a file: while it is there, the database must not grow), ``CRASH_CUT`` (while it is there, the store cannot
be reached), ``CRASH_OVERLAP`` (of a periodic task, which is then there), ``CRASH_REPLAY_LEASE`` (seconds for which a replay is held; then workers also look for one more often).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path

import outlast
from outlast.errors import NetworkError, PermanentError

QUICK = outlast.RetryPolicy(max_attempts=5, retry_on=outlast.RETRYABLE, base_delay=0.02, jitter="full")
PAUSE = 0.01  # seconds between two looks of a task that waits


class Effects:
    """A file to which every run of a task adds one line, whole or not at all."""

    def __init__(self, path):
        self.path = Path(path)

    def add(self, n):
        """Leave the line: the task's number, its failed attempts so far, our process."""
        claimed = outlast.current_task()
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, b"%d %d %d\n" % (n, claimed.retry_count if claimed else 0, os.getpid()))
        finally:
            os.close(file)

    def lines(self):
        """Return all lines as tuples: number, failed attempts before, process."""
        if not self.path.exists():
            return []
        return [tuple(map(int, line.split())) for line in self.path.read_text().splitlines()]


def build(url, effects, **settings):  # noqa: C901, PLR0915  # a list of tasks
    """Return the app."""
    app = outlast.App(url, policy=QUICK, **settings)
    left = Effects(effects)

    @app.task
    def note(n: int) -> None:
        left.add(n)
        _passed("effect")

    @app.task
    def flaky(n: int) -> None:
        left.add(n)
        if outlast.current_task().retry_count < 2:
            raise NetworkError("the line is down")

    @app.task
    def broken(n: int) -> None:
        left.add(n)
        raise PermanentError("no such thing")

    @app.task
    def fixable(n: int, fixed: str) -> None:
        """Fail until a file is there."""
        left.add(n)
        _passed("effect")
        if not Path(fixed).exists():
            raise PermanentError("no such thing")

    @app.task
    async def gentle(n: int) -> None:
        left.add(n)
        await asyncio.sleep(0.002)

    @app.task
    def slow(n: int, seconds: float = 0.05) -> None:
        left.add(n)
        time.sleep(seconds)

    @app.task
    async def asleep(n: int, gate: str) -> None:
        left.add(n)
        while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240  # another process makes it
            await asyncio.sleep(PAUSE)

    @app.task
    def gated(n: int, gate: str) -> None:
        """Wait for a file; in its name, ``{pid}`` is this process and ``{run}`` counts the runs of the task."""
        left.add(n)
        run = sum(line[0] == n for line in left.lines())
        path = Path(gate.format(pid=os.getpid(), run=run))
        while not path.exists():
            time.sleep(PAUSE)

    @app.task
    def bulky(n: int, gate: str) -> None:
        """Wait for a file, and fail with much to say."""
        left.add(n)
        while not Path(gate).exists():
            time.sleep(PAUSE)
        raise PermanentError(" ".join(f"reason-{number}" for number in range(2000)))

    @app.task
    def poison(n: int) -> None:
        left.add(n)
        os.kill(os.getpid(), signal.SIGKILL)

    if "CRASH_OVERLAP" in os.environ:

        @app.periodic(every=1.0, overlap=os.environ["CRASH_OVERLAP"])
        def tick() -> None:
            """Leave a line at the beginning and one at the end, when a file is there."""
            left.add(1)
            while not left.path.with_name("gate").exists():
                time.sleep(PAUSE)
            left.add(2)

    return app


def _passed(point):
    from crash import killing

    killing.passed(point)


def main(verb):
    from crash import killing

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(threadName)s %(message)s", stream=sys.stderr)
    environment = os.environ
    app = build(
        environment["CRASH_URL"], environment["CRASH_EFFECTS"], **json.loads(environment.get("CRASH_SETTINGS", "{}"))
    )
    if "CRASH_FULL" in environment:
        killing.limit(environment["CRASH_FULL"])
    if "CRASH_CUT" in environment:
        killing.cut_off(app.store, environment["CRASH_CUT"])
    killing.arm(app, environment.get("CRASH_AT", ""), int(environment.get("CRASH_HOLD", "-1")))
    if "CRASH_REPLAY_LEASE" in environment:
        from outlast.queue import heartbeat, replay

        replay.REPLAY_LEASE, heartbeat.REPLAY_EVERY = float(environment["CRASH_REPLAY_LEASE"]), 0.05
    if verb == "work":
        app.worker(**json.loads(environment.get("CRASH_WORKER", "{}"))).run()
    elif verb == "replay":
        for handled in app.dead_letters.replaying(all=True):
            logging.getLogger("replay").warning("%s %s", *handled)
            killing.passed("replayed")
    app.close()


if __name__ == "__main__":
    main(sys.argv[1])
