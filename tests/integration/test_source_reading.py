"""One GET of a source against a real server, with both HTTP clients."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
import zlib

import httpx2
import pytest

from integration.fetching import CLIENTS, run, source_of
from outlast import classify
from outlast.errors import BodyTooLargeError, ContentError, NetworkError
from outlast.sources.fetchers import download, web_charset
from servers.feeds import Answer, FeedServer

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server():
    with FeedServer() as server:
        yield server


@pytest.fixture(params=CLIENTS, ids=["httpx", "httpx2"])
def library(request):
    return request.param


def test_an_answer_has_its_body_validators_and_charset(library, server):
    fields = {
        "ETag": 'W/"1"',
        "Last-Modified": "Mon, 05 Jan 2026 00:00:00 GMT",
        "Content-Type": "a/b; charset=X-SJIS",
    }
    url = server.script("/whole", Answer(headers=fields, body=b"body"))

    answer = run(library, download, source_of(url))

    assert (answer.status, answer.body, answer.url) == (200, b"body", url)
    assert (answer.etag, answer.last_modified) == ('W/"1"', "Mon, 05 Jan 2026 00:00:00 GMT")
    assert answer.headers.get("CONTENT-type") == "a/b; charset=X-SJIS"
    assert answer.encoding == "cp932"
    assert not answer.not_modified


def test_validators_are_sent_and_304_is_no_error(library, server):
    for name, fields in {
        "etag": {"ETag": '"v1"'},
        "date": {"Last-Modified": "Mon, 05 Jan 2026 00:00:00 GMT"},
    }.items():
        url = server.script(f"/known-{name}", Answer(headers=fields, body=b"body", conditional=True))
        first = run(library, download, source_of(url))
        second = run(library, download, source_of(url, etag=first.etag, last_modified=first.last_modified))

        assert (first.status, first.not_modified, first.body) == (200, False, b"body")
        assert (second.status, second.not_modified, second.body) == (304, True, b"")
    asked = [each.headers for each in server.requests if each.path.startswith("/known-")]
    assert "if-none-match" not in asked[0]
    assert asked[1]["if-none-match"] == '"v1"'
    assert "if-modified-since" not in asked[1]
    assert asked[3]["if-modified-since"] == "Mon, 05 Jan 2026 00:00:00 GMT"


def test_a_validator_that_no_client_can_send_is_not_kept(library, server):
    url = server.script("/odd-etag", Answer(headers={"ETag": '"é"', "Last-Modified": "x" * 2000}))

    answer = run(library, download, source_of(url))

    assert (answer.etag, answer.last_modified) == (None, None)
    assert run(library, download, source_of(url, etag='"日本"', last_modified="a\nb")).status == 200
    assert server.requests[-1].headers.keys().isdisjoint({"if-none-match", "if-modified-since"})


@pytest.mark.parametrize("status", [400, 403, 404, 410, 429, 500, 503])
def test_a_status_is_raised_as_the_librarys_own_error_with_the_reason_in_the_body(library, server, status):
    fields = {"Retry-After": "7", "Content-Encoding": "gzip"}
    reason = gzip.compress(b'{"error": "the reason"}' + b" " * MIB)
    url = server.script(f"/status-{status}", Answer(status=status, headers=fields, body=reason))

    with pytest.raises(library.HTTPStatusError) as caught:
        run(library, download, source_of(url))

    response = caught.value.response
    assert response.status_code == status
    assert response.content.startswith(b'{"error": "the reason"}')
    assert len(response.content) == 64 * 1024
    assert str(response.url) == url
    assert classify(caught.value).http_status == status


def test_the_classifier_finds_the_reason_in_the_body(library, server):
    body = json.dumps({"error": {"errors": [{"reason": "quotaExceeded"}]}})
    url = server.script("/quota", Answer(status=403, headers={"Content-Type": "application/json"}, body=body))

    with pytest.raises(library.HTTPStatusError) as caught:
        run(library, download, source_of(url))

    assert classify(caught.value).category == "quota_exhausted"


@pytest.mark.parametrize("fields", [{"Content-Encoding": "gzip"}, {"Content-Encoding": "br"}])
def test_a_status_counts_for_more_than_a_body_that_is_broken(library, server, fields):
    url = server.script("/broken-503", Answer(status=503, headers=fields, body=b"never packed"))

    with pytest.raises(library.HTTPStatusError) as caught:
        run(library, download, source_of(url))

    assert caught.value.response.status_code == 503


def test_redirects_are_the_clients_matter(library, server):
    target = server.script("/moved-here", Answer(body=b"found"))
    url = server.script("/moved", Answer(status=301, headers={"Location": target}))

    followed = run(library, download, source_of(url), follow_redirects=True)

    assert (followed.body, followed.url) == (b"found", target)
    with pytest.raises(library.HTTPStatusError):
        run(library, download, source_of(url))


def test_an_announced_length_beyond_the_limit_is_not_read(library, server):
    url = server.script("/announced", Answer(headers={"Content-Length": str(11 * MIB)}, body=b"the beginning"))

    with pytest.raises(BodyTooLargeError, match="longer than 10,485,760 bytes"):
        run(library, download, source_of(url))


def test_a_body_beyond_the_limit_is_an_error_and_one_at_the_limit_is_none(library, server):
    url = server.script("/long", Answer(body=b"x" * 1000))

    async def fetch(limit):
        async with library.AsyncClient(trust_env=False) as client:
            return await download(client, source_of(url), limit=limit)

    assert len(asyncio.run(fetch(1000)).body) == 1000
    with pytest.raises(BodyTooLargeError) as caught:
        asyncio.run(fetch(999))
    assert classify(caught.value).category == "data"


@pytest.mark.parametrize("layers", [1, 2])
def test_a_bomb_is_stopped_while_it_is_unpacked(library, server, layers):
    bomb = b"".join(_zeros(256))
    for _ in range(layers - 1):
        bomb = gzip.compress(bomb)
    encoding = ", ".join(["gzip"] * layers)
    url = server.script("/bomb", Answer(headers={"Content-Encoding": encoding}, body=bomb))

    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLargeError):
            run(library, download, source_of(url))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert len(bomb) < MIB
    assert most < 40 * MIB  # of the 256 that are in it


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"plain text")),
        ("X-GZIP", gzip.compress(b"plain text")),
        ("deflate", zlib.compress(b"plain text")),
        ("deflate", zlib.compress(b"plain text")[2:-4]),
        ("identity", b"plain text"),
        ("deflate, gzip", gzip.compress(zlib.compress(b"plain text"))),
        ("gzip", gzip.compress(b"plain ") + gzip.compress(b"text")),
        ("gzip", gzip.compress(b"plain text") + b"\0" * 100),
    ],
    ids=["gzip", "x-gzip", "deflate", "raw-deflate", "identity", "both", "two-parts", "filling"],
)
def test_what_is_packed_is_unpacked(library, server, encoding, packed):
    url = server.script("/packed", Answer(headers={"Content-Encoding": encoding}, body=packed))

    assert run(library, download, source_of(url)).body == b"plain text"
    assert server.requests[-1].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("wbits", [31, 15, -15])
@pytest.mark.parametrize("size", [256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 3 * MIB])
def test_nothing_is_lost_between_two_pieces(server, wbits, size):
    packer = zlib.compressobj(wbits=wbits)
    packed = packer.compress(b"x" * size) + packer.flush()
    encoding = "gzip" if wbits == 31 else "deflate"
    url = server.script("/pieces", Answer(headers={"Content-Encoding": encoding}, body=packed))

    assert run(httpx2, download, source_of(url)).body == b"x" * size


def test_what_is_packed_and_cut_off_is_the_networks_fault(library, server):
    cut = gzip.compress(bytes(range(256)) * 40)[:-20]
    url = server.script("/cut", Answer(headers={"Content-Encoding": "gzip"}, body=cut))

    with pytest.raises(NetworkError) as caught:
        run(library, download, source_of(url))

    assert classify(caught.value).retryable


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "gzip, gzip, gzip, gzip"])
def test_what_is_packed_in_no_way_that_was_asked_for_is_bad_data(library, server, encoding):
    url = server.script("/unpacked", Answer(headers={"Content-Encoding": encoding}, body=b"never packed"))

    with pytest.raises(ContentError) as caught:
        run(library, download, source_of(url))

    assert classify(caught.value).category == "data"


def test_a_body_that_a_hook_has_read_is_taken_as_it_is(library, server):
    url = server.script("/hooked", Answer(headers={"Content-Encoding": "gzip"}, body=gzip.compress(b"plain text")))

    async def hook(response):
        await response.aread()

    assert run(library, download, source_of(url), event_hooks={"response": [hook]}).body == b"plain text"


@pytest.mark.parametrize("fault", ["reset", "close", "truncated"])
def test_a_fault_is_the_librarys_own_error(library, server, fault):
    url = server.script("/fault", Answer(fault=fault))

    with pytest.raises(library.TransportError) as caught:
        run(library, download, source_of(url))

    assert classify(caught.value).category == "network"


def test_every_way_out_gives_the_connection_back(library, server):
    paths = {
        "/out-good": Answer(body=b"good"),
        "/out-304": Answer(status=304),
        "/out-404": Answer(status=404, body=b"x" * MIB),
        "/out-long": Answer(body=b"x" * 11 * MIB),
        "/out-bad": Answer(headers={"Content-Encoding": "gzip"}, body=b"x" * MIB),
    }
    for path, answer in paths.items():
        server.script(path, answer)

    async def many():
        limits = library.Limits(max_connections=1)
        async with library.AsyncClient(trust_env=False, limits=limits, timeout=5) as client:
            outcomes = []
            for path in [*paths, *paths]:
                try:
                    outcomes.append((await download(client, source_of(server.url(path)))).status)
                except Exception as error:
                    outcomes.append(type(error).__name__)
            return outcomes

    expected = [200, 304, "HTTPStatusError", "BodyTooLargeError", "ContentError"]
    assert asyncio.run(many()) == expected * 2


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("UTF-8", "utf-8"),
        ("ISO-8859-1", "cp1252"),
        ("us-ascii", "cp1252"),
        ("Shift_JIS", "cp932"),
        ("x-sjis", "cp932"),
        ("EUC-JP", "euc_jp"),
        ("gb2312", "gb18030"),
        ("windows-1251", "cp1251"),
        ("nonsense", None),
        ("punycode", None),
        ("idna", None),
        ("base64", None),
        ("unicode_escape", None),
        ("utf-7", None),
        ("a\0b", None),
        ("", None),
        (None, None),
    ],
)
def test_a_charset_is_one_that_the_web_is_written_in(label, name):
    assert web_charset(label) == name


def _zeros(mebibytes):
    """Pack so many mebibytes of nothing, a little at a time."""
    packer = zlib.compressobj(9, wbits=31)
    for _ in range(mebibytes):
        yield packer.compress(b"\0" * MIB)
    yield packer.flush()
