"""Every route of the dashboard against whoever means harm. The routes are those of the table, so none is forgotten."""

import re

from outlast.operations.table import OPERATIONS
from outlast.web.access.callers import Role
from outlast.web.access.hook import HookAccess
from outlast.web.site import PAGES, build_site
from web_asking import Client
from web_hostile import MARK
from web_table import (
    OPEN,
    OPERATOR,
    READER,
    ROUTES,
    every,
    every_closed,
    every_closed_post,
    every_get,
    every_post,
    forgiven,  # noqa: F401  # a fixture
    make_world,  # noqa: F401  # a fixture
)


def test_the_table_has_every_page_and_action_and_its_twin():
    names = {name for name, _, _ in ROUTES}
    listed = {each.name for each in (*PAGES, *OPERATIONS)}
    assert names == listed | {f"api:{name}" for name in listed} | {
        "events",
        "metrics",
        "pause_queue:form",
        "api:openapi",
        *OPEN,
    }
    assert len(names) == len(ROUTES)
    assert {"overview", "failures", "failure", "suggestions", "dead_letters", "tasks", "task", "queues", "sources", "source", "jobs", "run", "waits", "health", "replays", "new_replay", "replay", "dead_letter_arguments", "periodic", "performance", "simulate", "audit"} <= listed  # fmt: skip
    assert {"start_replay", "stop_replay", "resume_replay", "edit_dead_letter", "acknowledge_group", "snooze_group", "reopen_group", "note_group"} <= listed  # fmt: skip
    for name, path, methods in ROUTES:
        assert methods in ({"GET", "HEAD"}, {"POST"}), name
        assert path.startswith("/api") == name.startswith("api:"), name
        assert not re.search(r"\{[^}]*:", path), "no part of a path may hold slashes"


# Who is let in


@every_closed
def test_pitfall_65_whoever_shows_nothing_gets_nothing(world, asking):
    before = world.state()
    for stranger in (
        world.client(),
        Client(world.site, ("Cookie", f"{world.access.cookie}=x")),
        Client(world.site, ("Authorization", "Bearer wrong")),
        Client(world.site, ("Authorization", f"Basic {OPERATOR}")),
        Client(world.site, ("X-Forwarded-For", "127.0.0.1"), ("X-Forwarded-User", "admin")),
    ):
        answer = stranger.ask(asking.method, asking.path)
        assert answer.status == 401
        assert MARK not in answer.text
        assert "text/event-stream" not in answer.header("content-type")
        assert not answer.cookies()
    assert world.state() == before


@every_closed
def test_a_path_that_is_spelled_otherwise_is_no_way_around(world, asking):
    stranger = world.client()
    for path in (f"{asking.path}/", f"/{asking.path}", f"/static/..{asking.path}", f"/sign-in/..{asking.path}",
                 f"/static/%2e%2e{asking.path}", asking.path.upper(), f"{asking.path};x", f"{asking.path}%20",
                 f"/enter/{asking.path}", f"/.{asking.path}", f"{asking.path}%2F", f"//localhost{asking.path}"):  # fmt: skip
        answer = stranger.ask(asking.method, path)
        assert answer.status in {401, 404, 405}, path  # what is open has no such file
        assert MARK not in answer.text


def test_what_is_not_there_is_not_told_to_strangers(world):
    for path in ("/nowhere", "/tasks/99999", "/api/nowhere", "/.env", "/..", "/admin"):
        assert world.client().get(path).status == 401
        assert world.client(Role.READER).get(path).status == 404
        assert world.client().post(path).status == 401


@every
def test_pitfall_65_without_auth_a_mounted_dashboard_is_shut(world, asking):
    shut = build_site(world.hostile.app, HookAccess(None))
    answer = Client(shut, mount="/admin").ask(asking.method, asking.path)
    assert answer.status == 403
    assert MARK not in answer.text


# Who may change things


@every_closed_post
def test_readers_change_nothing(world, asking):
    before = world.state()
    for reader in (world.client(Role.READER), world.bearer(READER)):
        answer = reader.post(asking.path, f"id=1&resource=x&minutes=1&name=x&number={world.hostile.waiting}")
        assert answer.status == 403
    assert world.state() == before


ORIGINS = (
    None, "null", "", "http://evil.example", "http://localhost:3000", "https://localhost", "http://127.0.0.1:8787",
    "http://localhost:8787.evil.example", "http://localhost:8787 http://evil.example", "http://evil.example#localhost:8787",
)  # fmt: skip


@every_post
def test_pitfall_65_changes_come_from_our_own_pages_alone(world, asking):
    before = world.state()
    operator = world.client(Role.OPERATOR)
    for origin in ORIGINS:
        for client in (Client(world.site, *operator.headers, origin=origin), Client(world.site, origin=origin)):
            answer = client.post(asking.path, f"token={OPERATOR}&id=1&resource=x&minutes=1&name=x")
            assert answer.status == 403, origin
            assert not answer.cookies()
    assert world.state() == before


@every_post
def test_two_origins_are_none(world, asking):
    client = world.client(Role.OPERATOR)
    assert client.post(asking.path, "", ("Origin", client.origin)).status == 403


@every_post
def test_a_referer_is_no_origin(world, asking):
    client = world.client(Role.OPERATOR, origin=None)
    assert client.post(asking.path, "", ("Referer", "http://localhost:8787/")).status == 403


OTHER_METHODS = ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "QUERY", "get", "post")
OVERRIDES = tuple((name, "POST") for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"))


@every_post
def test_only_a_post_changes_anything(world, asking):
    before = world.state()
    client = world.client(Role.OPERATOR)
    for method in OTHER_METHODS:
        if (asking.name, method) in {("sign_in", "GET"), ("sign_in", "HEAD")}:
            continue  # the form itself
        answer = client.ask(method, f"{asking.path}?_method=POST&method=POST", *OVERRIDES)
        if method in {"GET", "HEAD"} and _is_page_too(asking.path):
            assert answer.status in {200, 404}  # a page of that path, such as the dead letter "replay"
        else:
            assert answer.status == 405, method
            assert answer.header("allow")
        assert answer.header("access-control-allow-origin") is None
    assert world.state() == before


def _is_page_too(path):
    plain = path.removeprefix("/api")
    return any(re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", page.path), plain) for page in PAGES)


@every_get
def test_methods_that_read_do_not_become_methods_that_change(world, asking):
    client = world.client(Role.OPERATOR)
    before = world.state()
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert client.ask(method, asking.path).status == 405
    if asking.name != "events":  # which would not end
        plain = client.get(asking.path)
        for header in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
            override = client.ask("GET", asking.path, (header, "DELETE"))
            assert override.status == plain.status, "it is looked at by nobody"
    assert world.state() == before


@every_get
def test_head_has_the_status_of_get_and_no_body(world, asking):
    client = world.client(Role.READER)
    head = client.ask("HEAD", asking.path)
    assert head.body == b""
    if asking.name not in {"events", "enter"}:
        assert head.status == client.get(asking.path).status
    assert head.header("content-security-policy")


# Under which name


FOREIGN = (
    None, "", "evil.example", "localhost.evil.example", "evil.example:8787", "localhost:8787@evil.example", "127.0.0.1.evil.example",
    "localhost\t", "LOCALHOST.", "[::ffff:127.0.0.1]", "0.0.0.0:8787", "127.1", "2130706433", "localhost, evil.example",
)  # fmt: skip


@every
def test_a_name_that_is_not_ours_gets_nothing(world, asking):
    operator = world.client(Role.OPERATOR)
    for host in FOREIGN:
        client = Client(world.site, *operator.headers, host=host, origin=f"http://{host}" if host else None)
        answer = client.ask(asking.method, asking.path)
        assert answer.status == 400, host
        assert MARK not in answer.text
        assert not host or host.strip() not in answer.text
        assert not answer.cookies()


@every
def test_a_name_given_twice_or_elsewhere_is_none(world, asking):
    client = world.client(Role.OPERATOR)
    assert client.ask(asking.method, asking.path, ("Host", "localhost:8787")).status == 400
    foreign = world.client(Role.OPERATOR, host="evil.example")
    for header in ("X-Forwarded-Host", "X-Host", "Forwarded", "X-Original-Host"):
        assert foreign.ask(asking.method, asking.path, (header, "localhost")).status == 400
