"""A worker whose suspects run apart: it outlives them, and they do not outlive it. Pitfall 40."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from conformance.acting import task
from conformance.places import need_postgres
from crash.processes import until
from outlast.ports.rows import DeadLetterFilter, Reason, Status
from outlast.report.doctor import ledger_findings
from outlast.stores.urls import open_store

PROGRAM = Path(__file__).with_name("apart_program.py")
TESTS = Path(__file__).parents[1]


class Place:
    """A database, and processes of the program that work on it."""

    def __init__(self, url, folder):
        self.url, self.folder, self.processes = url, folder, []
        self.store, _ = open_store(url)
        self.store.create_schema()

    def add(self, name):
        return self.store.enqueue([task(name)])[0].id

    def start(self, limit=3):
        more = {"APART_URL": self.url, "APART_FOLDER": str(self.folder), "APART_LIMIT": str(limit)}
        path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(TESTS)])
        with (self.folder / f"log-{len(self.processes)}").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, str(PROGRAM)], env=os.environ | more | {"PYTHONPATH": path}, stderr=log
            )
        self.processes.append(process)
        return process

    def kill(self, process):
        """End it as kill -9 does; where no lock tells the others, say that its lease is over."""
        process.kill()
        process.wait(20)
        if self.url.startswith("postgresql"):
            with psycopg.connect(self.url) as connection:
                connection.execute("UPDATE workers SET expires_at = now() WHERE pid = %s", (process.pid,))

    def ran(self, name):
        """Return the processes in which a task ran."""
        file = self.folder / name
        return [int(line) for line in file.read_text().splitlines()] if file.exists() else []

    def said(self):
        return "\n".join(each.read_text()[-3000:] for each in sorted(self.folder.glob("log-*")))

    def until(self, condition):
        return until(condition, 60, self.said)

    def history(self, number):
        return [each.outcome for each in self.store.attempts(number)]

    def check_books(self):
        assert all(finding.ok for finding in ledger_findings(*self.store.counter_check()))

    def end(self):
        for each in self.processes:
            each.kill()
            each.wait(20)
        self.store.close()


@contextmanager
def opened(url, folder):
    place = Place(url, folder)
    try:
        yield place
    finally:
        place.end()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        with opened(f"sqlite:///{tmp_path}/outlast.db", tmp_path) as found:
            yield found
        return
    need_postgres()
    server = request.getfixturevalue("postgres_server")
    name = f"apart_{os.urandom(4).hex()}"
    server.execute(f"CREATE DATABASE {name}")
    with opened(f"{server.url.rpartition('/')[0]}/{name}", tmp_path) as found:
        yield found


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_poison_costs_one_worker_and_no_more(place):
    poison, beside = place.add("poison"), place.add("beside")
    first = place.start()
    place.until(lambda: place.ran("poison") and place.ran("beside"))
    place.kill(first)

    second = place.start(limit=2)
    place.until(lambda: place.store.get(poison).status is Status.FAILED and place.store.counts()["DONE"] == 1)
    plain = place.add("plain")
    place.until(lambda: place.store.get(plain).status is Status.DONE)

    assert second.poll() is None
    assert place.ran("plain") == [second.pid]
    ran = place.ran("poison")
    assert (ran[0], len(ran), second.pid in ran) == (first.pid, 3, False)
    assert place.history(poison) == ["lost"] * 3
    assert place.store.get(poison).crash_count == 2
    (letter,) = place.store.dead_letters(DeadLetterFilter())
    assert (letter.reason, letter.error_type, letter.retry_count) == (Reason.CRASH, "ProcessDied", 0)
    assert "SIGSEGV" in letter.error_message
    assert (place.store.get(beside).crash_count, place.history(beside)) == (0, ["lost"])
    assert second.pid not in place.ran("beside")
    place.check_books()
    second.terminate()
    assert second.wait(20) == 0


def test_a_child_that_lets_no_thread_run_ends_with_its_worker_as_well(place):
    place.add("absorbed")
    for count in (1, 2):
        worker = place.start()
        place.until(lambda wanted=count: len(place.ran("absorbed")) == wanted)
        place.kill(worker)
    pid = place.ran("absorbed")[1]
    assert pid != worker.pid
    place.until(lambda: is_gone(pid))


def test_killed_over_a_suspect_it_takes_the_child_along_and_one_crash_is_counted(place):
    number = place.add("gated")
    for count in (1, 2):
        worker = place.start()
        place.until(lambda wanted=count: len(place.ran("gated")) == wanted)
        place.kill(worker)
    pid = place.ran("gated")[1]
    assert pid != worker.pid
    place.until(lambda: is_gone(pid))

    (place.folder / "gate").touch()
    place.start()
    place.until(lambda: place.store.get(number).status is Status.DONE)

    found = place.store.get(number)
    assert (found.crash_count, place.history(number)) == (1, ["lost", "lost"])
    place.check_books()
