"""A machine that vanishes in the middle of a turn leaves a session that is idle in its transaction, with a row locked."""

import threading
import time
from contextlib import ExitStack

import pytest

import outlast
from conformance.acting import register
from conformance.places import PostgresPlace, need_postgres
from conformance.test_worker_life import wait_for, working


@pytest.fixture(scope="module")
def place(postgres_server):
    need_postgres()
    place = PostgresPlace(postgres_server, "fleet")
    postgres_server.execute("CREATE DATABASE fleet")
    place.open().create_schema()
    yield place
    place.close()


@pytest.fixture
def store(place):
    place.clear()
    return place.opened[0]


def test_a_fleet_works_on_beside_a_session_that_vanished(place, store, tmp_path):
    app = outlast.App(store, spool=tmp_path / "spool", lease=1, heartbeat=0.2)
    runs, lock = [], threading.Lock()

    @app.task
    def hello():
        with lock:
            runs.append(time.monotonic())

    register(store, "vanished", lease=0.1)
    with place.connect() as gone, ExitStack() as stack:
        gone.execute(store.db.sql["hold_lease"], {"worker_id": "vanished"})
        time.sleep(0.15)  # its lease is over, and its row is locked
        begun = time.monotonic()
        workers = [stack.enter_context(working(app, concurrency=2, name=f"w{number}")) for number in range(2)]
        while time.monotonic() - begun < 2.2:
            hello.enqueue()
            time.sleep(0.05)
        known = {each.id for each in store.workers() if each.alive}
        sure = [worker._claim_loop.holds_lease() for worker in workers]
        assert max(runs) - begun > 2.0  # twice the lease
        assert {worker.id for worker in workers} <= known
        assert sure == [True, True]
        assert "vanished" in {each.id for each in store.workers()}
        gone.rollback()
        wait_for(lambda: "vanished" not in {each.id for each in store.workers()}, 5)


def test_a_rescue_passes_over_a_row_that_is_locked(place, store):
    """It waits for nobody, and the others that are dead are struck off all the same."""
    register(store, "vanished", lease=-1)
    register(store, "dead", lease=-1)
    with place.connect() as gone:
        gone.execute(store.db.sql["hold_lease"], {"worker_id": "vanished"})
        ended = threading.Thread(target=store.rescue, args=(3,))
        ended.start()
        ended.join(3)
        waits = ended.is_alive()
        left = {each.id for each in store.workers()}
        gone.rollback()
    ended.join(5)
    assert (waits, left) == (False, {"vanished"})
    store.rescue(3)
    assert store.workers() == []


def test_a_turn_that_is_left_alone_is_ended_by_the_server(place, store):
    register(store, "w1")
    with place.connect() as connection:
        show = "SHOW idle_in_transaction_session_timeout"
        connection.execute(store.db.sql["hold_lease"], {"worker_id": "w1"})
        assert connection.execute(show).fetchone() == ("20s",)
        connection.commit()
        assert connection.execute(show).fetchone() == ("0",)  # for that transaction alone
