"""The documentation is true: its Python runs, what it says is printed is printed, and its lists are complete."""

import contextlib
import io
import itertools
import json
import logging
import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import httpx2
import pytest
import requests
import urllib3

import holdfast as hf
from holdfast.classify import default_classifier, use_classifier
from holdfast.config import _OVERRIDE_KEYS, _POLICY_KEYS
from holdfast.decide.backoff import BACKOFFS, JITTERS
from holdfast.decide.presets import PRESETS
from holdfast.run.report import Report
from holdfast.testing import failing, fake_clock
from holdfast.worker import HandledError

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("tutorial/*.md")), *sorted(DOCS.glob("how-to/*.md"))]
POLICY = (DOCS / "reference" / "policy.md").read_text("utf-8")
SOURCES = (DOCS / "reference" / "sources.md").read_text("utf-8")
JOBS = (DOCS / "reference" / "jobs.md").read_text("utf-8")
INDEX = (DOCS / "README.md").read_text("utf-8")

_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


_PAGE = '<h1>Tea</h1> <p class="price">{}</p> <footer>You are visitor {}</footer>'
_FEED = '<rss version="2.0"><channel><title>News</title><item><guid>1</guid><title>Tea</title></item></channel></rss>'


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.fixture
def world(monkeypatch, tmp_path):
    """A folder, a registry and subscribers of the page's own, and nobody waits."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_CONFIG", raising=False)
    monkeypatch.setattr("holdfast.run.resources._resources", {})
    monkeypatch.setattr("holdfast.record.bus._handlers", ())
    before = default_classifier()
    with fake_clock():
        yield tmp_path
    use_classifier(before)


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
    """Blocks run in order in one namespace; a text block after one is what it prints, a toml block is the settings."""
    text = page.read_text("utf-8")
    namespace, printed = {"__name__": page.stem} | ({"hf": hf} if page.parent == ROOT else {}), None
    for block in _FENCE.finditer(text):
        kind, content = block[1].strip(), block[2]
        line = text.count("\n", 0, block.start()) + 1
        if kind == "python":
            out = io.StringIO()
            code = compile("\n" * line + content, name_of(page), "exec")  # errors show the page's own lines
            with contextlib.redirect_stdout(out):
                exec(code, namespace)
            printed = out.getvalue()
        elif kind == "text":
            assert printed is not None, f"line {line}: nothing ran before"
            assert printed.strip() == content.strip(), f"line {line}"
            printed = None
        elif kind == "toml":
            (world / "holdfast.toml").write_text(content, "utf-8")


@pytest.mark.parametrize("page", [*PAGES, DOCS / "README.md", DOCS / "reference" / "policy.md"], ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page):
    text = _FENCE.sub("", page.read_text("utf-8"))

    for target, anchor in _LINK.findall(text):
        if target.startswith("http"):
            continue
        file = (page.parent / target).resolve()
        assert file.exists(), target
        if anchor:
            assert anchor[1:] in _anchors(file), target + anchor


def _anchors(file):
    headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent != ROOT], ids=name_of)
def test_every_page_stands_in_the_index(page):
    assert f"({page.relative_to(DOCS)})" in INDEX


def test_every_public_name_stands_on_a_page_that_people_wrote():
    """Not only in the reference that is made from the code."""
    written = [DOCS / "reference" / f"{name}.md" for name in ("policy", "queue", "sources", "jobs")]
    pages = [*PAGES, *DOCS.glob("explanation/*.md"), *written]
    text = "\n".join(page.read_text("utf-8") for page in pages)

    assert [name for name in hf.__all__ if not re.search(rf"\bhf\.{name}\b", text)] == []


def test_the_names_for_workers_stand_on_their_page():
    page = (DOCS / "how-to" / "use-the-worker-names.md").read_text("utf-8")
    keys = HandledError.__annotations__

    assert [name for name in ("BaseWorker", "ErrorHandler") if name not in page] == []
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(keys)


class TestThePolicyPage:
    """docs/reference/policy.md names all there is, and nothing else."""

    def test_options(self):
        assert _rows("Options") == [*hf.RetryPolicy._fields[:1], "max_retries", *hf.RetryPolicy._fields[1:]]

    def test_the_verdict(self):
        rows = re.findall(r"^\| (`.+?) \|", _section("The verdict"), re.MULTILINE)

        assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted([*hf.Failure._fields, "fingerprint"])

    def test_choices(self):
        assert [name for name in (*BACKOFFS, *JITTERS) if f'`"{name}"`' not in POLICY] == []

    def test_presets(self):
        assert _rows("Presets") == list(PRESETS)

    @pytest.mark.parametrize("name", PRESETS)
    def test_the_numbers_of_a_preset(self, name):
        policy = PRESETS[name]
        row = next(line for line in _section("Presets").splitlines() if line.startswith(f"| `{name}`"))
        cells = [cell.strip() for cell in row.split("|")[2:5]]

        assert cells == [str(policy.max_attempts), f"{policy.base_delay:g} s", f"{policy.max_delay:g} s"]

    def test_stop_reasons(self):
        described = re.search(r"reason: (.*?)retry_at:", Report.__doc__, re.DOTALL)[1]

        assert sorted(_rows("Stop reasons")) == sorted(re.findall(r"``(\w+)``", described))

    def test_events(self):
        assert _rows("Events") == [name for name in hf.events.__all__ if name != "Event"]

    def test_the_fields_of_events(self):
        for name in _rows("Events"):
            row = next(line for line in _section("Events").splitlines() if line.startswith(f"| `{name}`"))
            fields = getattr(hf.events, name).__dataclass_fields__
            assert re.findall(r"`(\w+)`", row.split("|")[3]) == list(fields), name

    def test_exceptions(self):
        assert sorted(_rows("Exceptions")) == sorted(hf.errors.__all__)

    def test_settings_of_a_breaker(self):
        assert _rows("Breaker") == list(hf.BreakerSettings._fields)

    @pytest.mark.parametrize(("title", "kind"), [("Options", hf.RetryPolicy), ("Breaker", hf.BreakerSettings)])
    def test_defaults(self, title, kind):
        value = kind()
        rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", _section(title), re.MULTILINE)

        assert {name: cell for name, cell in rows if cell != "–"} == {
            name: _shown_default(getattr(value, name)) for name in kind._fields
        }

    def test_keys_of_the_file(self):
        cells = re.findall(r"^\| (`.+?) \|", _section("In holdfast.toml", 3), re.MULTILINE)

        assert sorted(re.findall(r"`(\w+)`", " ".join(cells))) == sorted(_POLICY_KEYS)

    def test_keys_of_an_override_in_the_file(self):
        row = next(line for line in _section("In holdfast.toml", 3).splitlines() if line.startswith("| `overrides`"))

        assert sorted(re.findall(r"`(\w+)`", row.split("|")[2])) == sorted(_OVERRIDE_KEYS)

    def test_every_public_name_of_retrying(self):
        homes = ("holdfast.run.", "holdfast.decide.", "holdfast.record.", "holdfast.config")
        elsewhere = {  # have a page of their own
            "holdfast.decide.health": SOURCES,
            "holdfast.decide.profiles": SOURCES,
            "holdfast.decide.gate": JOBS,
        }
        pages = {name: elsewhere.get(home, POLICY) for name, home in hf._HOMES.items()}
        names = [name for name, home in hf._HOMES.items() if home.startswith(homes)]

        assert [name for name in names if not re.search(rf"\bhf\.{name}\b", pages[name])] == []

    def test_log_keys(self, caplog):
        """Whatever a record carries beyond the standard library's own."""
        caplog.set_level(logging.DEBUG, "holdfast.retry")
        fetch = hf.retry(max_attempts=2)(failing(lambda: None, [TimeoutError()] * 2))
        with fake_clock(), pytest.raises(TimeoutError):
            fetch()

        usual = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
        extra = {key for record in caplog.records for key in record.__dict__} - usual
        assert set(_rows("Log")) == extra


def test_a_page_shows_policies_in_a_file(tmp_path):
    """Every key that a policy can have in holdfast.toml, but two that stand for others."""
    page = (DOCS / "how-to" / "write-rules.md").read_text("utf-8")
    shown = [block[2] for block in _FENCE.finditer(page) if block[1] == "toml" and "[policies." in block[2]]
    file = tmp_path / "holdfast.toml"
    file.write_text("".join(shown), "utf-8")

    assert set(hf.load_config(file).policies) == {"shop", "nightly"}
    used = set(tomllib.loads(shown[0])["policies"]["shop"])
    assert set(_POLICY_KEYS) - used == {"max_retries", "nested"}


def _shown_default(value):
    if value is hf.RETRYABLE:
        return "`hf.RETRYABLE`"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, float):
        return f"{value:g} s"
    return "none" if value == {} else str(value)


def _section(title, depth=2):
    return POLICY.partition(f"\n{'#' * depth} {title}\n")[2].partition("\n##")[0]


def _rows(title):
    """The names in the first cells of a section's table; subsections do not count."""
    return re.findall(r"^\| `(\w+)`", _section(title), re.MULTILINE)
