"""The site is built without a warning, asks nobody outside, and has all there is: read from the code, looked for in it."""

import ast
import html
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import outlast
import outlast.engines
from browser.window import launched
from doc_pages import DOCS, FENCE, PAGES, ROOT, read, table
from outlast import config
from outlast.cli import cli
from outlast.decide.decision import AlertKind
from outlast.observe.metrics import METRICS
from outlast.observe.otel import SPAN_EVENTS
from outlast.ports.rows import Reason, Status
from outlast.testing import plugin

pytestmark = [
    pytest.mark.xdist_group("docs_site"),  # so that it is built once
    pytest.mark.timeout(300),  # which takes a while where others work beside it
]

OUTSIDE = re.compile(
    r"""<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=["'](?:https?:)?//|@import|url\(["']?https?:"""
)


@pytest.fixture(scope="module")
def building(tmp_path_factory):
    """The site, built as `make docs` does: its folder, and what Sphinx had to say."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--keep-going", "-n", "-q", "-d", str(folder / "trees")]
    done = subprocess.run([*command, str(DOCS), str(folder / "site")], capture_output=True, text=True, check=False)
    return folder / "site", done


@pytest.fixture(scope="module")
def built(building):
    return building[0]


@pytest.fixture(scope="module")
def said(built):
    """The words of each page of the site, by its name."""
    texts = {}
    for page in built.rglob("*.html"):
        body = page.read_text("utf-8").partition('<article role="main"')[2].partition("</article>")[0]
        texts[str(page.relative_to(built).with_suffix(""))] = html.unescape(re.sub(r"<[^>]+>", "", body))
    return texts


def missing(names, text):
    return [name for name in names if not re.search(rf"(?<![\w-]){re.escape(str(name))}(?![\w-])", text)]


def test_it_is_built_without_a_warning(building):
    done = building[1]

    assert done.stderr.replace(str(ROOT), "").splitlines() == []
    assert done.returncode == 0


def test_every_page_is_there(built):
    sources = [page.relative_to(DOCS) for page in DOCS.rglob("*.md") if page != DOCS / "README.md"]

    assert [str(page) for page in sources if not (built / page.with_suffix(".html")).is_file()] == []


def _dead(built, page):
    """The links and pictures of a Markdown file of the site that lead nowhere in it."""
    found = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]+)", FENCE.sub("", page.read_text("utf-8")))
    targets = [(target, (page.parent / target).resolve()) for target in found if "/" in target or "." in target]
    return [target for target, file in targets if not file.is_file() or not file.is_relative_to(built)]


def test_every_page_has_its_markdown_beside_it(built):
    pages = [page.relative_to(DOCS) for page in DOCS.rglob("*.md") if page != DOCS / "README.md"]
    texts = {page: (built / page).read_text("utf-8") for page in pages}

    assert [str(page) for page, text in texts.items() if not text.startswith(("# ", "<!--"))] == []
    assert {str(page): dead for page in pages if (dead := _dead(built, built / page))} == {}
    assert "```{toctree}" not in "".join(texts.values())
    assert "Medians of per-round ratios" in texts[Path("project/measured-speed.md")]
    assert "](tutorial/your-first-worker.md)" in texts[Path("index.md")]


def test_llms_txt_lists_every_page_with_a_line_about_it(built):
    text = (built / "llms.txt").read_text("utf-8")
    entries = re.findall(r"^- \[([^\n]+?)\]\(([^)]+)\)(?:: (.+))?$", text, re.MULTILINE)
    pages = {str(page.relative_to(built)) for page in built.rglob("*.md")} - {"index.md"}

    assert re.match(r"# Outlast\n\n> [^\n]+\n\n## Learn\n\n- \[", text)
    assert text.count("\n- ") == len(entries)
    assert sorted(target for _, target, _ in entries) == sorted(pages)
    assert [target for title, target, about in entries if not title or not about] == []
    assert text.index("tutorial/your-first-worker.md") < text.index("## Optional") < text.index("decisions/0001")


def test_the_search_works_from_disk_without_a_server(built):
    """A browser lets a page from disk run scripts beside it, and read nothing."""
    page = (built / "search.html").read_text("utf-8")

    assert '<script src="searchindex.js"' in page
    assert (built / "searchindex.js").read_text("utf-8").startswith("Search.setIndex(")


@pytest.mark.needs("chromium")
def test_the_search_finds_pages_in_a_browser_without_a_server(built):
    complaints = []
    with launched() as browser:
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.goto((built / "index.html").as_uri())
        box = page.locator("input[name=q]").first
        box.fill("breaker")
        box.press("Enter")
        page.get_by_text("Search finished").wait_for()
        found = page.locator("#search-results li a")
        titles = found.all_inner_texts()
        found.get_by_text("Protect a resource", exact=True).click()
        page.get_by_role("heading", name="Protect a resource").wait_for()

    assert "Protect a resource" in titles[:5]
    assert not titles[0].startswith("0")  # a decision explains less than a guide
    assert complaints == []


def test_every_page_is_reached_from_the_first(built):
    """By the links of the navigation, which the first page shows."""
    front = (built / "index.html").read_text("utf-8")
    pages = [page for page in DOCS.glob("*/*.md") if not page.name[:4].isdigit()]

    assert [page.name for page in pages if f'href="{page.parent.name}/{page.stem}.html"' not in front] == []


def test_the_first_page_shows_it(built):
    front = (built / "index.html").read_text("utf-8")

    assert 'src="_images/overview.png"' in front
    assert (built / "_images" / "overview.png").is_file()
    assert "No navigation" not in front


def test_nothing_is_asked_of_others(built):
    files = [*built.rglob("*.html"), *built.rglob("*.css")]

    assert [file.name for file in files if OUTSIDE.search(file.read_text("utf-8"))] == []


def test_what_is_taken_in_stands_there_whole(said):
    assert "Written for the people who use Outlast." in said["project/changelog"]
    assert "Medians of per-round ratios" in said["project/measured-speed"]
    assert "Read these five files first" in said["project/contributing"]
    assert "HEALTHCHECK" in said["project/containers"]
    assert "Report a vulnerability" in said["project/security"]


def _modules():
    """All modules that a page imports something from, and those that are public by their place."""
    places = ["outlast", "outlast.errors", "outlast.worker", "outlast.health", "outlast.web", "outlast.testing"]
    places += [f"outlast.engines.{each.name}" for each in pkgutil.iter_modules(outlast.engines.__path__)]
    found = {place: set(importlib.import_module(place).__all__) for place in places if "_" not in place}
    for page in PAGES:
        for block in FENCE.finditer(page.read_text("utf-8")):
            nodes = ast.walk(ast.parse(block[2])) if block[1].startswith("python") else ()
            for node in nodes:
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("outlast"):
                    found.setdefault(node.module, set()).update(each.name for each in node.names)
    return found


MODULES = _modules()


@pytest.mark.parametrize("module", sorted(MODULES))
def test_every_public_name(module, said):
    names = MODULES[module]
    parts = [name for name in names if f"{module}.{name}" in sys.modules]  # a module is no name of its own

    assert missing(names - set(parts) | {module}, said.get(f"reference/api/{module}", "")) == []


def test_every_setting(said):
    keys = {*config._APP_KEYS, *config._POLICY_KEYS, *config._OVERRIDE_KEYS, *config._RULE_KEYS}
    sections = {"[app]", "[policies.NAME]", "[[classify.rules]]", "[redact]", "patterns"}

    assert missing(keys, said["reference/settings"]) == []
    assert [name for name in sections if name not in said["reference/settings"]] == []


def test_every_variable_of_the_environment(said):
    texts = [file.read_text("utf-8") for file in (ROOT / "src").rglob("*.py")]
    used = {name for text in texts for name in re.findall(r"\bOUTLAST_[A-Z_]*[A-Z]\b", text)}

    assert used
    assert missing(used, said["reference/settings"]) == []


def test_every_event_and_its_fields(said):
    events = {name: getattr(outlast.events, name) for name in outlast.events.__all__}

    assert missing(events, said["reference/events"]) == []
    for name, kind in events.items():
        part = said["reference/events"].partition(f"\n{name}¶")[2].partition("¶")[0]
        assert missing(kind.__dataclass_fields__, part) == [], name


def test_every_name_of_telemetry(said):
    metrics = [name for metric in METRICS.values() for name in (metric.prometheus, metric.otel)]
    spans = [name for name, _ in SPAN_EVENTS.values()]

    page = read("reference/telemetry.md")
    keys = [row[0].strip("`") for title in ("Labels", "Attributes", "Log keys") for row in table(page, title)]

    assert missing([*metrics, *spans, *keys], said["reference/telemetry"]) == []


def _commands(group=cli, path="outlast"):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def test_every_command_and_its_options(said):
    page = said["reference/cli"]
    for name, command in _commands():
        options = [word for each in command.params if isinstance(each, click.Option) for word in each.opts]
        assert missing([name, *options], page) == [], name


def test_every_category(said):
    part = said["reference/classification"].partition("Order of evidence")[0]

    assert missing(outlast.Category, part) == []


@pytest.mark.parametrize(
    ("page", "words"),
    [("queue", Status), ("queue", Reason), ("sources", outlast.SourceState), ("sources", AlertKind)],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_every_word(page, words, said):
    assert missing(words, said[f"reference/{page}"]) == []


def test_every_fixture_and_option_of_the_plugin(said):
    page = said["how-to/test-your-failure-handling"]
    text = Path(plugin.__file__).read_text("utf-8")
    fixtures = re.findall(r"^@pytest.fixture\b.*\n(?:async )?def (\w+)", text, re.MULTILINE)

    assert fixtures
    assert missing([*fixtures, *re.findall(r'"(--[\w-]+)"', text)], page) == []


def test_every_exception(said):
    assert missing(outlast.errors.__all__, said["reference/api/outlast.errors"]) == []
