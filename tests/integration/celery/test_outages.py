"""A store or a broker that cannot be reached, and messages that come at an odd moment; Celery runs in this process."""

import threading
from types import SimpleNamespace

import psycopg_pool
import pytest
from celery.exceptions import Ignore, Retry
from celery.worker import state
from kombu.asynchronous import Hub, set_event_loop
from kombu.exceptions import OperationalError

from crash.processes import until
from integration.celery.conftest import address, postgres_scene
from integration.celery.scene import LONG
from integration.celery.shop import Shop
from outlast.engines.celery import engine
from outlast.engines.celery.attempt import AttemptRecorder
from outlast.engines.celery.engine import BackgroundThread
from outlast.engines.celery.forwarder import Forwarder
from outlast.engines.celery.message_codec import HEADER
from outlast.engines.celery.worker_request import OutlastRequest
from outlast.ports.rows import Status
from outlast.testing import fake_clock
from servers.redis import RedisServer


@pytest.fixture
def bridge(shop):
    """A bridge that is known to the store; nothing runs in it by itself."""
    made = Forwarder(shop.engine, "bridge")
    made._register()
    return made


def test_an_attempt_that_begins_while_the_bridge_looks_is_not_given_back(shop, bridge, monkeypatch):
    held = shop.held()
    known = SimpleNamespace(request_dict={HEADER: {"task": held.task_id, "attempt": 1}})

    class Requests:
        known = ()

        def __iter__(self):
            """Be read; right afterwards a message comes, and its attempt begins."""
            before, self.known = self.known, (known,)
            if not before:
                assert shop.engine.lending.begin(held.task_id, 1, "bridge") is not None
            return iter(before)

    monkeypatch.setattr(state, "reserved_requests", Requests())

    def look():
        bridge._forgotten._next_at = 0.0
        bridge._forgotten.release()
        return shop.store.get(held.task_id).status

    assert [look(), look(), look()] == [Status.RUNNING] * 3
    monkeypatch.setattr(state, "reserved_requests", [])
    assert [look(), look()] == [Status.RUNNING, Status.QUEUED], "missed once may be a moment, twice it is over"
    assert shop.is_well()


def test_a_message_that_began_nothing_says_nothing_of_an_attempt_that_runs(shop, bridge):
    held = shop.held()
    epoch = shop.engine.lending.begin(held.task_id, 1, "bridge")
    told = AttemptRecorder(shop.engine).defer(shop.flaky, shop.request(held), shop.engine.rules(shop.flaky), 60.0)
    assert isinstance(told, Ignore)
    OutlastRequest._record_revoked(SimpleNamespace(task=shop.flaky, _context=None), held, "expired", terminated=False)
    row = shop.store.get(held.task_id)
    assert (row.status, row.lease_epoch, row.deferrals) == (Status.RUNNING, epoch, 0)
    AttemptRecorder(shop.engine).record_success(held._replace(epoch=epoch))
    assert shop.store.get(held.task_id).status is Status.DONE


def test_a_postgresql_that_refuses_connections_is_waited_for_once(broker, postgres_server, monkeypatch):
    postgres_server.execute("DROP DATABASE IF EXISTS refusing", "CREATE DATABASE refusing")
    shop = Shop(f"{postgres_server.url.rpartition('/')[0]}/refusing", address(broker))
    shop.app.create_schema()
    held = shop.held()
    asked = []
    with fake_clock() as clock:

        def refused(_pool, timeout=None):
            asked.append(timeout)
            clock.advance(timeout)
            raise psycopg_pool.PoolTimeout

        monkeypatch.setattr(psycopg_pool.ConnectionPool, "getconn", refused)
        monkeypatch.setitem(shop.store.db._parameters, "port", "1")  # where nobody listens
        shop.store.db._spare.clear()
        rules, error = shop.engine.rules(shop.flaky), ConnectionError("hung up")
        for attempt, request in ((held, shop.request(held)), (None, shop.request())):
            asked.clear()
            told = AttemptRecorder(shop.engine).settle_failure(shop.flaky, request, rules, attempt, error)
            assert isinstance(told, Retry)
            assert sum(asked) <= engine.STORE_TIMEOUT, "over all tries of all that is written"
            assert asked
    shop.celery.close()
    shop.app.close()


def test_a_postgresql_that_was_never_reached_is_asked_a_few_times(broker):
    shop = Shop("postgresql://nobody@127.0.0.1:1/nothing", address(broker))
    with fake_clock() as clock:
        told = AttemptRecorder(shop.engine).settle_failure(
            shop.flaky, shop.request(), shop.engine.rules(shop.flaky), None, ConnectionError("hung up")
        )
    assert isinstance(told, Retry)
    assert 0 < sum(clock.waits) <= engine.STORE_TIMEOUT
    shop.celery.close()


def test_the_loop_of_a_worker_goes_on_while_something_waits_for_the_store():
    loop, aside, answer, seen = Hub(), BackgroundThread(), threading.Event(), []
    set_event_loop(loop)
    aside.open()

    def work():
        assert answer.wait(LONG)
        return lambda: seen.append(threading.current_thread())

    try:
        aside.do(work)  # which does not wait for it
        answer.set()
        aside.close()
        assert seen == [], "what is left to do is for the loop"
        loop.run_once()
        aside.do(lambda: lambda: seen.append("at once"))
    finally:
        loop.close()
        set_event_loop(None)
    assert seen == [threading.current_thread(), "at once"]


def test_a_worker_begins_while_the_store_is_down(shop, monkeypatch, request):
    register, asked = shop.store.register, []

    def down(*given):
        asked.append(given)
        if len(asked) == 1:
            raise ConnectionRefusedError
        return register(*given)

    monkeypatch.setattr(shop.store, "register", down)
    request.getfixturevalue("working")
    until(lambda: [each.alive for each in shop.store.workers()] == [True], LONG, "it is known once the store is back")
    assert shop.flaky.delay(2).get(timeout=LONG) == 2


def test_a_task_that_is_put_off_while_the_store_is_down_spends_no_attempt(shop, waiting, monkeypatch):
    def down(*_given, **_more):
        raise ConnectionRefusedError

    monkeypatch.setattr(shop.store, "enqueue", down)
    monkeypatch.setattr(engine, "_PAUSES", ())
    told = AttemptRecorder(shop.engine).defer(shop.flaky, shop.request(), shop.engine.rules(shop.flaky), 60.0)
    assert isinstance(told, Retry)
    (message,) = waiting("slow")
    assert (message["headers"]["retries"], message["headers"][HEADER]["retries"]) == (0, 0)


def test_a_broker_that_is_gone_costs_a_row_nothing(tmp_path):
    server = RedisServer()
    server.start()
    shop = Shop(f"sqlite:///{tmp_path}/shop.db", address(server))
    number = shop.row()
    server.stop()
    with pytest.raises(OperationalError):
        shop.engine.forward()
    row = shop.store.get(number)
    assert (row.status, row.attempt, row.retry_count) == (Status.QUEUED, 0, 0)
    assert shop.store.next_due(["celery"]) == 0, "it is sent as soon as there is a broker again"
    shop.celery.close()
    shop.app.close()


def test_a_process_that_is_killed_while_the_store_is_down_is_retried_by_the_broker(broker, tmp_path, postgres_server):
    with postgres_scene(broker, tmp_path, postgres_server) as scene:
        worker = scene.start("prefork", "-c", "2")
        name = scene.url.rpartition("/")[2]
        scene.app.close()
        postgres_server.execute(
            f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        )
        key, result = scene.send("kills_its_process", 1)
        result.get(timeout=LONG)
        assert len(scene.effects(key)) == 2
        assert "its failure could not be written" in worker.said()
        postgres_server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        _, flaky = scene.send("flaky", 2)
        assert scene.settled(flaky).retry_count == 1, "all is well again"
        assert scene.row_of(result) is None
        worker.stop()
        scene.check_books()
