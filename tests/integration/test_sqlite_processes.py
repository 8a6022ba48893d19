"""One SQLite file, many processes: nothing is lost, and nobody hears of a lock."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from conformance.acting import add, claim, ids, register, task
from outlast.ports.rows import Rescued
from outlast.stores.sqlite.store import SqliteStore

SOAK = os.environ.get("OUTLAST_SOAK") == "1"
TASKS = 10_000 if SOAK else 500

FLEET = """
import sys
from conformance.acting import add, ids, register, task, turn
from outlast.ports.rows import Claim
from outlast.stores.sqlite.store import SqliteStore

path, name, count, all_of_them = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
store = SqliteStore(path)
store.create_schema()
register(store, name, lease=600)
done, added, work = [], 0, []
while True:
    if added < count:
        size = min(count - added, 1 + added % 40)
        add(store, *(task(unique_key=f"{name} {added + n}" if n % 7 == 0 else None) for n in range(size)))
        added += size
    turned = turn(store, name, done=work, claim=Claim(("default",), 20, 20))
    assert turned.refused == [], turned.refused
    done += [number for number, _ in work]
    work = [(each.id, each.epoch) for each in turned.claimed]
    if not work and added == count and store.counts()["DONE"] == all_of_them:
        break
store.leave(name)
store.close()
print(*done)
"""

FORKING = """
import os, sys, threading, time, warnings

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of threads beside a fork
from conformance.acting import add, task
from outlast.stores.sqlite.store import SqliteStore

store = SqliteStore(sys.argv[1])
store.create_schema()
add(store, task("parent"))
store.counts()
stop = threading.Event()

def write():
    while not stop.is_set():
        add(store, task("parent"))
        time.sleep(0.001)

writer = threading.Thread(target=write)
writer.start()
time.sleep(0.05)
children = []
for number in range(6):
    pid = os.fork()
    if pid == 0:
        for _ in range(30):
            add(store, task(f"child {number}"))
            store.counts()
        if number == 0:
            store.close()
        if number % 2:
            os._exit(0)
        sys.exit(0)  # the interpreter ends as always, and with it all connections
    children.append(pid)
codes = [os.waitpid(pid, 0)[1] for pid in children]
stop.set()
writer.join()
add(store, task("parent"))
store.close()
assert codes == [0] * 6, codes
"""

MORTAL = """
import sys, time
from conformance.acting import claim, register
from outlast.stores.sqlite.store import SqliteStore

store = SqliteStore(sys.argv[1])
register(store, "mortal", lease=3600)
print(len(claim(store, "mortal", limit=5, start=2)), flush=True)
time.sleep(600)
"""


def start(script, *arguments, **more):
    environment = os.environ | {"PYTHONPATH": "tests"}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, **more)


def checked(path):
    """Return a connection to a file that is as it should be."""
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return connection


@pytest.mark.timeout(1800 if SOAK else 120)
def test_eight_processes_hear_of_no_lock(tmp_path):
    """Pitfall 49: they begin together, on a file that is not there yet."""
    path = tmp_path / "outlast.db"
    fleet = [start(FLEET, path, f"p{n}", TASKS, 8 * TASKS, stderr=subprocess.PIPE) for n in range(8)]
    outputs = [process.communicate() for process in fleet]
    assert [errors for _, errors in outputs] == [""] * 8
    assert [process.returncode for process in fleet] == [0] * 8
    numbers = [int(number) for text, _ in outputs for number in text.split()]
    assert len(numbers) == len(set(numbers)) == 8 * TASKS
    connection = checked(path)
    rows = connection.execute("SELECT status, attempt, count(*) FROM task_queue GROUP BY 1, 2").fetchall()
    assert rows == [("DONE", 1, 8 * TASKS)]
    connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forking_while_it_is_open(tmp_path):
    """Pitfall 49: the children have connections of their own, and the parent's go on."""
    path = tmp_path / "outlast.db"
    process = start(FORKING, path, stderr=subprocess.PIPE)
    _, errors = process.communicate(timeout=100)
    assert (process.returncode, errors) == (0, "")
    connection = checked(path)
    counts = dict(connection.execute("SELECT task_type, count(*) FROM task_queue GROUP BY 1").fetchall())
    connection.close()
    assert counts.pop("parent") >= 2
    assert counts == {f"child {number}": 30 for number in range(6)}


def test_a_killed_worker_is_seen_at_once(tmp_path):
    """By the lock on its file, though its lease has an hour to run; pitfall 37."""
    path = tmp_path / "outlast.db"
    store = SqliteStore(path)
    store.create_schema()
    numbers = add(store, *(task() for _ in range(6)))
    process = start(MORTAL, path)
    assert process.stdout.readline() == "5\n"
    assert store.rescue(3) == []
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    rescued = store.rescue(3)
    assert sorted(rescued) == [
        Rescued(number, "mortal", "suspect" if place < 2 else "unspent") for place, number in enumerate(numbers[:5])
    ]
    assert list(tmp_path.glob("*-workers/*")) == []
    register(store)
    assert ids(claim(store)) == numbers[2:]
    store.leave("w1")
    assert list(tmp_path.glob("*-workers/*")) == []
    store.close()


def test_readers_do_not_wait_for_a_writer(tmp_path):
    store = SqliteStore(tmp_path / "outlast.db")
    store.create_schema()
    (number,) = add(store)
    other = sqlite3.connect(tmp_path / "outlast.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM task_queue")
    begun = time.monotonic()
    assert store.get(number).id == number
    assert store.counts()["QUEUED"] == 1
    assert time.monotonic() - begun < 5
    other.execute("ROLLBACK")
    other.close()
    store.close()


def test_numbers_are_never_used_again(tmp_path):
    store = SqliteStore(tmp_path / "outlast.db")
    store.create_schema()
    seen = []
    register(store)
    for _ in range(3):
        seen += add(store)
        claimed = claim(store)
        store.settle_and_claim(_done(claimed))
        assert store.prune(done_before=-1) == 1
    assert all(earlier < later for earlier, later in pairwise(seen))
    store.close()


def _done(claimed):
    from outlast.ports.rows import SettleAndClaim

    return SettleAndClaim("w1", [(each.id, each.epoch) for each in claimed], [], [])
