"""The dashboard in somebody's own site, what it says of what was done, and what it says of what went wrong."""

import asyncio
import re
import subprocess
import sys
import threading
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Mount

from outlast.errors import ConfigError
from outlast.web import dashboard
from outlast.web.access.hook import HookAccess
from outlast.web.access.token_access import TokenAccess, Tokens
from outlast.web.endpoints import Endpoints
from outlast.web.site import build_site
from web_asking import Client, asked
from web_small_site import (
    OPERATOR,
    clean,  # noqa: F401  # a fixture
    done,
    hooked,
    make_app,  # noqa: F401  # a fixture
    own,
    signed_in,
)

# The hook of one's own site


def test_pitfall_65_without_a_hook_nobody_gets_in(app):
    site = dashboard(app)
    for path in ("/", "/api", "/tasks", "/events", "/static/outlast.css", "/sign-in", "/enter", "/nowhere"):
        answer = Client(site).get(path)
        assert answer.status == 403, path
        assert Client(site).post(path).status == 403


@pytest.mark.parametrize("said", [None, "", "admin", "Operator", True, 1, ["operator"], object()])
def test_what_is_no_role_lets_nobody_in(app, said):
    assert Client(hooked(app, lambda request: said)).get("/").status == 403


def test_a_hook_that_fails_lets_nobody_in(app, caplog):
    def hook(request):
        raise KeyError("password=hunter2")

    answer = Client(hooked(app, hook)).get("/")
    assert answer.status == 403
    assert "auth= of the dashboard failed" in caplog.text
    assert "hunter2" not in caplog.text + answer.text


def test_a_hook_says_who_may_do_what(app):
    async def hook(request):
        assert request.url.path == "/admin/outlast/things/x"
        return request.headers.get("x-role")

    site = hooked(app, hook)
    role = lambda name: Client(site, ("X-Role", name), mount="/admin/outlast")  # noqa: E731
    assert "False reader" in role("reader").get("/things/x").text
    assert "True operator" in role("operator").get("/things/x").text
    assert role("other").get("/things/x").status == 403


def test_a_hook_does_not_replace_the_origin(app):
    site = hooked(app, lambda request: "operator")
    assert Client(site, origin=None).post("/things/x/change").status == 403
    assert (
        Client(site, ("Cookie", "theirs=1"), ("Authorization", "Bearer x"), origin=None).post("/things/x/change").status
        == 403
    )
    assert Client(site, ("Authorization", "Basic x"), origin=None).post("/things/x/change").status == 403
    assert done == []
    assert Client(site, ("Authorization", "Bearer x"), origin=None).post("/things/x/change").status == 303
    assert Client(site).post("/things/x/change").status == 303


def test_a_hook_reads_no_body(app, caplog):
    async def hook(request):
        await request.body()
        return "operator"

    assert Client(hooked(app, hook)).post("/things/x/change", "a=1").status == 403


def test_a_hook_that_changes_its_mind_ends_streams(app, monkeypatch):
    monkeypatch.setattr("outlast.web.access.hook.RECHECK_SECONDS", 0.0)
    said = ["reader"]

    async def course():
        caller = await HookAccess(lambda request: said[0]).caller({"type": "http", "headers": []})
        answers = [caller.still_allowed()]
        said[0] = None
        while caller.still_allowed():  # noqa: ASYNC110  # as a stream asks
            await asyncio.sleep(0)
        return answers

    assert asyncio.run(asyncio.wait_for(course(), 10)) == [True]


def test_a_hook_that_is_no_coroutine_does_not_hold_up_the_site(app):
    """The hook waits for what only the loop does; it would wait for ever if it stood in its way."""
    went_on = threading.Event()

    def hook(request):
        assert went_on.wait(30)
        return "reader"

    async def course():
        asking = asyncio.create_task(HookAccess(hook).caller({"type": "http", "headers": []}))
        await asyncio.sleep(0.01)
        went_on.set()
        return await asking

    assert asyncio.run(asyncio.wait_for(course(), 60)).role == "reader"


def test_what_a_hook_returns_may_be_awaited(app):
    async def role(request):
        return request.headers.get("x-role")

    site = hooked(app, lambda request: role(request))  # noqa: PLW0108  # so that it is no coroutine function
    assert Client(site, ("X-Role", "reader")).get("/things/x").status == 200
    assert Client(site, ("X-Role", "other")).get("/things/x").status == 403


@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_a_hook_that_hangs_ends_streams(app, monkeypatch, caplog, kind):
    monkeypatch.setattr("outlast.web.access.hook.RECHECK_SECONDS", 0.01)
    hangs, over = [False], threading.Event()

    async def awaited(request):
        return await asyncio.Event().wait() if hangs[0] else "reader"

    def called(request):
        return over.wait(60) if hangs[0] else "reader"

    async def course():
        caller = await HookAccess(awaited if kind == "coroutine" else called).caller({"type": "http", "headers": []})
        assert caller.still_allowed()
        hangs[0] = True
        while caller.still_allowed():  # noqa: ASYNC110  # as a stream asks
            await asyncio.sleep(0.005)
        over.set()

    asyncio.run(asyncio.wait_for(course(), 30))
    assert "did not return within" in caplog.text


def test_mounted_in_a_site_of_ones_own(app):
    outer = Starlette(routes=[Mount("/admin/outlast", hooked(app, lambda request: "operator"))])
    client = Client(outer)
    answer = client.get("/admin/outlast/things/a%2Fb")
    assert answer.status == 200
    assert 'href="/admin/outlast/static/outlast.' in answer.text
    moved = client.post("/admin/outlast/things/x/change", "to=/things/y")
    assert moved.header("location") == "/admin/outlast/things/y"
    assert "; Path=/admin/outlast;" in moved.cookies()[0]
    assert client.get("/admin/outlast/").status == 200
    assert client.get("/admin/outlast/api/").json()["frame"] == "_bare.html"


# What an action did is told once


def test_what_was_done_is_told_on_the_next_page_alone(app):
    site = build_site(app, TokenAccess(Tokens(OPERATOR)))
    client = signed_in(site)
    client = client.after(client.post("/queues/%3Cb%3E/pause", "new=true"))
    client.ask("HEAD", "/queues")
    assert "queue &lt;b&gt; is paused" in client.get("/queues").text
    assert "queue &lt;b&gt; is paused" not in client.get("/queues").text


def test_what_was_done_is_kept_by_a_cookie(app):
    site = dashboard(app, auth=lambda request: "operator")
    cookie = Client(site).post("/queues/travels/pause", "new=true").cookies()[0]
    assert re.search(r"^outlast-notice=[\w-]{43}; HttpOnly; Max-Age=30; Path=/; SameSite=strict$", cookie)
    answer = Client(site, ("Cookie", cookie.partition(";")[0])).get("/queues")
    assert "queue travels is paused" in answer.text
    assert "Max-Age=0" in answer.cookies()[0]
    again = Client(site, ("Cookie", cookie.partition(";")[0])).get("/queues")
    assert "queue travels is paused" not in again.text


@pytest.mark.parametrize(
    "to", ["//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nSet-Cookie: x=y", "\\\\evil.example"]
)
def test_an_action_leads_to_a_place_of_ours(app, to):
    _, site = own(app)
    answer = signed_in(site).post("/things/x/change", f"to={quote(to, safe='')}")
    location = answer.header("location")
    assert re.match(r"/[^/\\]", location)
    assert location.isprintable()
    assert [each.partition("=")[0] for each in answer.cookies()] == ["outlast-notice"]


# What is wrong is told without its inside


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("gone", 404, "there is no &lt;b&gt;such&lt;/b&gt; thing"),
        ("bad", 400, "give a number"),
        ("locked", 503, "The store does not answer"),
        ("schema", 503, "outlast db "),
        ("broken", 500, "bug in the page"),
    ],
)
def test_what_is_wrong_is_told(app, name, status, words, caplog):
    _, site = own(app)
    client = signed_in(site)
    for answer in (client.get(f"/things/{name}"), client.post(f"/things/{name}/change")):
        assert answer.status == status
        assert words in answer.text
        assert "Traceback" not in answer.text
        assert "hunter2" not in answer.text + caplog.text
        assert answer.header("content-security-policy")
    for answer in (client.get(f"/api/things/{name}"), client.post(f"/api/things/{name}/change")):
        assert answer.status == status
        assert set(answer.json()) == {"ok", "message"}
        assert "hunter2" not in answer.text


def test_what_breaks_in_the_middle_of_an_answer_ends_it(app, monkeypatch, caplog):
    async def breaking(self, request):
        async def parts():
            yield b"one"
            raise ZeroDivisionError("password=hunter2")

        return StreamingResponse(parts())

    monkeypatch.setattr(Endpoints, "events", breaking)
    _, site = own(app)
    client = signed_in(site)
    with pytest.raises(Exception, match=r"^$"):
        client.get("/events")
    assert "ZeroDivisionError" in caplog.text
    assert "hunter2" not in caplog.text


def test_names_and_words_that_cannot_be_used(app):
    with pytest.raises(ConfigError, match="not a valid host name"):
        dashboard(app, hosts=["*"])


def test_importing_the_face_of_the_dashboard_needs_no_extra():
    program = (
        "import sys\n"
        "for name in ('starlette', 'jinja2', 'uvicorn'): sys.modules[name] = None\n"
        "import outlast\n"
        "from outlast.errors import ConfigError\n"
        "from outlast.web import dashboard\n"
        "try: dashboard(outlast.App('memory://'))\n"
        "except ConfigError as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "the dashboard needs the extra web: pip install 'outlast[web]'", ran.stderr


def test_two_questions_at_once_have_answers_of_their_own(app):
    site = hooked(app, lambda request: "operator")

    async def both():
        headers = [("Host", "localhost")]
        return await asyncio.gather(*(asked(site, "GET", f"/things/{number}", headers) for number in range(20)))

    for number, answer in enumerate(asyncio.run(both())):
        assert f"<p>{number} [] True operator</p>" in answer.text
