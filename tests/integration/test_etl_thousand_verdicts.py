"""The verdict on a thousand items through the whole ETL: what is just enough, and what ends a run at once.

E5, E6, E11, E12, C10, C11 and the defects of the seed's own rule, with the API on loopback.
"""

import logging
from collections import Counter

import pytest

import outlast
from integration.etl_thousand import POLICY, PostgresTrouble, SqliteTrouble
from integration.etl_world import document, make_etl, new_shop
from outlast.jobs.etl import FileRawStore, S3RawStore
from outlast.ports.job_rows import TargetStatus
from servers.rakuten import APPLICATION, RESET, Fault, RakutenServer, S3Front, fetching
from servers.s3 import S3Server, s3_client

KINDS = ("sqlite", "postgres")


class Memory:
    """A raw store for tests that are about something else."""

    def __init__(self):
        self.objects = {}

    def put(self, key, data):
        self.objects[key] = data

    def get(self, key):
        return self.objects[key]


class Scene:
    """An API, a shop, and a job between them."""

    def __init__(self, shop, app, api, raw):
        self.shop, self.app, self.api, self.raw = shop, app, api, raw
        self.trouble = PostgresTrouble(shop) if shop.kind == "postgres" else SqliteTrouble(shop)

    def items(self, number):
        names = [f"shop:{each}" for each in range(1, number + 1)]
        self.api.documents.update({name: document(int(name[5:])) for name in names})
        return names

    def job(self, entity="item", *, raw=None, timeout=10.0, **settings):
        fetch = fetching(self.api.url, timeout=timeout)
        etl = make_etl(self.shop, raw or self.raw, fetch, staging=self.trouble, policy=POLICY, entity=entity)

        @self.app.job(f"{entity}s", entity=entity, policy=POLICY, **settings)
        def load(context, target):
            self.trouble.target.name = target
            context.count(etl.load(target, context).outcome)

        return load

    def applied(self):
        return {name for (name,) in self.shop.rows("SELECT id FROM items")}

    def staged(self):
        return {name for (name,) in self.shop.rows("SELECT source_id FROM staging WHERE applied_hash = hash")}


def scene_of(request, kind, tmp_path):
    shop = new_shop(kind, tmp_path, request.getfixturevalue("postgres_server") if kind == "postgres" else None)
    app = outlast.App(f"sqlite:///{tmp_path}/jobs.db")
    with RakutenServer() as api:
        yield Scene(shop, app, api, Memory())
    app.close()
    shop.close()


@pytest.fixture
def scene(request, tmp_path):
    yield from scene_of(request, "sqlite", tmp_path)


@pytest.fixture(params=KINDS)
def either(request, tmp_path):
    yield from scene_of(request, request.param, tmp_path)


def adds_up(summary):
    """Pitfall 63."""
    return summary.total_targets == (
        summary.success_targets
        + summary.failed_targets
        + summary.deferred_targets
        + summary.skipped_targets
        + summary.not_attempted
    )


@pytest.mark.parametrize(
    ("entity", "failed", "total", "code"),
    [
        ("item", 50, 1000, 0),
        ("item", 51, 1000, 1),
        ("tag", 1, 100, 0),
        ("tag", 1, 99, 1),
        ("genre", 2, 200, 0),
        ("genre", 2, 199, 1),
        ("ranking", 1, 100, 0),
        ("ranking", 2, 100, 1),
        ("item", 0, 0, 0),
    ],
)
def test_the_rate_is_exact_through_the_whole_etl(scene, entity, failed, total, code):
    """E5, and the seed's defects: 1 of 99 trips 1 %, and no target at all is no failure."""
    names = scene.items(total)
    for name in names[:failed]:
        del scene.api.documents[name]
    summary = scene.job(entity).run(names)
    assert (summary.failed_targets, summary.success_targets) == (failed, total - failed)
    assert summary.failure_rate == (failed / total if total else 0.0)
    assert summary.exit_code == code
    assert bool(summary.reasons) is bool(code)
    assert scene.staged() == scene.applied() == set(names[failed:])
    assert scene.api.requests == Counter(names)


def test_a_minimum_sample_forgives_a_small_run(scene):
    """The seed's defect: 1 failure in fewer than 100 targets always trips 1 %."""
    names = scene.items(20)
    del scene.api.documents[names[3]]
    summary = scene.job("tag", min_sample=100).run(names)
    assert (summary.failed_targets, summary.exit_code, summary.failure_rate) == (1, 0, 0.05)


def test_a_401_on_target_37_stops_the_run_and_a_resumed_one_does_the_rest(scene):
    """E11, E12, C10: 36 are done, one has failed, 963 were never asked for."""
    names = scene.items(1000)
    scene.api.fail(names[36], 401, forever=True)
    job = scene.job()
    summary = job.run(names, concurrency=1)
    assert (summary.state, summary.exit_code) == ("aborted", 1)
    assert (summary.total_targets, summary.success_targets, summary.failed_targets) == (1000, 36, 1)
    assert (summary.not_attempted, adds_up(summary)) == (963, True)
    assert summary.by_category == {"authentication": 1}
    assert summary.reasons[0].startswith("aborted: authentication: HTTPError: HTTP Error 401")
    assert summary.reasons[1:] == ("963 targets not attempted",)
    assert scene.api.requests == Counter(names[:37])
    assert scene.applied() == scene.staged() == set(names[:36])

    scene.api.heal(names)
    scene.api.requests.clear()
    resumed = job.run(names, resume=summary.run_id)
    assert (resumed.state, resumed.exit_code, resumed.run_id) == ("done", 0, summary.run_id)
    assert (resumed.total_targets, resumed.skipped_targets, resumed.success_targets) == (1000, 0, 1000)
    assert scene.api.requests == Counter(names[36:])
    assert scene.applied() == scene.staged() == set(names)


def test_an_application_that_is_not_let_in_costs_one_request(scene, caplog):
    """E11: every other target would meet with the same. The key of the application is told nowhere."""
    scene.api.application = "another"
    names = scene.items(100)
    with caplog.at_level(logging.DEBUG):
        summary = scene.job().run(names, concurrency=1)
    assert (summary.failed_targets, summary.not_attempted, summary.exit_code) == (1, 99, 1)
    assert scene.api.requests == Counter(names[:1])
    assert APPLICATION not in caplog.text + summary.to_json() + summary.to_markdown() + str(summary)


@pytest.fixture(scope="module")
def moto():
    server = S3Server()
    server.start()
    server.client().create_bucket(Bucket="verdicts")
    yield server
    server.stop()


def test_a_403_of_s3_ends_the_run_and_leaves_the_database_as_it_was(either, moto, tmp_path):
    """E6, E11, C10: the put is not tried again, and nothing points to what is not there."""
    names = either.items(60)
    with S3Front(moto.endpoint) as front:
        front.refuse(names[20], 403)
        job = either.job(raw=S3RawStore(s3_client(front.url), "verdicts", tmp_path.name))
        summary = job.run(names, concurrency=1)
        assert front.puts == Counter(names[:21])
        assert (summary.success_targets, summary.failed_targets, summary.not_attempted) == (20, 1, 39)
        assert (summary.s3_put_success, summary.s3_put_fail) == (20, 1)
        assert (summary.db_upsert_success, summary.db_upsert_fail) == (20, 0)
        assert (summary.state, summary.exit_code, summary.by_origin) == ("aborted", 1, {"s3": 1})
        assert either.applied() == either.staged() == set(names[:20])
        front.heal(names)
        again = job.run(names, resume=summary.run_id)
    assert (again.skipped_targets, again.success_targets, again.exit_code) == (0, 60, 0)
    assert (again.s3_put_success, again.s3_put_fail, again.db_upsert_success) == (60, 1, 60)
    assert either.applied() == either.staged() == set(names)


def test_a_broken_constraint_ends_the_run_and_is_rolled_back(either):
    """E2, E11, C10: a price below zero, which the table does not take."""
    names = either.items(40)
    either.api.documents[names[9]] = document(10, price=-1)
    summary = either.job().run(names, concurrency=1)
    assert (summary.success_targets, summary.failed_targets, summary.not_attempted) == (9, 1, 30)
    assert summary.by_category == {"integrity": 1}
    assert (summary.state, summary.exit_code) == ("aborted", 1)
    assert (summary.s3_put_success, summary.db_upsert_success, summary.db_upsert_fail) == (10, 9, 1)
    assert "1 target failed at the database" in summary.reasons
    assert either.trouble.tries[names[9]] == 1
    assert either.applied() == either.staged() == set(names[:9])


def test_a_deadlock_for_ever_fails_its_target_and_the_exit_code_but_not_the_others(either):
    """E2, C11: any failure at the database forces exit code 1, however many succeed."""
    names = either.items(200)
    either.trouble.curse({names[50]: 5, names[60]: 4})
    job = either.job()
    summary = job.run(names)
    assert (summary.success_targets, summary.failed_targets, summary.not_attempted) == (199, 1, 0)
    assert (summary.db_upsert_success, summary.db_upsert_fail) == (199, 1)
    assert (summary.by_category, summary.state) == ({"database_busy": 1}, "done")
    assert (summary.failure_rate, summary.exit_code) == (0.005, 1)
    assert summary.reasons == ("1 target failed at the database",)
    assert either.trouble.tries == Counter({**dict.fromkeys(names, 1), names[50]: 5, names[60]: 5})
    assert either.api.requests == Counter(names)  # what the database refuses is not fetched again
    assert either.applied() == either.staged() == set(names) - {names[50]}
    again = job.run(only_failed=summary.run_id)
    assert (again.total_targets, again.success_targets, again.exit_code) == (1, 1, 0)
    assert either.applied() == either.staged() == set(names)


def test_a_400_and_a_404_fail_their_target_after_one_request(scene):
    """E2, C10."""
    names = scene.items(100)
    scene.api.fail(names[0], 400, forever=True)
    scene.api.fail(names[1], 404, forever=True)
    summary = scene.job().run(names)
    assert (summary.success_targets, summary.failed_targets, summary.exit_code) == (98, 2, 0)
    assert scene.api.requests == Counter(names)


def test_an_answer_that_does_not_come_is_asked_for_again(scene):
    """E2: a timeout, and a connection that is reset."""
    name, other = scene.items(2)
    scene.api.fail(name, Fault(503, latency=5.0))
    scene.api.fail(other, RESET, RESET)
    summary = scene.job(timeout=0.5).run([name, other])
    assert (summary.success_targets, summary.exit_code) == (2, 0)
    assert scene.api.requests[name] >= 2
    assert scene.api.requests[other] >= 3


def test_5xx_are_tried_five_times(scene):
    """E2, C3."""
    names = scene.items(40)
    scene.api.fail(names[0], *[500, 502, 503, 504])
    scene.api.fail(names[1], 500, forever=True)
    summary = scene.job().run(names)
    assert (scene.api.requests[names[0]], scene.api.requests[names[1]]) == (5, 5)
    assert scene.api.requests.total() == 48
    assert (summary.success_targets, summary.failed_targets, summary.exit_code) == (39, 1, 0)


def test_a_time_that_the_api_names_beyond_what_can_be_slept_puts_the_target_off(scene):
    """C7, C12: it counts as failed for the gate, unless it may."""
    names = scene.items(20)
    for name in names[:2]:
        scene.api.fail(name, Fault(429, {"Retry-After": "86400"}))
    job = scene.job()
    summary = job.run(names)
    assert (summary.success_targets, summary.deferred_targets, summary.failed_targets) == (18, 2, 0)
    assert (summary.failure_rate, summary.exit_code, adds_up(summary)) == (0.1, 1, True)
    assert scene.api.requests == Counter(names)
    again = job.run(only_failed=summary.run_id)
    assert (again.total_targets, again.success_targets, again.exit_code) == (2, 2, 0)


def test_a_dry_run_over_all_items_fetches_and_writes_nothing(scene, tmp_path):
    names = scene.items(30)
    raw = FileRawStore(tmp_path / "raw")
    summary = scene.job(raw=raw).run(names, dry_run=True)
    assert (summary.success_targets, summary.diff_new_hash, summary.s3_put_success) == (30, 30, 0)
    assert scene.api.requests == Counter(names)
    assert (scene.applied(), list(raw.keys()), scene.app.store.runs()) == (set(), [], [])


def test_a_target_is_named_in_the_ledger_with_its_failure(scene):
    """E3."""
    names = scene.items(30)
    del scene.api.documents[names[4]]
    summary = scene.job().run(names)
    (row,) = scene.app.store.targets(summary.run_id, statuses=[TargetStatus.FAILED])
    assert (row.source_id, row.attempts, row.category, row.http_status) == (names[4], 1, "not_found", 404)
    assert row.error_type == "HTTPError"
