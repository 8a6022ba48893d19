"""The ready-made checks, on the real stores and databases."""

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

import outlast
from conformance.acting import add, bury, claim, register, task
from outlast.errors import ConfigError
from outlast.health import DeadLetterGrowth, DiskSpace, Finding, HealthChecker, Heartbeat, OldestReadyTask
from outlast.stores.sqlite.store import SqliteStore
from outlast.testing import fake_clock


@pytest.fixture
def store(tmp_path):
    """A store that uses the clock of this process, so that a test can set it."""
    store = SqliteStore(tmp_path / "outlast.db", synchronous="NORMAL")
    yield store
    store.close()


@pytest.fixture
def clock():
    with fake_clock() as clock:
        yield clock


def test_a_loop_that_beats_is_alive_and_one_that_does_not_is_not(clock):
    heart = Heartbeat(limit=30)
    clock.advance(29.9)
    assert heart() == Finding(True, "last beat 29.9 s ago, the limit is 30 s")
    clock.advance(0.1)
    assert heart().ok is False
    heart.beat()
    assert (heart.age, heart().ok) == (0, True)


def test_pitfall_7_a_wall_clock_that_jumps_kills_no_loop(clock):
    heart = Heartbeat()
    for jump in (3600, -7200):
        clock.jump(jump)
        assert heart().ok


def test_a_task_that_waits_too_long_degrades(store, clock):
    check = OldestReadyTask(store, limit=300)
    assert check() == Finding(True, "no ready task is waiting")
    add(store)
    clock.advance(300)
    assert not check().degraded
    clock.advance(1)
    assert check() == Finding(True, "the oldest ready task has waited 301 s, the limit is 300 s", degraded=True)


def test_tasks_of_the_future_and_of_other_queues_do_not_wait(store, clock):
    add(store, task(delay=1000), task(queue="theirs"))
    check = OldestReadyTask(store, limit=10)
    clock.advance(900)
    assert check() == Finding(True, "no ready task is waiting")
    assert OldestReadyTask(store, limit=10, queues=lambda: ["theirs"])().degraded
    clock.advance(105)
    assert check().detail.startswith("the oldest ready task has waited 5 s")


def test_a_task_waits_until_it_is_claimed(store, clock):
    check = OldestReadyTask(store, limit=10)
    register(store, lease=10_000)
    add(store)
    clock.advance(20)
    assert check().degraded
    assert len(claim(store, limit=1)) == 1
    assert check() == Finding(True, "no ready task is waiting")
    add(store)
    clock.advance(31)
    assert check().detail.startswith("the oldest ready task has waited 31 s")


def test_the_store_is_asked_for_the_queues_that_matter():
    waits = {("a", "b"): 12.0}
    check = OldestReadyTask(SimpleNamespace(oldest_ready=waits.get), limit=10, queues=["a", "b"])
    assert check() == Finding(True, "the oldest ready task has waited 12 s, the limit is 10 s", degraded=True)
    waits.clear()
    assert check() == Finding(True, "no ready task is waiting")


def test_many_new_dead_letters_degrade_for_as_long_as_the_window(store, clock):
    check = DeadLetterGrowth(store, limit=2, window=3600)
    assert check() == Finding(True, "0 new dead letters within 3600 s")
    for number in range(3):
        assert not check().degraded
        bury(store, task(f"t{number}"))
    assert check() == Finding(True, "more than 2 new dead letters within 3600 s", degraded=True)
    assert DeadLetterGrowth(store, limit=2)().degraded  # also for one that begins only now
    clock.advance(3599)
    assert check().degraded
    clock.advance(2)
    assert check() == Finding(True, "0 new dead letters within 3600 s")


def test_pitfall_19_a_limit_of_none_at_all_is_honoured(store, clock):
    check = DeadLetterGrowth(store, limit=0)
    assert not check().degraded
    bury(store)
    assert check().degraded


def test_room_on_the_disk(tmp_path, monkeypatch):
    assert DiskSpace(tmp_path, least=1)().ok
    for free, ok in ((100 * 1024 * 1024, True), (100 * 1024 * 1024 - 1, False)):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: SimpleNamespace(free=free))
        assert DiskSpace(tmp_path)().ok is ok
    assert DiskSpace(tmp_path)().detail == "100 MiB free, the minimum is 100 MiB"


def test_a_folder_that_is_gone_is_not_well(tmp_path):
    assert HealthChecker(checks={"disk": DiskSpace(tmp_path / "gone")}).check().checks == {"disk": False}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Heartbeat(0), "limit is 0"),
        (lambda: Heartbeat(True), "limit is True"),
        (lambda: OldestReadyTask(None, limit=float("inf")), "limit is inf"),
        (lambda: DeadLetterGrowth(None, limit=-1), "limit is -1"),
        (lambda: DeadLetterGrowth(None, limit=1.5), "limit is 1.5"),
        (lambda: DeadLetterGrowth(None, window=-1), "window is -1"),
        (lambda: DiskSpace("/", least="1G"), "least is '1G'"),
    ],
)
def test_settings_that_cannot_be_used(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


def in_a_thread(work):
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


def database_is_well(db):
    return HealthChecker(db=db, cache=0).check().checks["database"]


@pytest.mark.parametrize("own_thread", [True, False])
def test_a_connection_of_sqlite_open_and_closed(tmp_path, own_thread):
    connection = sqlite3.connect(tmp_path / "a.db", check_same_thread=own_thread)
    connection.row_factory = lambda cursor, row: dict(zip([each[0] for each in cursor.description], row, strict=True))
    connection.execute("CREATE TABLE t (x)")
    checker = HealthChecker(db=connection, cache=0)
    assert checker.check().checks == {"database": True}
    assert in_a_thread(checker.check).checks == {"database": True}
    connection.close()
    assert checker.check().checks == {"database": False}
    assert not database_is_well(connection)


def test_a_connection_of_sqlite_in_memory():
    with closing(sqlite3.connect(":memory:")) as connection:
        assert database_is_well(connection)
    assert not database_is_well(connection)


@pytest.mark.parametrize("own_thread", [True, False])
def test_a_corrupt_file_is_not_well(tmp_path, own_thread):
    file = tmp_path / "a.db"
    file.write_bytes(b"this is no database, whatever its name says" * 100)
    with closing(sqlite3.connect(file, check_same_thread=own_thread)) as connection:
        assert not database_is_well(connection)


def test_a_file_that_is_gone_is_not_well_for_a_connection_of_another_thread(tmp_path):
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
        assert database_is_well(connection)
        (tmp_path / "a.db").unlink()
        assert not database_is_well(connection)


def test_asking_leaves_the_transaction_of_a_connection_alone(tmp_path):
    with closing(sqlite3.connect(tmp_path / "a.db", check_same_thread=False)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (1)")
        assert database_is_well(connection)
        assert connection.in_transaction
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_an_app_and_a_store_are_really_asked(tmp_path):
    """The clock of a store in a file says nothing of the file."""
    file = tmp_path / "jobs.db"
    app = outlast.App(f"sqlite:///{file}")
    assert database_is_well(app)
    assert database_is_well(app.store)
    app.close()
    for leftover in tmp_path.glob("jobs.db*"):
        if leftover.is_file():
            leftover.write_bytes(b"x" * 8192)
    assert app.store.now() is not None
    assert not database_is_well(app)
    app.close()


def test_an_app_whose_folder_is_gone(tmp_path):
    assert not database_is_well(outlast.App(f"sqlite:///{tmp_path}/gone/jobs.db"))


def test_a_server_of_postgresql_and_its_connections(postgres_server):
    with psycopg.connect(postgres_server.url) as connection:
        assert database_is_well(connection)
        assert connection.info.transaction_status.name == "IDLE"  # no transaction stays open
        connection.execute("CREATE TEMP TABLE t (x int)")
        assert database_is_well(connection)
        assert connection.info.transaction_status.name == "INTRANS"  # nor is somebody else's ended
        connection.rollback()
        connection.autocommit = True
        assert database_is_well(connection)
    assert not database_is_well(connection)


def test_a_store_in_postgresql(postgres_server, caplog):
    base = postgres_server.url.rpartition("/")[0]
    postgres_server.execute("CREATE DATABASE health")
    app = outlast.App(f"{base}/health")
    assert not database_is_well(app)  # its tables are missing
    app.create_schema()
    checker = HealthChecker.for_app(app, cache=0)
    assert checker.check().checks == {"database": True, "oldest_ready": True, "dead_letters": True}
    app.close()
    gone = outlast.App(f"{base}/health_that_never_was")
    caplog.clear()
    assert not database_is_well(gone)
    assert "health_that_never_was" in caplog.text  # for those who read the log
    gone.close()


def test_the_check_of_the_disk_looks_at_the_folder_of_the_file(tmp_path, monkeypatch):
    seen = []
    real = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: seen.append(Path(path)) or real(path))
    app = outlast.App(f"sqlite:///{tmp_path}/jobs.db")
    HealthChecker.for_app(app).check()
    app.close()
    assert seen == [tmp_path]


def test_an_apps_queues_are_those_that_its_tasks_name_also_later(clock):
    app = outlast.App("memory://")
    checker = HealthChecker.for_app(app)

    @app.task(queue="mail")
    def send():
        pass

    send.enqueue()
    clock.advance(400)
    assert checker.report().status == "degraded"
    assert HealthChecker.for_app(app, queues=["default"]).report().status == "healthy"
