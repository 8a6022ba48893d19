"""The dashboard asked for anything in any way: an answer with a status below 500, and nothing of it is markup."""

import re

import pytest
from hypothesis import strategies as st

from fuzz.fuzzing import fuzz, odd_texts
from outlast.web.access.callers import Role
from web_hostile import SECRET
from web_table import (
    NAMES,
    ODD,
    ROUTES,
    filled,
    forgiven,  # noqa: F401  # a fixture
    make_world,  # noqa: F401  # a fixture
)

MARK = "<fuzz-mark onfuzz=1>\"'{{7*7}}"
FIELDS = [
    *NAMES, "name", "resource", "reason", "minutes", "number", "back", "from", "id", "token", "to", "why", "note", "patch", "value", "path", "op", "canary", "rate", "all", "ids",
    "confirm", "fingerprint", "for", "mode", "size", "page", "sort", "kind", "who", "url", "once", "next", "arguments", "filter",
]  # fmt: skip
METHODS = ["GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "X", "G\x7fT"]
ENDING = [route for route in ROUTES if route[0] != "events"]  # whose answer has no end

percented = odd_texts.map(lambda text: "".join(f"%{each:02x}" for each in text.encode("utf-8", "surrogatepass")))
pieces = percented | st.sampled_from([*ODD, MARK.replace("%", "%25").replace(" ", "+"), "1", "x", "on", "default"])
queries = st.lists(st.tuples(st.sampled_from(FIELDS) | pieces, pieces), max_size=6).map(
    lambda pairs: "&".join(f"{name}={value}" for name, value in pairs)
)
headers = st.lists(
    st.tuples(
        st.sampled_from([
            "Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "If-None-Match", "If-Modified-Since", "Range", "Referer", "Origin", "Host", "X-Forwarded-For",
            "X-Forwarded-Host", "Forwarded", "Cookie", "Authorization", "Sec-Fetch-Site", "Last-Event-ID", "HX-Request", "Content-Length", "Transfer-Encoding", "Expect", "Upgrade",
        ]),
        st.sampled_from([
            "*/*", "application/json", "text/html;q=nan", "gzip;q=-1", "bytes=0-", "bytes=-1,5-3", 'W/"x"', "Mon, 99 Foo 0000", "null", "http://[", "http://localhost:8787",
            "localhost:99999", "[::1", "evil.example", "Bearer ", "Basic \xff", "Basic Og==", "Bearer \xe9", "=;=;=", "a=b; a=c", "x" * 5000, "same-origin", "-1", "99999999999", "chunked",
            "application/x-www-form-urlencoded; charset=utf-7", "application/json; charset=punycode", "multipart/form-data; boundary=", MARK,
        ])
        | odd_texts.map(lambda text: text.encode("utf-8", "replace").decode("latin-1").replace("\r", "").replace("\n", "")),
    ),
    max_size=4,
)  # fmt: skip


@st.composite
def askings(draw):
    """Return method, path, headers and body."""
    _, path, methods = draw(st.sampled_from(ENDING))
    path = re.sub(r"\{\w+\}", lambda _: draw(pieces), path) if draw(st.booleans()) else filled(path, KNOWN)
    if draw(st.integers(0, 3)) == 0:
        path = path + draw(st.sampled_from(["/", "//", "/..", "?", "#", ";x", "%2f", "/%00", "/api", ".json"]))
    proper = "POST" if "POST" in methods else "GET"
    method = proper if draw(st.integers(0, 4)) else draw(st.sampled_from(METHODS))
    query = draw(queries)
    form = draw(queries | st.sampled_from(["", "&", "=", "%", "a" * 20_000, "a=1&" * 2000]))
    return method, f"{path}?{query}" if query else path, draw(headers), form.encode("latin-1", "replace")


KNOWN = {"{name}": "x", "{number}": "1", "{fingerprint}": "x", "{run}": "x"}


def judge(asking, answer):
    """See that an answer is one, and that nothing that was sent has become part of the page's markup."""
    assert answer.status < 500, (asking, answer.status, answer.text[-800:])
    assert not any("x-evil" in name for name, _ in answer.headers)
    assert SECRET.encode() not in answer.body
    if (answer.header("content-type") or "").startswith("text/html"):
        assert "<fuzz-mark" not in answer.text, asking
        assert "<xss-a" not in answer.text, asking


@pytest.fixture(autouse=True, scope="module")
def _quick_guesses():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outlast.web.access.token_access._GUESS_DELAY", 0.0)  # guessing is slow elsewhere
        yield


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.READER, None], ids=["operator", "reader", "nobody"])
@fuzz(250, askings())
def test_any_request_is_answered(world, role, asking):
    world.access.throttle._failures.clear()
    method, path, more, body = asking
    client = world.client(role)
    kind = [] if any(name == "Content-Type" for name, _ in more) else [FORM]
    sent = [pair for pair in more if pair[0] not in {"Content-Length", "Host"}] + kind
    answer = client.ask(method, path.encode("utf-8", "replace"), *sent, body=body if method == "POST" else b"")
    judge(asking, answer)
    if role is None and method == "POST" and answer.status < 400:
        assert "sign" in path or answer.status == 303


FORM = ("Content-Type", "application/x-www-form-urlencoded")


@fuzz(100, headers, st.sampled_from(["/", "/api", "/tasks", "/dead-letters", "/static/x", "/nothing"]))
def test_any_headers_are_borne(world, more, path):
    judge(more, world.client(Role.OPERATOR).get(path, *[pair for pair in more if pair[0] != "Host"]))
