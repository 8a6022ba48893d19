"""Every action of the dashboard is written to the audit log before it is done, once, and nothing of a payload is."""

import json

import pytest

import outlast
from outlast.web.access.callers import Role
from outlast.web.access.token_access import TokenAccess, Tokens
from outlast.web.endpoints import AUDITED_FIELDS, run_action
from outlast.web.routing import ActionResult, ActionRoute, PageRequest
from outlast.web.site import ACTIONS, build_site
from web_asking import Client
from web_table import FORM, VARIABLES, filled

SUBJECTS = {
    "dead-letters": "dead_letter:1", "failures": "group:x", "queues": "queue:x", "replays": "replay:1",
    "sources": "source:1", "tasks": "task:1",
}  # fmt: skip
CALLED = {"pause_named_queue": "pause_queue", "save_dead_letter": "edit_dead_letter"}


@pytest.fixture(name="site", scope="module")
def make_site(tmp_path_factory):
    app = outlast.App(f"sqlite:///{tmp_path_factory.mktemp('audit') / 'x.db'}")

    @app.task
    def pay(pin: str, url: str) -> None:
        raise ValueError("no")

    pay.enqueue("4711", "u")
    app.worker().drain()
    access = TokenAccess(Tokens())
    built = build_site(app, access)
    yield app, access, built
    app.close()


def client(site, role):
    _, access, built = site
    return Client(built, ("Cookie", f"{access.cookie}={access.sessions.begin(role, 'ann')}"))


@pytest.mark.parametrize("twin", ["", "/api"], ids=["form", "twin"])
@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_every_action_leaves_an_entry(site, action, twin):
    app, _, _ = site
    before = app.store.audits(limit=1)
    path = twin + filled(action.path, VARIABLES)
    client(site, Role.OPERATOR).ask("POST", path, ("Content-Type", FORM[1]), body=b"why=because&odd=zebra-4711&rate=10")
    entry, *rest = app.store.audits(limit=2)
    assert rest[:1] == before, "one entry"
    assert entry.action == CALLED.get(action.name, action.name)
    assert (entry.who, entry.reason) == ("ann", "because")
    assert entry.detail == {"rate": "10", "fields": ["odd"]}
    first = action.path.split("/")[1]
    assert entry.subject == (SUBJECTS[first] if "{" in action.path else entry.subject)
    assert "zebra" not in str(entry)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_a_reader_leaves_none_for_nothing_is_done(site, action):
    app, _, _ = site
    before = app.store.audits(limit=1)
    answer = client(site, Role.READER).ask("POST", filled(action.path, VARIABLES), FORM, body=b"")
    assert answer.status == 403
    assert app.store.audits(limit=1) == before


def test_a_real_one_end_to_end(site):
    app, _, _ = site
    app.tasks_by_name["pay"].enqueue("4711", "u")
    app.worker().drain()
    letter = app.dead_letters.list()[0]
    body = f"why=wrong+pin&version=&patch={json.dumps([{'op': 'replace', 'path': '/pin', 'value': '0815'}])}".encode()
    client(site, Role.OPERATOR).ask("POST", f"/dead-letters/{letter.id}/edit", FORM, body=body)
    client(site, Role.OPERATOR).ask("POST", f"/dead-letters/{letter.id}/replay", FORM, body=b"why=go")
    found = [(each.action, each.subject, each.who, each.reason) for each in app.store.audits(limit=2)]
    assert found == [
        ("replay_dead_letter", f"dead_letter:{letter.id}", "ann", "go"),
        ("edit_dead_letter", f"dead_letter:{letter.id}", "ann", "wrong pin"),
    ]
    assert not {"4711", "0815"} & set(str(app.store.audits(limit=2)).replace("'", " ").split())
    assert app.store.get(letter.original_task_id).replays == 1


def test_what_cannot_be_written_down_is_not_done():
    app, done = outlast.App("memory://"), []

    def broken(*_, **__):
        raise OSError("disk full")

    app.store.audit = broken
    action = ActionRoute("do", "/things/{number}/do", lambda asked: done.append(asked) or ActionResult("", "/", {}))
    with pytest.raises(OSError, match="disk full"):
        run_action(action, PageRequest(app, {"number": "1"}, {}, True, {}, "ann", {}))
    assert done == []


def test_it_is_written_before():
    app, seen = outlast.App("memory://"), []

    def act(asked):
        seen.extend(asked.app.store.audits())
        asked.app.dead_letters.replay(7, who="ann")
        return ActionResult("", "/", {})

    form = {
        "number": ["1", "2"],
        "why": ["x"],
        "payload": ["secret"],
        "resource": ["https://u:hunter2@h/"],
        "text": [""],
    }
    run_action(ActionRoute("do", "/dead-letters/do", act), PageRequest(app, {}, {}, True, form, "", {}))
    (entry,) = app.store.audits()
    assert seen == [entry], "once, and first"
    assert (entry.who, entry.subject, entry.reason) == ("somebody", "dead_letters", "x")
    assert entry.detail == {"number": ["1", "2"], "resource": "https://***@h/", "fields": ["payload"]}


@pytest.mark.parametrize("word", ["replay", "discard"])
def test_all_numbers_of_a_bulk_action_are_written(site, word):
    app, _, _ = site
    numbers = [str(number) for number in range(1001, 1501)]
    body = "&".join(f"number={each}" for each in [*numbers, *numbers[:20]]).encode()
    answer = client(site, Role.OPERATOR).ask("POST", f"/api/dead-letters/{word}", FORM, body=body)
    assert answer.status == 200
    (entry,) = app.store.audits(limit=1)
    assert (entry.action, entry.detail) == (f"{word}_dead_letters", {"number": numbers})


def test_no_field_of_a_payload_is_shown():
    assert not {"patch", "value", "payload", "arguments", "parameters", "note", "password", "token"} & AUDITED_FIELDS
