"""The ready-made fetcher for pages against a real server, with both HTTP clients."""

from __future__ import annotations

import resource
import sys

import httpx2
import pytest

from integration.fetching import CLIENTS, after, run, source_of
from outlast import classify
from outlast.errors import ConfigError, ContentError
from outlast.sources.page import fetch_page
from servers.feeds import Answer, FeedServer, page


@pytest.fixture(scope="module")
def server():
    with FeedServer() as server:
        yield server


@pytest.fixture(params=CLIENTS, ids=["httpx", "httpx2"])
def library(request):
    return request.param


def fetch(server, body, library=httpx2, selector=None, kind="text/html"):
    url = server.script("/page", Answer(body=body, headers={"Content-Type": kind}))
    return run(library, fetch_page, source_of(url, selector=selector))


def test_without_a_selector_it_is_what_can_be_seen(library, server):
    body = page(
        "<h1>News</h1>\n\n <p>One\t two&amp;<b>thr</b>ee<br>four</p><!-- no --><noscript>no</noscript>"
        "<template>no</template><ul><li>a<li>b</ul>"
    )

    fetched = fetch(server, body, library)

    assert fetched.content == "News One two&three four a b"
    assert fetched.http_status == 200
    assert len(fetched.hash) == 64


def test_with_a_selector_it_is_the_text_of_what_matches(library, server):
    body = page("<p class=x>One <script>no</script> <i>two</i></p><p>no</p><div class=x>three</div>")

    assert fetch(server, body, library, ".x").content == "One two\nthree"


def test_what_is_not_shown_can_be_watched_by_name(server):
    body = page('<script type="application/json">{"price": 5}</script><p>x</p>')

    assert fetch(server, body, selector="script[type]").content == '{"price": 5}'
    assert fetch(server, body, selector="title").content == "A page"
    assert fetch(server, body, selector="script + p").content == "x"


def test_the_hash_follows_the_text_that_is_watched(server):
    one = fetch(server, page("<h1>News</h1> <p>a</p>"), selector="h1")
    other = fetch(server, page("<h1 class=new>  News\n</h1> <p>b</p>"), selector="h1")

    assert one.hash == other.hash
    assert fetch(server, page("<h1>Olds</h1>"), selector="h1").hash != one.hash


def test_a_selector_that_matches_nothing_is_bad_data(library, server):
    with pytest.raises(ContentError, match=r"selector '#gone' matches nothing") as caught:
        fetch(server, page(), library, "#gone")

    assert classify(caught.value).category == "data"


def test_a_selector_that_does_not_parse_is_a_wrong_setting(server):
    with pytest.raises(ConfigError, match="is not valid"):
        fetch(server, page(), selector="p >")


def test_nothing_changed_is_told_as_such(library, server):
    url = server.script("/page-304", Answer(body=page(), conditional=True))
    first = run(library, fetch_page, source_of(url))

    second = run(library, fetch_page, after(source_of(url), first))

    assert second.not_modified
    assert (second.content, second.http_status) == (None, 304)


@pytest.mark.parametrize(
    ("written", "meta", "header"),
    [
        ("utf-8", "", "text/html"),
        ("utf-8", "", "text/html; charset=utf-8"),
        ("utf-8", "", "text/html; charset=nonsense"),
        ("utf-8-sig", "<meta charset=shift_jis>", "text/html; charset=euc-jp"),
        ("utf-16", "", "text/html"),
        ("utf-8", "<meta charset=utf-16>", "text/html"),
        ("shift_jis", '<meta charset="Shift_JIS">', "text/html"),
        ("euc-jp", '<meta http-equiv="Content-Type" content="text/html; charset=euc-jp">', "text/html"),
        ("euc-jp", "<meta charset=shift_jis>", "text/html; charset=euc-jp"),
    ],
)
def test_the_charset_is_that_of_the_mark_the_header_or_the_page(server, written, meta, header):
    body = f"<html><head>{meta}</head><body>日本語</body></html>".encode(written)

    assert fetch(server, body, kind=header).content == "日本語"


def test_bytes_that_do_not_fit_are_replaced(server):
    assert fetch(server, b"<p>a\xffb</p>").content == "a\ufffdb"


@pytest.mark.parametrize("body", [b"", b"plain", b"\x00\x01", b"<", b"<frameset><frame></frameset>"], ids=repr)
def test_any_answer_has_a_text(server, body):
    assert isinstance(fetch(server, body).content, str)


@pytest.mark.parametrize("piece", [b"<div>", b"<div></span>"])
def test_a_page_that_is_nothing_but_depth_is_refused(server, piece):
    with pytest.raises(ContentError, match="the page needs more than"):
        fetch(server, piece * 80_000)


@pytest.mark.parametrize("hidden", ["", "<!-- </b> -->", "<i title='</b>'></i>"])
@pytest.mark.parametrize(("elements", "paragraphs"), [(2_000, 3_000), (500, 100_000)])
def test_a_page_whose_open_elements_would_be_copied_into_each_paragraph_is_refused(
    server, elements, paragraphs, hidden
):
    body = "<p>" + "".join(f"<b a={n}>{hidden}" for n in range(elements)) + "<p>x" * paragraphs
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ContentError, match="the page needs more than"):
        fetch(server, page(body))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "KiB"


def test_a_page_that_closes_what_it_opens_is_read(server):
    assert len(fetch(server, page("<p><b>one</b> <a href=x>two</a></p>" * 50_000)).content.split()) == 100_000
    body = "<a name=x>one</p>" * 4_000 + "<p>two</p>" * 10_000  # an <a> closes the one before it
    assert len(fetch(server, page(body)).content.split()) == 14_000


def test_a_long_and_flat_page_is_read(server):
    body = page("<div><p>one<li>two<br><img src=x></div>" * 20_000)

    assert len(fetch(server, body).content.split()) == 40_000


def test_without_its_package_it_says_what_to_install(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "selectolax", None)

    with pytest.raises(ConfigError, match=r"pip install 'outlast\[feeds\]'"):
        fetch(server, page())
