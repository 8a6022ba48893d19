"""The pages of failures and the overview on a real store: what they list, what they say of one, what they never show."""

import re
import time

import pytest
from starlette.testclient import TestClient

import outlast
from outlast import clock, errors
from outlast.ports.read_rows import FailureFilter
from outlast.report.text_format import CATEGORIES
from outlast.web import dashboard

SECRET = "hunter2hunter2"
HOSTILE = "<script>alert(1)</script>"


class Past:
    """The clock of a minute ago."""

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    sleep_async = staticmethod(clock.sleep_async)
    chance = staticmethod(lambda: 0.5)

    def now(self):
        return time.time() - 60.0


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    app = outlast.App(f"sqlite:///{tmp_path_factory.mktemp('failures') / 'outlast.db'}")
    app.create_schema()

    @app.task
    def fetch(url: str):
        raise errors.ResourceNotFoundError(f"HTTP 404 for {url}?password={SECRET}")

    @app.task(
        policy=outlast.RetryPolicy(max_attempts=3, retry_on=outlast.RETRYABLE, base_delay=3600.0, max_delay=3600.0)
    )
    def load(n: int):
        raise ConnectionResetError("Connection reset by peer")

    @app.task
    def parse(n: int):
        raise KeyError(HOSTILE)

    before = clock.use(Past())
    try:
        for number in range(3):
            fetch.enqueue(url=f"https://example.org/{number}")
            parse.enqueue(n=1)
        load.enqueue(n=1)
        app.worker(concurrency=1).drain()
    finally:
        clock.use(before)
    app.store.roll_up()  # the order of groups is that of the last one
    yield app
    app.close()


@pytest.fixture(scope="module")
def client(app):
    return TestClient(dashboard(app, auth=lambda _: "reader"), base_url="http://localhost")


def listed(client, query=""):
    answer = client.get(f"/api/failures{query}")
    assert answer.status_code == 200
    return [group["task_type"] for group in answer.json()["groups"]]


def fingerprint(client, task):
    return next(g["fingerprint"] for g in client.get("/api/failures").json()["groups"] if g["task_type"] == task)


@pytest.mark.parametrize(
    ("query", "tasks"),
    [
        ("", {"fetch", "load", "parse"}),
        ("?category=network", {"load"}),
        ("?category=data", set()),
        ("?task=parse", {"parse"}),
        ("?text=RESET%20by", {"load"}),
        ("?text=resourceNOTfound", {"fetch"}),
        ("?dead=1", {"fetch", "parse"}),
        ("?dead=1&category=not_found&text=404&order=largest", {"fetch"}),
    ],
)
def test_groups_can_be_narrowed(client, query, tasks):
    assert set(listed(client, query)) == tasks
    page = client.get(f"/failures{query}")
    assert page.status_code == 200
    assert {task for task in ("fetch", "load", "parse") if f" in {task}</a>" in page.text} == tasks


def test_the_largest_come_first_when_asked_for(client):
    assert listed(client, "?order=largest")[-1] == "load"


def test_a_group_tells_how_often_and_since_when(client):
    group = next(g for g in client.get("/api/failures").json()["groups"] if g["task_type"] == "fetch")
    assert (group["failures"], group["dead"], sum(group["trend"])) == (3, 3, 3)
    assert len(group["trend"]) == 48
    assert group["first_seen"] <= group["last_seen"]


@pytest.mark.parametrize("query", ["?category=nonsense", "?order=random", "?dead=perhaps", "?text=" + "x" * 300])
def test_what_cannot_narrow_is_refused(client, query):
    assert client.get(f"/failures{query}").status_code == 400
    assert client.get(f"/api/failures{query}").status_code == 400


def test_a_place_that_is_none_is_the_beginning(client):
    assert set(listed(client, "?after=nonsense")) == {"fetch", "load", "parse"}


@pytest.mark.parametrize("name", ["0000000000000000", "nonsense", "%2e%2e%2f", "a'b"])
def test_a_group_that_is_not_there(client, name):
    assert client.get(f"/failures/{name}").status_code == 404
    assert client.get(f"/api/failures/{name}").status_code == 404


def test_the_page_of_a_group_says_why(client):
    name = fingerprint(client, "load")
    page = client.get(f"/failures/{name}").text
    told = client.get(f"/api/failures/{name}").json()
    assert told["verdict"]["category"] == "network"
    assert told["verdict"]["retryable"] is True
    assert told["verdict"]["rule"]
    assert told["verdict"]["rule"] in page
    assert "raise ConnectionResetError" in told["traceback"]
    assert "raise ConnectionResetError" in page
    assert "a retry may help" in page
    assert [sample["attempt"] for sample in told["samples"]] == [1]
    assert f'href="/tasks/{told["samples"][0]["task_id"]}"' in page


def test_the_page_of_a_group_leads_to_its_dead_letters(client):
    name = fingerprint(client, "parse")
    page = client.get(f"/failures/{name}").text
    assert f'href="/dead-letters?group={name}"' in page
    assert "a retry does not help" in page


def test_no_secret_and_no_markup_gets_onto_a_page(client):
    for path in ("/", "/failures", *(f"/failures/{fingerprint(client, task)}" for task in ("fetch", "parse"))):
        for text in (client.get(path).text, client.get(f"/api{path}").text):
            assert SECRET not in text, path
            shown = text.count("password=***") + text.count("password={SECRET}")  # the second: a line of source
            assert text.count("password=") == shown
        assert HOSTILE not in client.get(path).text
    assert "password=***" in client.get(f"/failures/{fingerprint(client, 'fetch')}").text
    assert HOSTILE.replace("<", "&lt;").replace(">", "&gt;") in client.get("/failures").text


@pytest.mark.parametrize(
    ("query", "view"),
    [
        ("", "overview-10m"),  # as all of it is of the last minutes
        ("?range=10m", "overview-10m"),
        ("?range=1h", "overview"),
        ("?range=24h", "page"),
        ("?range=7d", "page"),
    ],
)
def test_the_overview_shows_every_range(client, query, view):
    page = client.get(f"/{query}")
    told = client.get(f"/api{query}").json()
    assert page.status_code == 200
    assert told["headline"]["title"] in page.text
    assert sum(sum(counts) for counts in told["flow"]["failures"].values()) == 7
    assert told["last_hour"]["failures"] == 7
    assert {group["task_type"] for group in told["groups"]} == {"fetch", "load", "parse"}
    assert re.findall(r'data-view="([^"]*)"', page.text) == [view], "only what is kept up to date says so"


def test_pages_are_small_and_have_nothing_inline(client):
    for path in ("/", "/failures", f"/failures/{fingerprint(client, 'load')}"):
        text = client.get(path).text
        parts = [client.get(found).content for found in set(re.findall(r'(?:href|src)="(/static/[^"]+)"', text))]
        assert len(parts) == 4
        assert len(text.encode()) + sum(map(len, parts)) < 100_000
        assert not re.search(r"\sstyle=|\son[a-z]+=|<style|<script(?! src)", text)


def test_the_style_has_a_colour_for_every_category(client):
    css = client.get(re.search(r'href="(/static/[^"]+\.css)"', client.get("/").text)[1]).text
    for category in CATEGORIES:
        name = category.replace("_", "-")
        assert re.search(rf"--c-{name}: light-dark\(#\w{{6}}, #\w{{6}}\);", css)
        assert f".c-{name} {{ --fill: var(--c-{name}); }}" in css


def test_a_group_of_several_tasks_lists_them(tmp_path):
    app = outlast.App(f"sqlite:///{tmp_path / 'outlast.db'}")

    def fail():
        raise KeyError("price")

    tasks = [app.task(name=name)(fail) for name in ("import_prices", "check_prices")]
    app.create_schema()
    for task in tasks:
        task.enqueue()
    app.worker(concurrency=1).drain()
    (group,) = app.store.failures(FailureFilter()).rows
    page = (
        TestClient(dashboard(app, auth=lambda _: "reader"), base_url="http://localhost")
        .get(f"/failures/{group.fingerprint}")
        .text
    )
    assert "KeyError in 2 tasks" in page
    for task in tasks:
        assert f'group={group.fingerprint}&amp;task={task.name}">{task.name}</a> (1 failure)' in page
    app.close()
