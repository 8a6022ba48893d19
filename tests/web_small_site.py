"""A dashboard of two pages and one action, which say who came and what was sent."""

import sqlite3

import pytest

import outlast
from outlast.errors import SchemaError
from outlast.operations import InvalidValueError, Parameter, text_kind
from outlast.operations.actions import OperationResult
from outlast.operations.table import Operation
from outlast.web.access.hook import HookAccess
from outlast.web.access.token_access import TokenAccess, Tokens
from outlast.web.routing import PageRoute
from outlast.web.site import build_site
from web_asking import Client

OPERATOR, READER = "the operators secret for all these tests", "the readers secret for all these tests"
SEEN = "what only those who are in may see"
done: list[tuple[str, dict[str, list[str]], str]] = []


def show(asked):
    name = asked.path.get("name", "")
    if name in RAISED:
        raise RAISED[name]
    trouble = {
        "heading": SEEN,
        "text": f"{name} {sorted(asked.query.items())} {asked.operator} {asked.who}",
        "status": 0,
    }
    return {"frame": "_bare.html", "trouble": trouble}


def act(_app, values, who):
    done.append((values["name"], {"id": values["id"]} if values["id"] else {}, who))
    if values["name"] in RAISED:
        raise RAISED[values["name"]]
    return OperationResult(f"did {values['name']}", {"name": values["name"]}, page=values["to"] or "/")


RAISED = {
    "gone": LookupError("there is no <b>such</b> thing"),
    "bad": InvalidValueError("give a number"),
    "locked": sqlite3.OperationalError("unable to open postgresql://user:hunter2@db/x"),
    "schema": SchemaError(0, 4),
    "broken": ZeroDivisionError("password=hunter2"),
}
PAGES = (PageRoute("overview", "/", "error.html", show), PageRoute("thing", "/things/{name}", "error.html", show))
TEXT = text_kind(2000)
CHANGE = Operation(
    "change",
    "Change a thing.",
    act,
    (Parameter("name", TEXT, ""), Parameter("to", TEXT, ""), Parameter("id", TEXT, "", many=True)),
    "thing:{name}".format_map,
    "/things/{name}/change",
    "/",
    {"name": "string"},
)


@pytest.fixture(name="app", scope="module")
def make_app(tmp_path_factory):
    app = outlast.App(f"sqlite:///{tmp_path_factory.mktemp('web') / 'x.db'}")
    yield app
    app.close()


@pytest.fixture(autouse=True)
def clean():
    done.clear()


def own(app, **settings):
    tokens = settings.pop("tokens", Tokens(OPERATOR, READER))
    access = TokenAccess(tokens, **settings)
    return access, build_site(app, access, pages=PAGES, operations=(CHANGE,))


def hooked(app, hook, **settings):
    return build_site(app, HookAccess(hook), pages=PAGES, operations=(CHANGE,), **settings)


def signed_in(site, token=OPERATOR, **settings):
    """Sign in by the form, and return a client with the cookie."""
    answer = Client(site, **settings).post("/sign-in", f"token={token.replace(' ', '+')}")
    assert answer.status == 303, answer
    return Client(site, ("Cookie", answer.cookies()[0].partition(";")[0]), **settings)


def bearer(site, token, **settings):
    return Client(site, ("Authorization", f"Bearer {token}"), origin=None, **settings)
