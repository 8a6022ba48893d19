"""A worker on SQLite whose tasks fail in several ways, one of them by killing the worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import outlast

LIMIT = 40.0
"""Seconds after which the scene ends, whatever the machine is like."""
_LIVE = ("QUEUED", "RUNNING", "PARKED")
_WHY = 44  # characters of the last column


def worked(server: str) -> None:
    """Enqueue tasks, let workers run them and die of them, and tell what became of each."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OUTLAST_TOUR_DB"] = f"sqlite:///{Path(folder) / 'tour.db'}"
        from examples.tour.tasks import app, convert, fetch, import_row, poison, report

        print("A durable queue: tasks in a SQLite file, a worker in another process. One task kills its worker;")
        print(
            "another worker is started and finds out which one it was. What ran beside it loses a start, no attempt.\n"
        )
        plans = {
            "a page that is there": fetch.enqueue(f"{server}/fine"),
            "a page that is unwell twice": fetch.enqueue(f"{server}/flaky"),
            "a page that asks for a second": fetch.enqueue(f"{server}/crowded"),
            "a page that is gone": fetch.enqueue(f"{server}/gone"),
            "a server that stays broken": fetch.enqueue(f"{server}/broken"),
            "a coroutine": report.enqueue(3),
            "one that hangs": convert.enqueue(5),
            "one with a bug": import_row.enqueue({"name": "tea"}),
            "one that kills its worker": poison.enqueue(),
        }
        deaths = _until_settled(app)
        _show(app, {title: ticket.id for title, ticket in plans.items()})
        counts = app.tasks.counts()
        live = sum(counts[each] for each in _LIVE)
        print(
            f"\n    {len(plans)} enqueued = {counts['DONE']} done + {counts['dead_letters']} dead letters + {live} live;"
            f" {deaths} workers died on the way\n"
        )
        app.close()


def _show(app: outlast.App, plans: Mapping[str, int]) -> None:
    """Print a line for each task: how it ended, and what became of its starts."""
    letters = {each.original_task_id: each for each in app.dead_letters.list()}
    print(f"    {'task':31}{'ended':8}{'starts':>6} ={'done':>5} +{'failed':>7} +{'lost':>5}{'deferred':>10}  why")
    for title, number in plans.items():
        task, attempts = app.tasks.show(number)
        letter = letters.get(number)
        why = f"{letter.reason}: {letter.error_message}" if letter else task.last_error or ""
        lost = sum(each.outcome == "lost" for each in attempts)
        ends = f"{task.status == 'DONE':5} +{len(attempts) - lost:7} +{lost:5}"
        print(f"    {title:31}{task.status:8}{task.attempt:6} ={ends}{task.deferrals:10}  {_cut(why)}".rstrip())
    print("\n    failed: an attempt is spent; there are three, and two for the one that hangs")
    print("    lost: its worker died, which spends none; who runs alone and is lost again is the one that killed it")
    print("    deferred: the server named a time, and the start does not count")
    print("    why: for dead letters the reason and the error, for others what went wrong last")


def _cut(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _WHY else f"{line[: _WHY - 1].rstrip()}…"


def _until_settled(app: outlast.App) -> int:
    """Keep one worker alive until every task has ended; return how many died."""
    deaths, end = 0, time.monotonic() + LIMIT
    worker = _start()
    try:
        while time.monotonic() < end:
            counts = app.tasks.counts()
            if not any(counts[each] for each in _LIVE):
                break
            if worker.poll() is not None:
                deaths += worker.returncode == -signal.SIGKILL
                worker = _start()
            time.sleep(0.05)
    finally:
        worker.terminate()
        worker.wait(10)
    return deaths


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "examples.tour.tasks"])
