"""A fleet behind PgBouncer, where a session is another one with each transaction. Pitfall 48."""

import threading
from contextlib import ExitStack, contextmanager, nullcontext

import psycopg
import pytest

from crash import monitoring
from crash.processes import until
from fleet.scene import FleetScene
from outlast.ports.rows import NewTask, Status
from outlast.ports.source_rows import NewSource
from outlast.run.store_wait import is_store_outage
from outlast.stores.postgres.connection import is_behind_pooler, keeps_sessions
from outlast.stores.postgres.store import PostgresStore
from servers.feeds import Answer, FeedServer, rss

pytestmark = [pytest.mark.xdist_group("fleet"), pytest.mark.needs("pgbouncer")]
PLAIN = 200


@pytest.fixture
def pooled(tmp_path, bouncer, database):
    """A fleet that knows no other way to its database."""
    scene = FleetScene(tmp_path, bouncer.url(database))
    yield scene
    scene.end()


@pytest.fixture(params=["transaction", "session"])
def pooled_store(request, fleet_server, bouncer, database):
    """A store behind a pooler of either kind."""
    if request.param == "transaction":
        store = PostgresStore(bouncer.url(database))
        store.create_schema()
        yield "transaction", store
        store.close()
        return
    from servers.pgbouncer import PgBouncer

    keeping = PgBouncer(fleet_server, mode="session", pool_size=10)
    keeping.start()
    store = PostgresStore(keeping.url(database))
    store.create_schema()
    yield "session", store
    store.close()
    keeping.stop()


def listening(url):
    """Return how many sessions of a database listen."""
    with psycopg.connect(url) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen%'"
        return connection.execute(query).fetchone()[0]


def listeners():
    return {each for each in threading.enumerate() if each.name == "outlast-listen"}


class Late:
    """A client that begins its first transaction while another has the session of a third one."""

    def __init__(self, client, busy):
        self.client, self.busy, self.execute, self.info = client, busy, client.execute, client.info

    @contextmanager
    def transaction(self):
        busy, self.busy = self.busy, None
        with ExitStack() as stack:
            with busy.transaction() if busy else nullcontext():
                if busy:
                    busy.execute("SELECT 1")
                stack.enter_context(self.client.transaction())
                self.client.execute("SELECT 1")
            yield


def test_a_pooler_is_recognised_though_each_client_gets_its_own_session_by_chance(bouncer, database):
    clients = [psycopg.connect(bouncer.url(database), autocommit=True, prepare_threshold=None) for _ in range(3)]
    ours, other, busy = clients
    assert is_behind_pooler(ours)
    assert not keeps_sessions(ours, nullcontext(Late(other, busy)))
    for each in clients:
        each.close()


def test_a_queue_with_workers_that_die(pooled, postgres_url):
    """Enqueued in bulk and with keys, retried, given up, replayed, and taken over from a worker that was killed."""
    scene = pooled
    victim = scene.start(lease=1.5, heartbeat=0.3, worker={"queues": ["doomed"], "concurrency": 1})
    gate = scene.folder / "gate"
    scene.add("held", name="held", gate=str(gate), options={"queue": "doomed"})
    until(lambda: scene.ran("held") == [victim.pid], 30, scene.said)
    victim.kill()
    gate.touch()
    workers = [scene.start(worker={"queues": ["default", "doomed"], "concurrency": 4}) for _ in range(2)]
    scene.add("note", PLAIN, name="notes")
    keyed = [scene.add("note", name="keyed", options={"unique_key": "one", "delay": 3.0}) for _ in range(2)]
    assert keyed[0] == keyed[1], "the key is taken"
    scene.add("hasty", 10, name="hasty")
    scene.add("broken", 10, name="broken")
    scene.settled()
    assert scene.ran("held")[0] == victim.pid
    assert len(scene.ran("held")) == 2
    assert (len(scene.ran("notes")), len(scene.ran("keyed")), len(scene.ran("hasty"))) == (PLAIN, 1, 20)
    counts = scene.store.counts()
    assert (counts["DONE"], counts["dead_letters"]) == (PLAIN + 12, 10)
    assert sum(handled.outcome == "replayed" for handled in scene.app.dead_letters.replaying(all=True)) == 10
    until(lambda: len(scene.ran("broken")) == 20, 30, scene.said)
    scene.settled()
    assert scene.store.counts()["dead_letters"] == 10
    (number,) = scene.add("note", name="last")
    until(lambda: scene.store.get(number).status is Status.DONE, 20, scene.said)  # found by looking
    assert listening(postgres_url) == 0, "nobody would hear it"
    for each in workers:
        until(lambda each=each: "a pooler switches sessions" in each.said(), 30, scene.said)
        each.stop()
        assert "the store failed" not in each.said()
        assert "retrying later" not in each.said()
    scene.balanced()


def test_one_run_of_a_job_at_a_time(pooled, postgres_url):
    """The lock is a transaction's: it stays with its session, and goes with its process."""
    scene = pooled
    first = scene.start_job("held", 12)
    until(lambda: len(scene.ran_targets()) >= 10, 30, scene.said)
    refused = scene.start_job("held", 12)
    assert refused.wait(30) == 1
    assert f"process {first.pid}" in refused.said()
    assert "is already running" in refused.said()
    first.kill()
    until(lambda: scene.store.job_holder("held") is None, 20, "the lock is gone with its process")
    (scene.folder / "go").touch()
    again = scene.start_job("held", 12)
    assert again.wait(40) == 0, again.said()
    assert scene.store.job_holder("held") is None
    with psycopg.connect(postgres_url) as connection:
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name ~ 'process'"
        )
        assert connection.execute(query).fetchone() == (0,), "no session is left with a name that was a job's"


def test_a_monitor(pooled):
    with FeedServer() as feeds:
        urls = [feeds.script(f"/{each}", Answer(body=rss(2))) for each in range(12)]
        found = pooled.app.sources.add_many([NewSource(url, "feed") for url in urls])
        child = monitoring.start(pooled, "cycle")
        assert child.wait(40) == 0, child.said()
        assert {pooled.app.sources.get(each.id).outcome for each in found} == {"changed"}


def test_what_a_pooler_is_asked_for(pooled_store):
    """One that keeps sessions is listened to. Locks of jobs hold in either, and nothing is prepared unless it is asked for."""
    mode, store = pooled_store
    called, before = threading.Event(), listeners()
    deafen = store.listen(called.set)
    try:
        until(lambda: called.is_set() or listeners() == before, 20, "it listens, or has found that it cannot")
        assert (called.is_set(), len(listeners() - before)) == ((True, 1) if mode == "session" else (False, 0))
    finally:
        deafen()
    assert store.db.is_pooled
    with store.db.connect() as connection:
        assert connection.prepare_threshold is None
    lock = store.lock_job("items", "the first")
    assert lock.held()
    assert store.lock_job("items", "the second") is None
    assert store.job_holder("items") == "the first"
    lock.release()
    again = store.lock_job("items", "the third")
    assert (again.held(), lock.held()) == (True, False)
    again.release()
    assert store.job_holder("items") is None


def test_without_a_pooler_statements_are_prepared(postgres_url, bouncer, database):
    plain, told = PostgresStore(postgres_url), PostgresStore(bouncer.url(database), prepare_threshold=3)
    with plain.db.connect() as direct, told.db.connect() as pooled:
        assert (plain.db.is_pooled, direct.prepare_threshold) == (False, 5)
        assert (told.db.is_pooled, pooled.prepare_threshold) == (True, 3), "whoever says so knows better"


def test_whoever_says_what_stands_before_the_server_is_believed(postgres_url, bouncer, database):
    """Where a pooler is not recognised, or keeps sessions."""
    hidden, kept = PostgresStore(postgres_url, pooled=True), PostgresStore(bouncer.url(database), pooled=False)
    hidden.create_schema()
    held = {}
    for store in (hidden, kept):
        with store.db.connect() as connection:
            held[store] = [store.db.is_pooled, connection.prepare_threshold]
        lock = store.lock_job("items", "the first")
        held[store].append(_locked_in_transaction(postgres_url))
        lock.release()
        store.close()
    assert held == {hidden: [True, None, True], kept: [False, 5, False]}


def _locked_in_transaction(url):
    """Tell whether the lock of a job is one of an open transaction."""
    with psycopg.connect(url) as connection:
        query = (
            "SELECT state = 'idle in transaction' FROM pg_stat_activity JOIN pg_locks USING (pid)"
            " WHERE locktype = 'advisory' AND datname = current_database()"
        )
        return connection.execute(query).fetchone()[0]


def test_a_schema_needs_no_session_setting(bouncer, postgres_url, database):
    """Two schemas behind a pooler that gives each transaction another session."""
    stores = [PostgresStore(f"{bouncer.url(database)}?schema={schema}") for schema in ("first", "second")]
    for number, store in enumerate(stores):
        store.create_schema()
        store.enqueue([NewTask("greet", "{}")] * (number + 1))
    assert [store.counts()["QUEUED"] for store in stores] == [1, 2]
    for store in stores:
        store.close()
    with psycopg.connect(postgres_url) as connection:
        query = "SELECT count(*) FROM pg_tables WHERE tablename = 'task_queue' AND schemaname IN ('public', 'outlast')"
        assert connection.execute(query).fetchone() == (0,)


def test_what_does_not_pass_is_not_waited_for(postgres_url, bouncer, database):
    """A database that is not there, encryption that the server does not offer, and what PgBouncer refuses."""
    wrong = {
        f"{postgres_url}nowhere": "does not exist",
        f"{postgres_url}?sslmode=require": "does not support SSL",
        f"{bouncer.url(database)}?options=-csearch_path%3Dshop": "unsupported startup parameter",
    }
    for url, said in wrong.items():
        with pytest.raises(psycopg.OperationalError, match=said) as caught:
            PostgresStore(url).check_schema()
        assert not is_store_outage(caught.value)
