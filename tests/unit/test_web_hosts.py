"""Names that are answered to, and where a change may come from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import ConfigError
from outlast.web.access.hosts import LOOPBACK, allowed_names, is_loopback, is_same_origin, single_header, split_host


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("localhost", ("localhost", "")), ("LOCALHOST:80", ("localhost", "80")), ("127.0.0.1:8787", ("127.0.0.1", "8787")),
        ("[::1]:8787", ("::1", "8787")), ("[0:0:0:0:0:0:0:1]", ("::1", "")), ("jobs.example.com", ("jobs.example.com", "")),
        ("a_b", ("a_b", "")),
    ],
)  # fmt: skip
def test_a_host_is_a_name_and_a_port(given, told):
    assert split_host(given) == told


@pytest.mark.parametrize(
    "given",
    [
        None, "", " localhost", "localhost ", "localhost:", "localhost:x", "localhost:123456", "localhost,evil.example",
        "localhost.", "evil.example#localhost", "evil@localhost", "localhost/", "::1", "[::1", "[::1]x", "[:::1]", "[localhost]",
        "localhost\n", "lo\0calhost", "ｌocalhost", "-x", "localhost:80:80", "a" * 256, "http://localhost",
    ],
)  # fmt: skip
def test_what_is_no_host(given):
    assert split_host(given) is None


def test_a_header_counts_when_it_is_there_once():
    assert single_header([(b"host", b"a"), (b"x", b"b")], b"host") == "a"
    assert single_header([(b"Host", b"a")], b"host") == "a"
    assert single_header([(b"host", b"a"), (b"host", b"a")], b"host") is None
    assert single_header([], b"host") is None
    assert single_header([(b"host", b"\xff")], b"host") is None


def test_names_that_can_be_allowed():
    assert allowed_names(LOOPBACK) == {"localhost", "127.0.0.1", "::1"}
    assert allowed_names(["[::1]", "Jobs.Example.com"]) == {"::1", "jobs.example.com"}
    assert allowed_names("one.example") == {"one.example"}


@pytest.mark.parametrize("name", ["*", "https://x", "x:80", "*.example.com", "", "x/", "x y"])
def test_names_that_cannot(name):
    with pytest.raises(ConfigError, match="not a valid host name"):
        allowed_names([name])


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("http://localhost:8787", "localhost:8787", True),
        ("https://jobs.example.com", "jobs.example.com", True),
        ("https://jobs.example.com", "jobs.example.com:443", True),
        ("http://localhost", "localhost:80", True),
        ("http://[::1]:8787", "[::1]:8787", True),
        ("HTTP://localhost:8787", "localhost:8787", False),
        ("http://localhost:3000", "localhost:8787", False),  # another program of this machine
        ("http://localhost", "localhost:8787", False),
        ("http://127.0.0.1:8787", "localhost:8787", False),
        ("https://localhost:8787.evil.example", "localhost:8787", False),
        ("http://evil.example", "localhost:8787", False),
        ("http://localhost:8787@evil.example", "localhost:8787", False),
        ("http://localhost:8787/", "localhost:8787", False),
        ("null", "localhost:8787", False),
        ("", "localhost:8787", False),
        (None, "localhost:8787", False),
        ("file://", "localhost:8787", False),
        ("http://", "", False),
        ("http://localhost:8787, http://evil.example", "localhost:8787", False),
        ("chrome-extension://localhost:8787", "localhost:8787", False),
    ],
)
def test_whose_page_sent_it(origin, host, same):
    assert is_same_origin(origin, host) is same


@pytest.mark.parametrize(
    ("origin", "asked_by", "same"),
    [
        ("https://jobs.example.com", "https", True),
        ("http://jobs.example.com", "https", False),  # nothing is safe on that page
        ("https://jobs.example.com", "http", True),  # a proxy speaks https for us
        ("http://jobs.example.com", "http", True),
    ],
)
def test_a_page_of_http_is_none_of_ours_behind_https(origin, asked_by, same):
    assert is_same_origin(origin, "jobs.example.com", asked_by) is same


@given(st.text(max_size=40), st.sampled_from(["localhost:8787", "[::1]:1"]))
def test_no_other_text_is_our_origin(origin, host):
    if is_same_origin(origin, host):
        assert origin.lower() in {f"http://{host}", f"https://{host}"}


@pytest.mark.parametrize(("host", "local"), [("127.0.0.1", True), ("::1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False), ("", False), ("::", False), ("192.168.1.4", False)])  # fmt: skip
def test_addresses_of_this_machine_alone(host, local):
    assert is_loopback(host) is local
