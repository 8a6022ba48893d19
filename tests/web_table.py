"""The table of routes of the dashboard, and a hostile store behind it: what the tests of its safety go through."""

import sqlite3
from typing import NamedTuple
from urllib.parse import quote

import pytest
from starlette.routing import Route

import outlast
from outlast.web.access.token_access import TokenAccess, Tokens
from outlast.web.rendering import Assets
from outlast.web.site import PAGES, build_site
from web_asking import Client
from web_hostile import make_hostile

OPERATOR, READER = "the-operators-secret-for-tests-0123456789", "the-readers-secret-for-tests-0123456789"
OPEN = {"enter", "sign_in_page", "sign_in", "sign_out", "static"}  # to those who are not in yet
FORM = ("Content-Type", "application/x-www-form-urlencoded")


class Asking(NamedTuple):
    """One route, and an address of it that leads to something."""

    name: str
    method: str
    path: str


def _routes():
    """Return all routes: of the pages and actions, their twins, and the site's own."""
    site = build_site(outlast.App("memory://"), TokenAccess(Tokens(OPERATOR)))
    assert all(isinstance(route, Route) for route in site.routes)  # nothing is mounted that is not listed
    return [(route.name, route.path, route.methods) for route in site.routes]


ROUTES = _routes()
VARIABLES = {
    **{f"{{{name}}}": "1" for name in ("task_id", "dead_letter_id", "replay_id")},
    "{source_id}": "9",  # not there, for it could be removed
    **{f"{{{name}}}": "x" for name in ("name", "fingerprint", "run_id")},
}


def filled(path, values):
    for variable, value in values.items():
        path = path.replace(variable, quote(value, safe=""))
    return path


def _asking(name, path, methods):
    values = VARIABLES | ({"{name}": Assets().name("outlast.css")} if name == "static" else {})
    return Asking(name, "POST" if "POST" in methods else "GET", filled(path, values))


ASKINGS = [_asking(*route) for route in ROUTES]
CLOSED = [each for each in ASKINGS if each.name not in OPEN]
POSTS = [each for each in ASKINGS if each.method == "POST"]
every = pytest.mark.parametrize("asking", ASKINGS, ids=lambda each: each.name)
every_closed = pytest.mark.parametrize("asking", CLOSED, ids=lambda each: each.name)
every_post = pytest.mark.parametrize("asking", POSTS, ids=lambda each: each.name)
every_closed_post = pytest.mark.parametrize(
    "asking", [each for each in POSTS if each.name not in OPEN], ids=lambda each: each.name
)
every_get = pytest.mark.parametrize(
    "asking", [each for each in ASKINGS if each.method == "GET"], ids=lambda each: each.name
)
page_names = [page.name for page in PAGES]
every_page = pytest.mark.parametrize("page", PAGES, ids=page_names)


ODD = [
    "%00", "%ff", "%c0%ae%c0%ae", "%ed%a0%80", "..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "..%5c..%5c", "%0d%0aX-Evil:%201",
    "%E2%80%AE", "1%00", "-1", "0", "99999999999999999999", "9223372036854775808", "9223372036854775807", "1e3", "1.0", "0x1", "%D9%A3", "1;DROP",
    "'", "%25", "%2525", "*", "%", "%zz", "nan", "inf", "%F0%9D%84%9E" * 50, "x" * 1500, "x" * 3000, "NULL", "true", "[]", "{}", "%0a", "%7f", "~",
]  # fmt: skip
NAMES = ("before", "after", "since", "until", "text", "status", "category", "range", "state", "limit", "group", "stayed", "task", "queue", "reason", "job", "profile", "view")  # fmt: skip


class World(NamedTuple):
    hostile: object
    access: TokenAccess
    site: object

    def client(self, role=None, **settings):
        if role is None:
            return Client(self.site, **settings)
        name = self.access.cookie
        return Client(self.site, ("Cookie", f"{name}={self.access.sessions.begin(role, role)}"), **settings)

    def bearer(self, token):
        return Client(self.site, ("Authorization", f"Bearer {token}"), origin=None)

    def path(self, page):
        values = self.hostile.paths.get(page.name, {})
        return filled(page.path, {f"{{{name}}}": value for name, value in values.items()})

    def state(self):
        """Return all that an action could change."""
        with sqlite3.connect(self.hostile.app.store.db.path) as database:
            tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            skipped = {"task_flow", "failure_groups", "workers"}  # which are rolled up, and beat
            return {
                name: database.execute(f"SELECT * FROM {name}").fetchall() for name in tables if name not in skipped
            }


@pytest.fixture(name="world", scope="module")
def make_world(tmp_path_factory):
    hostile = make_hostile(f"sqlite:///{tmp_path_factory.mktemp('hostile') / 'x.db'}")
    access = TokenAccess(Tokens(OPERATOR, READER))
    yield World(hostile, access, build_site(hostile.app, access))
    hostile.app.close()


@pytest.fixture(autouse=True)
def forgiven(world):
    world.access.throttle._failures.clear()
