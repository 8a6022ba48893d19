"""The tour's tasks, and a worker for them: ``python -m examples.tour.tasks`` with OUTLAST_TOUR_DB set."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time

import outlast
from examples.tour.faults import get

app = outlast.App(os.environ.get("OUTLAST_TOUR_DB", "memory://"), lease=4, crash_limit=2)
POLICY = outlast.RetryPolicy(
    max_attempts=3, retry_on=outlast.RETRYABLE, backoff="exponential", base_delay=0.2, jitter="equal"
)


@app.task(policy=POLICY, keep_result=600)
def fetch(url: str) -> int:
    """Fetch a page and return its size."""
    return len(get(url))


@app.task(policy=POLICY)
async def report(total: int) -> None:
    """Pretend to send a report."""
    await asyncio.sleep(0.01 * total)


@app.task(policy=POLICY.replace(max_attempts=2), timeout=0.5)
def convert(seconds: float) -> None:
    """Hang for too long; a process of its own runs this, and is killed."""
    time.sleep(seconds)


@app.task(policy=POLICY)
def import_row(row: dict[str, str]) -> int:
    """Read a row that may lack a field: a bug, which no retry heals."""
    return int(row["price"])


@app.task(policy=POLICY)
def poison() -> None:
    """Take the whole worker down, as a library written in C might."""
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.CRITICAL)
    app.worker(concurrency=4).run()
