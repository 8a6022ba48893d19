"""Sources that could never be polled are refused before the first request, all at once (B1)."""

import sys
from datetime import UTC, datetime

import httpx
import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outlast.decide.source_health import SourceHealth
from outlast.errors import ConfigError
from outlast.ports.source_rows import NewSource, Source
from outlast.sources.registry import check_sources, normalize_url, source_problems


def of(url="http://example.test/feed", **more):
    return source_problems([NewSource(url, "feed", **more)])


@pytest.mark.parametrize(
    "url",
    [
        "http://example.test",
        "https://example.test/feed?a=b&c=%20#top",
        "HTTP://EXAMPLE.TEST:8080/Feed",
        "http://127.0.0.1:9999/",
        "http://[::1]:80/feed",
        "https://user:password@example.test/feed",
        "https://user:p:w@d@example.test/feed",
        "https://日本語.jp/フィード",
        "https://xn--wgv71a119e.jp/",
        "http://localhost/",
        "http://example.test./",
        "http://under_score.example.test/",
        "http://3com.example/",
        "  http://example.test/feed\n",
        "http://example.test/@user.rss",
        "http://example.test:/feed",
        "http://" + "a" * 63 + ".test/",
        "http://example.test/" + "a" * 2028,
    ],
)
def test_a_url_that_can_be_polled_has_no_problem(url):
    assert of(url) == []


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "start with http:// or https://"),
        ("example.test/feed", "start with http:// or https://"),
        ("ftp://example.test/feed", "start with http:// or https://"),
        ("file:///etc/passwd", "start with http:// or https://"),
        ("javascript:alert(1)", "start with http:// or https://"),
        ("http:/example.test", "start with http:// or https://"),
        ("http://", "no host"),
        ("http:///feed", "no host"),
        ("http://user@/feed", "no host"),
        ("http://:80/feed", "no host"),
        ("http://example.test/a b", "spaces or control characters"),
        ("http://exa\tmple.test/", "spaces or control characters"),
        ("http://example.test/\x00", "spaces or control characters"),
        ("http://example.test/\u202egpj", "spaces or control characters"),
        ("http://example.test:0/", "port"),
        ("http://example.test:65536/", "port"),
        ("http://example.test:http/", "port"),
        ("http://example.test:-1/", "port"),
        ("http://example.test:８０/", "port"),
        ("http://a..b/", "is not a valid host name"),
        ("http://.test/", "is not a valid host name"),
        ("http://" + "a" * 64 + ".test/", "is not a valid host name"),
        ("http://" + ".".join(["a" * 60] * 5) + "/", "is not a valid host name"),
        ("http://exa%mple.test/", "is not a valid host name"),
        ("http://☃.net/", "is not a valid host name"),
        ("http://example.test,other.test/", "is not a valid host name"),
        ("http://999.1.1.1/", "not a valid IPv4 address"),
        ("http://1.2.3/", "not a valid IPv4 address"),
        ("http://[::g]/", "not a valid IPv6 address"),
        ("http://[127.0.0.1]/", "not a valid IPv6 address"),
        ("http://[::1/", "the host of the URL is not valid"),
        ("http://good.test\\@evil.test/", "the host of the URL is not valid"),
        ("http://a:b:c/", "port"),
        ("http://example.test/" + "a" * 2029, "2,049 characters; the limit is 2,048"),
        (None, "must be a text"),
        (b"http://example.test/", "must be a text"),
    ],
)
def test_a_url_that_cannot_be_polled_is_a_problem(url, problem):
    (found,) = of(url)

    assert problem in found
    assert "\n" not in found
    assert len(found) < 400


@pytest.mark.parametrize(
    "url",
    [
        "ftp://user:hunter2@example.test/",
        "http://user:hunter2@example.test:0/",
        "http://user:hunter2@/",
        "http://user:hun ter2hunter2@example.test/",
        "http://user:hunter2/hunter2@example.test:0/",
        "http://hunter2@999.1.1.1/",
        "user:hunter2@example.test",
        "user:hunter2@example.test/a@b",
        "//user:hunter2@example.test/",
        "http://user:hunter2\\@example.test/",
        "http://user:hunter2\x00@example.test/",
        "http://user:hunter2@a..b/",
        "http://user:hunter2@example.test/" + "a" * 3000,
        "http://example.test:0/?api_key=hunter2",
    ],
)
def test_credentials_are_never_shown(url):
    found = of(url)

    assert found
    assert "hunter2" not in " ".join(found)


@pytest.mark.parametrize("selector", ["p", "#news > .item:first-child", "a[href^='/blog']", "h1, h2", None])
def test_a_selector_that_parses_has_no_problem(selector):
    assert of(selector=selector) == []


@pytest.mark.parametrize("selector", ["", "  ", "p >", "a[", "..x", "p::before", "div:unheard-of", "p\0", 5])
def test_a_selector_that_does_not_parse_is_a_problem(selector):
    (found,) = of(selector=selector)

    assert "selector" in found
    assert "http://example.test/feed" in found


def test_a_selector_without_its_package_is_a_problem(monkeypatch):
    monkeypatch.setitem(sys.modules, "selectolax", None)

    (found,) = of(selector="p")

    assert "pip install 'outlast[feeds]'" in found
    assert of() == []


def test_a_host_is_looked_at_without_the_clients_package_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "idna", None)

    assert of("http://日本語.jp/") == []
    assert of("http://日本語..jp/") != []


def test_names_have_a_limit():
    assert of(name="n" * 200) == []
    assert "201 characters; the limit is 200" in of(name="n" * 201)[0]
    assert "must be a text" in of(name=None)[0]


def test_all_problems_of_all_sources_are_listed_at_once():
    wrong = [
        NewSource("http://example.test/good", "feed"),
        NewSource("ftp://example.test/one", "feed", selector="p >"),
        NewSource("http://example.test:0/two", "blog", name="n" * 300),
    ]

    with pytest.raises(ConfigError) as caught:
        check_sources(wrong)

    lines = str(caught.value).splitlines()
    assert lines[0] == "4 problems with sources:"
    assert ["one" in line for line in lines[1:]] == [True, True, False, False]
    assert ["two" in line for line in lines[1:]] == [False, False, True, True]
    assert "good" not in str(caught.value)


def test_sources_that_are_kept_already_are_checked_as_well():
    then = datetime(2026, 1, 5, tzinfo=UTC)
    kept = Source(
        1, "http://example.test/", "blog", "", "p >", SourceHealth(), None, None, then, None, None, None, None, None, 0, None,
        None, 0, None, then,
    )  # fmt: skip

    assert len(source_problems([kept, kept._replace(url="gopher://example.test/")])) == 3
    check_sources([kept._replace(selector="p")])


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        (" http://Example.TEST/Feed \n", "http://example.test/Feed"),
        ("HTTPS://example.test:443/a?B=c#d", "https://example.test/a?B=c"),
        ("http://example.test:80", "http://example.test"),
        ("http://example.test:443/", "http://example.test:443/"),
        ("https://example.test:80/", "https://example.test:80/"),
        ("http://User:Pass@Example.test:80/", "http://User:Pass@example.test/"),
        ("http://[2001:DB8::1]:80/", "http://[2001:db8::1]/"),
        ("http://example.test/?", "http://example.test/?"),
        ("http://example.test/a/../b//c", "http://example.test/a/../b//c"),
        ("http://example.test:/x", "http://example.test/x"),
        ("http://example.test/a #b", "http://example.test/a"),
        ("not a url", "not a url"),
        ("", ""),
    ],
)
def test_a_url_is_kept_in_one_form(url, kept):
    assert normalize_url(url) == kept


URLS = st.one_of(
    st.text(),
    st.builds(
        "{}://{}{}{}{}".format,
        st.sampled_from(["http", "HTTPS", "ftp", ""]),
        st.sampled_from(["", "user@", "a:b@", "@"]),
        st.one_of(st.text(max_size=20), st.from_regex(r"\A[A-Za-z0-9.\[\]:-]{0,30}\Z"), st.ip_addresses().map(str)),
        st.sampled_from(["", ":80", ":443", ":", ":x", ":99999"]),
        st.text(max_size=20).map(lambda path: f"/{path}"),
    ),
)


@given(URLS)
@example("http://h:80:80")
@example("http:// #")
def test_the_one_form_of_a_url_is_its_own(url):
    assert normalize_url(normalize_url(url)) == normalize_url(url)


@given(URLS)
@example("http://a.test/\ud800")
@example("http://ß.test/")
@example("http://xn--.test/")
@example("http://0x7f.1/")
@example("http://-a.test/")
@example("http://\u0660.test/")
@example("http://a。b/")
def test_what_has_no_problem_is_a_url_for_both_clients(url):
    if source_problems([NewSource(url, "feed")]):
        return
    kept = normalize_url(url)
    assert source_problems([NewSource(kept, "feed")]) == []
    for library in (httpx, httpx2):
        request = library.Request("GET", kept)
        assert request.url.host
        request.url.raw_host.decode("ascii").strip("[]").encode("idna")
