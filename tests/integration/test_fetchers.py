"""The ready-made fetcher for feeds against a real server, with both HTTP clients."""

from __future__ import annotations

import asyncio
import json
import sys
import threading

import feedparser
import httpx2
import pytest

from integration.fetching import CLIENTS, after, run, source_of
from outlast import classify
from outlast.errors import ConfigError, ContentError
from outlast.sources.feed import fetch_feed
from servers.feeds import Answer, FeedServer, atom, page, rss


@pytest.fixture(scope="module")
def server():
    with FeedServer() as server:
        yield server


@pytest.fixture(params=CLIENTS, ids=["httpx", "httpx2"])
def library(request):
    return request.param


RDF = b"""<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel rdf:about="http://example.test/"><title>A feed</title><link>http://example.test/</link></channel>
<item rdf:about="http://example.test/2"><title>Entry 2</title><link>http://example.test/2</link></item>
<item rdf:about="http://example.test/1"><title>Entry 1</title><link>http://example.test/1</link></item>
</rdf:RDF>"""


def fetch(server, body, library=httpx2, source=None, **headers):
    url = server.script("/feed", Answer(body=body, headers={"Content-Type": "application/xml", **headers}))
    return run(library, fetch_feed, source_of(url) if source is None else source)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (rss(2), ["entry-2", "entry-1"]),
        (atom(2), ["tag:example.test,2026:2", "tag:example.test,2026:1"]),
        (RDF, ["http://example.test/2", "http://example.test/1"]),
    ],
    ids=["rss", "atom", "rdf"],
)
def test_every_kind_of_feed_has_its_entries(library, server, body, names):
    fetched = fetch(server, body, library)

    assert [entry.id for entry in fetched.entries] == names
    assert [entry.title for entry in fetched.entries] == ["Entry 2", "Entry 1"]
    assert [entry.link for entry in fetched.entries] == ["http://example.test/2", "http://example.test/1"]
    assert fetched.content.title == "A feed"
    assert fetched.content.entries == fetched.entries
    assert fetched.http_status == 200


def test_dates_and_texts_are_read(server):
    for body in (rss(1), atom(1)):
        (entry,) = fetch(server, body).entries

        assert (entry.published, entry.summary) == ("2026-01-05T00:01:00+00:00", "Text 1")


def test_a_date_that_cannot_be_read_stays_as_it_is(server):
    body = rss(1).replace(b"Mon, 05 Jan 2026 00:01:00 GMT", "きのう".encode())

    assert fetch(server, body).entries[0].published == "きのう"


def test_nothing_changed_is_told_as_such(library, server):
    url = server.script("/feed-304", Answer(body=rss(3), conditional=True))
    first = run(library, fetch_feed, source_of(url))

    second = run(library, fetch_feed, after(source_of(url), first))

    assert first.etag
    assert len(first.entries) == 3
    assert second.not_modified
    assert (second.entries, second.http_status) == ((), 304)


def test_only_new_entries_are_handed_on(library, server):
    url = server.script("/growing", [Answer(body=rss(3)), Answer(body=rss(5)), Answer(body=rss(5))])
    source = source_of(url)
    seen = []
    for _ in range(3):
        fetched = run(library, fetch_feed, source)
        seen.append([entry.id for entry in fetched.entries])
        source = after(source, fetched)

    assert seen == [["entry-3", "entry-2", "entry-1"], ["entry-5", "entry-4"], []]
    assert len(fetched.content.entries) == 5


def test_an_entry_that_comes_back_is_not_new(server):
    bodies = [rss(3), rss(1, first=3), rss(0), rss(4)]
    url = server.script("/flapping", [Answer(body=body) for body in bodies])
    source, seen = source_of(url), []
    for _ in bodies:
        fetched = run(httpx2, fetch_feed, source)
        seen.append([entry.id for entry in fetched.entries])
        source = after(source, fetched)

    assert seen == [["entry-3", "entry-2", "entry-1"], [], [], ["entry-4"]]


def test_the_memory_is_bounded_and_keeps_the_latest(server):
    bodies = [rss(600), rss(600, first=601), rss(1, first=1201), rss(601, first=601)]
    url = server.script("/moving", [Answer(body=body) for body in bodies])
    source, sizes = source_of(url), []
    for _ in bodies:
        fetched = run(httpx2, fetch_feed, source)
        source = after(source, fetched)
        sizes.append(len(json.loads(fetched.memory)))

    assert sizes == [600, 1000, 1000, 1000]
    assert fetched.entries == ()
    assert len(fetched.memory) < 20_000


def test_a_feed_longer_than_the_memory_does_not_repeat_itself(server):
    url = server.script("/huge", Answer(body=rss(1500)))
    first = run(httpx2, fetch_feed, source_of(url))

    second = run(httpx2, fetch_feed, after(source_of(url), first))

    assert (len(first.entries), second.entries) == (1500, ())


@pytest.mark.parametrize("memory", ["", "not json", "{}", '"text"', "[1, null, {}]", "null", "5"])
def test_a_memory_that_is_not_its_own_is_none(server, memory):
    source = source_of(server.url("/feed"), memory=memory)

    assert len(fetch(server, rss(3), source=source).entries) == 3


def test_the_hash_is_that_of_the_entries_alone(server):
    entries = [f"<item><guid>{n}</guid><title>t{n}</title></item>" for n in range(3)]
    plain = fetch(server, rss(0, more="".join(entries)))
    turned = fetch(server, rss(0, more="".join(reversed(entries)), built="Tue, 06 Jan 2026 00:00:00 GMT", title="x"))

    assert plain.hash == turned.hash
    for change in ("title", "link", "description", "pubDate"):
        more = f"<item><guid>0</guid><{change}>other</{change}></item>" + "".join(entries[1:])
        assert fetch(server, rss(0, more=more)).hash != plain.hash


def test_an_entry_without_a_name_goes_by_its_link_title_or_text(server):
    more = (
        "<item><link>http://example.test/a</link><title>A</title></item><item><title>B</title></item>"
        "<item><description>C</description></item><item><description>D</description></item>"
    )

    first = fetch(server, rss(0, more=more))

    assert [entry.id for entry in first.entries][:2] == ["http://example.test/a", "B"]
    assert len({entry.id for entry in first.entries}) == 4
    again = after(source_of(server.url("/feed")), first)
    assert fetch(server, rss(0, more=more), source=again).entries == ()


def test_entries_that_share_a_name_are_told_apart(server):
    more = "".join(f"<item><guid>same</guid><title>t{n}</title></item>" for n in (1, 2, 2))
    first = fetch(server, rss(0, more=more))
    new = "<item><guid>same</guid><title>t3</title></item>"

    second = fetch(server, rss(0, more=new + more), source=after(source_of(server.url("/feed")), first))

    assert [entry.title for entry in first.entries] == ["t1", "t2"]
    assert [entry.title for entry in second.entries] == ["t3"]


@pytest.mark.parametrize(
    "body",
    [
        rss(3).replace(b"<title>A feed</title>", b"<title>A & B</title>"),
        rss(3)[:-30],
        b"\n\n " + rss(3),
        rss(3).replace(b"Entry 2", b"Entry \x01 2"),
        rss(3).replace(b"<description>Text 3", b"<description>&nbsp;&eacute;"),
    ],
    ids=["ampersand", "cut", "blanks", "control", "entities"],
)
def test_a_broken_feed_with_entries_will_do(library, server, body):
    assert len(fetch(server, body, library).entries) == 3


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (page("<form>Please log in</form>"), "a web page"),
        (b"<HTML><body><item>x</item></body>", "a web page"),
        (b'{"version": "https://jsonfeed.org/version/1.1", "items": []}', "neither RSS nor Atom"),
        (b"\x00\x01\x02\xff\xfe garbage", "neither RSS nor Atom"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20, "neither RSS nor Atom"),
        (b"http://nothing.invalid/feed", "neither RSS nor Atom"),
        (b"/etc/passwd", "neither RSS nor Atom"),
        (b"<?xml version='1.0'?><error>no</error>", "neither RSS nor Atom"),
        (rss(0)[:-20], "broken and has no readable entry"),
    ],
    ids=["empty", "blank", "login", "items", "json", "garbage", "image", "address", "file", "xml", "cut"],
)
def test_what_is_no_feed_is_bad_data(library, server, body, why):
    with pytest.raises(ContentError, match=why) as caught:
        fetch(server, body, library)

    failure = classify(caught.value)
    assert (failure.category, failure.retryable) == ("data", False)


def test_an_empty_feed_is_a_feed(server):
    fetched = fetch(server, rss(0))

    assert (fetched.entries, fetched.memory) == ((), "[]")
    assert fetched.hash


def test_a_feed_sent_as_a_web_page_is_a_feed(server):
    assert len(fetch(server, rss(3), **{"Content-Type": "text/html"}).entries) == 3


@pytest.mark.parametrize(
    ("written", "declared", "header"),
    [
        ("utf-8", "utf-8", "application/xml"),
        ("utf-8", "utf-8", "text/xml"),
        ("utf-8", "utf-8", "text/xml; charset=nonsense"),
        ("utf-8", "utf-8", "text/xml; charset=punycode"),
        ("utf-8", "utf-8", "text/xml; charset=us-ascii"),
        ("utf-8", "utf-8", "text/xml; charset=iso-8859-1"),
        ("utf-8", "punycode", "application/xml"),
        ("utf-8", "nonsense", "application/xml"),
        ("euc-jp", "euc-jp", "application/xml"),
        ("shift_jis", "shift_jis", "application/xml; charset=shift_jis"),
        ("shift_jis", "utf-8", "application/xml; charset=shift_jis"),
        ("utf-16", "utf-16", "application/xml"),
    ],
)
def test_a_charset_that_is_wrong_somewhere_is_made_out(server, written, declared, header):
    text = rss(1, title="日本語のニュース").decode().replace('encoding="utf-8"', f'encoding="{declared}"')

    fetched = fetch(server, text.encode(written), **{"Content-Type": header})

    assert fetched.content.title == "日本語のニュース"
    assert [entry.id for entry in fetched.entries] == ["entry-1"]


def test_scripts_are_taken_out_and_links_made_whole(server):
    evil = (
        "&lt;p onclick='x()'&gt;good&lt;script&gt;alert(1)&lt;/script&gt; &lt;a href='/x'&gt;link&lt;/a&gt;&lt;/p&gt;"
    )
    (entry,) = fetch(server, rss(1).replace(b"Text 1", evil.encode())).entries

    assert "script" not in entry.summary
    assert "onclick" not in entry.summary
    assert f'href="{server.url("/x")}"' in entry.summary


def test_entities_neither_grow_nor_open_files(server, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("do not read me")
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    doctype = f'<!DOCTYPE rss [<!ENTITY l0 "ha">{laughs}<!ENTITY f SYSTEM "{secret.as_uri()}">]>'.encode()
    for text in (b"&l9;", b"&f;"):
        body = rss(1).replace(b"<rss", doctype + b"<rss").replace(b"Text 1", text)

        fetched = fetch(server, body)

        assert len(fetched.entries) == 1
        assert len(repr(fetched)) < 10_000
        assert "do not read me" not in repr(fetched)


def test_the_loop_goes_on_while_a_feed_is_parsed(server, monkeypatch):
    parsing, go_on = threading.Event(), threading.Event()
    parse = feedparser.parse

    def slowly(*args, **settings):
        parsing.set()
        assert go_on.wait(30)
        return parse(*args, **settings)

    monkeypatch.setattr(feedparser, "parse", slowly)
    url = server.script("/slow", Answer(body=rss(1)))

    async def both():
        async with httpx2.AsyncClient(trust_env=False) as client:
            task = asyncio.create_task(fetch_feed(source_of(url), client))
            while not parsing.is_set():  # noqa: ASYNC110  # set by a thread
                await asyncio.sleep(0.001)
            go_on.set()  # only a loop that still runs gets here
            return await task

    assert len(asyncio.run(both()).entries) == 1


def test_a_parser_that_fails_is_bad_data(server, monkeypatch):
    def fails(*_, **__):
        raise AssertionError("a bug in the parser")

    monkeypatch.setattr(feedparser, "parse", fails)

    with pytest.raises(ContentError, match="AssertionError"):
        fetch(server, rss(1))


def test_without_its_package_it_says_what_to_install_and_asks_nobody(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "feedparser", None)
    url = server.script("/never", 200)

    with pytest.raises(ConfigError, match=r"pip install 'outlast\[feeds\]'"):
        run(httpx2, fetch_feed, source_of(url))
    assert server.count("/never") == 0
