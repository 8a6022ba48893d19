"""A worker whose tasks raise errors that raise while they are read. Its environment has ``HOSTILE_URL``."""

from __future__ import annotations

import logging
import os
import sys

import outlast
from hostile_errors import hostile

app = outlast.App(os.environ["HOSTILE_URL"], lease=2.0, heartbeat=0.5, spool=os.environ["HOSTILE_SPOOL"])


@app.task
def good(n: int) -> None:
    pass


@app.task
async def good_async(n: int) -> None:
    pass


@app.task
def in_thread(member: str, kind: str) -> None:
    raise hostile(member, kind)


@app.task
async def on_loop(member: str, kind: str) -> None:
    raise hostile(member, kind)


@app.task(timeout=60)
def in_child(member: str, kind: str) -> None:
    raise hostile(member, kind)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(threadName)s %(message)s", stream=sys.stderr)
    app.worker(concurrency=4).run()
