"""The documentation is true: its Python runs, what it says is printed is printed, and its links lead somewhere."""

import ast
import re
import tomllib
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from threading import Thread

import celery._state
import pytest
import stamina
import structlog
from prometheus_client import CollectorRegistry

import outlast
from doc_pages import DOCS, FENCE, LINK, PAGES, ROOT, dead_links, examples, name_of, read, run
from outlast.classify import default_classifier, use_classifier
from outlast.testing import fake_clock
from outlast.testing.server import PORT, serve
from outlast.worker import HandledError
from unit.redaction_corpus import secrets, texts_without_secrets

POSTGRES = "postgresql://localhost/shop"  # on pages that use it; a real server in the test
INDEX = read("README.md")
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
ALL = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md")), ROOT / "examples" / "container" / "README.md"]


@pytest.fixture
def world(monkeypatch, tmp_path):
    """A folder, a registry and subscribers of the page's own, and nobody waits."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_CONFIG", raising=False)
    monkeypatch.setenv("SLACK_WEBHOOK", "https://hooks.slack.com/services/T000/B000/XXXX")
    monkeypatch.setattr("outlast.run.resources._resources", {})
    monkeypatch.setattr("outlast.record.bus.subscribers", ())
    monkeypatch.setattr("prometheus_client.REGISTRY", CollectorRegistry())
    monkeypatch.setattr(celery._state._tls, "current_app", celery._state._tls.current_app)
    before = default_classifier()
    with fake_clock():
        yield tmp_path
    use_classifier(before)
    stamina.instrumentation.set_on_retry_hooks(None)  # the ones it begins with
    structlog.reset_defaults()


class Files(SimpleHTTPRequestHandler):
    """Answers in full: within a second, ``http.server`` cannot tell that a file has changed."""

    def do_GET(self):
        del self.headers["If-Modified-Since"]
        super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def hosts(world):
    """The servers that a page tells its reader to start, on other ports."""
    files = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=world / "site"))
    Thread(target=files.serve_forever, args=[0.05], daemon=True).start()
    with serve() as base:
        yield {f"127.0.0.1:{PORT}": base.removeprefix("http://"), "127.0.0.1:8000": f"127.0.0.1:{files.server_port}"}
    files.shutdown()
    files.server_close()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_python_of_a_page_runs(page, world, hosts, record_property, request, monkeypatch):
    text = page.read_text("utf-8")
    record_property("examples", [examples(page)[0], len(examples(page)[1])])
    if POSTGRES in text:
        hosts[POSTGRES] = request.getfixturevalue("postgres_server").url
    if 'os.environ["OUTLAST_URL"]' in text:
        monkeypatch.setenv("OUTLAST_URL", request.getfixturevalue("postgres_server").url)
    run(page, world, hosts)


def test_at_most_three_examples_in_a_hundred_are_not_run():
    ran, skipped = zip(*map(examples, PAGES), strict=True)
    skipped = list(chain(*skipped))

    assert len(skipped) <= 0.03 * (sum(ran) + len(skipped)), skipped


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_an_example_that_is_not_run_says_why(page):
    assert [each for each in examples(page)[1] if not re.fullmatch(r"python no-run: \S.+", each)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_settings_on_a_page_are_valid(page, tmp_path):
    file = tmp_path / "outlast.toml"
    for block in FENCE.finditer(page.read_text("utf-8")):
        if block[1].strip() == "toml":
            file.write_text(block[2], "utf-8")
            outlast.load_config(file)


def test_a_page_that_nobody_runs_has_no_python():
    others = [page for page in ALL if page not in PAGES and page.parent.name != "api"]

    assert [name_of(page) for page in others if examples(page) != (0, [])] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_that_asks_the_server_says_how_to_start_it(page):
    text = page.read_text("utf-8")

    assert "python -m outlast.testing.server" in text or f"127.0.0.1:{PORT}" not in text


def _code(page):
    """The Python of a page without its comments, and everything else that stands in fences."""
    blocks = [(block[1], block[2]) for block in FENCE.finditer((ROOT / page).read_text("utf-8"))]
    return [
        (kind, ast.dump(ast.parse(text)) if kind == "python" else re.sub(" +#.*", "", text)) for kind, text in blocks
    ]


def test_the_readme_is_short_enough_to_be_read():
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 700


def test_the_glossary_has_the_terms_of_the_field_each_with_its_page():
    page = read("explanation/glossary.md")
    entries = re.findall(r"^- (.+(?:\n  .+)*)", page, re.MULTILINE)
    terms = """exponential backoff, jitter, full jitter, equal jitter, retry budget, retry storm, circuit breaker, bulkhead,
        dead letter queue, poison pill, at-least-once, idempotency key, visibility timeout, lease, heartbeat, backpressure,
        rate limit, token bucket, transactional outbox, fencing token, canary, slo, verdict, category, cooldown, deferral,
        source, target, gate, group, fingerprint"""
    named = {term.lower() for term in re.findall(r"\*\*(.+?)\*\*", page)}

    assert [term for term in terms.split(",") if " ".join(term.split()) not in named] == []
    assert [entry for entry in entries if not LINK.search(entry)] == []
    assert len(page.split()) <= 800


def test_the_japanese_readme_has_the_same_code_links_and_sections():
    texts = [(ROOT / name).read_text("utf-8") for name in ("README.md", "README.ja.md")]
    links, japanese = (
        [target for target, _ in LINK.findall(text) if not target.startswith("README")] for text in texts
    )

    assert _code("README.ja.md") == _code("README.md")
    assert sorted(japanese) == sorted(links)
    assert len({text.count("\n## ") for text in texts}) == 1


@pytest.mark.parametrize("page", ["README.md", "README.ja.md"])
def test_the_figures_of_the_readme_are_those_of_their_sources(page):
    """Which have the commands that measure them again."""
    text = re.sub(r"\s+", " ", (ROOT / page).read_text("utf-8"))
    promises, storms = read("explanation/promises.md"), read("explanation/retry-storms.md")
    rows = re.findall(r"^\| ([^|]+) \| ([\d.]+) µs \| ([\d.]+) × \| (\w+)", RESULTS, re.MULTILINE)
    times = {name: float(time) for name, time, _, _ in rows}
    ratios = {(name, against): float(ratio) for name, _, ratio, against in rows}
    drain = "SQLite, drain: Outlast, sync tasks"
    calls = [f"success: {each}" for each in ("outlast.retry, bare", "stamina", "tenacity")]
    tasks, killed = (
        sum(int(cell.split(", ")[0].replace(",", "")) for cell in row.split(" | "))
        for row in re.findall(r"^\| (?:tasks enqueued|workers killed)[^|]*\| (.+) \|$", promises, re.MULTILINE)
    )
    figures = [f"{times[each]:.1f} µs" for each in (*calls, drain)]
    figures += [f" {ratios[drain, 'huey']:.0f} ", f"{tasks:,}", f" {killed} "]
    figures += re.findall(r"^\| ([\d,]+) labelled errors, ([\d,]+) of them", promises, re.MULTILINE)[0]
    figures += re.findall(r"^(?:retries alone|budget): ([\d.]+) calls", storms, re.MULTILINE)

    assert len(figures) == 11
    assert [each for each in figures if each not in text] == []


@pytest.mark.parametrize("page", ["README.md", "README.ja.md", "SECURITY.md", "docs/explanation/promises.md"])
def test_the_figures_of_redaction_are_those_of_its_corpus(page):
    text = (ROOT / page).read_text("utf-8")
    cases = [(shape, case) for shape, case, _ in secrets()]
    figures = [len(cases), len({shape for shape, _ in cases}), len(texts_without_secrets())]
    assert [each for each in figures if f"{each:,}" not in text] == []


@pytest.mark.parametrize("page", ["README.md", "README.ja.md", "docs/how-to/watch-feeds-and-pages.md"])
def test_a_program_that_a_command_imports_does_nothing_on_import(page, world):
    """`outlast worker shop:app` and `outlast monitor feeds:app` must not enqueue, poll or run a job once more."""
    blocks = [block[2] for block in FENCE.finditer((ROOT / page).read_text("utf-8")) if block[1] == "python"]
    programs = [code for code in blocks if 'if __name__ == "__main__":' in code]
    namespace = {"__name__": "shop"}
    for code in programs:
        exec(code, namespace)
    app = namespace["app"]

    assert len(programs) == 1
    assert [count for count in app.tasks.counts().values() if count] == []
    assert list(app.sources.list()) == []
    app.close()


def test_the_extra_http_has_the_clients_of_its_transports():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]

    assert [re.match(r"\w+", each)[0] for each in extras["http"]] == ["httpx", "httpx2"]


def test_no_page_asks_a_host_that_does_not_exist():
    """What can run talks to a server that its reader can start."""
    calls = re.compile(r"""\b(?:get|post|fetch_with_retry(?:_on_403)?)\(.*https?://(?!127\.0\.0\.1)""")
    blocks = [(name_of(page), block[2]) for page in PAGES for block in FENCE.finditer(page.read_text("utf-8"))]

    assert [(name, line) for name, code in blocks for line in code.splitlines() if calls.search(line)] == []


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
    files = [each for each in (ROOT / "examples").iterdir() if each.name[0] not in "._" and each.stem != "scenery"]
    names = [each.stem for each in files if each.is_dir() or each.suffix == ".py"]

    assert [name for name in names if not re.search(rf'examples(?:\.|" / "){name}\b', tests)] == []
