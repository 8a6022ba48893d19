"""Requests as no browser sends them, files that are none of ours, a store that does not answer, and large numbers."""

import asyncio
import json
import logging
import re
import sqlite3

import pytest

import outlast
from outlast.operations.table import OPERATIONS
from outlast.web.access.callers import Role
from outlast.web.access.hook import HookAccess
from outlast.web.access.token_access import TokenAccess, Tokens
from outlast.web.site import PAGES, build_site
from web_asking import Client
from web_hostile import SECRET
from web_table import (
    NAMES,
    ODD,
    OPERATOR,
    READER,
    ROUTES,
    VARIABLES,
    every,
    every_page,
    every_post,
    filled,
    forgiven,  # noqa: F401  # a fixture
    make_world,  # noqa: F401  # a fixture
)

# Odd requests


@pytest.mark.parametrize("odd", ODD, ids=[each[:20] for each in ODD])
def test_odd_paths_never_break_anything(world, odd):
    client = world.client(Role.OPERATOR)
    for name, path, methods in ROUTES:
        if "{" not in path:
            continue
        answer = client.ask("POST" if "POST" in methods else "GET", re.sub(r"\{\w+\}", odd.replace("\\", ""), path))
        assert answer.status in {200, 303, 400, 404, 405}, (name, odd, answer.text[:500])
        assert not any(key == "x-evil" for key, _ in answer.headers)
        assert "root:" not in answer.text


@pytest.mark.parametrize("path", ["/tasks/%ff", f"/failures/{'x' * 3000}"])
def test_a_path_that_is_refused_is_answered_in_json_below_api(world, path):
    html, told = (world.client(Role.OPERATOR).get(f"{prefix}{path}") for prefix in ("", "/api"))
    assert (html.status, html.header("content-type")) == (400, "text/html; charset=utf-8")
    assert (told.status, told.json()["ok"]) == (400, False)
    mounted = world.client(Role.OPERATOR, mount="/ops").get(f"/api{path}")
    assert (mounted.status, mounted.header("content-type")) == (400, "application/json")


@every_page
def test_odd_queries_never_break_anything(world, page):
    client = world.client(Role.OPERATOR)
    for odd in ODD:
        is_list = "{" not in page.path and page.name not in {"overview", "health", "simulate"}
        names = NAMES if is_list and ODD.index(odd) % 3 == 0 else ("range",)
        for query in (*(f"{name}={odd}" for name in names), "&".join(f"{name}={odd[:100]}" for name in NAMES)):
            answer = client.get(f"/api{world.path(page)}".rstrip("/") + f"?{query}")
            assert answer.status in {200, 400, 404}, (query, answer.text[:500])


@every_post
def test_odd_forms_never_break_anything(world, asking, monkeypatch):
    monkeypatch.setattr("outlast.web.access.token_access._GUESS_DELAY", 0.0)  # guessing is slow elsewhere
    client = world.client(Role.OPERATOR)
    fields = ("name", "resource", "reason", "minutes", "number", "back", "from", "id", "token", "to")
    for odd in ODD:
        answer = client.post(asking.path, "&".join(f"{field}={odd}" for field in fields))
        assert answer.status in {200, 303, 400, 401, 404, 413, 429}, (odd, answer.text[:500])
        client = world.client(Role.OPERATOR)  # for who has just signed out
    for kind, body, status in (
        ("text/plain", b"resource=x", 415),
        ("multipart/form-data; boundary=x", b"--x\r\n", 415),
        ("application/x-www-form-urlencoded", b"\xff\xfe", 400),
        ("application/x-www-form-urlencoded", b"a" * (1024 * 1024 + 1), 413),
        ("application/x-www-form-urlencoded", b"a=1&" * 200_000, 400),
    ):
        if asking.name == "sign_out":
            continue  # which reads nothing
        expected = 413 if asking.name == "sign_in" and len(body) > 16_384 else status
        assert client.ask("POST", asking.path, ("Content-Type", kind), body=body).status == expected


@pytest.mark.parametrize(
    "path",
    ["../routing.py", "..%2frouting.py", "%2e%2e/routing.py", "..%5crouting.py", "outlast.css", "OUTLAST.CSS", "", ".", "..", "%2e", "%00", "%ff",
     "outlast.css%00.js", "/etc/passwd", "%2fetc%2fpasswd", "....//routing.py", "..;/routing.py", "__init__.py", "../templates/_base.html", "x" * 1900],
)  # fmt: skip
def test_no_other_file_is_read(world, path):
    for client in (world.client(), world.client(Role.OPERATOR)):
        answer = client.get(f"/static/{path}")
        assert answer.status in {400, 401, 404}
        assert "import" not in answer.text.replace("importance", "")


def test_files_are_sent_as_what_they_are(world):
    names = set(re.findall(r'"/static/([^"]+)"', world.client(Role.READER).get("/").text))
    assert len(names) >= 3
    for name in names:
        answer = world.client().get(f"/static/{name}")
        assert answer.status == 200
        assert answer.header("content-type") in {
            "text/css; charset=utf-8",
            "text/javascript; charset=utf-8",
            "image/svg+xml",
        }
        assert b"<script" not in answer.body
        assert b"eval(" not in answer.body
        assert b"innerHTML" not in answer.body or name.startswith("outlast.")


def test_templates_have_nothing_that_escapes_the_rules():
    from importlib.resources import files

    for file in files("outlast.web").joinpath("templates").iterdir():
        text = file.read_text("utf-8")
        assert not re.search(r"\|\s*safe\b|Markup|autoescape\s+false", text), file.name
        assert not re.search(r"<[^>{]*\son\w+\s*=", text), file.name
        assert not re.search(r"\sstyle\s*=", text), file.name
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), file.name
        assert not re.search(r"(href|src|action)\s*=\s*[\"']?\s*(https?:)?//", text), f"{file.name} leads elsewhere"


@every
def test_websockets_are_refused(world, asking):
    sent = []

    async def course():
        async def send(message):
            sent.append(message)

        async def receive():
            return {"type": "websocket.connect"}

        headers = [(b"host", b"localhost:8787"), (b"authorization", f"Bearer {OPERATOR}".encode())]
        scope = {
            "type": "websocket",
            "path": asking.path,
            "raw_path": asking.path.encode(),
            "headers": headers,
            "root_path": "",
        }
        await world.site({**scope, "query_string": b"", "scheme": "ws"}, receive, send)

    asyncio.run(course())
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_no_secret_is_on_any_page_or_in_the_log(world, caplog):
    with caplog.at_level(logging.DEBUG):
        secret = world.access.links.new()
        entered = world.client().get(f"/enter?once={secret}")
        cookie = entered.cookies()[0].partition(";")[0]
        client = Client(world.site, ("Cookie", cookie))
        texts = [client.get(world.path(page)).text for page in PAGES]
        texts += [world.bearer(OPERATOR).get(f"/api{world.path(page)}".rstrip("/")).text for page in PAGES]
    for hidden in (secret, cookie.partition("=")[2], OPERATOR, READER, SECRET):
        assert not any(hidden in text for text in texts)
        assert hidden not in caplog.text


@pytest.mark.parametrize("kind", ["garbage", "folder"])
def test_a_store_that_does_not_answer_is_told_without_its_inside(tmp_path, kind, caplog):
    file = tmp_path / "hidden-place.db"
    if kind == "garbage":
        file.write_bytes(b"no database at all" * 1000)
    else:
        file.mkdir()
    app = outlast.App(f"sqlite:///{file}")
    site = build_site(app, HookAccess(lambda request: "operator"))
    for page in PAGES:
        path = filled(page.path, VARIABLES)
        for answer in (Client(site).get(path), Client(site).get(f"/api{path}".rstrip("/"))):
            expected = {"health": {200, 503}, "simulate": {200}}.get(page.name, {503})  # a simulation needs no store
            assert answer.status in expected, (page.name, answer.text[-600:])
            assert "Traceback" not in answer.text
            assert page.name == "health" or "hidden-place" not in answer.text
    for action in OPERATIONS:
        answer = Client(site).post(filled(action.path, VARIABLES), "id=1&name=x&resource=x&minutes=1&number=1")
        assert answer.status in {503, 400}, (action.name, answer.text[-600:])
    app.close()


# Large numbers


def test_pitfall_53_numbers_beyond_2_to_the_53_survive_the_page(tmp_path):
    app = outlast.App(f"sqlite:///{tmp_path / 'x.db'}")

    @app.task
    def large(number: int) -> None:
        """Do nothing."""

    large.enqueue(number=1)
    app.close()
    big = 2**53 + 1
    with sqlite3.connect(tmp_path / "x.db") as database:
        database.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'task_queue'", (big - 2,))
    ids = [large.enqueue(number=big + each, delay=3600).id for each in range(3)]
    assert ids == [big - 1, big, big + 1]
    access = TokenAccess(Tokens(OPERATOR))
    site = build_site(app, access)
    client = Client(site, ("Cookie", f"{access.cookie}={access.sessions.begin(Role.OPERATOR, 'x')}"))
    told = json.loads(client.get("/api/tasks").body, parse_int=float)  # as a browser reads it
    assert [str(row["id"]) for row in told["rows"] if str(row["id"]) != "1.0"] == [str(each) for each in reversed(ids)]
    html = client.get("/tasks").text
    assert all(f'"/tasks/{each}"' in html for each in ids)
    one = client.get(f"/tasks/{big}").text
    assert str(big + 1) in one  # in its arguments, digit by digit
    assert client.post(f"/tasks/{big}/cancel").status == 303
    states = {row.id: str(row.status) for row in app.tasks.list()}
    assert [states[each] for each in ids] == ["QUEUED", "CANCELLED", "QUEUED"]
    assert client.get(f"/tasks/{2**63 - 1}").status == 404
    assert client.get(f"/tasks/{2**63}").status == 404
    app.close()
