"""The pages and actions on PostgreSQL, which is stricter about texts and numbers than SQLite."""

import re

import pytest

from outlast.operations.table import OPERATIONS
from outlast.stores.postgres.store import PostgresStore
from outlast.web.access.hook import HookAccess
from outlast.web.site import PAGES, build_site
from web_asking import Client
from web_hostile import MARK, SECRET, make_hostile
from web_table import NAMES, ODD, ROUTES, filled

SCHEMA = "hostile"


@pytest.fixture(name="hostile", scope="module")
def make_world(postgres_server):
    postgres_server.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    made = make_hostile(PostgresStore(postgres_server.url, schema=SCHEMA))
    yield made
    made.app.close()
    postgres_server.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


@pytest.fixture(name="client", scope="module")
def make_client(hostile):
    return Client(build_site(hostile.app, HookAccess(lambda request: "operator")))


def path_of(page, hostile):
    values = hostile.paths.get(page.name, {})
    return filled(page.path, {f"{{{name}}}": value for name, value in values.items()})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_and_its_twin(client, hostile, page):
    path = path_of(page, hostile)
    html, told = client.get(path), client.get(f"/api{path}".rstrip("/"))
    assert (html.status, told.status) == (200, 200), html.text[-500:]
    assert page.name in {"health", "overview", "simulate"} or MARK in html.text
    assert SECRET not in html.text + told.text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_odd_queries_never_break_anything(client, hostile, page):
    names = NAMES if "{" not in page.path and page.name not in {"overview", "health", "simulate"} else ("range",)
    for place, odd in enumerate(ODD):
        alone = names if place % 3 == 0 else ()
        for query in (*(f"{name}={odd}" for name in alone), "&".join(f"{name}={odd[:100]}" for name in NAMES)):
            answer = client.get(f"/api{path_of(page, hostile)}".rstrip("/") + f"?{query}")
            assert answer.status in {200, 400, 404}, (query, answer.text[:500])


@pytest.mark.parametrize("odd", ODD, ids=[each[:20] for each in ODD])
def test_odd_paths_never_break_anything(client, odd):
    for name, path, methods in ROUTES:
        if "{" in path and path.startswith("/api"):
            answer = client.ask("POST" if "POST" in methods else "GET", re.sub(r"\{\w+\}", odd, path))
            assert answer.status in {200, 400, 404}, (name, answer.text[:500])


@pytest.mark.parametrize("action", OPERATIONS, ids=lambda action: action.name)
def test_odd_forms_never_break_anything(client, action):
    fields = ("name", "resource", "reason", "minutes", "number", "back", "from", "id")
    for odd in ODD:
        path = re.sub(r"\{\w+\}", "1", action.path)
        answer = client.post(f"/api{path}", "&".join(f"{field}={odd}" for field in fields))
        assert answer.status in {200, 400, 404}, (odd, answer.text[:500])
