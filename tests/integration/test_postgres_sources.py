"""Sources and alerts in PostgreSQL: old tables are told from new ones, thousands cost few statements, nobody deadlocks."""

from __future__ import annotations

import random
import threading
import time

import psycopg
import pytest

from conformance.polling import EVERYTHING, FAILURE, add_feeds, end, fail, record
from outlast.decide.source_health import SourceRules, SourceState
from outlast.errors import SchemaError
from outlast.ports.source_rows import AlertResult, Closing, NewAlert, NewSource, SourceFilter
from outlast.stores.postgres.sql import scripts, statements
from outlast.stores.postgres.store import PostgresStore

MANY = 2_000


@pytest.fixture
def new_store(postgres_server):
    """Stores on a schema of their own, without tables."""
    postgres_server.execute("DROP SCHEMA IF EXISTS watched CASCADE")
    postgres_server.execute("CREATE SCHEMA watched")
    stores = []

    def build(**settings):
        stores.append(PostgresStore(postgres_server.url, schema="watched", **settings))
        return stores[-1]

    yield build
    for each in stores:
        each.close()
    postgres_server.execute("DROP SCHEMA watched CASCADE")


@pytest.fixture
def store(new_store):
    store = new_store()
    store.create_schema()
    return store


@pytest.fixture
def first_version(new_store, postgres_server):
    """A store on the tables of the first version, which knew no sources."""
    sql = statements("watched")
    with postgres_server.connect() as connection:
        connection.execute(sql["create_version"])
        connection.execute(scripts("watched")[1])
        connection.execute(sql["add_version"], {"version": 1})
        connection.execute("INSERT INTO watched.cooldowns VALUES (now() + interval '1 hour', 'host', 'busy')")
    return new_store()


@pytest.fixture
def statements_run(monkeypatch):
    """The statements that are run from now on."""
    run: list[object] = []
    execute = psycopg.Cursor.execute

    def noted(self, query, *args, **kwargs):
        run.append(query)
        return execute(self, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.Cursor, "execute", noted)
    return run


WAYS = {
    "add_sources": lambda store: store.add_sources([NewSource("https://a.test", "feed")]),
    "source": lambda store: store.source(1),
    "polls": lambda store: store.polls(1, 10),
    "change_sources": lambda store: store.change_sources({1: (None, fail())}),
    "open_cycle": lambda store: store.open_cycle("feed"),
    "close_cycle": lambda store: store.close_cycle(1, end),
    "claim_alerts": lambda store: store.claim_alerts(10, 60),
    "raise_alerts": lambda store: store.raise_alerts([NewAlert("a", "error", "Title")]),
    "cool": lambda store: store.start_cooldown("host", 60, "busy", capped=True),
    "probe": lambda store: store.probe("host", 60),
    "cooldowns": lambda store: store.cooldowns(),
}


@pytest.mark.parametrize("way", WAYS)
def test_tables_of_the_first_version_are_to_be_migrated(first_version, way):
    with pytest.raises(SchemaError, match="outlast db migrate") as caught:
        WAYS[way](first_version)
    assert (caught.value.found, caught.value.known) == (1, max(scripts("outlast")))


@pytest.mark.parametrize("way", WAYS)
def test_missing_tables_are_to_be_made(new_store, way):
    with pytest.raises(SchemaError, match="outlast db init") as caught:
        WAYS[way](new_store())
    assert caught.value.found == 0


def test_tables_of_the_first_version_are_migrated(first_version):
    first_version.create_schema()
    first_version.check_schema()
    (cooldown,) = first_version.cooldowns()
    assert (cooldown.resource, cooldown.capped) == ("host", 0)
    for way in WAYS.values():
        way(first_version)


def test_a_table_of_somebody_else_is_no_matter_of_versions(store):
    with pytest.raises(psycopg.errors.UndefinedTable), store.db.connection() as connection:
        connection.execute("SELECT * FROM nobody_made_it")


def _many_that_failed(store):
    add_feeds(store, MANY)
    cycle = store.open_cycle("feed")
    assert cycle.sources == MANY
    record(store, *store.claim_sources(cycle.id, "m1", MANY, 60), outcome="failed", pending=FAILURE)
    return cycle


def test_thousands_of_failures_stand_by_few_statements(store, statements_run):
    cycle = _many_that_failed(store)
    statements_run.clear()

    def close(cycle, last, sources, now):
        return Closing(
            cycle._replace(ended_at=now), False, [fail(SourceRules(threshold=1))(each, now) for each in sources]
        )

    closed = store.close_cycle(cycle.id, close)
    assert len(closed.transitions) == MANY
    assert len(statements_run) < 15
    assert store.source_counts()[SourceState.DISABLED] == MANY
    assert len(store.alerts(limit=2 * MANY)) == MANY
    assert len(store.polls(closed.transitions[-1].source_id, 10)) == 2


def test_thousands_of_failures_are_withdrawn_by_few_statements(store, statements_run):
    """Pitfall 60."""
    cycle = _many_that_failed(store)
    statements_run.clear()
    assert store.close_cycle(
        cycle.id, lambda cycle, last, sources, now: Closing(cycle._replace(ended_at=now), True, [])
    )
    assert len(statements_run) < 15
    found = store.sources(EVERYTHING)
    assert {each.pending for each in found} == {None}
    assert store.source_counts()[SourceState.HEALTHY] == MANY
    assert [line.outcome for line in store.polls(found[-1].id, 10)] == ["withdrawn", "failed"]


def test_more_alerts_at_once_than_a_server_has_locks(store, postgres_server):
    with postgres_server.connect() as connection:
        (room,) = connection.execute(
            "SELECT current_setting('max_locks_per_transaction')::int * (current_setting('max_connections')::int + 100)"
        ).fetchone()
    alerts = [NewAlert(f"source:{number}", "error", "Title") for number in range(2 * room)]
    assert len(store.raise_alerts(alerts)) == 2 * room
    assert store.raise_alerts(alerts) == []


def test_no_idle_look_writes(store, statements_run):
    add_feeds(store, 1)
    cycle = store.open_cycle("feed")
    record(store, *store.claim_sources(cycle.id, "m1", 1, 60), next_poll_at=store.now().replace(year=9000))
    store.close_cycle(cycle.id, end)
    statements_run.clear()
    assert store.open_cycle("feed") is None
    assert [query.split()[0] for query in statements_run] == [b"SELECT", b"SELECT"]


RULES = SourceRules(disables=False)


def _close(cycle, last, sources, now):
    failing = [fail(RULES)(each, now) for each in sources if each.pending]
    return Closing(cycle._replace(ended_at=now), False, failing, (NewAlert("outage:feed", str(cycle.id), "Out"),))


def _monitor(store, chance):
    cycle = store.open_cycle("feed", everything=True)
    while cycle and (taken := store.claim_sources(cycle.id, str(chance), 7, 60)):
        store.renew_sources(str(chance), 60)
        record(store, *reversed(taken), outcome="failed", pending=FAILURE)
    return cycle and store.close_cycle(cycle.id, _close)


def _person(store, chance):
    numbers = [each.id for each in store.sources(SourceFilter(profile="feed"))]
    store.change_sources({number: (None, fail(RULES)) for number in chance.sample(numbers, 9)})


def _notifier(store, chance):
    store.remind_alerts(0)
    taken = store.claim_alerts(chance.randrange(1, 20), 60)
    store.settle_alerts([AlertResult(each.id, each.epoch, (), None) for each in reversed(taken)])
    store.prune_alerts(0)


def _importer(store, chance):
    names = chance.sample(range(100), 9)
    added = store.add_sources([NewSource(f"https://more.test/{name}", "feed") for name in names])
    store.remove_sources([each.id for each in reversed(added)])


def test_all_at_once_wait_for_each_other_and_never_in_a_circle(store, new_store):
    """Monitors, people at the command line, notifiers and importers, two of each; one behind a pooler."""
    add_feeds(store, 40)
    over = threading.Event()
    closed: list[object] = []
    errors: list[BaseException] = []

    def run(work, prepare_threshold):
        mine, chance = new_store(prepare_threshold=prepare_threshold), random.Random(repr((work, prepare_threshold)))
        try:
            while not over.is_set():
                closed.append(work(mine, chance))
        except BaseException as error:
            errors.append(error)
            over.set()

    works = [(work, threshold) for work in (_monitor, _person, _notifier, _importer) for threshold in (None, 1)]
    threads = [threading.Thread(target=run, args=each) for each in works]
    for thread in threads:
        thread.start()
    limit = time.monotonic() + 120
    while sum(each is not None for each in closed.copy()) < 40 and time.monotonic() < limit and not over.is_set():
        over.wait(0.05)
    over.set()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert not any(thread.is_alive() for thread in threads)
    numbers = [each.cycle.id for each in closed if each is not None]
    assert len(numbers) >= 40
    assert len(numbers) == len(set(numbers)) == sum(each.ended_at is not None for each in store.cycles("feed", 1000))
