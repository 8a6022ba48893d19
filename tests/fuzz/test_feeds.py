"""Feeds, pages, OPML and lists of addresses: read, or refused by name, however broken they are."""

import asyncio
import contextlib
import gzip
import zlib

import httpx2
from hypothesis import strategies as st

from fuzz.fuzzing import ODD, deep, fuzz, mutated, mutated_bytes, odd_texts
from integration.fetching import source_of
from outlast.classify import classify
from outlast.errors import ConfigError, ContentError, NetworkError
from outlast.sources.feed import fetch_feed
from outlast.sources.fetchers import download, web_charset
from outlast.sources.page import fetch_page
from outlast.sources.registry import sources_from_list, sources_from_opml
from servers.feeds import atom, page, rss

OPML = """<?xml version="1.0" encoding="utf-8"?>
<opml version="2.0"><head><title>Mine</title></head><body>
<outline text="News"><outline type="rss" text="A" title="B" xmlUrl="https://example.com/feed?a=1&amp;b=2"/></outline>
<outline xmlURL="http://example.org/ä"/>
</body></opml>
"""
CHARSETS = [
    "utf-8", "utf-16", "latin-1", "shift_jis", "punycode", "idna", "zip", "hex", "base64", "rot13", "undefined", "unicode_escape", "utf-7", "raw_unicode_escape",
    "x" * 40, "utf-8-sig", "mbcs", "ascii", "cp037", "",
]  # fmt: skip


def taken_or_refused(text):
    with contextlib.suppress(ConfigError):
        for source in sources_from_opml(text, "feed"):
            assert source.url
            assert len(source.name) <= 200


@fuzz(150, mutated(OPML))
def test_a_damaged_list_of_feeds(text):
    taken_or_refused(text)


@fuzz(150, mutated_bytes(OPML.encode()), st.sampled_from(CHARSETS))
def test_a_damaged_list_of_feeds_in_any_charset(data, name):
    taken_or_refused(data.replace(b"utf-8", name.encode(), 1))


def test_large_lists_of_feeds_are_refused_or_read_soon():
    for name in CHARSETS:
        taken_or_refused(f'<?xml version="1.0" encoding="{name}"?><opml>-'.encode() + b"ab9" * 700_000)
    taken_or_refused(f"<opml>{deep('<outline>', '</outline>')}</opml>")
    taken_or_refused("<!DOCTYPE opml [<!ENTITY a 'b'>]><opml>&a;</opml>")


@fuzz(
    100, st.lists(odd_texts | st.sampled_from(["https://example.com", "# note", "\ufeff"]), max_size=6).map("\n".join)
)
def test_any_list_of_addresses(text):
    for source in sources_from_list(text, "feed"):
        assert source.url


def packed(body, coding):
    """Pack a body as a Content-Encoding says, the first first."""
    for name in coding.lower().split(","):
        match name.strip():
            case "gzip" | "x-gzip":
                body = gzip.compress(body, mtime=0)
            case "deflate":
                body = zlib.compress(body)
    return body


codings = st.sampled_from(
    [
        "",
        "identity",
        "gzip",
        "GZIP",
        "x-gzip",
        "deflate",
        "br",
        "zstd",
        "gzip, gzip",
        "gzip,deflate",
        ",",
        "gzip;q=1",
        "compress",
        "é",
    ]
)
kinds = st.sampled_from([
    "", "text/xml", "application/rss+xml; charset=utf-8", "text/html; charset=punycode", "text/html; charset=", 'text/html;charset="', "a/b; charset=utf-16; charset=hex",
    ";;;", "text/plain; charset*=utf-8''x", "multipart/mixed; boundary=x",
])  # fmt: skip
validators = st.sampled_from(["", '"1"', "W/", "é", "x" * 2000, "\x7f", "Mon, 99 Foo 0000", "0"])
bodies = (
    st.sampled_from(
        [
            rss(),
            atom(),
            page(),
            rss().decode().encode("utf-16"),
            b"",
            b"\0",
            b"{}",
            b"\xef\xbb\xbf",
            b"<rss/>",
            b"<html>",
            b"%PDF-1.4",
            b"<?xml version='1.0' encoding='punycode'?><rss/>",
        ]
    )
    | mutated_bytes(rss())
    | mutated_bytes(atom())
    | mutated_bytes(page())
    | st.binary(max_size=100)
)


@st.composite
def answers(draw):
    """Return status, headers and body; what is packed may be cut off or damaged."""
    coding = draw(codings)
    body = draw(bodies)
    sent = packed(body, draw(st.just(coding) | codings))
    if draw(st.integers(0, 4)) == 0:
        sent = draw(mutated_bytes(sent))
    headers = {
        "Content-Encoding": coding,
        "Content-Type": draw(kinds),
        "ETag": draw(validators),
        "Last-Modified": draw(validators),
        "Content-Length": draw(st.sampled_from(["", "0", "-1", "99999999999999999999", "x", "٣"])),
        "Retry-After": draw(st.sampled_from(ODD)),
    }
    raw = [
        (name.encode(), value.encode("utf-8", "replace").replace(b"\0", b"").replace(b"\r\n", b""))
        for name, value in headers.items()
        if value
    ]
    return draw(st.sampled_from([200, 200, 200, 203, 206, 301, 304, 404, 429, 503])), raw, sent


class Pieces(httpx2.AsyncByteStream):
    """A body that comes in pieces."""

    def __init__(self, body):
        self.body = body

    async def __aiter__(self):
        for start in range(0, len(self.body), 100):
            yield self.body[start : start + 100]


def fetched(fetch, answer, **about):
    """Have a source fetched; the answer is ours."""
    status, headers, body = answer

    async def course():
        transport = httpx2.MockTransport(lambda _request: httpx2.Response(status, headers=headers, stream=Pieces(body)))
        async with httpx2.AsyncClient(transport=transport) as client:
            return await fetch(source_of("https://example.com/feed", **about), client)

    try:
        return asyncio.run(course())
    except (ConfigError, ContentError, NetworkError) as error:
        assert classify(error).message
    except httpx2.HTTPError as error:
        assert classify(error).http_status in {status, None}
    return None


@fuzz(150, answers())
def test_any_answer_is_read_or_refused(answer):
    async def plain(source, client):
        return await download(client, source, limit=100_000)

    found = fetched(plain, answer)
    assert found is None or len(found.body) <= 100_000


@fuzz(150, answers(), st.none() | odd_texts | st.just('["a", 1, null]'))
def test_any_answer_is_a_feed_or_none(answer, memory):
    found = fetched(fetch_feed, answer, memory=memory)
    assert found is None or found.not_modified or found.hash


@fuzz(
    150,
    answers(),
    st.sampled_from(
        [None, "p", "h1 > p", "", "[", "p:has(", "::", "*", "\0", "x" * 2000, "p:nth-child(99999999999999999999)"]
    ),
)
def test_any_answer_is_a_page_or_none(answer, selector):
    found = fetched(fetch_page, answer, selector=selector)
    assert found is None or found.not_modified or isinstance(found.content, str)


@fuzz(100, odd_texts | st.sampled_from(CHARSETS))
def test_any_charset_is_known_or_not(label):
    assert web_charset(label) is None or "a".encode(web_charset(label))
