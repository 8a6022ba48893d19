"""The adapter for requests: bodies however they are read, stalls, copies of a session."""

import copy
import gzip
import io
import pickle
import socket
import threading
import tracemalloc

import pytest
import requests

from outlast import RETRYABLE, RetryPolicy
from outlast.errors import BodyTooLargeError, ContentError
from outlast.http import HTTPAdapter
from outlast.http import request_attempts as module
from servers.feeds import Answer, FeedServer

ONCE = RetryPolicy(max_attempts=1, retry_on=RETRYABLE)
BODY = b"".join(b"line %d\n" % number for number in range(20_000)) + b"the end"
READERS = {
    "read": lambda raw: raw.read(),
    "read1": lambda raw: b"".join(iter(lambda: raw.read1(8192), b"")),
    "buffered": lambda raw: io.BufferedReader(raw).read(),
    "lines": b"".join,
    "stream": lambda raw: b"".join(raw.stream(1000)),
}


@pytest.fixture
def server():
    with FeedServer() as server:
        yield server


@pytest.fixture
def session():
    opened = []

    def make(**settings):
        session = requests.Session()
        session.trust_env = False
        session.mount("http://", HTTPAdapter(**{"policy": ONCE, **settings}))
        opened.append(session)
        return session

    yield make
    for each in opened:
        each.close()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("packed", [False, True])
def test_an_errors_body_is_whole_however_it_is_read(reader, packed, server, session):
    answer = Answer(404, {"Content-Encoding": "gzip"}, gzip.compress(BODY)) if packed else Answer(404, body=BODY)
    response = session().get(server.script("/", answer), stream=True)
    assert READERS[reader](response.raw) == BODY


def test_its_lines_are_lines(server, session):
    url = server.script("/", Answer(404, body=BODY))
    assert list(session().get(url, stream=True).raw) == BODY.splitlines(keepends=True)


@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("reader", READERS)
def test_a_limit_holds_however_a_body_is_read(reader, status, server, session):
    packed = gzip.compress(BODY)
    url = server.script("/", Answer(status, {"Content-Encoding": "gzip"}, packed))
    response = session(max_body=len(packed)).get(url, stream=True)
    response.raw.decode_content = True
    with pytest.raises(BodyTooLargeError):
        READERS[reader](response.raw)


@pytest.mark.parametrize("status", [200, 404, 503])
def test_a_few_bytes_never_become_many(status, server, session):
    size = 40_000_000
    once = gzip.compress(bytes(size))
    urls = {
        "gzip": server.script("/once", Answer(status, {"Content-Encoding": "gzip"}, once)),
        "gzip, gzip": server.script("/twice", Answer(status, {"Content-Encoding": "gzip, gzip"}, gzip.compress(once))),
    }
    opened = session(max_body=100_000)
    tracemalloc.start()
    try:
        for url in urls.values():
            with pytest.raises((BodyTooLargeError, ContentError) if status < 500 else requests.HTTPError):
                opened.get(url)
        assert tracemalloc.get_traced_memory()[1] < size / 4
    finally:
        tracemalloc.stop()


def test_nor_where_all_of_it_is_read_at_once(server, session):
    size = 40_000_000
    url = server.script("/", Answer(200, {"Content-Encoding": "gzip"}, gzip.compress(bytes(size))))
    raw = session(max_body=100_000).get(url, stream=True).raw
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLargeError):
            raw.read(decode_content=True)
        assert tracemalloc.get_traced_memory()[1] < size / 4
    finally:
        tracemalloc.stop()


def test_with_a_limit_nothing_is_asked_for_that_cannot_be_counted(server, session):
    url = server.script("/", 200)
    session(max_body=10).get(url, headers={"Accept-Encoding": "br, gzip"})
    assert server.requests[0].headers["accept-encoding"] == "gzip, deflate"


def test_a_body_that_stalls_is_not_waited_for(session, monkeypatch):
    monkeypatch.setattr(module, "PEEK_SECONDS", 0.2)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            connection = listening.accept()[0]
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 17\r\n\r\nthe beginning")
                ended.wait(20)
                connection.sendall(b" end")

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
            response = session().get(url, stream=True, timeout=60)
            assert (response.status_code, ended.is_set()) == (404, False)
            with pytest.raises(requests.RequestException):
                response.content  # noqa: B018  # reads it
        finally:
            ended.set()
            thread.join()


def test_a_session_can_be_copied_and_sent_to_another_process(server, session):
    url = server.script("/", 200)
    opened = session(policy=ONCE.replace(resource="copied"))
    for copied in (copy.deepcopy(opened), pickle.loads(pickle.dumps(opened))):
        assert copied.get(url).status_code == 200
        settings = copied.get_adapter(url).settings
        assert settings.guard is opened.get_adapter(url).settings.guard
        copied.close()
