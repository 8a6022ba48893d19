"""The program that everything happens to: an app, a monitor and a job, as a user would write them.

Whoever runs it is a command of Outlast (``outlast worker tools.soak.program:app``). What it is to know stands in its
environment: ``SOAK_URL``, and ``SOAK_FOLDER`` with the file of effects and the gates. ``SOAK_FULL`` names a file: while
it is there, an SQLite file must not grow; that stands in for a full disk where none can be mounted.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import outlast
from outlast.errors import NetworkError, PermanentError, RateLimitError, ResourceNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(os.environ.get("SOAK_FOLDER", "."))
LEASE = 2.0
"""Seconds; who is frozen for longer has lost what it held."""
TARGETS = 40
TICK = 2.0
"""Seconds between two periodic tasks."""

QUICK = outlast.RetryPolicy(max_attempts=4, retry_on=outlast.RETRYABLE, base_delay=0.05, max_delay=1.0, jitter="full")
# A worker that is killed by chance while a suspect runs alone makes no dead letter; poison does, a few processes later.
app = outlast.App(
    os.environ.get("SOAK_URL", "memory://"), policy=QUICK, lease=LEASE, heartbeat=LEASE / 4, crash_limit=4, grace=20
)


def effects() -> Path:
    """The file to which every call of a task adds a line: number, task, epoch, attempt, and what it is about to do."""
    return FOLDER / "effects"


def leave(n: int, what: str) -> None:
    """Add the line, whole or not at all."""
    task = outlast.current_task()
    line = f"{n} {task.id} {task.epoch} {task.attempt} {what}\n" if task else f"{n} 0 0 0 {what}\n"
    file = os.open(effects(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def is_open(gate: str) -> bool:
    """Tell whether what was broken is mended."""
    return (FOLDER / gate).exists()


@app.task
def note(n: int) -> int:
    """Do nothing but leave a line; the result is kept."""
    leave(n, "done")
    return n


@app.task
async def gentle(n: int) -> None:
    """The same, in the event loop."""
    await asyncio.sleep(0.001)
    leave(n, "done")


@app.task
def slow(n: int, seconds: float) -> None:
    """Take a while."""
    time.sleep(seconds)
    leave(n, "done")


@app.task(timeout=20)
def timed(n: int) -> None:
    """Run in a child process."""
    leave(n, "done")


@app.task
def flaky(n: int, failures: int) -> None:
    """Fail so many times, then succeed."""
    task = outlast.current_task()
    if task is not None and task.retry_count < failures:
        leave(n, "retry")
        message = f"the line is down, says {n}"
        raise NetworkError(message)
    leave(n, "done")


@app.task
def broken(n: int) -> None:
    """Fail for good."""
    leave(n, "fail")
    message = "no such thing"
    raise PermanentError(message)


@app.task(queue="mended")
def fixable(n: int, gate: str) -> None:
    """Fail for good until a file is there."""
    if is_open(gate):
        leave(n, "done")
        return
    leave(n, "fail")
    message = f"{gate} is shut"
    raise PermanentError(message)


@app.task(resource="api.soak.example")
def limited(n: int) -> None:
    """Be told to come back later, now and then."""
    if random.random() < 0.1:
        leave(n, "defer")
        message = "asked too often"
        raise RateLimitError(message, retry_after=0.5)
    leave(n, "done")


@app.task
def keyed(n: int, key: str) -> None:
    """One of a key at a time; the key is said at the call."""
    leave(n, f"key:{key}")


@app.task
def poison(n: int) -> None:
    """Take down the process."""
    leave(n, "crash")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(queue="later")
def never(n: int) -> None:
    """Be cancelled before it is due."""
    leave(n, "never")


@app.periodic(every=TICK)
def tick() -> None:
    """Come again and again."""
    leave(0, "tick")


def peek(source: outlast.Source) -> str:
    """Fetch a source: some are gone, some are down for a while, most change now and then."""
    number, moment = source.id, int(time.time())
    leave(number, "poll")
    if number % 10 == 0:
        message = "gone"
        raise ResourceNotFoundError(message)
    if zlib.crc32(f"{number} {moment // 7}".encode()) % 5 == 0:
        message = "the host is down"
        raise NetworkError(message)
    return f"{number} {moment // 20}"


def changed(news: outlast.Changed) -> None:
    """Take note of something new."""
    leave(news.source.id, "changed")


watch = app.monitor(
    outlast.profile("feed").replace(threshold=4), fetch=peek, on_change=changed, every=1.0, lease=4.0, grace=5.0
)


def targets() -> Iterator[str]:
    """What the job is about."""
    return (f"target-{number}" for number in range(TARGETS))


@app.job("collect", max_failure_rate=0.9, targets=targets, policy=QUICK.replace(max_attempts=2))
def collect(_context: Any, target: str) -> None:
    """Fetch one of them."""
    number = int(target.rpartition("-")[2])
    leave(number, "target")
    time.sleep(0.02)
    if number % 8 == 3:
        message = "not there"
        raise ResourceNotFoundError(message)


def limit_growth(flag: str) -> None:
    """Let no SQLite file grow while a file is there."""
    sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
    from crash.killing import limit  # noqa: PLC0415  # only where no disk can be filled

    limit(flag)


if os.environ.get("SOAK_FULL"):
    limit_growth(os.environ["SOAK_FULL"])
