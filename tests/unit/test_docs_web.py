"""docs/reference/web.md names every page, action, variable, header and limit of the dashboard, and nothing else."""

import inspect
import re
from pathlib import Path

import pytest

from outlast.ports.read_rows import MOST_COUNTED
from outlast.ports.reads import MOST_LOOKED_AT
from outlast.web import addresses, answering, dashboard, forms, headers, narrowing
from outlast.web.access import sessions, slowing, tokens
from outlast.web.access.signing_in import ENTER
from outlast.web.live import hub
from outlast.web.rendering import EVENTS, METRICS, SIGN_IN, SIGN_OUT, STATIC
from outlast.web.routes import ACTIONS, PAGES
from outlast.web.server import Server, serve

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "web.md").read_text("utf-8")


def test_pages():
    assert _column("Pages", 2) == [page.path for page in PAGES]


def test_filters():
    """What the code of a page takes from the query stands in its row."""
    for page in PAGES:
        row = next(line for line in _section("Pages").splitlines() if f"| `{page.path}` |" in line)
        source = inspect.getsource(page.read)
        asked = set(re.findall(r'(?:query|asked\.query)(?:\.get\(|, )"(\w+)"', source))
        assert asked <= set(re.findall(r"`(\w+)`", row.split("|")[4])), page.name


def test_actions():
    assert sorted(_column("Actions", 2)) == sorted(action.path for action in ACTIONS)


def test_other_paths():
    named = {path.partition("?")[0] for path in _column("Other paths", 1)}

    assert named == {EVENTS, METRICS, STATIC, ENTER, SIGN_IN, SIGN_OUT}


def test_headers():
    sent = {name.decode(): value.decode() for name, value in headers._FIXED}
    sent["content-security-policy"] = headers._policy("…")
    shown = dict(re.findall(r"^\| `([\w-]+)` \| `(.+?)`", _section("Headers"), re.MULTILINE))

    assert {name.lower(): value for name, value in shown.items()} == sent | {"cache-control": "no-store"}


def test_arguments():
    parameters = inspect.signature(dashboard).parameters

    assert _column("dashboard", 1) == list(parameters)
    assert [name for name in inspect.signature(serve).parameters if f"`{name}`" not in PAGE and name != "app"] == []
    public = {name for name in vars(Server) if not name.startswith("_")}
    assert [name for name in public if f"`{name}()`" not in PAGE] == []


def test_variables():
    assert {tokens.VARIABLE, tokens.READ_VARIABLE} <= set(_column("Environment", 1))


@pytest.mark.parametrize(
    "told",
    [
        f"no more than {MOST_LOOKED_AT:,} rows",
        f"not counted beyond {MOST_COUNTED:,}",
        f"up to {narrowing.MOST_CHOSEN} times",
        f"It lasts {sessions.SECONDS / 3600:g} hours",
        f"of {sessions._MOST:,} at once",
        f"has {tokens.SHORTEST} characters at least",
        "five are free" if slowing.FREE == 5 else "",
        f"| {forms.MOST_BYTES // 1024**2} MiB, 16 KiB, within {forms._PATIENCE:g} s |",
        f"| {addresses.LONGEST_PATH:,} and {addresses.LONGEST_QUERY:,} bytes |",
        f"| {addresses._MOST_FIELDS}, {forms._MOST_FIELDS:,} |",
        f"| {narrowing._LONGEST_TEXT} characters |",
        f"| {answering._THREADS}; the others wait |",
        f"| every {hub.TICK:g} s while somebody looks",
        f"| {hub.LONGEST / 60:g} minutes; the browser",
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
