"""The order of an ETL on real databases and raw stores: E4, E6, E7, E8, E12, and what a failure in each step leaves."""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

import outlast
from integration.etl_world import (
    ENTITY,
    NOTHING,
    ONE,
    SOURCE,
    Context,
    document,
    key_of,
    make_etl,
    new_shop,
    normalize,
)
from outlast import RetryPolicy
from outlast.errors import (
    ConfigError,
    InvalidParametersError,
    NetworkError,
    PayloadError,
    TemporaryAPIError,
)
from outlast.failure import RETRYABLE
from outlast.jobs.etl import FileRawStore, Loaded, StagingRow, content_hash
from outlast.testing import failing


def test_a_record_is_loaded_once_and_then_known(shop, raw, api):
    etl, context = make_etl(shop, raw, api), Context()
    record = normalize(document(1))
    key = key_of(document(1))
    assert etl.load(ONE, context) == Loaded("new", content_hash(record), key, put=True, upserted=True)
    assert context.counts == {"diff_new_hash": 1, "s3_put_success": 1, "db_upsert_success": 1}
    assert shop.contents() == {
        "staging": [(ONE, content_hash(record), key, content_hash(record), 1)],
        "items": [(ONE, "Item 1", 100)],
        "tags": [(ONE, "tag1")],
    }
    context = Context()
    assert etl.load(ONE, context) == Loaded("unchanged", content_hash(record), key)
    assert context.counts == {}
    assert raw.puts == [key]


def test_a_changed_record_replaces_the_old_one_and_its_raw_object_is_kept_beside_it(shop, raw, api):
    etl = make_etl(shop, raw, api)
    first = etl.load(ONE)
    api.documents[ONE] = document(1, 3)
    second = etl.load(ONE)
    assert second.outcome == "new"
    assert shop.contents()["items"] == [(ONE, "Item 1", 300)]
    assert [tag for _, tag in shop.contents()["tags"]] == ["tag1", "tag2", "tag3"]
    assert set(raw.keys()) == {first.raw_key, second.raw_key}
    api.documents[ONE] = document(1, 1)
    assert etl.load(ONE).outcome == "new"
    assert shop.contents()["tags"] == [(ONE, "tag1")]


def test_the_steps_come_in_their_order(shop, api, tmp_path):
    """E7: the put comes before the transaction, staging and apply are inside it."""
    told, files, repo = [], FileRawStore(tmp_path / "raw"), shop.staging()

    class Told:
        def __init__(self, inner, names):
            self._inner, self._names = inner, names

        def __getattr__(self, name):
            found = getattr(self._inner, name)
            if name not in self._names:
                return found

            def call(*args, **kwargs):
                told.append(name)
                return found(*args, **kwargs)

            return call

    class Repo(Told):
        def transaction(self):
            from contextlib import contextmanager

            @contextmanager
            def run():
                told.append("BEGIN")
                with repo.transaction() as transaction:
                    yield Told(transaction, {"upsert", "mark_applied"})
                told.append("COMMIT")

            return run()

    def noted(name, function):
        def call(*args):
            told.append(name)
            return function(*args)

        return call

    etl = make_etl(
        shop,
        Told(files, {"put", "get"}),
        noted("fetch", api.fetch),
        normalize=noted("normalize", normalize),
        staging=Repo(repo, {"exists_hash", "get"}),
        apply=noted("apply", shop.apply),
    )
    etl.load(ONE)
    assert told == [
        "fetch",
        "normalize",
        "exists_hash",
        "get",
        "put",
        "BEGIN",
        "upsert",
        "apply",
        "mark_applied",
        "COMMIT",
    ]
    told.clear()
    etl.load(ONE)
    assert told == ["fetch", "normalize", "exists_hash"]


def test_an_error_of_the_fetch_passes_through_and_leaves_nothing(shop, raw, api):
    """E4."""
    error = api.documents[ONE] = TemporaryAPIError("503")
    etl, context = make_etl(shop, raw, api), Context()
    with pytest.raises(TemporaryAPIError) as caught:
        etl.load(ONE, context)
    assert caught.value is error
    assert error.__outlast_step__ == "fetch"
    assert "at the step 'fetch' of rakuten item shop:1" in error.__notes__
    assert api.asked == [ONE]  # the job around it asks again
    assert (shop.contents(), raw.puts, context.counts) == (NOTHING, [], {})


def test_a_fetch_may_have_a_policy_of_its_own(shop, raw, api, clock):
    fetch = failing(api.fetch, [TemporaryAPIError("503"), TemporaryAPIError("503")])
    etl, began = make_etl(shop, raw, fetch, fetch_policy=outlast.preset("etl")), clock.now()
    assert etl.load(ONE).outcome == "new"
    assert clock.waits == [1.0, 2.0]
    age = etl.staging.get(SOURCE, ENTITY, ONE).fetched_at.timestamp() - began
    assert age == pytest.approx(3.0, abs=1e-3)  # the attempt that succeeded counts


def test_a_put_is_tried_again(shop, raw, api, clock):
    raw.errors = [NetworkError("reset"), TemporaryAPIError("503"), None]
    context = Context()
    assert make_etl(shop, raw, api).load(ONE, context).outcome == "new"
    assert (len(raw.puts), len(api.asked), clock.waits) == (3, 1, [1.0, 2.0])
    assert context.counts == {"diff_new_hash": 1, "s3_put_success": 1, "db_upsert_success": 1}


def test_nothing_is_written_to_the_database_unless_the_put_has_succeeded(shop, raw, api, clock):
    """E6, and E12: the next run does what is missing. C3: four waits for five attempts."""
    etl, context = make_etl(shop, raw, api), Context()
    raw.errors = [TemporaryAPIError("503")] * 5
    with pytest.raises(TemporaryAPIError) as caught:
        etl.load(ONE, context)
    assert caught.value.__outlast_step__ == "put"
    assert outlast.report_of(caught.value).reason == "exhausted"
    assert clock.waits == [1.0, 2.0, 4.0, 8.0]
    assert context.counts == {"diff_new_hash": 1, "s3_put_fail": 1}
    assert shop.contents() == NOTHING
    assert etl.load(ONE).outcome == "new"
    assert shop.contents()["items"] == [(ONE, "Item 1", 100)]


def test_a_job_around_it_does_not_multiply_what_a_step_has_tried(shop, raw, api):
    raw.errors = [TemporaryAPIError("503")] * 50
    with pytest.raises(TemporaryAPIError):
        outlast.call(make_etl(shop, raw, api).load, ONE, policy=outlast.preset("etl"))
    assert (len(raw.puts), len(api.asked)) == (5, 1)


def test_a_failed_apply_is_rolled_back_with_its_row_and_done_next_time(shop, raw, api):
    calls = []

    def apply(connection, record):
        shop.apply(connection, record)
        calls.append(record["id"])
        if len(calls) == 2:
            raise ZeroDivisionError("a mistake of the program")

    etl = make_etl(shop, raw, api, apply=apply)
    etl.load(ONE)
    before = shop.contents()
    api.documents[ONE], context = document(1, 4), Context()
    with pytest.raises(ZeroDivisionError) as caught:
        etl.load(ONE, context)
    assert caught.value.__outlast_step__ == "db"
    assert context.counts == {"diff_new_hash": 1, "s3_put_success": 1, "db_upsert_fail": 1}
    assert shop.contents() == before
    assert etl.load(ONE).outcome == "new"
    assert shop.contents()["items"] == [(ONE, "Item 1", 400)]


def test_a_row_that_was_stored_and_not_applied_is_applied_although_its_hash_is_the_same(shop, raw, api):
    """Defect of the seed: it was skipped as 'same hash'."""
    etl, found, key = make_etl(shop, raw, api), content_hash(normalize(document(1))), key_of(document(1))
    raw.inner.put(key, b"{}")
    etl.staging.batch_upsert([StagingRow(SOURCE, ENTITY, ONE, found, key, datetime(2026, 1, 1, tzinfo=UTC))])
    context = Context()
    assert etl.load(ONE, context) == Loaded("reapplied", found, key, put=False, upserted=True)
    assert context.counts == {"db_upsert_success": 1}
    assert shop.contents()["items"] == [(ONE, "Item 1", 100)]
    assert etl.load(ONE).outcome == "unchanged"


@pytest.mark.parametrize("answer", [b"bytes", {"price": float("nan")}, {1: 2}])
def test_what_cannot_be_kept_fails_before_anything_is_written(shop, raw, answer):
    with pytest.raises(PayloadError) as caught:
        make_etl(shop, raw, lambda source_id: answer).load(ONE)
    assert caught.value.__outlast_step__ == "normalize"
    assert (shop.contents(), raw.puts) == (NOTHING, [])


def test_retries_of_a_step_carry_the_keys_of_the_target(shop, raw, api, caplog):
    """E9."""
    raw.errors = [TemporaryAPIError("503")]
    with caplog.at_level(logging.WARNING, "outlast.retry"):
        make_etl(shop, raw, api).load(ONE, Context())
    [record] = caplog.records
    assert (record.job_id, record.run_id, record.source_id) == ("items", "run-1", ONE)
    assert (record.attempt, record.max_attempts, record.error_category) == (1, 5, "api_temporary")
    assert record.call == "rakuten.item.put"


def test_an_error_that_takes_no_attributes_passes_through(shop, raw, api):
    @dataclass(frozen=True)
    class Closed(Exception):
        text: str

    api.documents[ONE] = Closed("no")
    with pytest.raises(Closed):
        make_etl(shop, raw, api).load(ONE)


def test_an_error_that_is_raised_again_and_again_has_one_note(shop, raw, api):
    error = api.documents[ONE] = ValueError("x")
    for _ in range(3):
        with pytest.raises(ValueError, match="x"):
            make_etl(shop, raw, api).load(ONE)
    assert sum("at the step" in note for note in error.__notes__) == 1


def test_parts_that_cannot_be_used_are_refused(tmp_path, raw, api):
    shop = new_shop("sqlite", tmp_path)

    async def fetch(source_id):
        return {}

    with pytest.raises(ConfigError, match="async"):
        make_etl(shop, raw, fetch)
    for version in (0, True, "1"):
        with pytest.raises(ConfigError, match="apply_version"):
            make_etl(shop, raw, api, apply_version=version)
    with pytest.raises(ConfigError, match="policy"):
        make_etl(shop, raw, api, policy="etl")
    with pytest.raises(ConfigError, match="source"):
        make_etl(shop, raw, api, source="")
    shop.close()


def test_the_policy_is_the_users(shop, raw, api, clock):
    raw.errors = [TemporaryAPIError("503")] * 3
    policy = RetryPolicy(max_attempts=2, retry_on=RETRYABLE, base_delay=3.0)
    with pytest.raises(TemporaryAPIError):
        make_etl(shop, raw, api, policy=policy).load(ONE)
    assert clock.waits == [3.0]


@pytest.mark.parametrize("error", [TypeError("a bug"), KeyError("price"), ValueError("no"), ConnectionError("reset")])
def test_a_bug_in_apply_makes_the_exit_code_1_however_few_targets_fail(shop, raw, api, error):
    def faulty(connection, record):
        shop.apply(connection, record)
        if record["id"] == ONE:
            raise error

    app = outlast.App("memory://")
    etl = make_etl(shop, raw, api, apply=faulty, policy=outlast.RetryPolicy(max_attempts=1))
    job = app.job("items", max_failure_rate=1.0)(lambda context, target: etl.load(target, context))
    summary = job.run(list(api.documents))
    assert (summary.failed_targets, summary.exit_code, summary.by_origin) == (1, 1, {"db": 1})
    assert summary.reasons == ("1 target failed at the database",)
    assert len(shop.contents()["items"]) == 2
    app.close()


def test_a_bug_elsewhere_fails_its_target(shop, raw, api):
    def fetch(name):
        raise TypeError("a bug")

    app = outlast.App("memory://")
    etl = make_etl(shop, raw, fetch)
    summary = app.job("items", max_failure_rate=1.0)(lambda context, target: etl.load(target, context)).run([ONE])
    assert (summary.failed_targets, summary.exit_code) == (1, 0)
    app.close()


def test_an_id_may_be_a_number(shop, raw):
    asked = []

    def fetch(number):
        asked.append(number)
        return document(1, itemCode=f"shop:{number}")

    etl = make_etl(shop, raw, fetch)
    first = etl.load(17)
    assert (first.outcome, asked) == ("new", [17])
    assert "/17/" in first.raw_key
    assert etl.load("17").outcome == etl.load(17).outcome == "unchanged"
    stored = etl.staging.get(SOURCE, ENTITY, 17)
    assert (stored, stored.source_id) == (etl.staging.get(SOURCE, ENTITY, "17"), "17")
    assert etl.staging.exists_hash(SOURCE, ENTITY, 17, first.hash)
    assert etl.staging.batch_upsert([stored._replace(source_id=18)]) == 1
    assert etl.staging.get(SOURCE, ENTITY, "18").source_id == "18"
    assert make_etl(shop, raw, fetch, apply_version=2).load_from_raw(17).outcome == "reapplied"
    with pytest.raises(InvalidParametersError, match="source_id is True"):
        etl.load(True)
