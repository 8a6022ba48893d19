"""Locks on jobs between processes: no lock outlives its holder."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import psycopg
import pytest

from outlast.errors import SchemaError
from outlast.stores.postgres.sql import scripts
from outlast.stores.postgres.store import PostgresStore
from outlast.stores.sqlite.store import SqliteStore
from servers.postgres import PostgresServer

# A process that locks a job, says so, and does what it is told.
PROGRAM = """
import os, signal, sys, time
from outlast.stores.postgres.store import PostgresStore
from outlast.stores.sqlite.store import SqliteStore

url, schema, way = sys.argv[1:]
store = PostgresStore(url, schema=schema) if url.startswith("postgresql:") else SqliteStore(url)
lock = store.lock_job("items", "holder")
assert lock is not None and lock.held()
if way == "with a child":
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        assert not lock.held(), "a child has no part in it"
        lock.release()
        store.close()
        os.write(told, b"ready")
        time.sleep(600)
        os._exit(0)
    assert os.read(heard, 5) == b"ready"
    print("child", child, flush=True)
if way == "with a child that goes on":
    child = os.fork()
    if child == 0:
        assert store.lock_job("items", "child") is None
        assert store.job_holder("items") == "holder"
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert lock.held()
print("locked", flush=True)
sys.stdin.readline()
print(lock.held(), flush=True)
if way != "with a child":
    lock.release()
    print("released", flush=True)
sys.stdin.readline()
"""


class Place:
    """Where a store is, for several processes."""

    def __init__(self, where, schema=""):
        self.where, self.schema = str(where), schema
        self.opened = []

    def open(self):
        postgres = self.where.startswith("postgresql:")
        store = PostgresStore(self.where, schema=self.schema) if postgres else SqliteStore(self.where)
        self.opened.append(store)
        return store

    @contextmanager
    def holder(self, way="alone"):
        command = [sys.executable, "-c", PROGRAM, self.where, self.schema, way]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        here = Place(tmp_path / "jobs.db")
    else:
        server = request.getfixturevalue("postgres_server")
        server.execute("DROP SCHEMA IF EXISTS job_locks CASCADE")
        here = Place(server.url, "job_locks")
    here.open().create_schema()
    yield here
    for store in here.opened:
        store.close()


def lock_soon(store, job="items"):
    """Lock a job that a dead process held; a server needs a moment to see the end of a connection."""
    pause = threading.Event()
    for _ in range(500):
        lock = store.lock_job(job, "next")
        if lock is not None:
            return lock
        pause.wait(0.02)
    return None


def test_another_process_is_kept_out_until_it_lets_go(place):
    store = place.open()
    with place.holder() as process:
        assert process.stdout.readline() == "locked\n"
        assert store.lock_job("items", "me") is None
        assert store.job_holder("items") == "holder"
        process.stdin.write("\n")
        assert [process.stdout.readline() for _ in range(2)] == ["True\n", "released\n"]
        assert store.job_holder("items") is None
        assert store.lock_job("items", "me").held()


def test_a_process_that_is_killed_has_let_go(place):
    store = place.open()
    with place.holder() as process:
        assert process.stdout.readline() == "locked\n"
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        lock = lock_soon(store)
        assert lock.held()
        assert store.job_holder("items") == "next", "nobody who is dead is named"
        lock.release()
        assert store.job_holder("items") is None


def test_a_child_that_outlives_its_parent_does_not_keep_the_lock(place):
    """As the children of a pool of processes do that are forked while a job runs."""
    store = place.open()
    with place.holder("with a child") as process:
        child = int(process.stdout.readline().removeprefix("child "))
        try:
            assert process.stdout.readline() == "locked\n"
            assert store.job_holder("items") == "holder", "what the child did to its copy has no effect"
            process.stdin.write("\n")
            assert process.stdout.readline() == "True\n"
            process.send_signal(signal.SIGKILL)
            process.wait(30)
            assert lock_soon(store).held()
            os.kill(child, 0)  # it lives
        finally:
            os.kill(child, signal.SIGKILL)


def test_after_a_fork_the_child_asks_like_anybody_else(place):
    with place.holder("with a child that goes on") as process:
        assert process.stdout.readline() == "locked\n"


def test_a_program_that_is_started_meanwhile_does_not_inherit_it(place):
    """An exec closes what a fork copied."""
    first, second = place.open(), place.open()
    lock = first.lock_job("items", "me")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False) as process:
        lock.release()
        assert second.lock_job("items", "you").held()
        process.kill()


def test_those_who_only_look_are_in_nobodys_way(place):
    store, stop, seen = place.open(), threading.Event(), set()

    def look(mine):
        while not stop.is_set():
            seen.add(mine.job_holder("items"))

    threads = [threading.Thread(target=look, args=(place.open(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            lock = store.lock_job("items", "me")
            assert lock is not None
            assert lock.held()
            lock.release()
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert seen <= {None, "me"}


class TestFiles:
    @pytest.fixture
    def store(self, tmp_path):
        store = SqliteStore(tmp_path / "jobs.db")
        yield store
        store.close()

    def test_a_lock_whose_file_was_removed_is_lost_and_known_to_be(self, store, tmp_path):
        lock = store.lock_job("items", "me")
        (file,) = (tmp_path / "jobs.db-jobs").iterdir()
        file.unlink()
        assert not lock.held()
        other = store.lock_job("items", "you")
        assert other.held()
        lock.release()
        assert other.held()
        assert store.job_holder("items") == "you"

    def test_a_look_at_the_wrong_moment_is_waited_for(self, store, tmp_path, monkeypatch):
        store.lock_job("items", "me").release()
        (path,) = (tmp_path / "jobs.db-jobs").iterdir()
        with path.open("rb") as looking:
            fcntl.flock(looking, fcntl.LOCK_SH)
            wait = SimpleNamespace(sleep=lambda _: fcntl.flock(looking, fcntl.LOCK_UN))
            monkeypatch.setattr("outlast.stores.sqlite.file_locks.time", wait)
            assert store.lock_job("items", "me").held()

    def test_to_let_go_does_not_wait_for_copies_of_the_file(self, store):
        """As a program has that is being started, between its fork and its exec."""
        lock = store.lock_job("items", "me")
        copy = os.dup(lock._file)
        lock.release()
        assert store.lock_job("items", "you").held()
        os.close(copy)

    def test_a_job_may_have_any_name(self, store, tmp_path):
        for name in ("../../etc/passwd", "a/b", "", "ä\n", "x" * 5000, "\udc80"):
            assert store.lock_job(name, "me").held()
        files = list((tmp_path / "jobs.db-jobs").iterdir())
        assert len(files) == 6
        assert all(len(file.name) == 32 for file in files)

    def test_files_do_not_pile_up(self, store, tmp_path):
        for _ in range(10):
            store.lock_job("items", "me").release()
        assert len(list((tmp_path / "jobs.db-jobs").iterdir())) == 1
        assert len(store.job_locks) == 1


class TestSessions:
    @pytest.fixture
    def server(self, postgres_server):
        postgres_server.execute("DROP SCHEMA IF EXISTS job_locks CASCADE", "DROP SCHEMA IF EXISTS others CASCADE")
        return postgres_server

    @pytest.fixture
    def stores(self, server):
        made = [PostgresStore(server.url, schema=schema) for schema in ("job_locks", "others")]
        for store in made:
            store.create_schema()
        yield made
        for store in made:
            store.close()

    def test_two_schemas_have_jobs_of_their_own(self, stores):
        one, two = (store.lock_job("items", f"in {store.db.schema}") for store in stores)
        assert one.held()
        assert two.held()
        assert [store.job_holder("items") for store in stores] == ["in job_locks", "in others"]

    def test_two_databases_have_jobs_of_their_own(self, stores, server):
        server.execute("DROP DATABASE IF EXISTS elsewhere", "CREATE DATABASE elsewhere TEMPLATE template0")
        there = PostgresStore(server.url.rpartition("/")[0] + "/elsewhere", schema="job_locks")
        there.create_schema()
        key = stores[0].db.fetch("job_lock_key", {"job": "items"})[0][0]
        with psycopg.connect(server.url.rpartition("/")[0] + "/elsewhere", autocommit=True) as connection:
            connection.execute("SELECT pg_advisory_lock(%s)", (key,))
            assert stores[0].job_holder("items") is None
            lock = stores[0].lock_job("items", "me")
            assert lock.held()
            assert stores[0].job_holder("items") == "me"
        there.close()
        server.execute("DROP DATABASE elsewhere WITH (FORCE)")

    def test_a_session_that_an_administrator_ends_has_let_go(self, stores, server):
        store = stores[0]
        lock = store.lock_job("items", "the one that is ended")
        server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'the one that is ended'"
        )
        assert lock_soon(store).held()
        assert not lock.held()
        assert store.job_holder("items") == "next"
        lock.release()
        assert store.job_holder("items") == "next"

    def test_a_server_that_restarts_has_let_go(self, tmp_path_factory):
        server = PostgresServer(tmp_path_factory.mktemp("restarted"))
        server.start()
        store = PostgresStore(server.url)
        try:
            store.create_schema()
            lock = store.lock_job("items", "before")
            assert lock.held()
            server.restart()
            assert not lock.held()
            assert store.job_holder("items") is None
            assert lock_soon(store).held()
            assert not lock.held()
        finally:
            store.close()
            server.stop()

    def test_a_lock_that_the_session_lost_is_not_held(self, stores):
        """As behind a pooler that hands sessions around, or resets them."""
        lock = stores[0].lock_job("items", "me")
        lock._connection.execute("SELECT pg_advisory_unlock_all()")
        assert not lock.held()

    def test_anybody_may_see_who_holds_it(self, stores, server):
        server.execute(
            "DROP ROLE IF EXISTS passer_by", "CREATE ROLE passer_by LOGIN PASSWORD 'p'",
            "GRANT USAGE ON SCHEMA job_locks TO passer_by", "GRANT SELECT ON job_locks.job_runs TO passer_by",
        )  # fmt: skip
        stranger = PostgresStore(
            server.url.replace(f"{server.user}:{server.password}", "passer_by:p"), schema="job_locks"
        )
        lock = stores[0].lock_job("items", "the owner")
        assert stranger.job_holder("items") == "the owner"
        assert stranger.lock_job("items", "stranger") is None
        lock.release()
        stranger.close()
        server.execute("DROP OWNED BY passer_by", "DROP ROLE passer_by")

    def test_a_long_name_is_cut(self, stores):
        stores[0].lock_job("items", "host-ä-" + "x" * 100)
        assert stores[0].job_holder("items") == "host-?-" + "x" * 56

    def test_it_stays_idle_for_as_long_as_the_job_takes(self, stores, server):
        server.execute("ALTER ROLE outlast SET idle_session_timeout = '50ms'")
        try:
            lock = stores[0].lock_job("items", "me")
            setting = lock._connection.execute("SHOW idle_session_timeout").fetchone()
        finally:
            server.execute("ALTER ROLE outlast RESET idle_session_timeout")
        assert setting == ("0",)

    def test_a_lock_takes_no_connection_from_the_pool(self, server, stores):
        store = PostgresStore(server.url, schema="job_locks", max_size=1)
        locks = [store.lock_job(f"job {number}", "me") for number in range(3)]
        assert all(lock.held() for lock in locks)
        assert store.runs() == []
        store.close()
        assert not any(lock.held() for lock in locks)

    def test_tables_of_version_2_are_brought_up_to_date(self, stores, server):
        store = stores[0]
        server.execute("DROP SCHEMA job_locks CASCADE", "CREATE SCHEMA job_locks")
        with store.db.connection() as connection, connection.transaction():
            connection.execute(store.db.sql["create_version"])
            for version in (1, 2):
                connection.execute(scripts("job_locks")[version])
                connection.execute(store.db.sql["add_version"], {"version": version})
        for ask in (lambda: store.lock_job("items", "me"), store.runs, lambda: store.targets("r1")):
            with pytest.raises(SchemaError, match="outlast db migrate") as caught:
                ask()
            assert caught.value.found == 2
        assert store.create_schema() >= 3
        assert store.lock_job("items", "me").held()
        assert store.runs() == []

    def test_without_tables_one_is_told_what_to_do(self, server):
        store = PostgresStore(server.url, schema="nowhere")
        for ask in (lambda: store.lock_job("items", "me"), lambda: store.job_holder("items")):
            with pytest.raises(SchemaError, match="outlast db init"):
                ask()
        store.close()
