"""The queues that the worker's names are tried on: every store, and raw connections to the same data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import outlast
from conformance.places import PostgresPlace, SqlitePlace, need_postgres
from outlast.ports.rows import DeadLetterFilter, NewTask
from outlast.stores.sqlite.memory import MemoryStore
from outlast.worker import BaseWorker

KINDS = [
    "sqlite app",
    "sqlite store",
    "sqlite connection",
    "postgres app",
    "postgres connection",
]


AT_ONCE = {"base_delay": 0, "poll_interval": 0.01, "max_retries": 3}


@dataclass
class Queue:
    """A queue as its program has it at hand, and the store behind it to look at."""

    kind: str
    place: Any
    store: Any
    db: Any

    def add(self, parameters: str = '{"url": "https://example.org/v/1"}', **more: Any) -> int:
        return self.store.enqueue([NewTask("scrape", parameters, **more)])[0].id

    def task(self, number: int) -> Any:
        return self.store.get(number)

    def letters(self) -> list[Any]:
        return self.store.dead_letters(DeadLetterFilter())

    def execute(self, sql: str) -> None:
        connection = self.place.connect()
        with connection:
            connection.execute(sql)
        connection.close()


def opened(kind: str, tmp_path: Any, request: Any) -> Queue:
    """Open a queue of a kind; whoever asks closes its place."""
    where, _, how = kind.partition(" ")
    if where == "memory":
        store: Any = MemoryStore()
        return Queue(kind, store, store, outlast.App(store))
    if where == "sqlite":
        place: Any = SqlitePlace(tmp_path / "outlast.db")
    else:
        need_postgres()
        server = request.getfixturevalue("postgres_server")
        place = PostgresPlace(server, server.database)
    store = place.open()
    store.create_schema()
    if where == "postgres":
        place.clear()
    db = {"app": lambda: outlast.App(store), "store": lambda: store, "connection": place.connect}[how]()
    return Queue(kind, place, store, db)


class Worker(BaseWorker):
    """Does what it is told, and ends when nothing is due and nothing waits to be written."""

    def __init__(self, queue, does, config=AT_ONCE, **more):
        super().__init__("w1", queue.db, config, more.pop("results_db", None), more.pop("metrics", None))
        self.does, self.tasks = does, []

    def process_task(self, task):
        self.tasks.append(task)
        return self.does(task)

    def claim_task(self):
        task = super().claim_task()
        if task is None and not self._unsettled.unwritten:
            self.stop()
        return task


def fails(*errors):
    """Return what raises these, one after the other, and then succeeds."""
    left = list(errors)

    def does(task):
        if left:
            raise left.pop(0)
        return {"n": task.id}

    return does
