"""A worker whose tables are changed by a newer Outlast ends, and says why: it would spoil what it does not know.

Pitfall 54.
"""

import threading

import pytest

import outlast
from conformance.acting import add, claim, register
from conformance.test_worker_life import wait_for
from outlast.errors import LeaseLostError, SchemaError
from outlast.worker import BaseWorker


@pytest.fixture
def blank(database):
    here = database.blank()
    here.open().create_schema()
    yield here
    here.close()


def migrate(place):
    """Do what every migration does: another version, and no worker is known any more."""
    connection = place.connect()
    connection.execute("INSERT INTO schema_version SELECT 999, applied_at FROM schema_version LIMIT 1")
    connection.execute("DELETE FROM workers")
    connection.commit()
    connection.close()


class Own(BaseWorker):
    def process_task(self, task):
        return None


def ended(work):
    """Run something beside the test; return what it raised, once it has."""
    raised = []

    def body():
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread, raised


@pytest.mark.parametrize("kind", ["worker", "base worker"])
def test_a_worker_ends_and_gives_back_what_it_held(blank, tmp_path, kind):
    store = blank.opened[0]
    app = outlast.App(store, spool=tmp_path / "spool", lease=4, heartbeat=0.2)
    worker = app.worker() if kind == "worker" else Own("w1", store, {"poll_interval": 0.02, "lease": 4})
    thread, raised = ended(worker.run)
    wait_for(lambda: len(store.workers()) == 1)
    migrate(blank)
    thread.join(30)
    (error,) = raised
    assert isinstance(error, SchemaError)
    assert "upgrade" in str(error)
    assert store.workers() == []


def test_nobody_registers_on_tables_of_another_version(blank):
    store = blank.opened[0]
    register(store, "w1")
    add(store)
    migrate(blank)
    with pytest.raises(LeaseLostError):
        claim(store, "w1")
    with pytest.raises(SchemaError, match="999"):
        register(store, "w2")
    assert store.workers() == []


def test_a_base_worker_that_was_busy_meanwhile_ends_too(blank):
    """Its heart notices first, and its lease is long over when the task has ended."""
    store, begun, go = blank.opened[0], threading.Event(), threading.Event()

    class Slow(BaseWorker):
        def process_task(self, task):
            begun.set()
            assert go.wait(30)

    add(store)
    worker = Slow("w1", store, {"poll_interval": 0.02, "lease": 0.8})
    thread, raised = ended(worker.run)
    assert begun.wait(30)
    migrate(blank)
    wait_for(lambda: not worker._lease.holds, 30)
    go.set()
    thread.join(30)
    assert [type(error) for error in raised] == [SchemaError]


def test_a_migration_takes_the_leases_of_all_workers_away(database, request):
    """One of the version before the books could register again, and change tasks without a word in them."""
    if database.kind == "sqlite":
        from outlast.sql_files import load_migrations

        place = database.blank()
        connection = place.connect()
        connection.execute(
            "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT"
        )
        scripts = {number: text for number, text in load_migrations("outlast.stores.sqlite").items() if number <= 3}
        for number, script in scripts.items():
            connection.executescript(script)
            connection.execute("INSERT INTO schema_version VALUES (?, 1)", (number,))
        time = "1"
    else:
        from outlast.stores.postgres.sql import scripts as of_postgres

        place = database.blank()
        connection = place.connect()
        connection.execute(
            "CREATE SCHEMA outlast; CREATE TABLE outlast.schema_version (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        for number, script in of_postgres("outlast").items():
            if number <= 3:
                connection.execute(script)
                connection.execute("INSERT INTO schema_version VALUES (%s)", (number,))
        time = "now()"
    queues = "'[]'" if database.kind == "sqlite" else "'{}'"
    old = (
        "INSERT INTO workers (id, name, host, pid, queues, concurrency, state, started_at, heartbeat_at, expires_at) "
        f"VALUES ('old', 'old', 'host', 1, {queues}, 1, 'running', {time}, {time}, {time})"
    )
    connection.execute(old)
    connection.commit()
    store = place.open()
    store.create_schema()
    assert store.workers() == []
    with pytest.raises(Exception, match="schema_version"):
        connection.execute(old)
    connection.rollback()
    connection.close()
    register(store, "new")
    assert [each.id for each in store.workers()] == ["new"]
    place.close()
