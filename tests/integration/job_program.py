"""A program with jobs, for processes of their own: ``python job_program.py VERB`` with JOB_URL and JOB_FOLDER set."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

import outlast
from outlast import errors
from outlast.ports.job_rows import TargetStatus

URL, FOLDER = os.environ.get("JOB_URL", "memory://"), Path(os.environ.get("JOB_FOLDER", "."))
COUNT = int(os.environ.get("JOB_COUNT", "100"))
app = outlast.App(URL)
_effects = threading.Lock()


def effect(target):
    """Leave a line, at once."""
    with _effects, (FOLDER / "effects").open("a", encoding="utf-8") as file:
        file.write(f"{target} {os.getpid()}\n")


def quick(context, target):
    """Leaves its side effect; with JOB_PAUSE it takes its time."""
    effect(target)
    time.sleep(float(os.environ.get("JOB_PAUSE", "0")))


@app.job("items", entity="item", targets=lambda: range(COUNT))
def items(context, target):
    quick(context, target)


@app.job("held", entity="item", targets=lambda: range(COUNT))
def held(context, target):
    """From the tenth target on it waits for a file."""
    effect(target)
    while target >= 10 and not (FOLDER / "go").exists():
        time.sleep(0.01)


@app.job("held async", entity="item", targets=lambda: range(COUNT))
async def held_async(context, target):
    """The same on the loop."""
    import asyncio

    effect(target)
    while target >= 10 and not (FOLDER / "go").exists():  # noqa: ASYNC110  # another process makes it
        await asyncio.sleep(0.01)


@app.job("waiting", entity="item", policy=outlast.preset("etl").replace(base_delay=600, max_delay=600, jitter="none"))
def waiting(context, target):
    """Waits for another attempt, for ever as far as a test is concerned."""
    effect(target)
    raise errors.NetworkError("down")


@app.job("idle", entity="item")
def idle(context, target):
    effect(target)


def endless():
    """Ten targets, and then nothing for ever."""
    yield from range(10)
    (FOLDER / "blocked").touch()
    threading.Event().wait()


@app.job("mixed", max_failure_rate=1.0, policy=outlast.RetryPolicy(max_attempts=2, base_delay=0))
def mixed(context, target):
    """For executors: what it counts and raises has to come back from another process."""
    context.count("pages", 2)
    match target % 10:
        case 1:
            raise errors.ResourceNotFoundError("gone")
        case 2:
            raise errors.QuotaExhaustedError("used up", retry_after=30)
        case 3:
            raise errors.SkipTarget("not today")
        case 4 if context.attempt == 1:
            raise errors.NetworkError("again")
    context.count(f"in {os.getpid()}")


@app.job("deadly", max_failure_rate=1.0)
def deadly(context, target):
    if target == 50:
        os._exit(9)


@app.job("leaving", max_failure_rate=1.0)
def leaving(context, target):
    if target == 20:
        raise SystemExit(3)


def main(verb):
    """Run a job, print its summary as JSON, and exit by its verdict."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
    logging.basicConfig(level=logging.WARNING)
    app.create_schema()
    resume = os.environ.get("JOB_RESUME") or None
    concurrency = int(os.environ.get("JOB_CONCURRENCY", "4"))
    job = app.jobs_by_name[verb]
    targets = {"idle": endless, "waiting": lambda: range(COUNT)}.get(verb)
    summary = job.run(targets() if targets else None, concurrency=concurrency, resume=resume)
    print(json.dumps(summary.to_dict()), flush=True)  # noqa: T201  # its parent reads it
    counts = app.store.target_counts(summary.run_id)
    assert counts[TargetStatus.SUCCESS] == summary.success_targets + summary.skipped_targets
    sys.exit(summary.exit_code)


if __name__ == "__main__":
    main(sys.argv[1])
