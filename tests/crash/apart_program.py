"""A program whose tasks stand in its own file, where a child finds them; a worker, when it is started.

Its environment says what it needs: ``APART_URL``, ``APART_FOLDER`` (for notes and gates), ``APART_LIMIT`` (crashes).
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import time
from pathlib import Path

import outlast

FOLDER = Path(os.environ["APART_FOLDER"])
app = outlast.App(
    os.environ["APART_URL"],
    lease=2.0,
    heartbeat=0.5,
    grace=0.2,
    crash_limit=int(os.environ.get("APART_LIMIT", "3")),
    spool=FOLDER / "spool",
)


def _note(name: str) -> None:
    with (FOLDER / name).open("a") as file:
        file.write(f"{os.getpid()}\n")


@app.task
def poison() -> None:
    """Wait among others; running alone, take the process down."""
    _note("poison")
    if outlast.current_task().suspect:
        os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(600)


@app.task
async def beside() -> None:
    _note("beside")
    if not outlast.current_task().suspect:
        time.sleep(600)  # noqa: ASYNC251  # until it is killed


@app.task
def gated() -> None:
    _note("gated")
    while not (FOLDER / "gate").exists():
        time.sleep(0.01)


@app.task
def absorbed() -> None:
    """Wait among others; running alone, compute where no other thread of Python gets a turn."""
    _note("absorbed")
    if outlast.current_task().suspect:
        re.match("(a+)+$", "a" * 64 + "b")
    time.sleep(600)


@app.task
def plain() -> None:
    _note("plain")


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(threadName)s %(message)s", stream=sys.stderr)
    app.worker(concurrency=4).run()
