"""docs/reference/web.md names every page, action, variable, header and limit of the dashboard, and nothing else."""

import inspect
import re
from pathlib import Path

import pytest

from outlast.operations import MAX_SELECTED, NAME
from outlast.operations.table import OPERATIONS
from outlast.ports.read_rows import MAX_ROWS_SCANNED, MOST_COUNTED
from outlast.web import dashboard, endpoints, forms, headers, live, routing, server
from outlast.web.access import token_access
from outlast.web.access.sign_in import LINK_PATH
from outlast.web.openapi import OPENAPI_PATH
from outlast.web.rendering import EVENTS, METRICS, SIGN_IN, SIGN_OUT, STATIC
from outlast.web.server import Server, serve
from outlast.web.site import PAGES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "web.md").read_text("utf-8")


def test_pages():
    assert _column("Pages", 2) == [page.path for page in PAGES]


def test_filters():
    """The query parameters of a page stand in its row."""
    rows = {
        page.name: next(line for line in _section("Pages").splitlines() if f"| `{page.path}` |" in line)
        for page in PAGES
    }
    for page in PAGES:
        cell = rows[page.name].split("|")[4]
        shown = rows["dead_letters"].split("|")[4] if "those of Dead letters" in cell else cell
        asked = {each.name for each in page.parameters if f"{{{each.name}}}" not in page.path}
        assert asked - {"stayed"} <= set(re.findall(r"`(\w+)`", shown)), page.name


def test_actions():
    assert sorted(_column("Actions", 2)) == sorted(action.path for action in OPERATIONS)


def test_other_paths():
    named = {path.partition("?")[0] for path in _column("Other paths", 1)}

    assert named == {OPENAPI_PATH, EVENTS, METRICS, STATIC, LINK_PATH, SIGN_IN, SIGN_OUT}


def test_headers():
    sent = {name.decode(): value.decode() for name, value in headers._SECURITY_HEADERS}
    sent["content-security-policy"] = headers._content_security_policy("…")
    shown = dict(re.findall(r"^\| `([\w-]+)` \| `(.+?)`", _section("Headers"), re.MULTILINE))

    assert {name.lower(): value for name, value in shown.items()} == sent | {"cache-control": "no-store"}


def test_arguments():
    parameters = inspect.signature(dashboard).parameters

    assert _column("dashboard", 1) == list(parameters)
    assert [name for name in inspect.signature(serve).parameters if f"`{name}`" not in PAGE and name != "app"] == []
    public = {name for name in vars(Server) if not name.startswith("_")}
    assert [name for name in public if f"`{name}()`" not in PAGE] == []


def test_variables():
    assert {token_access.VARIABLE, token_access.READ_VARIABLE} <= set(_column("Environment", 1))


@pytest.mark.parametrize(
    "told",
    [
        f"no more than {MAX_ROWS_SCANNED:,} rows",
        f"not counted beyond {MOST_COUNTED:,}",
        f"up to {MAX_SELECTED} times",
        f"It lasts {token_access.SESSION_SECONDS / 3600:g} hours",
        f"of {token_access._MAX_SESSIONS:,} at once",
        f"has {token_access.MIN_TOKEN_CHARS} characters at least",
        "five are free" if token_access.FREE_ATTEMPTS == 5 else "",
        f"| {forms.MAX_FORM_BYTES // 1024**2} MiB, 16 KiB, within {forms._READ_TIMEOUT:g} s |",
        f"| {routing.MAX_PATH_BYTES:,} and {routing.MAX_QUERY_BYTES:,} bytes |",
        f"| {routing._MAX_QUERY_FIELDS}, {forms._MAX_FORM_FIELDS:,} |",
        f"| {NAME.schema['maxLength']} characters |",
        f"| {endpoints._THREADS}; the others wait |",
        f"| connections | {server._MAX_CONNECTIONS}; one more closes",
        f"| {server._CLIENT_SECONDS:g} s for the head, {server._CLIENT_SECONDS:g} s between two parts of the body |",
        f"| time for a client to take a part of the response | {server._CLIENT_SECONDS:g} s |",
        f"| every {live.TICK_SECONDS:g} s while somebody looks",
        f"| {live.MAX_STREAM_SECONDS / 60:g} minutes; the browser",
    ],
)
def test_numbers(told):
    assert told
    assert told in " ".join(PAGE.split())


def _section(title):
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _column(title, place):
    """The names in one column of the table of a section."""
    rows = re.findall(r"^\|.+$", _section(title), re.MULTILINE)[2:]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[place])]
