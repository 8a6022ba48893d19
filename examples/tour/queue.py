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
    import holdfast as hf

LIMIT = 40.0
"""Seconds after which the scene ends, whatever the machine is like."""
_LIVE = ("QUEUED", "RUNNING", "PARKED")


def worked(server: str) -> None:
    """Enqueue tasks, let workers run them and die of them, and tell what became of each."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOLDFAST_TOUR_DB"] = f"sqlite:///{Path(folder) / 'tour.db'}"
        from examples.tour.tasks import app, convert, fetch, import_row, poison, report

        print("A durable queue: tasks in a SQLite file, a worker in another process. One task kills its worker;")
        print("another worker is started, finds out which one it was, and the others do not suffer for it.\n")
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
        letters = {each.original_task_id: each for each in app.dead_letters.list()}
        print(f"    {'task':32}{'ended':9}{'starts':>7}{'failed':>8}{'put off':>9}  why")
        for title, ticket in plans.items():
            task, attempts = app.tasks.show(ticket.id)
            letter = letters.get(ticket.id)
            why = f"{letter.reason}: {letter.error_message:.44}" if letter else (task.last_error or "")[:55]
            numbers = f"{task.attempt:7}{len(attempts):8}{task.deferrals:9}"
            print(f"    {title:32}{task.status:9}{numbers}  {why.splitlines()[0] if why else ''}")
        counts = app.tasks.counts()
        live = sum(counts[each] for each in _LIVE)
        print(
            f"\n    {len(plans)} enqueued = {counts['DONE']} done + {counts['dead_letters']} dead letters + {live} live;"
            f" {deaths} workers died on the way\n"
        )
        app.close()


def _until_settled(app: hf.App) -> int:
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
