"""A file of an older Outlast is brought up to date when it is opened, with all that is in it."""

import sqlite3

import pytest

from conformance.acting import claim, ids, register
from conformance.polling import add_feeds
from outlast.errors import ConfigError
from outlast.ports.job_rows import TargetDone, TargetStatus
from outlast.ports.rows import DeadLetterFilter
from outlast.ports.source_rows import SourceFilter
from outlast.ports.triage import NewReplay
from outlast.sql_files import load_migrations
from outlast.stores.sqlite.schema import LATEST
from outlast.stores.sqlite.store import SqliteStore

LATER = 4_000_000_000_000


@pytest.fixture
def old_file(tmp_path):
    """A file as version 1 left it: a task, and a cooldown that runs."""
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    connection.executescript(load_migrations("outlast.stores.sqlite")[1])
    connection.execute("CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT")
    connection.execute("INSERT INTO schema_version VALUES (1, 1)")
    connection.execute("INSERT INTO task_queue (task_type) VALUES ('scrape')")
    connection.execute("INSERT INTO cooldowns VALUES ('a', ?, 'busy')", (LATER,))
    connection.commit()
    connection.close()
    return path


def test_version_1_becomes_the_latest_by_itself(old_file):
    store = SqliteStore(old_file)
    store.check_schema()
    assert store.create_schema() == LATEST >= 2
    (cooldown,) = store.cooldowns()
    assert (cooldown.resource, cooldown.reason, cooldown.capped) == ("a", "busy", 0)
    assert store.start_cooldown("a", 1, "again", capped=True) == 1
    assert not store.probe("a", 60)
    register(store)
    assert ids(claim(store)) == [1]
    assert add_feeds(store, 2) == [1, 2]
    assert store.open_cycle("feed").sources == 2
    store.close()


def test_version_2_gets_the_tables_of_jobs_and_keeps_its_sources(old_file):
    with sqlite3.connect(old_file) as connection:
        connection.executescript(load_migrations("outlast.stores.sqlite")[2])
        connection.execute("INSERT INTO schema_version VALUES (2, 1)")
        connection.execute(
            "INSERT INTO sources (url, profile, next_poll_at, created_at) VALUES ('https://a.test/', 'feed', 1, 1)"
        )
    connection.close()
    store = SqliteStore(old_file)
    store.add_run("r1", "items", None, "test", None)
    assert store.add_targets("r1", [TargetDone("a", TargetStatus.SUCCESS)]) == 1
    assert store.create_schema() == LATEST >= 3
    assert [source.url for source in store.sources(SourceFilter())] == ["https://a.test/"]
    assert store.counts()["QUEUED"] == 1
    store.close()


def test_version_3_gets_its_books_from_what_is_there(old_file):
    with sqlite3.connect(old_file) as connection:
        for number in (2, 3):
            connection.executescript(load_migrations("outlast.stores.sqlite")[number])
            connection.execute("INSERT INTO schema_version VALUES (?, 1)", (number,))
        for status in ("RUNNING", "PARKED", "DONE", "DONE", "FAILED", "FAILED", "CANCELLED", "DISCARDED"):
            connection.execute("INSERT INTO task_queue (task_type, status) VALUES ('scrape', ?)", (status,))
        for number, task_id in enumerate((6, 7)):
            connection.execute(
                "INSERT INTO dead_letter_queue (original_task_id, task_type, queue, priority, parameters, error_type,"
                " error_message, error_category, reason, fingerprint, traceback, failure, retry_count, crash_count,"
                " replays, created_at, moved_to_dlq_at)"
                " VALUES (?, 'scrape', 'default', 5, '{}', 'E', ?, 'network', 'exhausted', 'f1', '', '{}', 1, 0, 0, 1, ?)",
                (task_id, f"message {number}", 1000 + number),
            )
        real = dict(connection.execute("SELECT status, count(*) FROM task_queue GROUP BY status").fetchall())
    connection.close()
    store = SqliteStore(old_file)
    for _ in range(2):
        assert store.counts() == real | {"dead_letters": 2}
        assert store.dead_letter_counts() == {("scrape", "network"): 2}
        group = store.failure("f1")
        assert (group.failures, group.dead, group.error_message) == (2, 2, "message 0")
        assert (group.first_seen.timestamp(), group.last_seen.timestamp()) == (1.0, 1.001)
        assert store.pulse().last_hour == {}, "what was before is in no hour"
        store.roll_up()
    books = store.event_totals()
    assert (books["enqueued"], books["failed"], books["discarded"]) == (9, 3, 1)
    letter = store.dead_letters(DeadLetterFilter(limit=1))[0]
    assert store.replay(letter.id) == "replayed"
    assert store.counts() == real | {"QUEUED": 2, "FAILED": 1, "dead_letters": 1}
    assert (store.failure("f1").failures, store.failure("f1").dead) == (2, 1)
    store.close()


def test_an_empty_file_of_version_3_has_empty_books(old_file):
    with sqlite3.connect(old_file) as connection:
        connection.execute("DELETE FROM task_queue")
    connection.close()
    store = SqliteStore(old_file)
    assert set(store.event_totals().values()) == {0}
    assert set(store.counts().values()) == {0}
    store.close()


def test_a_step_that_fails_leaves_the_file_as_it_was(old_file):
    connection = sqlite3.connect(old_file)
    connection.execute("CREATE TABLE alerts (mine TEXT)")
    connection.commit()
    store = SqliteStore(old_file)
    with pytest.raises(ConfigError, match="a table alerts that Outlast did not create"):
        store.counts()
    tables = [
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE name IN ('sources', 'alerts')")
    ]
    assert tables == ["alerts"]
    assert connection.execute("SELECT version FROM schema_version").fetchall() == [(1,)]
    connection.execute("DROP TABLE alerts")
    connection.commit()
    connection.close()
    assert store.create_schema() == LATEST
    store.close()


def test_version_4_can_be_cleared_up(old_file):
    with sqlite3.connect(old_file) as connection:
        for number in (2, 3, 4):
            connection.executescript(load_migrations("outlast.stores.sqlite")[number])
            connection.execute("INSERT INTO schema_version VALUES (?, 1)", (number,))
        connection.execute("UPDATE task_queue SET status = 'FAILED'")
        connection.execute(
            "INSERT INTO dead_letter_queue (original_task_id, task_type, queue, priority, parameters, error_type,"
            " error_message, error_category, reason, fingerprint, traceback, failure, retry_count, crash_count, replays,"
            " created_at, moved_to_dlq_at) VALUES (1, 'scrape', 'default', 5, '{}', 'E', 'm', 'network', 'exhausted', 'f1',"
            " '', '{}', 1, 0, 0, 1, 1000)"
        )
        connection.execute("UPDATE task_flow SET n = 1")
        connection.execute("INSERT INTO task_flow VALUES (-1, 0, 'failed', 'scrape', 'network', '', 1, 1)")
        connection.execute("INSERT INTO failure_groups VALUES ('f1', 'scrape', 'E', 'network', 'm', 1000, 1000, 1, 1)")
    connection.close()
    store = SqliteStore(old_file)
    assert store.create_schema() == LATEST >= 5
    group = store.failure("f1")
    assert (group.note, group.acknowledged_at, group.standing(group.last_seen)) == ("", None, "open")
    assert store.unannounced_groups() == [], "what was there before is no news"
    assert store.oldest_dead_letter() > 1e9
    assert store.counter_check()[1] == store.counts()
    replay = store.add_replay(NewReplay(DeadLetterFilter(reason="exhausted")))
    assert replay.total == 1
    taken = store.claim_replay("me", 60)
    assert store.replay_step(replay.id, taken.epoch, 1, stage=0, canary=True).replayed == 1
    register(store)
    (claimed,) = claim(store)
    assert (claimed.id, claimed.canary) == (1, True)
    store.close()
