"""The transports for httpx and httpx2, sync and async, against a real server: what is sent again, and what is not."""

import logging

import pytest

import outlast
from integration.http_ways import WAYS
from outlast import RETRYABLE, Category, RetryPolicy
from outlast.errors import BodyTooLargeError, BreakerOpenError, CoolingDownError
from outlast.testing import fake_clock
from servers.faults import FaultServer
from servers.feeds import Answer, FeedServer

pytestmark = pytest.mark.parametrize("way", WAYS)
AT_ONCE = RetryPolicy(max_attempts=3, retry_on=RETRYABLE, base_delay=0)


@pytest.fixture
def server():
    with FeedServer() as server:
        yield server


@pytest.fixture(scope="module")
def faults():
    server = FaultServer()
    server.start()
    yield server
    server.stop()


def test_a_success_passes_through(way, server):
    response = way.ask(server.script("/", Answer(body="well")))
    assert (response.status_code, response.text, server.count()) == (200, "well", 1)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_may_heal_is_asked_for_again(way, server, status):
    url = server.script("/", [status, status, Answer(body="well")])
    with fake_clock():
        assert way.ask(url, policy=AT_ONCE).text == "well"
    assert server.count() == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422, 501])
def test_what_does_not_heal_is_returned_at_once(way, server, status):
    response = way.ask(server.script("/", Answer(status, body="no")), policy=AT_ONCE)
    assert (response.status_code, response.text, server.count()) == (status, "no", 1)


def test_a_policy_that_does_not_say_what_it_retries_means_what_may_heal(way, server):
    policy = RetryPolicy(max_attempts=3, base_delay=0)
    assert way.ask(server.script("/gone", 404), policy=policy).status_code == 404
    assert way.ask(server.script("/busy", [503, 200]), policy=policy).status_code == 200
    assert (server.count("/gone"), server.count("/busy")) == (1, 2)


def test_an_answer_that_is_given_up_is_the_librarys_own_error_with_the_attempts_noted(way, server):
    url = server.script("/a", Answer(503, body="down for today")).replace("://", "://me:secret@") + "?token=secret"
    with pytest.raises(way.library.HTTPStatusError) as caught:
        way.ask(url, policy=AT_ONCE)
    error = caught.value
    assert (error.response.status_code, error.response.text, error.request.method) == (503, "down for today", "GET")
    assert len(error.__notes__) == 3
    assert error.__outlast__.reason == "exhausted"
    assert "secret" not in f"{error}{error.__notes__}"
    assert server.count() == 3


def test_an_answer_that_is_given_up_can_be_returned(way, server):
    response = way.ask(server.script("/", Answer(503, body="down")), policy=AT_ONCE, raises=False)
    assert (response.status_code, response.text, server.count()) == (503, "down", 3)


def test_what_types_ask_for_is_raised_with_its_body(way, server):
    policy = AT_ONCE.replace(retry_on=(way.library.HTTPStatusError,))
    with pytest.raises(way.library.HTTPStatusError) as caught:
        way.ask(server.script("/", Answer(404, body="nothing here")), policy=policy)
    assert (caught.value.response.text, server.count()) == ("nothing here", 3)


def test_what_types_do_not_ask_for_is_returned(way, server):
    policy = AT_ONCE.replace(retry_on=(way.library.ConnectError,))
    assert way.ask(server.script("/", 503), policy=policy).status_code == 503
    assert server.count() == 1


def test_a_connection_that_breaks_is_made_again(way, server):
    url = server.script("/", [Answer(fault="reset"), Answer(fault="close"), Answer(body="well")])
    assert way.ask(url, policy=AT_ONCE).text == "well"
    assert server.count() == 3


def test_a_refused_connection_is_the_librarys_own_error(way, faults):
    with pytest.raises(way.library.ConnectError) as caught:
        way.ask(faults.refused_url, policy=AT_ONCE)
    assert len(caught.value.__notes__) == 3


def test_a_warning_stands_before_every_wait(way, server, caplog):
    with fake_clock() as clock, pytest.raises(way.library.HTTPStatusError), caplog.at_level("WARNING"):
        way.ask(server.script("/", 503), policy=AT_ONCE.replace(base_delay=2, backoff="exponential"))
    said = [record for record in caplog.records if "retrying in" in record.message]
    assert clock.waits == [2, 4]
    assert [record.levelno for record in said] == [logging.WARNING] * 2
    assert all("GET http://127.0.0.1" in record.message for record in said)


def test_pitfall_28_a_post_is_sent_once(way, server):
    assert way.ask(server.script("/", 503), "POST", policy=AT_ONCE, json={}).status_code == 503
    server.script("/", Answer(fault="close"))
    with pytest.raises(way.library.RemoteProtocolError) as caught:
        way.ask(server.url("/"), "POST", policy=AT_ONCE, json={})
    assert server.count() == 2
    assert "Idempotency-Key" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    "marked",
    [{"headers": {"Idempotency-Key": "a"}}, {"extensions": {"outlast_idempotent": True}}, {"methods": {"POST"}}],
)
def test_pitfall_28_a_post_that_is_marked_is_sent_again(way, server, marked):
    assert way.ask(server.script("/", [503, 200]), "POST", policy=AT_ONCE, json={}, **marked).status_code == 200
    assert server.count() == 2


def test_pitfall_28_a_post_of_which_nothing_was_sent_is_tried_again(way, faults):
    with pytest.raises(way.library.ConnectError) as caught:
        way.ask(faults.refused_url, "POST", policy=AT_ONCE, content=way.body(b"once"))
    assert len(caught.value.__notes__) == 3


def test_pitfall_28_a_key_is_minted_once_and_kept(way, server):
    way.ask(server.script("/", [503, 503, 200]), "POST", policy=AT_ONCE, keys=True, json={})
    way.ask(server.url("/"), "POST", policy=AT_ONCE, keys=True, json={})
    keys = [request.headers["idempotency-key"] for request in server.requests]
    assert len(set(keys[:3])) == 1
    assert keys[3] != keys[0]


def test_a_get_needs_no_key(way, server):
    way.ask(server.script("/", 200), keys=True)
    assert "idempotency-key" not in server.requests[0].headers


def test_every_attempt_sends_the_same_headers(way, server):
    way.ask(server.script("/", [503, 200]), policy=AT_ONCE, headers={"X-Mine": "1", "Cookie": "a=b"})
    first, second = server.requests
    assert first == second


def test_a_stall_ends_at_the_attempts_timeout(way, server):
    policy = AT_ONCE.replace(attempt_timeout=0.1)
    with pytest.raises(way.library.TimeoutException) as caught:
        way.ask(server.script("/", Answer(fault="stall")), policy=policy, client={"timeout": None})
    assert len(caught.value.__notes__) == 3
    assert server.count() == 3


def test_a_stall_ends_at_the_deadline(way, server):
    policy = AT_ONCE.replace(deadline=0.2)
    with pytest.raises(way.library.TimeoutException) as caught:
        way.ask(server.script("/", Answer(fault="stall")), policy=policy, client={"timeout": None})
    assert caught.value.__outlast__.reason == "deadline"


def test_the_clients_shorter_timeout_stays(way, server):
    with pytest.raises(way.library.ReadTimeout) as caught:
        way.ask(server.script("/", Answer(fault="stall")), policy=AT_ONCE.replace(deadline=60), timeout=0.05)
    assert len(caught.value.__notes__) == 3


def test_a_redirect_has_its_own_attempts_and_its_own_time(way, server):
    server.script("/b", [503, 503, Answer(body="there")])
    url = server.script("/a", [503, Answer(302, {"Location": server.url("/b")})])
    seen = []
    response = way.ask(
        url,
        policy=AT_ONCE.replace(deadline=30),
        client={"follow_redirects": True, "timeout": None, "event_hooks": {"response": [_hook(way, seen)]}},
    )
    assert response.text == "there"
    assert (server.count("/a"), server.count("/b")) == (2, 3)
    assert [each.extensions["timeout"]["read"] for each in seen] == [None, None], "what was cut was put back"


def _hook(way, seen):
    def note(response):
        seen.append(response.request)

    async def note_async(response):
        seen.append(response.request)

    return note if way.is_sync else note_async


def test_an_authentication_goes_its_way(way, server):
    challenge = {"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'}
    url = server.script("/", [503, Answer(401, challenge), 503, Answer(body="come in")])
    response = way.ask(
        url, "POST", policy=AT_ONCE, methods={"POST"}, data={"a": "b"}, auth=way.library.DigestAuth("u", "p")
    )
    assert (response.text, server.count()) == ("come in", 4)
    assert "authorization" in server.requests[-1].headers


def test_a_streamed_answer_is_whole(way, server):
    url = server.script("/", [503, Answer(body="a" * 200_000)])
    assert way.ask(url, policy=AT_ONCE, stream=True) == [200, b"a" * 200_000]


@pytest.mark.parametrize("length", [0, 10, 65_536, 65_537, 300_000])
def test_an_error_answer_that_is_returned_is_whole(way, server, length):
    url = server.script("/", Answer(404, body="a" * length))
    assert way.ask(url, policy=AT_ONCE).content == b"a" * length
    assert way.ask(url, policy=AT_ONCE, stream=True) == [404, b"a" * length]


def test_an_error_answer_that_breaks_off_says_so_to_who_reads_it(way, server):
    with pytest.raises(way.library.RemoteProtocolError):
        way.ask(server.script("/", Answer(404, fault="truncated")), policy=AT_ONCE)


def test_an_error_answer_that_breaks_off_is_judged_by_its_status(way, server):
    url = server.script("/", [Answer(503, fault="truncated"), Answer(body="well")])
    assert way.ask(url, policy=AT_ONCE).text == "well"


def test_the_body_of_a_given_up_answer_is_kept_to_a_limit(way, server):
    with pytest.raises(way.library.HTTPStatusError) as caught:
        way.ask(server.script("/", Answer(503, body="a" * 300_000)), policy=AT_ONCE)
    assert caught.value.response.text == "a" * 65_536


@pytest.mark.parametrize(
    ("headers", "body", "category"),
    [
        ({"Retry-After": "7"}, "", Category.RATE_LIMIT),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Limit": "60"}, "", Category.RATE_LIMIT),
        ({}, '{"reason": "rateLimitExceeded"}', Category.RATE_LIMIT),
        ({}, '{"reason": "quotaExceeded"}', Category.QUOTA_EXHAUSTED),
        ({}, "", Category.ACCESS_DENIED),
    ],
)
def test_c4_a_403_is_what_its_evidence_says(way, server, headers, body, category):
    policy = RetryPolicy(max_attempts=1, retry_on=set(Category))
    with pytest.raises(way.library.HTTPStatusError) as caught, fake_clock():
        way.ask(server.script("/", Answer(403, headers, body)), policy=policy)
    assert outlast.classify(caught.value).category is category


@pytest.mark.parametrize("sent", [{"headers": {"Authorization": "Bearer x"}}, {"params": {"api_key": "x"}}])
def test_c4_a_403_to_credentials_is_about_them(way, server, sent):
    policy = RetryPolicy(max_attempts=1, retry_on=set(Category))
    with pytest.raises(way.library.HTTPStatusError) as caught:
        way.ask(server.script("/", 403), policy=policy, **sent)
    assert outlast.classify(caught.value).category is Category.AUTHENTICATION


def test_c4_a_403_that_is_a_rate_limit_is_waited_for(way, server):
    url = server.script("/", [Answer(403, {"Retry-After": "7"}), Answer(body="well")])
    with fake_clock() as clock:
        assert way.ask(url, policy=AT_ONCE).text == "well"
    assert clock.waits == [7]


@pytest.mark.parametrize("status", [429, 503])
def test_pitfall_23_a_hint_is_honoured_with_either_status(way, server, status):
    url = server.script("/", [Answer(status, {"Retry-After": "90"}), Answer(body="well")])
    with fake_clock() as clock:
        assert way.ask(url, policy=AT_ONCE).text == "well"
    assert clock.waits == [90]


def test_pitfall_24_a_hint_beyond_the_deadline_is_handed_back(way, server):
    url = server.script("/", Answer(429, {"Retry-After": "90"}))
    with fake_clock(start=5000.0) as clock, pytest.raises(way.library.HTTPStatusError) as caught:
        way.ask(url, policy=AT_ONCE.replace(deadline=60))
    report = caught.value.__outlast__
    assert (clock.waits, report.reason, report.retry_at) == ([], "deferred", 5090)


def test_pitfall_24_a_hint_of_a_year_is_handed_back_and_parks_the_host_for_an_hour(way, server):
    cooling = outlast.http.Settings().cooling
    url = server.script("/", Answer(429, {"Retry-After": str(365 * 86400)}))
    with fake_clock(), pytest.raises(way.library.HTTPStatusError) as caught:
        way.ask(url, policy=AT_ONCE, cooling=cooling)
        assert list(cooling.waits().values()) == [3600]
    assert caught.value.__outlast__.reason == "deferred"


def test_a_wait_beyond_the_patience_is_handed_back(way, server, caplog):
    url = server.script("/", Answer(429, {"Retry-After": "7"}))
    with fake_clock(start=5000.0) as clock, pytest.raises(way.library.HTTPStatusError) as caught:
        way.ask(url, policy=AT_ONCE, patience=5)
    report = caught.value.__outlast__
    assert (clock.waits, report.reason, report.retry_at) == ([], "deferred", 5007)
    assert "retrying in" not in caplog.text


def test_c8_a_rate_limit_without_a_hint_waits_as_its_policy_says(way, server):
    url = server.script("/", [429, Answer(body="well")])
    with fake_clock(chance=0.0) as clock:
        assert way.ask(url, policy=outlast.preset("blog")).text == "well"
    assert clock.waits == [60]


def test_a_host_that_cools_is_not_called(way, server):
    cooling = outlast.http.Settings().cooling
    url = server.script("/", Answer(429, {"Retry-After": "100"}))
    other = server.host_url(2, "/other")
    server.script("/other", 200)
    once = AT_ONCE.replace(max_attempts=1)
    with fake_clock() as clock:
        with pytest.raises(way.library.HTTPStatusError):
            way.ask(url, policy=once, cooling=cooling)
        with pytest.raises(CoolingDownError) as caught:
            way.ask(url, policy=once, cooling=cooling, patience=50)
        assert (caught.value.retry_after, server.count("/")) == (100, 1)
        assert way.ask(other, policy=once, cooling=cooling, patience=0).status_code == 200, "other hosts are untouched"
        server.script("/", 200)
        assert way.ask(url, policy=once, cooling=cooling).status_code == 200
        assert sum(clock.waits) == 100


def test_c7_the_host_that_cools_is_the_one_that_answered(way, server):
    cooling = outlast.http.Settings().cooling
    limited = server.host_url(2, "/limited")
    server.script("/limited", Answer(429, {"Retry-After": "100"}))
    url = server.script("/a", Answer(302, {"Location": limited}))
    with pytest.raises(way.library.HTTPStatusError):
        way.ask(url, policy=AT_ONCE.replace(deadline=5), cooling=cooling, client={"follow_redirects": True})
    assert list(cooling.waits()) == [limited.split("/")[2]]


def test_a_hint_of_one_answer_does_not_cool_after_the_next(way, server):
    cooling = outlast.http.Settings().cooling
    url = server.script("/", [Answer(429, {"Retry-After": "5"}), 500, 500])
    with fake_clock(), pytest.raises(way.library.HTTPStatusError):
        way.ask(url, policy=AT_ONCE, cooling=cooling)
        assert cooling.waits() == {}
    assert cooling._known == {}


def test_pitfall_11_retries_around_retries_do_not_multiply(way, server):
    url = server.script("/", 503)

    @outlast.retry(policy=AT_ONCE)
    def fetch():
        return way.ask(url, policy=AT_ONCE)

    with pytest.raises(way.library.HTTPStatusError):
        fetch()
    assert server.count() == 3


def test_pitfall_11_nor_across_threads(way, server):
    import anyio
    import anyio.to_thread

    url = server.script("/", [Answer(fault="close")])

    @outlast.retry(policy=AT_ONCE)
    async def fetch():
        return await anyio.to_thread.run_sync(lambda: way.ask(url, policy=AT_ONCE))

    with pytest.raises(way.library.RemoteProtocolError):
        anyio.run(fetch)
    assert server.count() == 3


def test_retries_can_be_switched_off(way, server):
    with outlast.no_retries(), pytest.raises(way.library.HTTPStatusError) as caught:
        way.ask(server.script("/", 503), policy=AT_ONCE)
    assert (server.count(), caught.value.__outlast__.reason) == (1, "off")


def test_a_breaker_opens_and_is_asked_before_a_request(way, server):
    name = f"http-{way}"
    outlast.resource(name, breaker=outlast.BreakerSettings(consecutive=2, open_for=60))
    policy = AT_ONCE.replace(max_attempts=5, resource=name)
    with pytest.raises(way.library.HTTPStatusError) as caught:
        way.ask(server.script("/", 503), policy=policy)
    assert (server.count(), caught.value.__outlast__.reason) == (2, "breaker")
    with pytest.raises(BreakerOpenError):
        way.ask(server.url("/"), policy=policy)
    assert server.count() == 2


def test_a_limit_of_calls_is_given_back_by_every_outcome(way, server):
    name = f"http-limit-{way}"
    limit = outlast.resource(name, max_concurrency=1)
    policy = AT_ONCE.replace(resource=name)
    way.ask(server.script("/", [503, 200]), policy=policy)
    way.ask(server.script("/gone", 404), policy=policy)
    with pytest.raises(way.library.HTTPStatusError):
        way.ask(server.script("/busy", 503), policy=policy)
    with pytest.raises(way.library.TransportError):
        way.ask(server.script("/broken", Answer(fault="close")), policy=policy)
    assert limit.running == 0


def test_a_body_longer_than_it_may_be_is_refused(way, server):
    url = server.script("/", Answer(body="a" * 1001))
    with pytest.raises(BodyTooLargeError):
        way.ask(url, max_body=1000)
    with pytest.raises(BodyTooLargeError):
        way.ask(url, max_body=1000, stream=True)
    assert len(way.ask(url, max_body=1001).content) == 1001
    assert way.ask(url, "HEAD", max_body=10).status_code == 200


def test_a_body_is_counted_decoded(way, server):
    import gzip

    body = gzip.compress(b"a" * 1_000_000)
    url = server.script("/", Answer(headers={"Content-Encoding": "gzip"}, body=body))
    assert len(body) < 2000
    with pytest.raises(BodyTooLargeError):
        way.ask(url, max_body=100_000)
    assert way.ask(url, max_body=1_000_000).content == b"a" * 1_000_000


def test_what_is_wrapped_is_closed_with_the_client(way, server):
    way.ask(server.script("/", 200))
    kind = way.library.HTTPTransport if way.is_sync else way.library.AsyncHTTPTransport
    way.ask(server.url("/"), inner=kind())
    assert _soon(lambda: server.open_connections == 0)


def _soon(condition):
    import time

    limit = time.monotonic() + 10
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    return condition()
