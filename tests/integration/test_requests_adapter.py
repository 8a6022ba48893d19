"""The adapter for requests against a real server: the same promises as the transports for httpx."""

import contextlib
import gc
import gzip
import io
import socket
import sys
import tempfile
import threading
import time

import pytest
import requests
import urllib3

import outlast
from outlast import RETRYABLE, Category, RetryPolicy
from outlast.errors import BodyTooLargeError, BreakerOpenError, ConfigError, CoolingDownError
from outlast.http import HTTPAdapter
from outlast.run.call_state import CURRENT_TASK
from outlast.run.cooldowns import CooldownTracker
from outlast.testing import fake_clock
from servers.faults import FaultServer
from servers.feeds import Answer, FeedServer
from servers.scripted import ScriptedServer

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


@pytest.fixture
def session():
    opened = []

    def make(policy=AT_ONCE, **settings):
        session = requests.Session()
        session.trust_env = False
        session.mount("http://", HTTPAdapter(policy=policy, **settings))
        opened.append(session)
        return session

    yield make
    for each in opened:
        each.close()


def soon(condition):
    limit = time.monotonic() + 10
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    return condition()


def test_a_success_passes_through(server, session):
    response = session().get(server.script("/", Answer(body="well")))
    assert (response.status_code, response.text, server.count()) == (200, "well", 1)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_may_heal_is_asked_for_again(server, session, status):
    url = server.script("/", [status, status, Answer(body="well")])
    with fake_clock():
        assert session().get(url).text == "well"
    assert server.count() == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422, 501])
def test_what_does_not_heal_is_returned_at_once(server, session, status):
    response = session().get(server.script("/", Answer(status, body="no")))
    assert (response.status_code, response.text, server.count()) == (status, "no", 1)


def test_an_answer_that_is_given_up_is_requests_own_error_with_the_attempts_noted(server, session):
    url = server.script("/", Answer(503, body="down for today")).replace("://", "://me:secret@") + "?token=secret"
    with pytest.raises(requests.HTTPError) as caught:
        session().get(url)
    error = caught.value
    assert (error.response.status_code, error.response.text, error.request.method) == (503, "down for today", "GET")
    assert error.response.request is error.request
    assert len(error.__notes__) == 3
    assert error.__outlast__.reason == "exhausted"
    assert "secret" not in f"{error}{error.__notes__}"
    assert server.count() == 3


def test_an_answer_that_is_given_up_can_be_returned(server, session):
    response = session(raises=False).get(server.script("/", Answer(503, body="down")))
    assert (response.status_code, response.text, server.count()) == (503, "down", 3)


@pytest.mark.parametrize("fault", ["reset", "close"])
def test_a_connection_that_breaks_is_made_again(server, session, fault):
    assert session().get(server.script("/", [Answer(fault=fault), Answer(body="well")])).text == "well"
    assert server.count() == 2


def test_a_stall_ends_at_the_attempts_timeout_and_at_the_deadline(server, session):
    url = server.script("/", Answer(fault="stall"))
    with pytest.raises(requests.ReadTimeout) as caught:
        session(AT_ONCE.replace(attempt_timeout=0.1)).get(url)
    assert (len(caught.value.__notes__), server.count()) == (3, 3)
    with pytest.raises(requests.Timeout) as caught:
        session(AT_ONCE.replace(deadline=0.2)).get(url, timeout=(5, None))
    assert caught.value.__outlast__.reason == "deadline"


@pytest.mark.parametrize("timeout", [0.05, (3, 0.05), urllib3.Timeout(connect=3, read=0.05), urllib3.Timeout(0.05)])
def test_the_callers_shorter_timeout_stays(server, session, timeout):
    with pytest.raises(requests.ReadTimeout) as caught:
        session(AT_ONCE.replace(deadline=60)).get(server.script("/", Answer(fault="stall")), timeout=timeout)
    assert len(caught.value.__notes__) == 3


def test_pitfall_28_a_post_is_sent_once(server, session):
    assert session().post(server.script("/", 503), json={}).status_code == 503
    server.script("/", Answer(fault="close"))
    with pytest.raises(requests.ConnectionError) as caught:
        session().post(server.url("/"), json={})
    assert server.count() == 2
    assert "Idempotency-Key" in caught.value.__notes__[0]


def test_pitfall_28_a_post_that_is_marked_is_sent_again(server, session):
    url = server.script("/", [503, 200])
    assert session().post(url, json={}, headers={"idempotency-key": "a"}).status_code == 200
    server.script("/", [503, 200])
    assert session(methods={"POST"}).post(url, json={}).status_code == 200
    assert server.count() == 4


@pytest.mark.parametrize("url", ["refused", "unresolvable"])
def test_pitfall_28_a_post_of_which_nothing_was_sent_is_tried_again(faults, session, url):
    with pytest.raises(requests.ConnectionError) as caught:
        session().post(getattr(faults, f"{url}_url"), data=iter([b"once"]))
    assert len(caught.value.__notes__) == 3


def test_pitfall_28_nor_was_it_where_no_connection_was_made_in_time(session):
    with socket.create_server(("127.0.0.1", 0), backlog=1) as full, contextlib.ExitStack() as waiting:
        for _ in range(8):  # nobody accepts them, so the next one is not even answered
            caller = waiting.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(full.getsockname())
        with pytest.raises(requests.ConnectTimeout) as caught:
            session().post(f"http://127.0.0.1:{full.getsockname()[1]}/", timeout=0.05, data=b"x")
    assert len(caught.value.__notes__) == 3


def test_pitfall_28_a_key_is_minted_once_and_kept(server, session):
    url = server.script("/", [503, 503, 200])
    session(keys=True).post(url, json={})
    session(keys=True).post(url, json={})
    keys = [request.headers["idempotency-key"] for request in server.requests]
    assert len(set(keys[:3])) == 1
    assert keys[3] != keys[0]


def test_pitfall_28_within_a_task_a_replay_has_the_same_key(server, session):
    class Task:
        id, task_type = 9001, "charge"

        def __init__(self, epoch):
            self.epoch = epoch

    url = server.script("/", 200)
    for epoch in (1, 2):
        token = CURRENT_TASK.set(Task(epoch))
        try:
            session(keys=True).post(url, json={"a": 1})
            session(keys=True).post(url, files={"f": b"abc"})
        finally:
            CURRENT_TASK.reset(token)
    keys = [request.headers["idempotency-key"] for request in server.requests]
    assert keys[0] == keys[2]
    assert keys[1] != keys[3], "the boundary of a form is another each time, so it is not the same request"


@pytest.mark.parametrize(
    "body",
    [{"json": {"a": 1}}, {"data": {"a": "1"}}, {"data": b"abc"}, {"data": "abc"}, {"files": {"f": io.BytesIO(b"abc")}}],
    ids=["json", "form", "bytes", "text", "multipart"],
)
def test_pitfall_26_a_body_is_the_same_each_time(session, body):
    with ScriptedServer([503, 503, 200]) as server:
        assert session().put(server.url, **body).status_code == 200
    bodies = [request.body for request in server.requests]
    assert bodies[0]
    assert bodies == [bodies[0]] * 3
    assert len({str(request.headers) for request in server.requests}) == 1


def test_pitfall_26_a_file_is_rewound_to_where_it_stood(session):
    with ScriptedServer([503, 503, 200]) as server, tempfile.TemporaryFile() as file:
        file.write(b"header|content")
        file.seek(7)
        assert session().put(server.url, data=file).status_code == 200
    assert [request.body for request in server.requests] == [b"content"] * 3


class Pipe(io.RawIOBase):
    """A file that cannot be rewound."""

    def __init__(self):
        super().__init__()
        self.parts = [b"abc"]

    def readable(self):
        return True

    def read(self, size=-1):
        return self.parts.pop() if self.parts else b""


@pytest.mark.parametrize("body", [lambda: iter([b"abc"]), Pipe], ids=["generator", "pipe"])
def test_pitfall_26_a_body_that_can_be_read_once_is_not_sent_again(session, body):
    with ScriptedServer([503, 200]) as server:
        assert session().put(server.url, data=body()).status_code == 503
    assert [request.body for request in server.requests] == [b"abc"]


def test_pitfall_26_an_error_says_why_it_is_not_sent_again(server, session):
    with pytest.raises(requests.ConnectionError) as caught:
        session().put(server.script("/", Answer(fault="close")), data=iter([b""]))
    assert "read only once" in caught.value.__notes__[0]
    assert server.count() == 1


@pytest.mark.parametrize("status", [429, 503])
def test_pitfall_23_a_hint_is_honoured_with_either_status(server, session, status):
    url = server.script("/", [Answer(status, {"Retry-After": "90"}), Answer(body="well")])
    with fake_clock() as clock:
        assert session().get(url).text == "well"
    assert clock.waits == [90]


def test_pitfall_24_a_hint_beyond_the_deadline_or_the_patience_is_handed_back(server, session):
    url = server.script("/", Answer(429, {"Retry-After": "90"}))
    for given in ({"policy": AT_ONCE.replace(deadline=60)}, {"patience": 60}):
        with fake_clock(start=5000.0) as clock, pytest.raises(requests.HTTPError) as caught:
            session(**given).get(url)
        report = caught.value.__outlast__
        assert (clock.waits, report.reason, report.retry_at) == ([], "deferred", 5090)


def test_a_host_that_cools_is_not_called(server, session):
    cooling = CooldownTracker()
    url = server.script("/", [Answer(429, {"Retry-After": "100"}), 200])
    once = AT_ONCE.replace(max_attempts=1)
    with fake_clock() as clock:
        with pytest.raises(requests.HTTPError):
            session(once, cooling=cooling).get(url)
        with pytest.raises(CoolingDownError):
            session(once, cooling=cooling, patience=50).get(url)
        assert server.count() == 1
        assert session(once, cooling=cooling).get(url).status_code == 200
        assert sum(clock.waits) == 100


def test_c7_the_host_that_cools_is_the_one_that_answered(server, session):
    cooling = CooldownTracker()
    limited = server.host_url(2, "/limited")
    server.script("/limited", Answer(429, {"Retry-After": "100"}))
    with pytest.raises(requests.HTTPError):
        session(AT_ONCE.replace(deadline=5), cooling=cooling).get(
            server.script("/", Answer(302, {"Location": limited}))
        )
    assert list(cooling.waits()) == [limited.split("/")[2]]


@pytest.mark.parametrize(
    ("answer", "sent", "category"),
    [
        (Answer(403, {"Retry-After": "7"}), {}, Category.RATE_LIMIT),
        (Answer(403, body="quotaExceeded"), {}, Category.QUOTA_EXHAUSTED),
        (Answer(403), {"headers": {"Authorization": "Bearer x"}}, Category.AUTHENTICATION),
        (Answer(403), {}, Category.ACCESS_DENIED),
    ],
)
def test_c4_a_403_is_what_its_evidence_says(server, session, answer, sent, category):
    policy = RetryPolicy(max_attempts=1, retry_on=set(Category))
    with pytest.raises(requests.HTTPError) as caught:
        session(policy).get(server.script("/", answer), **sent)
    assert outlast.classify(caught.value).category is category


def test_pitfall_11_retries_around_retries_do_not_multiply(server, session):
    url, asking = server.script("/", 503), session()
    with pytest.raises(requests.HTTPError):
        outlast.call(asking.get, url, policy=AT_ONCE)
    assert server.count() == 3
    with outlast.no_retries(), pytest.raises(requests.HTTPError):
        asking.get(url)
    assert server.count() == 4


def test_a_breaker_opens_and_every_permit_comes_back(server, session):
    guard = outlast.resource(
        "requests-breaker", breaker=outlast.BreakerSettings(consecutive=2, open_for=60), max_concurrency=1
    )
    policy = AT_ONCE.replace(max_attempts=5, resource="requests-breaker")
    with pytest.raises(requests.HTTPError) as caught:
        session(policy).get(server.script("/", 503))
    assert (server.count(), caught.value.__outlast__.reason) == (2, "breaker")
    with pytest.raises(BreakerOpenError):
        session(policy).get(server.url("/"))
    assert (server.count(), guard.running) == (2, 0)


@pytest.mark.parametrize("length", [0, 10, 65_536, 65_537, 300_000])
@pytest.mark.parametrize("packed", [False, True])
def test_an_error_answer_that_is_returned_is_whole(server, session, length, packed):
    body = b"a" * length
    answer = Answer(404, {"Content-Encoding": "gzip"} if packed else {}, gzip.compress(body) if packed else body)
    url = server.script("/", answer)
    assert session().get(url).content == body
    with session().get(url, stream=True) as response:
        assert b"".join(response.iter_content(1000)) == body


def test_a_streamed_answer_is_whole(server, session):
    url = server.script("/", [503, Answer(body="a" * 200_000)])
    with session().get(url, stream=True) as response:
        assert b"".join(response.iter_content(1000)) == b"a" * 200_000


def test_an_error_answer_that_breaks_off_says_so_to_who_reads_it(server, session):
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        session().get(server.script("/", Answer(404, fault="truncated")))
    assert session().get(server.script("/", [Answer(503, fault="truncated"), 200])).status_code == 200


def test_the_body_of_a_given_up_answer_is_kept_to_a_limit(server, session):
    with pytest.raises(requests.HTTPError) as caught:
        session().get(server.script("/", Answer(503, body="a" * 300_000)))
    assert caught.value.response.text == "a" * 65_536


def test_a_body_longer_than_it_may_be_is_refused(server, session):
    url = server.script("/", Answer(body="a" * 1001))
    for stream in (False, True):
        with pytest.raises(BodyTooLargeError):
            session(max_body=1000).get(url, stream=stream)
    assert len(session(max_body=1001).get(url).content) == 1001
    assert session(max_body=10).head(url).status_code == 200
    packed = server.script(
        "/packed", Answer(headers={"Content-Encoding": "gzip"}, body=gzip.compress(b"a" * 1_000_000))
    )
    with pytest.raises(BodyTooLargeError):
        session(max_body=100_000).get(packed)
    assert len(session(max_body=1_000_000).get(packed).content) == 1_000_000


def test_pitfall_27_thrown_away_answers_leave_their_connection(server, session, caplog):
    caplog.set_level("ERROR", "outlast.retry")
    numbers = iter(range(1, 10**9))
    url = server.script("/", [lambda _request: Answer(503 if next(numbers) % 9 else 200, body="a" * 100)])
    asking = session(AT_ONCE.replace(max_attempts=9))
    for _ in range(125):
        assert asking.get(url).status_code == 200
    assert (server.count(), server.connections) == (1125, 1)
    asking.close()
    assert soon(lambda: server.open_connections == 0)


def test_pitfall_27_nor_do_answers_that_cannot_be_read_to_their_end_leave_one_open(server, session):
    numbers = iter(range(1, 10**9))
    bad = [Answer(503, body="a" * 200_000), Answer(503, fault="truncated")]
    url = server.script("/", [lambda _request: bad[n % 4 // 2] if (n := next(numbers)) % 2 else Answer(body="well")])
    asking = session()
    for _ in range(20):
        assert asking.get(url).text == "well"
    assert server.open_connections <= 2
    asking.close()
    if sys.version_info >= (3, 12):  # there urllib3 itself leaves a cycle, which takes the collector
        gc.collect()
    assert soon(lambda: server.open_connections == 0)


def test_pitfall_2_an_interrupt_is_one_call_and_gives_its_permit_back(session, monkeypatch):
    limit, calls = outlast.resource("requests-interrupted", max_concurrency=1), []

    def interrupted(*_args, **_more):
        calls.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session(AT_ONCE.replace(resource="requests-interrupted")).get("http://a.test/")
    assert (calls, limit.running) == ([1], 0)


@pytest.mark.parametrize("deadline", [None, 60])
@pytest.mark.parametrize("answer", [Answer(503), Answer(fault="close"), Answer(503, fault="truncated")], ids=str)
def test_an_error_that_is_let_go_takes_everything_with_it(server, session, answer, deadline):
    url, asking = server.script("/", answer), session(AT_ONCE.replace(deadline=deadline))

    def left():
        return sum(isinstance(each, requests.Response | requests.RequestException) for each in gc.get_objects())

    def send():
        with contextlib.suppress(requests.RequestException):
            asking.get(url)

    send()
    gc.collect()
    gc.disable()
    try:
        before = left()
        send()
        if sys.version_info >= (3, 12):  # there urllib3 itself leaves a cycle, which takes the collector
            gc.collect()
        assert left() == before
    finally:
        gc.enable()


def test_many_threads_share_one_adapter(server, session):
    numbers, results = iter(range(1, 10**9)), []
    url = server.script("/", [lambda _request: Answer(503 if next(numbers) % 3 else 200)])
    asking = session(AT_ONCE.replace(max_attempts=1000))
    threads = [threading.Thread(target=lambda: results.append(asking.get(url).status_code)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [200] * 20


def test_urllib3s_own_retries_are_refused():
    with pytest.raises(ConfigError, match="max_retries"):
        HTTPAdapter(max_retries=3)
    adapter = HTTPAdapter(5, 6, pool_block=True)
    assert (adapter.max_retries.total, adapter._pool_connections, adapter._pool_maxsize) == (0, 5, 6)
