"""Commits that are shared by threads: what was answered is in the file, whatever happens next."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from conformance.acting import NOTE, add, claim, fail, live_counts, register, task
from outlast.ports.rows import Reason
from outlast.stores.sqlite.connection import _Ticket
from outlast.stores.sqlite.store import SqliteStore

SOAK = os.environ.get("OUTLAST_SOAK") == "1"
ANSWERS = 30_000 if SOAK else 6_000

ENQUEUEING = """
import os, sys, threading
from conformance.acting import add, task
from outlast.stores.sqlite.store import SqliteStore

store = SqliteStore(sys.argv[1])
store.create_schema()

def work(name):
    for number in range(2000):
        new = task(name, unique_key=f"{name} {number}") if number % 3 else task(name)
        os.write(1, b"".join(b"%d\\n" % each for each in add(store, new)))

threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""

# A limit on the size of files: what cannot be written fails in the middle of a COMMIT, as on a full disk.
FULL = """
import resource, sqlite3, sys
from pathlib import Path
from conformance.acting import NOTE, add, claim, fail, live_counts, register, task
from outlast.stores.sqlite.store import SqliteStore

store = SqliteStore(sys.argv[1])
store.create_schema()
register(store)
add(store, *(task() for _ in range(3)))
(claimed,) = claim(store, limit=1)
before = live_counts(store)
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
size = Path(sys.argv[1] + "-wal").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5000, unlimited[1]))
attempts = [
    lambda: add(store, task(parameters="x" * 100_000)),
    lambda: add(store, *(task(parameters="x" * 1000) for _ in range(100))),
    lambda: fail(store, claimed, note=NOTE._replace(traceback="x" * 100_000)),
]
for attempt in attempts:
    try:
        answer = attempt()
    except sqlite3.OperationalError as error:
        assert "disk" in str(error), error
    else:
        raise AssertionError(answer)
    assert live_counts(store) == before, live_counts(store)
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
for attempt in attempts:
    attempt()
assert live_counts(store) == {"QUEUED": 103, "FAILED": 1, "dead_letters": 1}, live_counts(store)
store.close()
"""


@pytest.fixture
def store(tmp_path):
    store = SqliteStore(tmp_path / "outlast.db")
    store.create_schema()
    yield store
    store.close()


def start(script, *arguments):
    environment = os.environ | {"PYTHONPATH": "tests"}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.timeout(600 if SOAK else 120)
def test_every_number_that_was_answered_is_in_the_file(tmp_path):
    """16 threads share commits; the process is killed while they do."""
    path = tmp_path / "outlast.db"
    process = start(ENQUEUEING, path)
    answered = [int(process.stdout.readline()) for _ in range(ANSWERS)]
    process.send_signal(signal.SIGKILL)
    answered += [int(line) for line in process.stdout if line.endswith("\n")]
    assert process.communicate()[1] == ""
    connection = sqlite3.connect(path)
    kept = {row[0] for row in connection.execute("SELECT id FROM task_queue")}
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert len(answered) == len(set(answered)) >= ANSWERS
    assert set(answered) <= kept
    assert len(kept - set(answered)) <= 16, "one per thread may have been committed and not answered yet"


def fill(store):
    """Let the file have no more pages than it has."""
    store.db.write(lambda connection: None)
    connection = store.db._writer
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")


def make_room(store):
    store.db._writer.execute("PRAGMA max_page_count = 1000000")


BIG = "x" * 50_000


@pytest.mark.parametrize(
    "batch",
    [
        [task(parameters=BIG)],
        [task(parameters=BIG, unique_key="k")],
        [task(parameters="x" * 500)] * 200,
        [task(), task(unique_key="k"), task(parameters=BIG, resource="r")],
    ],
    ids=["one", "one with a key", "many", "mixed"],
)
def test_a_full_disk_is_an_error_and_nothing_is_half_written(store, batch):
    """Pitfall 50. SQLite then ends the transaction by itself, which must not be taken for a commit."""
    add(store)
    fill(store)
    for _ in range(2):
        with pytest.raises(sqlite3.OperationalError, match="full"):
            store.enqueue(batch)
        assert live_counts(store) == {"QUEUED": 1}
    make_room(store)
    assert all(each.created for each in store.enqueue(batch))
    assert live_counts(store) == {"QUEUED": 1 + len(batch)}
    assert store.db.read(lambda own: own.execute("PRAGMA integrity_check").fetchone()) == ("ok",)


def test_a_full_disk_while_a_failure_is_recorded(store):
    """Pitfall 50: the task is not lost, and its dead letter can be written later."""
    register(store)
    (number,) = add(store)
    (claimed,) = claim(store)
    fill(store)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        fail(store, claimed, note=NOTE._replace(traceback=BIG), reason=Reason.PERMANENT)
    assert live_counts(store) == {"RUNNING": 1}
    assert store.attempts(number) == []
    make_room(store)
    assert fail(store, claimed, note=NOTE._replace(traceback=BIG), reason=Reason.PERMANENT) == []
    assert live_counts(store) == {"FAILED": 1, "dead_letters": 1}


def test_a_full_disk_for_many_threads_at_once(store):
    """Everybody learns what became of his own."""
    add(store)
    fill(store)
    answers: list[object] = []

    def work(number):
        try:
            answers.extend(add(store, task(parameters=BIG if number % 2 else "{}")))
        except sqlite3.OperationalError as error:
            answers.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [each for each in answers if isinstance(each, int)]
    assert len(answers) == 16
    assert len(answers) - len(numbers) >= 8
    assert live_counts(store) == {"QUEUED": 1 + len(numbers)}
    assert all(store.get(number) for number in numbers)


def test_a_write_that_fails_in_the_middle_of_a_commit(tmp_path):
    pytest.importorskip("resource")
    process = start(FULL, tmp_path / "outlast.db")
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_one_that_fails_does_not_spoil_it_for_the_others(store):
    answers: list[object] = []

    def work(number):
        try:
            answers.append(add(store, task(priority=10 if number % 4 == 0 else 5))[0])
        except sqlite3.IntegrityError as error:
            answers.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
    with store.db._lock:  # so that they wait, and one commits for all
        for thread in threads:
            thread.start()
        while len(store.db._waiting) < 32:
            pass
    for thread in threads:
        thread.join()
    assert sum(isinstance(each, sqlite3.IntegrityError) for each in answers) == 8
    numbers = sorted(each for each in answers if isinstance(each, int))
    assert len(set(numbers)) == 24
    assert live_counts(store) == {"QUEUED": 24}


def test_ctrl_c_in_the_one_that_commits_leaves_the_others_their_work(store):
    ahead, behind = (_Ticket(lambda own: own.execute("INSERT INTO queues (name) VALUES ('x')")) for _ in range(2))
    behind.work = lambda own: own.execute("INSERT INTO queues (name) VALUES ('y')")

    def interrupted(own):
        store.db._waiting.append(behind)
        raise KeyboardInterrupt

    store.db._waiting.append(ahead)
    with pytest.raises(KeyboardInterrupt):
        store.db.write(interrupted)
    assert list(store.db._waiting) == [ahead, behind], "the thread of each finds it there"
    assert not ahead.done
    add(store)
    assert ahead.done
    assert behind.done
    assert [row.name for row in store.queues()] == ["default", "x", "y"]


def test_a_callers_connection_that_commits_by_itself(store, tmp_path):
    connection = sqlite3.connect(tmp_path / "outlast.db", isolation_level=None)
    store.enqueue([task(), task(unique_key="k")], connection=connection)
    assert live_counts(store) == {"QUEUED": 2}
    with pytest.raises(sqlite3.IntegrityError):
        store.enqueue([task(unique_key="k2"), task(priority=10)], connection=connection)
    assert live_counts(store) == {"QUEUED": 2}
    connection.execute("BEGIN")
    store.enqueue([task()], connection=connection)
    with pytest.raises(sqlite3.IntegrityError):
        store.enqueue([task(unique_key="k3"), task(priority=10)], connection=connection)
    assert live_counts(store) == {"QUEUED": 2}
    connection.execute("COMMIT")
    assert live_counts(store) == {"QUEUED": 3}
    connection.close()


def test_a_writer_waits_for_another_process(store, tmp_path, monkeypatch):
    store.counts()
    other = sqlite3.connect(tmp_path / "outlast.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, other.execute, ["COMMIT"])
    timer.start()
    assert len(add(store)) == 1
    timer.join()
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr("outlast.stores.sqlite.connection.BUSY_TIMEOUT", 0.05)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        add(store)
    assert live_counts(store) == {"QUEUED": 1}
    other.execute("ROLLBACK")
    assert len(add(store)) == 1
    other.close()
