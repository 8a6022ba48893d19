"""The raw store on S3: moto's server for what works, prepared answers for what does not."""

import base64
import hashlib
import logging

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from integration.etl_world import Api, Context, document, make_etl, new_shop
from outlast import classify
from outlast.decide.decision import ABORT_CATEGORIES
from outlast.failure import Category, Origin
from outlast.jobs.etl import S3RawStore, content_hash, raw_key
from outlast.run import nested_clients
from outlast.testing import fake_clock
from servers.s3 import S3Server, s3_client
from servers.s3_stub import answering, error_document

HASH = content_hash("x")
ONE = "shop:1"
NOTHING = {"staging": [], "items": [], "tags": []}


@pytest.fixture(scope="module")
def server():
    server = S3Server()
    server.start()
    server.client().create_bucket(Bucket="raw")
    yield server
    server.stop()


@pytest.fixture
def shop(tmp_path):
    shop = new_shop("sqlite", tmp_path)
    yield shop
    shop.close()


@pytest.fixture
def api():
    return Api(**{ONE: document(1)})


@pytest.fixture
def raw(server, request):
    return S3RawStore(server.client(), "raw", request.node.name)


def test_what_is_put_is_there_and_a_second_put_changes_nothing(raw):
    """E8."""
    key = raw_key("rakuten", "item", "shop:1/楽天", HASH)
    assert not raw.exists(key)
    raw.put(key, b"one")
    raw.put(key, b"one")
    assert raw.exists(key)
    assert raw.get(key) == b"one"
    assert list(raw.keys()) == list(raw.keys("rakuten/item/")) == [key]
    assert list(raw.keys("rakuten/tag/")) == []


def test_the_prefix_is_a_folder(server):
    for prefix in ("here/there", "/here/there/"):
        S3RawStore(server.client(), "raw", prefix).put("a/1", b"x")
    assert list(S3RawStore(server.client(), "raw").keys("here")) == ["here/there/a/1"]
    assert list(S3RawStore(server.client(), "raw", "here").keys()) == ["there/a/1"]


def test_more_keys_than_one_answer_holds_are_told(raw):
    asked = []

    def by_twos(params, **_):
        asked.append(params)
        params["MaxKeys"] = 2

    raw.client.meta.events.register("provide-client-params.s3.ListObjectsV2", by_twos)
    for number in range(5):
        raw.put(f"many/{number}", b"")
    assert list(raw.keys("many/")) == [f"many/{number}" for number in range(5)]
    assert len(asked) == 3


def test_a_put_carries_a_checksum(raw):
    sent = []
    raw.client.meta.events.register("before-send.s3.PutObject", lambda request, **_: sent.append(request.headers))
    raw.put("a/1", b"the data")
    expected = base64.b64encode(hashlib.md5(b"the data").digest())
    assert sent[0]["Content-MD5"] in {expected, expected.decode()}


def test_a_missing_object_is_not_found(raw):
    with pytest.raises(ClientError) as caught:
        raw.get("a/none")
    assert classify(caught.value).category is Category.NOT_FOUND


def test_a_look_that_is_refused_is_an_error(raw):
    with answering(403) as address, pytest.raises(ClientError, match="403"):
        S3RawStore(s3_client(address), "raw").exists("a/1")


def test_a_record_goes_through_s3_to_the_database_and_back(shop, raw, api):
    loaded = make_etl(shop, raw, api).load(ONE)
    assert list(raw.keys()) == [loaded.raw_key]
    assert shop.rows("SELECT raw_key FROM staging") == [(loaded.raw_key,)]
    assert make_etl(shop, raw, api, apply_version=2).load_from_raw(ONE).outcome == "reapplied"


@pytest.mark.parametrize("code", ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_a_403_is_not_tried_again_and_ends_a_job(shop, api, code):
    """E2, E6, E11."""
    context = Context()
    with answering(403, error_document(code)) as address, fake_clock() as clock:
        etl = make_etl(shop, S3RawStore(s3_client(address), "raw"), api)
        with pytest.raises(ClientError) as caught:
            etl.load(ONE, context)
    failure = classify(caught.value)
    assert failure.category in ABORT_CATEGORIES
    assert failure.origin is Origin.S3
    assert caught.value.__outlast_step__ == "put"
    assert clock.waits == []
    assert context.counts == {"diff_new_hash": 1, "s3_put_fail": 1}
    assert shop.contents() == NOTHING


@pytest.mark.parametrize(
    ("status", "code", "waits"), [(503, "SlowDown", [2.0, 3.0, 5.0, 9.0]), (500, "InternalError", [1.0, 2.0, 4.0, 8.0])]
)
def test_s3_that_is_not_well_for_ever_fails_the_target_after_five_attempts(shop, api, status, code, waits):
    """E2, E6, C3; C8: a rate limit without a hint waits 1 s more."""
    context = Context()
    with answering(status, error_document(code)) as address, fake_clock() as clock:
        etl = make_etl(shop, S3RawStore(s3_client(address), "raw"), api)
        with pytest.raises(ClientError) as caught:
            etl.load(ONE, context)
    assert classify(caught.value).category not in ABORT_CATEGORIES
    assert clock.waits == waits
    assert context.counts == {"diff_new_hash": 1, "s3_put_fail": 1}
    assert shop.contents() == NOTHING


def test_s3_that_cannot_be_reached_is_tried_again(shop, api, server):
    """E2, E12."""
    with fake_clock() as clock:
        away = S3RawStore(s3_client("http://127.0.0.1:1"), "raw")
        with pytest.raises(EndpointConnectionError):
            make_etl(shop, away, api).load(ONE)
        assert len(clock.waits) == 4
    assert shop.contents() == NOTHING
    assert make_etl(shop, S3RawStore(server.client(), "raw", "later"), api).load(ONE).outcome == "new"


def test_s3_that_says_nothing_is_tried_again(shop, api):
    """E2."""
    from tests.servers.faults import FaultServer

    faults = FaultServer()
    faults.start()
    try:
        client = s3_client(faults.fault("stall"), read_timeout=0.05)
        with fake_clock() as clock, pytest.raises(ReadTimeoutError) as caught:
            make_etl(shop, S3RawStore(client, "raw"), api).load(ONE)
    finally:
        faults.stop()
    assert len(clock.waits) == 4
    assert classify(caught.value).retryable
    assert shop.contents() == NOTHING


def test_a_client_that_retries_beneath_is_told_of_once(shop, api, caplog, monkeypatch):
    monkeypatch.setattr(nested_clients, "_warned", set())
    with answering(503, error_document("SlowDown")) as address, fake_clock():
        client = s3_client(address, retries={"total_max_attempts": 2, "mode": "legacy"})
        monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)
        etl = make_etl(shop, S3RawStore(client, "raw"), api)
        with caplog.at_level(logging.WARNING, "outlast.retry"):
            for _ in range(2):
                with pytest.raises(ClientError):
                    etl.load(ONE)
    told = [record.getMessage() for record in caplog.records if "by itself" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("rakuten.item.put: botocore retried once by itself")
