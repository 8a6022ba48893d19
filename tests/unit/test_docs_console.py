"""The examples in the docstrings of modules, as the reference shows them, print what they say."""

import doctest
import importlib
import logging
import sqlite3
import sys
from types import ModuleType, SimpleNamespace

import httpx
import pytest

import outlast
from doc_pages import DOCS, FENCE
from outlast.http import RetryTransport
from outlast.jobs.etl import SqliteStaging

EXAMPLES = {
    page.stem: block[2]
    for page in sorted((DOCS / "reference" / "api").glob("*.md"))
    for block in FENCE.finditer(page.read_text("utf-8"))
    if block[1].strip() == "python-console"
}


def _client(**functions):
    """A module `shop.client` with these functions."""
    module = ModuleType("shop.client")
    for name, function in functions.items():
        function.__module__ = module.__name__
        setattr(module, name, function)
    return module


@pytest.fixture
def names(monkeypatch, tmp_path):
    """What the examples take for granted."""

    @outlast.retry
    def fetch(key):
        return {"name": key}, {}

    def collect():
        client.fetch("tea")

    client = _client(fetch=fetch)
    monkeypatch.setitem(sys.modules, "shop", SimpleNamespace(client=client))
    monkeypatch.setitem(sys.modules, "shop.client", client)
    monkeypatch.chdir(tmp_path)
    app = outlast.App("memory://")
    SqliteStaging("app.db").create()
    yield {
        "app": app,
        "db": sqlite3.connect(":memory:", check_same_thread=False),
        "scheduler": SimpleNamespace(running=True),
        "fetch": lambda source_id: {"id": source_id, "price": 5},
        "normalize": lambda document: document,
        "apply": lambda *_: None,
        "collect": collect,
        "logging": logging,
        "httpx": httpx,
        "RetryTransport": RetryTransport,
    }
    app.close()


@pytest.mark.parametrize("module", EXAMPLES)
def test_the_example_of_a_module_runs(module, names, record_property):
    record_property("examples", [1, 0])
    loaded = importlib.import_module(module)
    public = {name: getattr(loaded, name) for name in getattr(loaded, "__all__", ())}
    example = doctest.DocTestParser().get_doctest(EXAMPLES[module], vars(loaded) | public | names, module, None, 0)
    said = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=said.append)

    assert result.failed == 0, "".join(said)
    assert result.attempted
