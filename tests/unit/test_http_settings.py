"""What a transport is told: settings that cannot be used are refused, scopes and keys say what they promise."""

from datetime import timedelta

import httpx
import pytest

import outlast
from outlast import RetryPolicy
from outlast.decide.policy import DEFAULT_POLICY
from outlast.errors import ConfigError
from outlast.http import AsyncRetryTransport, HTTPAdapter, RetryTransport, Settings, idempotency_key
from outlast.http import settings as module
from outlast.http.settings import SCOPES, host_of, redacted_url, request_key
from outlast.run.call_state import CURRENT_TASK
from outlast.run.cooldowns import CooldownTracker

MAKERS = [Settings, RetryTransport, AsyncRetryTransport, HTTPAdapter]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    "given",
    [
        {"policy": "etl"},
        {"cooling": "app"},
        {"scope": "planet"},
        {"scope": 7},
        {"patience": -1},
        {"patience": "soon"},
        {"patience": float("nan")},
        {"methods": "GET"},
        {"methods": {1, 2}},
        {"keys": 1},
        {"max_body": -1},
        {"max_body": 1.5},
        {"max_body": True},
        {"raises": None},
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused(maker, given):
    with pytest.raises(ConfigError) as caught:
        maker(**given)
    assert next(iter(given)) in str(caught.value)


@pytest.mark.parametrize("maker", MAKERS)
def test_an_unknown_setting_is_refused(maker):
    with pytest.raises(TypeError):
        maker(polciy=None)


def test_falsy_settings_are_honoured():
    settings = Settings(patience=0, methods=(), max_body=0, raises=False)
    assert (settings.patience, settings.methods, settings.max_body, settings.raises) == (0, frozenset(), 0, False)


def test_the_default_is_that_of_a_bare_retry():
    settings = Settings()
    assert settings.policy is DEFAULT_POLICY
    assert settings.methods == {"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}
    assert Settings(patience=timedelta(minutes=1)).patience == 60


def test_what_a_policy_says_it_retries_stays():
    policy = RetryPolicy()
    assert Settings(policy).policy is policy
    assert policy.retries(ConnectionError("x"))
    assert not policy.retries(ValueError("x"))
    assert Settings(RetryPolicy(retry_on=())).policy.retry_on == ()


def test_cooldowns_may_be_shared():
    cooling = CooldownTracker()

    class App:
        pass

    app = App()
    app.cooling = cooling
    assert Settings(cooling=cooling).cooling is cooling
    assert Settings(cooling=app).cooling is cooling
    assert Settings().cooling is not Settings().cooling


class Task:
    """A task as a worker holds it."""

    def __init__(self, number=7, epoch=1):
        self.id, self.epoch, self.task_type = number, epoch, "charge"


@pytest.fixture
def within():
    tokens = []

    def enter(task):
        tokens.append(CURRENT_TASK.set(task))

    yield enter
    for token in reversed(tokens):
        CURRENT_TASK.reset(token)


def test_within_a_task_nothing_is_waited_for(within):
    settings = Settings()
    assert settings.most_patience is None
    within(Task())
    assert settings.most_patience == 0
    assert Settings(patience=5).most_patience == 5


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.com/a", "example.com"),
        ("https://EXAMPLE.com:443/a", "example.com"),
        ("http://example.com:80/", "example.com"),
        ("http://example.com:443/", "example.com:443"),
        ("https://me:secret@example.com./", "example.com"),
        ("http://[::1]:8080/", "::1:8080"),
        ("http://example.com:port/", "example.com"),
        ("", ""),
    ],
)
def test_a_host_is_what_it_is_however_it_is_written(url, host):
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://me:secret@example.com/a?key=secret#b", "https://example.com/a"),
        ("/a?key=secret", "/a"),
        ("http://[::1", "a URL that is not valid"),
        (None, ""),
    ],
)
def test_an_address_is_shown_without_secrets(url, text):
    assert redacted_url(url) == text


def test_scopes_are_as_wide_as_they_say():
    by_host, by_url, by_credential = SCOPES["host"], SCOPES["url"], SCOPES["credential"]
    headers = httpx.Headers({})
    assert by_host("http://a.test/x?y", headers) == "a.test"
    assert by_url("http://a.test/x?y", headers) == "a.test/x"
    assert by_credential("http://a.test/x?page=1", headers) == "a.test"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("http://a.test/", {"Authorization": "one"}), ("http://a.test/", {"Authorization": "other"})),
        (("http://a.test/", {"X-Auth-Token": "one"}), ("http://a.test/", {"X-Auth-Token": "other"})),
        (("http://one:x@a.test/", {}), ("http://other:x@a.test/", {})),
        (("http://a.test/?api_key=one", {}), ("http://a.test/?api_key=other", {})),
    ],
)
def test_a_credential_has_its_own_scope_and_is_not_shown(one, other):
    scope = SCOPES["credential"]
    first, second = (scope(url, httpx.Headers(headers)) for url, headers in (one, other))
    assert first != second
    assert first.startswith("a.test#")
    assert "one" not in first


def test_a_credential_is_the_same_whatever_else_is_asked():
    scope = SCOPES["credential"]
    assert scope("http://a.test/x?page=1&api_key=k", {}) == scope("http://a.test/y?api_key=k&page=2", {})


def test_a_key_without_parts_is_another_each_time():
    assert idempotency_key() != idempotency_key()
    assert idempotency_key("charge", 1) == idempotency_key("charge", 1)
    assert idempotency_key("charge", 1) != idempotency_key("charge", 2)


def test_pitfall_28_a_key_of_a_task_is_the_same_in_every_attempt_and_replay(within):
    within(Task(epoch=1))
    first = [idempotency_key("charge"), request_key("POST", "http://a.test/", b"x")]
    within(Task(epoch=2))
    assert [idempotency_key("charge"), request_key("POST", "http://a.test/", b"x")] == first
    within(Task(number=8))
    assert idempotency_key("charge") != first[0]


def test_two_equal_requests_of_one_attempt_are_two(within):
    within(Task(number=100, epoch=1))
    keys = [request_key("POST", "http://a.test/", b"x") for _ in range(3)]
    assert len(set(keys)) == 3
    within(Task(number=100, epoch=2))
    assert [request_key("POST", "http://a.test/", b"x") for _ in range(3)] == keys


def test_another_request_has_another_key(within):
    within(Task(number=101))
    told = [("POST", "http://a.test/", b"x"), ("PATCH", "http://a.test/", b"x"), ("POST", "http://a.test/", b"y")]
    assert len({request_key(*each) for each in told}) == 3


def test_a_body_that_is_not_known_gets_a_new_key(within):
    within(Task(number=102))
    assert request_key("POST", "http://a.test/", None) != request_key("POST", "http://a.test/", None)


def test_what_is_counted_for_keys_has_an_end(within, monkeypatch):
    monkeypatch.setattr(module, "_MAX_COUNTED", 10)
    within(Task(number=103))
    for number in range(50):
        request_key("POST", f"http://a.test/{number}", b"")
    assert len(module._request_counts) == 10


def test_the_public_names_are_there():
    assert set(outlast.http.__all__) <= set(dir(outlast.http))
    for name in outlast.http.__all__:
        assert getattr(outlast.http, name) is not None
    with pytest.raises(AttributeError):
        _ = outlast.http.nothing


SLACK = "https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx"


def test_a_secret_in_a_path_is_neither_shown_nor_part_of_a_scope():
    assert redacted_url(SLACK) == "https://hooks.slack.com/services/***"
    scope, other = SCOPES["url"](SLACK, {}), SCOPES["url"](f"{SLACK}y", {})
    assert scope.startswith("hooks.slack.com/services/***#")
    assert scope == SCOPES["url"](SLACK, {}) != other
    assert SCOPES["url"]("https://example.com/a/b?c", {}) == "example.com/a/b"


def test_a_credential_cannot_be_tried_quickly_against_its_scope():
    import hashlib

    scope = SCOPES["credential"]("https://bob:secret1@example.com/", {})
    digest = hashlib.pbkdf2_hmac("sha256", b"bob\nsecret1", b"outlast scope", 100_000).hex()
    assert scope == f"example.com#{digest[:12]}"
