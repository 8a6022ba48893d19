"""A worker of a fleet whose resource is limited; its tasks write down when they begin and end.

``python limited_program.py URL FILE SETTINGS``: the settings of `app.limit` as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path

import outlast
from outlast.errors import NetworkError

LEASE = {"lease": 2.0, "heartbeat": 0.4}
FIXED = outlast.RetryPolicy(max_attempts=5, retry_on=outlast.RETRYABLE, base_delay=0.05, backoff="fixed", jitter="none")


def write(path, word, n):
    """Add a line, whole or not at all; all processes of a machine have the same monotonic clock."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, b"%s %d %d %.6f\n" % (word, n, os.getpid(), time.monotonic()))
    finally:
        os.close(file)


def build(url, path, settings):
    """Return the app."""
    app = outlast.App(url, policy=FIXED, **LEASE)
    if settings:
        app.limit("api", **settings)

    @app.task(resource="api")
    def call(n: int, seconds: float = 0.0) -> None:
        write(path, b"begin", n)
        time.sleep(seconds)
        write(path, b"end", n)

    @app.task(resource="api")
    def held(n: int, gate: str) -> None:
        """Run until a file is there."""
        write(path, b"begin", n)
        while not Path(gate).exists():
            time.sleep(0.01)
        write(path, b"end", n)

    @app.task(resource="api")
    def stubborn(n: int) -> None:
        """Fail once."""
        write(path, b"begin", n)
        if outlast.current_task().retry_count == 0:
            raise NetworkError("the line is down")
        write(path, b"again", n)

    return app


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    build(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])).worker(concurrency=8).run()
