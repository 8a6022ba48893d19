"""The program of a fleet: an app whose tasks ask an API, wait, fail and recur. As a script it is a worker.

What it is to do stands in its environment: ``FLEET_URL``, ``FLEET_FOLDER`` (where tasks leave lines), ``FLEET_API``,
``FLEET_SETTINGS`` (of the app, as JSON) and ``FLEET_WORKER`` (of the worker, as JSON).
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
import urllib.request
from pathlib import Path

import outlast
from outlast.errors import BreakerOpenError, NetworkError, PermanentError

LATER = 1.5
"""Seconds that a second attempt waits."""
EVERY = 2.0
"""Seconds between two runs of what recurs."""
API = "api.fleet"
BREAKER = outlast.BreakerSettings(consecutive=3, open_for=5.0)
PATIENT = outlast.RetryPolicy(max_attempts=3, retry_on=outlast.RETRYABLE, base_delay=LATER, jitter="none")

_never = threading.Event()  # waited for in place of time.sleep, which libfaketime breaks when its time has just passed


def leave(folder, name):
    """Leave a line that says which process was here."""
    file = os.open(Path(folder) / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, b"%d\n" % os.getpid())
    finally:
        os.close(file)


def left(folder, name):
    """Return which processes were there, in order."""
    path = Path(folder) / name
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def ask(api):
    """Send one request, which tells who sends it."""
    request = urllib.request.Request(api, headers={"X-Process": str(os.getpid())})
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()


def build(url, folder, api="", **settings):  # noqa: C901  # a list of tasks
    """Return the app."""
    app = outlast.App(url, policy=PATIENT, spool=Path(folder) / "spool", **settings)

    @app.task
    def note(name: str) -> None:
        leave(folder, name)

    @app.task
    def hasty(name: str) -> None:
        """Fail at first."""
        leave(folder, name)
        if outlast.current_task().retry_count == 0:
            raise NetworkError("the line is down")

    @app.task
    def broken(name: str) -> None:
        leave(folder, name)
        raise PermanentError("no such thing")

    @app.task
    def held(name: str, gate: str) -> None:
        """Wait for a file."""
        leave(folder, name)
        while not Path(gate).exists():
            _never.wait(0.01)

    @app.task(resource=API)
    def call(name: str) -> None:
        ask(api)
        leave(folder, name)

    @app.task
    def keep_calling(name: str, gate: str) -> None:
        """Call the API again and again through its breaker, until a file is there."""
        guard = outlast.resource(API)
        leave(folder, name)
        while not Path(gate).exists():
            try:
                with guard:
                    ask(api)
            except (BreakerOpenError, OSError):
                pass
            _never.wait(0.05)

    return app


def recurring(app, folder):
    """Add a task that recurs."""

    @app.periodic(every=EVERY)
    def tick() -> None:
        leave(folder, "ticks")


def main():
    logging.basicConfig(level=logging.INFO, format="%(threadName)s %(message)s", stream=sys.stderr)
    environment = os.environ
    folder = environment["FLEET_FOLDER"]
    settings, worker = json.loads(environment["FLEET_SETTINGS"]), json.loads(environment["FLEET_WORKER"])
    ticks = settings.pop("ticks", False)
    if settings.pop("breaker", False):
        outlast.resource(API, breaker=BREAKER)
    app = build(environment["FLEET_URL"], folder, environment["FLEET_API"], **settings)
    if ticks:
        recurring(app, folder)
    (Path(folder) / f"clock-{os.getpid()}").write_text(str(time.time()))
    app.worker(**worker).run()
    app.close()


if __name__ == "__main__":
    main()
