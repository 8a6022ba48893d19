"""The page of rule suggestions on a real store: what it proposes, to whom, and that it writes nothing."""

import html
import re

import pytest
from starlette.testclient import TestClient

import outlast
from outlast.web import dashboard

SECRET = "hunter2hunter2"
HOSTILE = "<script>alert(1)</script>"


class Grumpy(Exception):
    """Of no library that is known."""


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    app = outlast.App(f"sqlite:///{tmp_path_factory.mktemp('suggestions') / 'outlast.db'}")
    app.create_schema()

    @app.task
    def fetch(n: int):
        raise Grumpy(f"no coffee for {n}, password={SECRET}")

    @app.task
    def parse(n: int):
        raise RuntimeError(f"cannot chew {HOSTILE} today")

    @app.task
    def wait(n: int):
        raise TimeoutError("timed out")

    for n in range(3):
        fetch.enqueue(n=n)
    parse.enqueue(n=1)
    wait.enqueue(n=1)
    app.worker(concurrency=1).drain()
    yield app
    app.close()


@pytest.fixture(params=["reader", "operator"])
def client(app, request):
    with TestClient(dashboard(app, auth=lambda _: request.param), base_url="http://localhost") as client:
        yield client


@pytest.fixture(autouse=True)
def _same_classifier():
    before = outlast.default_classifier()
    yield
    outlast.use_classifier(before)


def rules(page):
    """What would be copied."""
    return [html.unescape(text) for text in re.findall(r"data-copy-text>(.*?)</code>", page, re.DOTALL)]


def test_rules_to_copy(client, tmp_path):
    page = client.get("/suggestions").text
    copied = rules(page)

    assert len(copied) == page.count("data-copy hidden") == 2
    (tmp_path / "outlast.toml").write_text("\n".join(copied), "utf-8")
    first, second = outlast.load_config(tmp_path / "outlast.toml").rules
    assert first.type == f"{__name__}.Grumpy"
    assert outlast.Classifier([second]).classify(RuntimeError(f"cannot chew {HOSTILE} today")).rule.startswith("rule: ")
    assert "3 failures" in page
    assert "in wait" not in page, "what is sure needs no rule"


def test_nothing_is_shown_that_must_not_be(client):
    for path in ("/suggestions", "/api/suggestions"):
        text = client.get(path).text
        assert SECRET not in text
        assert HOSTILE not in text or path.startswith("/api")


def test_as_json(client):
    found = client.get("/api/suggestions").json()["suggestions"]

    assert [(each["title"], each["failures"], each["dead"]) for each in found] == [
        ("Grumpy in fetch", 3, 3), ("RuntimeError in parse", 1, 1),
    ]  # fmt: skip
    assert all(each["toml"].startswith("[[classify.rules]]") for each in found)


def test_it_is_linked_and_links_back(client, app):
    assert 'href="/suggestions"' in client.get("/failures").text
    page = client.get("/suggestions").text
    groups = re.findall(r'href="(/failures/[^"]+)"', page)
    assert len(groups) == 2
    assert all(client.get(group).status_code == 200 for group in groups)


def test_a_rule_that_is_in_use_is_not_proposed_again(client):
    outlast.use_classifier(outlast.Classifier([outlast.Rule(category="data", type=f"{__name__}.Grumpy")]))

    assert [each["title"] for each in client.get("/api/suggestions").json()["suggestions"]] == ["RuntimeError in parse"]


def test_it_changes_nothing(client, app):
    assert client.post("/suggestions", headers={"Origin": "http://localhost"}).status_code in {403, 405}
    assert app.store.audits() == []


def test_nothing_has_failed(tmp_path):
    app = outlast.App(f"sqlite:///{tmp_path / 'outlast.db'}")
    app.create_schema()
    with TestClient(dashboard(app, auth=lambda _: "reader"), base_url="http://localhost") as client:
        assert "No suggestions." in client.get("/suggestions").text
    app.close()
