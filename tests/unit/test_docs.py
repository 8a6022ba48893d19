"""The documentation is true: its Python runs, what it says is printed is printed, and its links lead somewhere."""

import io
import itertools
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import celery._state
import httpx
import httpx2
import pytest
import requests
import stamina
import urllib3

import outlast
from doc_pages import DOCS, PAGES, ROOT, dead_links, name_of, read, run
from outlast.classify import default_classifier, use_classifier
from outlast.testing import fake_clock
from outlast.worker import HandledError

INDEX = read("README.md")
ALL = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md")), ROOT / "examples" / "container" / "README.md"]

_PAGE = '<h1>Tea</h1> <p class="price">{}</p> <footer>You are visitor {}</footer>'
_FEED = '<rss version="2.0"><channel><title>News</title><item><guid>1</guid><title>Tea</title></item></channel></rss>'


@pytest.fixture
def world(monkeypatch, tmp_path):
    """A folder, a registry and subscribers of the page's own, and nobody waits."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_CONFIG", raising=False)
    monkeypatch.setattr("outlast.run.resources._resources", {})
    monkeypatch.setattr("outlast.record.bus.subscribers", ())
    monkeypatch.setattr(celery._state._tls, "current_app", celery._state._tls.current_app)
    before = default_classifier()
    with fake_clock():
        yield tmp_path
    use_classifier(before)
    stamina.instrumentation.set_on_retry_hooks(None)  # the ones it begins with


@pytest.fixture
def example_server(monkeypatch):
    """What servers answer, to httpx, httpx2 and requests and without a network.

    Each path of api.example.com goes through its answers in turn. The server on port 8000 of this machine has the files
    of the folder site, as ``python -m http.server 8000 --directory site`` would.
    """
    fine, down = (200, {}, "fine"), (503, {}, "")
    answers = {
        "/items": [down, down, (200, {}, json.dumps([1, 2, 3]))],
        "/orders": [down, (200, {}, json.dumps({"accepted": True}))],
        "/limited": [(429, {"Retry-After": "7"}, ""), fine],
        "/busy": [(429, {"Retry-After": "120"}, "")],
        "/down": [down],
        "/gone": [(404, {}, "")],
        "/private": [(403, {}, ""), (403, {}, ""), fine],
        "/well": [fine],
        "/prices": [(200, {}, _PAGE.format(*each)) for each in [("4.20", 1), ("4.20", 2), ("3.90", 3)]],
        "/feed.xml": [(200, {}, _FEED)],
    }
    turns = {path: itertools.cycle(each) for path, each in answers.items()}

    def answer(url):
        parts = urlsplit(url)
        if parts.netloc == "127.0.0.1:8000":
            file = Path("site", parts.path.lstrip("/"))
            return (200, {}, file.read_text("utf-8")) if file.is_file() else (404, {}, "")
        assert parts.netloc == "api.example.com"
        return next(turns[parts.path])

    for library in (httpx, httpx2):

        def respond(self, request, library=library):
            status, headers, text = answer(str(request.url))
            return library.Response(status, headers=headers, text=text, request=request)

        async def respond_async(self, request, respond=respond):
            return respond(self, request)

        monkeypatch.setattr(library.HTTPTransport, "handle_request", respond)
        monkeypatch.setattr(library.AsyncHTTPTransport, "handle_async_request", respond_async)

    def send(adapter, request, *_, **__):
        status, headers, text = answer(request.url)
        raw = urllib3.HTTPResponse(io.BytesIO(text.encode()), headers, status, preload_content=False)
        return adapter.build_response(request, raw)

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_python_of_a_page_runs(page, world, example_server):
    run(page, world, **({"outlast": outlast} if page.parent == ROOT else {}))


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page):
    assert dead_links(page) == []


def test_every_page_stands_in_the_index():
    """All but the generated pages of modules, the decisions, which have lists of their own, and what is taken in."""
    pages = [str(page.relative_to(DOCS)) for page in DOCS.glob("*/*.md")]
    listed = [name for name in pages if not name.startswith(("decisions/0", "project/"))]

    assert [name for name in listed if f"({name})" not in INDEX] == []


def test_every_decision_stands_in_the_list():
    decisions = sorted(DOCS.glob("decisions/0*.md"))

    assert re.findall(r"\((0\d+-[\w-]+\.md)\)", read("decisions/README.md")) == [page.name for page in decisions]


def test_every_public_name_stands_on_a_page_that_people_wrote():
    """Not only in the reference that is made from the code."""
    written = [DOCS / "reference" / f"{name}.md" for name in ("policy", "queue", "sources", "jobs")]
    text = "\n".join(page.read_text("utf-8") for page in [*PAGES, *written])

    assert [name for name in outlast.__all__ if not re.search(rf"\boutlast\.{name}\b", text)] == []


def test_the_names_for_workers_stand_on_their_page():
    page = read("how-to/use-the-worker-names.md")
    keys = HandledError.__annotations__

    assert [name for name in ("BaseWorker", "ErrorHandler") if name not in page] == []
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(keys)


def test_every_example_is_run():
    """By a test that starts it as its reader would, or that uses what it holds."""
    tests = "\n".join(file.read_text("utf-8") for file in (ROOT / "tests").rglob("test_*.py") if file != Path(__file__))
    folders = [each.name for each in (ROOT / "examples").iterdir() if each.is_dir() and each.name[0] not in "._"]

    assert [name for name in folders if not re.search(rf'examples(?:\.|" / "){name}\b', tests)] == []
