"""Pitfall 26: every attempt sends the same body, and a body that can be read once is never sent empty."""

import io
import tempfile

import pytest

from integration.http_ways import WAYS
from outlast import RETRYABLE, RetryPolicy
from servers.scripted import ScriptedServer

all_ways = pytest.mark.parametrize("way", WAYS)
sync_ways = pytest.mark.parametrize("way", [each for each in WAYS if each.values[0].is_sync])
AT_ONCE = RetryPolicy(max_attempts=3, retry_on=RETRYABLE, base_delay=0)


@pytest.fixture
def server():
    with ScriptedServer([503, 503, 200]) as server:
        yield server


def put(way, server, **body):
    return way.ask(server.url, "PUT", policy=AT_ONCE, **body)


@pytest.mark.parametrize(
    "body",
    [
        {"json": {"a": 1}},
        {"data": {"a": "1"}},
        {"content": b"abc"},
        {"content": "abc"},
        {"files": {"f": b"abc"}, "data": {"a": "1"}},
        {"files": {"f": io.BytesIO(b"abc")}},
    ],
    ids=["json", "form", "bytes", "text", "multipart", "multipart-file"],
)
@all_ways
def test_pitfall_26_a_body_is_the_same_each_time(way, server, body):
    assert put(way, server, **body).status_code == 200
    bodies = [request.body for request in server.requests]
    assert bodies[0]
    assert bodies == [bodies[0]] * 3
    assert len({str(request.headers) for request in server.requests}) == 1


@all_ways
def test_pitfall_26_a_body_that_can_be_read_once_is_not_sent_again(way, server):
    assert put(way, server, content=way.body(b"a", b"b")).status_code == 503
    assert [request.body for request in server.requests] == [b"ab"]


@all_ways
def test_pitfall_26_an_error_says_why_it_is_not_sent_again(way):
    from servers.feeds import Answer, FeedServer

    with FeedServer() as server, pytest.raises(way.library.TransportError) as caught:
        way.ask(server.script("/", Answer(fault="close")), "PUT", policy=AT_ONCE, content=way.body(b""))
    assert "read only once" in caught.value.__notes__[0]
    assert server.count() == 1


@sync_ways
def test_a_list_of_parts_is_sent_again(way, server):
    assert put(way, server, content=[b"a", b"b"]).status_code == 200
    assert [request.body for request in server.requests] == [b"ab"] * 3


@sync_ways
def test_a_file_is_rewound_to_where_it_stood(way, server):
    with tempfile.TemporaryFile() as file:
        file.write(b"header|content")
        file.flush()
        file.seek(7)
        headers = {"Content-Length": "7"}  # httpx counts from the beginning of the file
        assert way.ask(server.url, "PUT", policy=AT_ONCE, content=file, headers=headers).status_code == 200
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


@sync_ways
def test_pitfall_26_a_file_that_cannot_be_rewound_is_not_sent_again(way, server):
    assert put(way, server, content=Pipe()).status_code == 503
    assert [request.body for request in server.requests] == [b"abc"]


@all_ways
def test_pitfall_26_nor_is_a_form_with_such_a_file(way, server):
    assert put(way, server, files={"f": Pipe()}).status_code == 503
    assert len(server.requests) == 1
    assert b"abc" in server.requests[0].body


@sync_ways
def test_a_request_that_was_sent_can_be_sent_by_hand(way):
    from outlast.http import RetryTransport

    with ScriptedServer([200]) as server, way.library.Client(transport=RetryTransport(policy=AT_ONCE)) as client:
        request = client.build_request("PUT", server.url, content=[b"a"])
        assert client.send(request).status_code == client.send(request).status_code == 200
        assert [each.body for each in server.requests] == [b"a", b"a"]
