"""Addresses of pages, and what a path, a query or a form says."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException
from starlette.requests import Request

from outlast.operations import InvalidValueError, parse_row
from outlast.stores.counters import parse_cursor
from outlast.web.forms import read_form
from outlast.web.routing import (
    build_url,
    mount_path,
    query_params,
    relative_path,
)

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=30)


def scope(raw, query=b"", mount=""):
    return {"type": "http", "raw_path": raw, "path": "/unused", "query_string": query, "root_path": mount}


def test_an_address_fills_its_path_and_puts_the_rest_behind_the_question_mark():
    params = {"name": "a/b ü?", "status": "DONE", "none": None, "empty": "", "zero": 0, "many": ["x", "y&"]}
    made = build_url("/mount", "/queues/{name}/pause", params)
    assert made == "/mount/queues/a%2Fb%20%C3%BC%3F/pause?status=DONE&zero=0&many=x&many=y%26"
    with pytest.raises(LookupError, match="needs name"):
        build_url("", "/queues/{name}", {})


@given(TEXTS)
def test_a_name_comes_back_out_of_its_address(name):
    made = build_url("/m", "/tasks/{name}", {"name": name})
    from outlast.web.routing import decode_segment

    path = relative_path(scope(made.encode("ascii"), mount="/m"))
    if name not in {".", ".."}:  # which a browser takes for folders
        assert path.count("/") == 2
    assert decode_segment(path.removeprefix("/tasks/")) == name


@given(TEXTS, TEXTS)
def test_a_query_comes_back_out_of_its_address(name, value):
    query = build_url("", "/", {name: value}).partition("?")[2]
    assert query_params(scope(b"/", query.encode("ascii"))) == {name: value}


@pytest.mark.parametrize(
    ("raw", "mount", "path"),
    [
        (b"/", "", "/"), (b"/m", "/m", "/"), (b"/m/", "/m", "/"), (b"/m/tasks/", "/m", "/tasks"),
        (b"/tasks", "/m", "/tasks"), (b"/mm/tasks", "/m", "/mm/tasks"), (b"/t%61sks", "", "/tasks"),
        (b"/a%2fb", "", "/a%2Fb"), (b"//tasks", "", "//tasks"), (b"/m%C3%BC/x", "/mü", "/x"), (b"/x?y", "", "/x"),
        (b"/a/../b", "", "/a/../b"), (b"/%2e%2e/b", "", "/../b"),
    ],
)  # fmt: skip
def test_paths_have_one_spelling(raw, mount, path):
    assert relative_path(scope(raw, mount=mount)) == path


def test_a_proxy_that_took_its_part_of_the_path_away():
    at = {**scope(b"/outlast/tasks", mount="/outer/outlast"), "app_root_path": "/outer"}
    assert relative_path(at) == "/tasks"
    assert mount_path(at) == "/outer/outlast"


def test_a_server_that_gives_no_raw_path():
    assert relative_path({"path": "/a b/ü", "root_path": ""}) == "/a%20b/%C3%BC"


@pytest.mark.parametrize("raw", [b"/%ff", b"/%00", b"/%ed%a0%80", b"/a%c0%af", b"/\xff", b"/" + b"x" * 2049])
def test_paths_that_are_refused(raw):
    with pytest.raises(InvalidValueError):
        relative_path(scope(raw))


@pytest.mark.parametrize("query", [b"a=%ff", b"a=%00", b"%ed%a0%80=1", b"\xff", b"x" * 4097, b"a=1&" * 101])
def test_queries_that_are_refused(query):
    with pytest.raises(InvalidValueError):
        query_params(scope(b"/", query))


def test_of_a_name_that_is_there_twice_the_last_counts_and_what_is_empty_is_left_out():
    assert query_params(scope(b"/", b"a=1&b=&a=2&c")) == {"a": "2"}


def test_a_mount_is_a_path_of_its_own_whatever_it_was_called():
    assert mount_path({"root_path": ""}) == ""
    assert mount_path({}) == ""
    assert mount_path({"root_path": "/"}) == ""
    assert mount_path({"root_path": "//evil.example/;x"}) == "/evil.example/%3Bx"  # never another host, never a header


@pytest.mark.parametrize("text", ["", "0", "-1", "1.0", " 1", "1 ", "٣", "1e3", "x", str(2**63), "9" * 5000, "+1"])
def test_what_is_no_number(text):
    with pytest.raises(InvalidValueError):
        parse_row(text, "id")


def test_pitfall_53_numbers_up_to_what_a_database_holds():
    assert [parse_row(str(each), "id") for each in (1, 2**31, 2**53 + 1, 2**63 - 1)] == [
        1,
        2**31,
        2**53 + 1,
        2**63 - 1,
    ]


def form(body, kind="application/x-www-form-urlencoded", length=None, *, parts=1, **kwargs):
    headers = [(b"content-type", kind.encode())]
    if length is not None:
        headers.append((b"content-length", length.encode()))
    size = -(-len(body) // parts) or 1
    pieces = [body[start : start + size] for start in range(0, len(body), size)] or [b""]

    async def receive():
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    request = Request({"type": "http", "method": "POST", "headers": headers, "query_string": b""}, receive)
    return asyncio.run(read_form(request, **kwargs))


def test_a_form_has_all_values_of_a_name():
    assert form(b"id=1&id=2&x=a+b%20c&empty=", parts=3) == {"id": ["1", "2"], "x": ["a b c"], "empty": [""]}
    assert form(b"", "text/plain") == {}


def test_programs_may_send_json():
    sent = b'{"id": [1, "2", 9007199254740993], "all": true, "rate": 0.5, "none": null, "text": "\\u00e9"}'
    assert form(sent, "application/json; charset=utf-8", takes_json=True) == {
        "id": ["1", "2", "9007199254740993"], "all": ["true"], "rate": ["0.5"], "none": [], "text": ["é"],
    }  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [b"[1]", b"nonsense", b"\xff", b'{"a": {"b": 1}}', b'{"a": [[1]]}', b'{"a": "\\u0000"}', b'{"a": "\\ud800"}',
     b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}"],
)  # fmt: skip
def test_json_that_is_refused(body):
    with pytest.raises(InvalidValueError):
        form(body, "application/json", takes_json=True)


@pytest.mark.parametrize("body", [b"a=%ff", b"\xff=1", b"a=%00", b"a=1&" * 5001])
def test_forms_that_are_refused(body):
    with pytest.raises(InvalidValueError):
        form(body)


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "", "application/json"])
def test_other_kinds_are_not_read(kind):
    with pytest.raises(HTTPException, match="415"):
        form(b"a=1", kind)


@pytest.mark.parametrize("length", ["11", "-1", "x", "9" * 100, ""])
def test_a_length_that_is_too_much_or_none(length):
    with pytest.raises(HTTPException, match="413"):
        form(b"a=1", length=length, most=10)


def test_more_than_was_told_is_not_read():
    with pytest.raises(HTTPException, match="413"):
        form(b"a=" + b"x" * 10, parts=4, length="3", most=10)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{2**63 - 1}.x", (2**63 - 1, "x")),
        (f"{2**63}.x", None),
        (f"-{2**63}.x", None),
        ("99999999999999999999999.x", None),
        ("1.x.y", (1, "x.y")),
        ("x.1", None),
        ("1", None),
        (None, None),
    ],
)
def test_a_place_in_the_list_of_groups_is_one_that_databases_know(text, found):
    assert parse_cursor(text) == found
