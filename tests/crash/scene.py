"""A scene: a database, an app on it in this process, and the program's processes. And the books afterwards."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import psycopg

from crash.processes import Fleet, until
from crash.program import Effects, build
from outlast.ports.rows import DeadLetterFilter, Reason, Status, TaskFilter

LEASE = {"lease": 2.0, "heartbeat": 0.5}
"""A short lease for tests; what is healthy has to beat four times within it."""
SETTLED = {Status.DONE, Status.FAILED}


class Scene:
    """What a test works with.

    Attributes:
        kind: ``sqlite`` or ``postgres``.
        app: For enqueueing and looking; it runs nothing.
        fleet: The processes.
        effects: What tasks have left.
        enqueued: Numbers of the tasks by what they call themselves.
    """

    def __init__(self, kind, folder, url):
        self.kind, self.folder, self.url = kind, folder, url
        self.effects = Effects(folder / "effects")
        self.app = build(url, self.effects.path, **LEASE)
        self.app.create_schema()
        self.fleet = Fleet(folder, url, self.effects.path)
        self.enqueued = {}

    @property
    def store(self):
        return self.app.store

    def start(self, verb="work", **settings):
        """Start a process of the program, with the short lease unless it is told otherwise."""
        return self.fleet.start(verb, **(LEASE | {"spool": str(self.folder / "spool")} | settings))

    def announce(self, child):
        """Let the others know that a process is dead: on SQLite its lock does, here they would wait for the lease.

        While the server restarts it is left to the lease.
        """
        if self.kind != "postgres":
            return
        with suppress(psycopg.OperationalError), psycopg.connect(self.url) as connection:
            connection.execute("UPDATE workers SET expires_at = now() WHERE pid = %s", (child.pid,))

    def tend(self, size, **settings):
        """Start as many workers as are missing, as a supervisor does; return those that live."""
        for child in [each for each in self.fleet.children if not each.alive and not each.announced]:
            self.announce(child)
            child.announced = True
        while len(self.fleet.alive) < size:
            self.start(**settings)
        return self.fleet.alive

    def add(self, name, count=1, *, options=None, **arguments):
        """Enqueue tasks of a kind; return their numbers."""
        first = len(self.enqueued) + 1
        definition = self.app.tasks_by_name[name]
        numbers = range(first, first + count)
        added = self.store.enqueue([definition.prepare((), {"n": n, **arguments}, options or {}) for n in numbers])
        self.enqueued.update(zip(numbers, (each.id for each in added), strict=True))
        return [each.id for each in added]

    def tasks(self):
        """Return all tasks by number."""
        return {each.id: each for each in self.store.find(TaskFilter(limit=1_000_000))}

    def task(self, number):
        return self.store.get(number)

    def history(self, number):
        """Return the outcomes of a task's failed attempts."""
        return [each.outcome for each in self.store.attempts(number)]

    def runs(self):
        """Return how often each task ran, by number and failed attempts before."""
        return Counter((self.enqueued[n], failed) for n, failed, _ in self.effects.lines())

    def ran(self, number):
        """Return in which processes a task ran."""
        return [pid for n, _, pid in self.effects.lines() if self.enqueued[n] == number]

    def is_settled(self):
        """Tell whether nothing is live any more; a database that restarts has not told."""
        try:
            counts = self.store.counts()
        except psycopg.OperationalError:
            return False
        return not (counts["QUEUED"] or counts["RUNNING"] or counts["PARKED"])

    def settle(self, seconds=25.0, condition=None):
        """Wait until nothing is live any more, or for a condition that says so."""

        def what():
            live = [each for each in self.tasks().values() if each.status not in SETTLED]
            return f"all settled; {self.store.counts()}, such as {live[:3]}\n{self.fleet.said()}"

        until(condition or self.is_settled, seconds, what)

    def check_books(self):
        """See that nothing is lost and nothing is there twice; return the tasks by number."""
        tasks, counts = self.tasks(), self.store.counts()
        letters = self.store.dead_letters(DeadLetterFilter())
        assert tasks.keys() == set(self.enqueued.values())
        assert counts["DONE"] + counts["FAILED"] == len(self.enqueued)
        assert counts["dead_letters"] == counts["FAILED"] == len(letters)
        failed = [each.id for each in tasks.values() if each.status is Status.FAILED]
        assert sorted(each.original_task_id for each in letters) == sorted(failed)
        for letter in letters:
            assert letter.reason in set(Reason)
            assert letter.error_type
            assert letter.error_message
            assert self.history(letter.original_task_id)
        ran = {number for number, _ in self.runs()}
        assert ran == tasks.keys(), "each has left its side effect at least once"
        return tasks

    def end(self):
        self.fleet.end()
        self.app.close()
