"""A worker with a queue in SQLite that collects videos: ``python -m examples.youtube_worker``.

It derives from ``BaseWorker`` and has to write nothing but ``process_task``. Each task meets another failure: a server
that is busy for a moment, a rate limit, a deleted video, a task without a URL, a used-up quota, a server that never
recovers. What may work later is queued again; what cannot becomes a dead letter. The server is the one of
``python -m outlast.testing.server``; nothing leaves this machine.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import tempfile
import urllib.request
from collections import Counter
from contextlib import closing
from typing import Any

import outlast
from outlast.errors import InvalidParametersError, QuotaExhaustedError
from outlast.testing.server import serve
from outlast.worker import BaseWorker, ExponentialBackoffStrategy, WorkerTask

VIDEOS = {
    "video that needs three attempts": "/items",
    "video behind a rate limit": "/limited",
    "video that was deleted": "/gone",
    "video whose server is broken": "/error",
    "video of tomorrow": "quota",
    "video without a URL": None,
}


class VideoWorker(BaseWorker):
    """Fetches the metadata of videos. What it raises is classified, and the task is retried, deferred or given up."""

    def process_task(self, task: WorkerTask) -> dict[str, Any]:
        """Return the metadata of a video."""
        url = task.parameters.get("url")
        if not url:
            message = "the task has no url"
            raise InvalidParametersError(message)
        if url.endswith("quota"):  # your API client knows that the quota of the day is used up
            message = "quota of the day used up"
            raise QuotaExhaustedError(message)
        with urllib.request.urlopen(url, timeout=10) as response:
            return {"title": task.parameters["title"], "metadata": response.read().decode()}


def enqueue(database: sqlite3.Connection, base: str) -> None:
    """Add a task for each video with plain SQL, as programs in other languages can."""
    with database:
        for title, path in VIDEOS.items():
            parameters = {"title": title, "url": path and f"{base}{path}"}
            database.execute(
                "INSERT INTO task_queue (task_type, parameters) VALUES (?, ?)", ("video", json.dumps(parameters))
            )


def work(app: outlast.App) -> Counter[str]:
    """Run a worker until each task is done, failed or deferred; return how often each happened."""
    counts: Counter[str] = Counter()

    def count(name: str) -> None:
        counts[name] += 1
        if counts.total() - counts["tasks_retried"] == len(VIDEOS):
            worker.stop()

    strategy = ExponentialBackoffStrategy(max_retries=3, base_delay=0.05)  # a real worker waits longer
    worker = VideoWorker("video-1", app, {"retry_strategy": strategy, "poll_interval": 0.05}, metrics=count)
    worker.run()
    return counts


def show(app: outlast.App) -> None:
    """Print the state of every task, and the dead letters."""
    for task in sorted(app.tasks.list(), key=lambda task: task.id):
        title = json.loads(task.parameters)["title"]
        print(f"{title}: {task.status}, failed attempts: {task.retry_count}, deferrals: {task.deferrals}")
    print("dead letters:")
    for letter in app.dead_letters.list():
        print(f"    task {letter.original_task_id}: {letter.error_category}, {letter.reason}: {letter.error_message}")


def main() -> None:
    """Enqueue, work, and show the result."""
    logging.basicConfig(level=logging.CRITICAL)  # WARNING shows each failure
    with tempfile.TemporaryDirectory() as folder, serve() as base:
        app = outlast.App(f"sqlite:///{folder}/videos.db")
        app.create_schema()
        with closing(sqlite3.connect(f"{folder}/videos.db")) as database:
            enqueue(database, base)
        counts = work(app)
        print(", ".join(f"{name}: {counts[name]}" for name in sorted(counts)))
        show(app)
        app.close()


if __name__ == "__main__":
    main()
