"""A thousand items with mixed faults, through the whole ETL: every request, put, row and figure is accounted for.

E2, E3, E4, E5, E6, E9, E10, E11, E12, C3, C10, C11, on SQLite and PostgreSQL, with S3 and the API on loopback.
"""

import logging
from collections import Counter

import pytest

import outlast
from integration.etl_thousand import FATES, World
from integration.etl_world import new_shop
from outlast.jobs.etl import S3RawStore
from outlast.ports.job_rows import TargetStatus
from servers.rakuten import RakutenServer, S3Front
from servers.s3 import S3Server, s3_client

KEYS = (
    "job_id", "run_id", "env", "job_start_at", "entity", "source_id", "attempt", "max_attempts", "error_category",
    "origin", "http_status", "exception_name", "failure_message",
)  # fmt: skip
"""What every record of a failure carries: E9."""


@pytest.fixture(scope="module")
def moto():
    server = S3Server()
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def world(request, tmp_path, moto):
    kind = request.param
    shop = new_shop(kind, tmp_path, request.getfixturevalue("postgres_server") if kind == "postgres" else None)
    app = outlast.App(shop.address if kind == "postgres" else f"sqlite:///{tmp_path}/jobs.db")
    app.create_schema()
    with RakutenServer() as api, S3Front(moto.endpoint) as front:
        client = s3_client(front.url)
        client.create_bucket(Bucket=kind)
        yield World(api, front, shop, S3RawStore(client, kind, "raw"), app)
    app.close()
    shop.close()


def failures_in(caplog):
    """Return the records that tell of failures: of attempts, and of targets."""
    records = [each for each in caplog.records if each.name.startswith("outlast") and each.levelno >= logging.WARNING]
    return [each for each in records if hasattr(each, "error_category")]


@pytest.mark.timeout(300)  # five thousand requests, on a machine that may be busy
def test_a_thousand_items_are_accounted_for_and_later_runs_do_the_rest(world, caplog):
    items = world.items
    world.prepare()
    assert len(items.fates) == 1000
    assert world.held() == world.contents(loaded=set())

    with caplog.at_level(logging.DEBUG, "outlast"):  # else at most ten lines a second
        first = world.job.run(items, concurrency=6)
    lost = set(items.of("S3 503 for ever", "404", "429 for ever"))
    loaded = set(items) - lost
    assert_first(world, first, loaded)
    assert_told(world, first, caplog)
    assert_written_down(world, first, lost)

    mended = set(items.of("S3 503 for ever")[:10])
    world.front.heal(mended)
    world.forget()
    second = world.job.run(items, concurrency=6)
    loaded |= mended
    assert_second(world, second, mended)
    assert_holds(world, loaded)

    world.front.heal(items)
    world.api.heal(items)
    world.forget()
    third = world.job.run(only_failed=second.run_id, concurrency=6)
    assert_third(world, third, lost - mended)
    loaded = set(items) - set(items.of("404"))
    assert_holds(world, loaded)

    world.forget()
    last = world.job.run(items, concurrency=6)
    assert_last(world, last)
    assert_holds(world, loaded)


def assert_holds(world, loaded):
    """E6: the database has what it must, and every row of the ledger its raw object."""
    assert world.held() == world.contents(loaded)
    assert set(world.raw.keys()) == world.raw_keys(loaded)


def assert_first(world, summary, loaded):
    """The first run: 50 of 1,000 fail, which is as much as may."""
    items = world.items
    assert world.api.requests == items.cost("requests")
    assert world.front.puts == items.cost("puts")
    assert +world.database.tries == items.cost("tries")
    assert_holds(world, loaded)
    assert summary.to_dict() == {
        "job_id": "items",
        "run_id": summary.run_id,
        "entity": "item",
        "env": "test",
        "state": "done",
        "total_targets": 1000,
        "success_targets": 950,
        "failed_targets": 50,
        "limit": None,
        "deferred_targets": 0,
        "skipped_targets": 0,
        "not_attempted": 0,
        "diff_new_hash": 520,
        "s3_put_success": 500,
        "s3_put_fail": 20,
        "db_upsert_success": 500,
        "db_upsert_fail": 0,
        "failure_rate": 0.05,
        "exit_code": 0,
        "duration": summary.duration,
        "attempts": items.cost("requests").total(),  # what a step has retried is no attempt of the job
        "total_is_known": True,
        "reasons": (),
        "by_category": {"api_temporary": 20, "not_found": 15, "rate_limit": 15},
        "by_origin": {"s3": 20, "http": 30},
        "figures": {"new": 500, "unchanged": 450},
        "groups": summary.groups,
        "compared": None,
    }
    assert sorted((each["size"], each["category"], each["origin"]) for each in summary.groups) == [
        (15, "not_found", "http"),
        (15, "rate_limit", "http"),
        (20, "api_temporary", "s3"),
    ]


def assert_second(world, summary, mended):
    """A second run like the first, S3 half mended: what is done is found unchanged, what is mended is done."""
    items = world.items
    assert world.api.requests == Counter({name: 5 if items.fates[name] == "429 for ever" else 1 for name in items})
    sick = set(items.of("S3 503 for ever")) - mended
    assert world.front.puts == Counter({**dict.fromkeys(mended, 1), **dict.fromkeys(sick, 5)})
    assert +world.database.tries == Counter(mended)
    assert (summary.success_targets, summary.failed_targets, summary.failure_rate) == (960, 40, 0.04)
    assert summary.figures == {"new": 10, "unchanged": 950}
    assert (summary.diff_new_hash, summary.s3_put_success, summary.s3_put_fail) == (20, 10, 10)
    assert (summary.db_upsert_success, summary.db_upsert_fail, summary.exit_code) == (10, 0, 0)
    assert summary.compared == {"fixed": 10, "broken": 0, "still": 40}


def assert_third(world, summary, rest):
    """Only what failed, with everything mended but what is not there. 15 of 40 are too many."""
    assert world.api.requests == Counter(rest)
    done = rest - set(world.items.of("404"))
    assert world.front.puts == world.front.stored == Counter(done)
    assert +world.database.tries == Counter(done)
    assert (summary.total_targets, summary.success_targets, summary.failed_targets) == (40, 25, 15)
    assert (summary.figures, summary.by_category) == ({"new": 25}, {"not_found": 15})
    assert summary.exit_code == 1
    assert summary.reasons == ("15 of 40 targets failed (at most 5 % allowed)",)
    assert summary.compared == {"fixed": 25, "broken": 0, "still": 15}


def assert_last(world, summary):
    """Once more all of it: there is nothing left to do."""
    assert world.api.requests == Counter(list(world.items))
    assert (world.front.puts, +world.database.tries) == (Counter(), Counter())
    assert (summary.success_targets, summary.failed_targets, summary.exit_code) == (985, 15, 0)
    assert (summary.figures, summary.diff_new_hash, summary.db_upsert_success) == ({"unchanged": 985}, 0, 0)


def assert_told(world, summary, caplog):
    """E9: every attempt that failed is told once with all keys, and so is every target that did."""
    told = failures_in(caplog)
    for record in told:
        assert [key for key in KEYS if not hasattr(record, key)] == []
        assert (record.job_id, record.run_id, record.env, record.entity) == ("items", summary.run_id, "test", "item")
        assert record.max_attempts == 5
    again = Counter(each.source_id for each in told if hasattr(each, "delay"))
    assert again == world.items.cost("warnings")
    ended = [each for each in told if each.name == "outlast.jobs"]
    assert Counter(each.source_id for each in ended) == Counter(
        name for name, fate in world.items.fates.items() if not FATES[fate].success
    )
    statuses = Counter((each.error_category, each.origin, each.http_status, each.attempt) for each in ended)
    assert statuses == {
        ("api_temporary", "s3", 503, 1): 20,
        ("not_found", "http", 404, 1): 15,
        ("rate_limit", "http", 429, 5): 15,
    }


def assert_written_down(world, summary, lost):
    """E3: the ledger has every target, and why those that failed did."""
    jobs = world.app.store
    assert jobs.target_counts(summary.run_id) == {
        TargetStatus.SUCCESS: 950,
        TargetStatus.FAILED: 50,
        TargetStatus.DEFERRED: 0,
        TargetStatus.SKIPPED: 0,
    }
    rows = jobs.targets(summary.run_id, statuses=[TargetStatus.FAILED])
    assert {row.source_id for row in rows} == lost
    assert Counter(row.http_status for row in rows) == {503: 20, 404: 15, 429: 15}
    run = jobs.run(summary.run_id)
    assert (run.state, run.total, run.exit_code) == ("done", 1000, 0)
