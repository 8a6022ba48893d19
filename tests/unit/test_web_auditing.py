"""Every action of the dashboard is written to the audit log before it is done, once, and nothing of a payload is."""

import json
from urllib.parse import urlencode

import pytest

import outlast
from outlast.operations import RESOURCE, ROW, WHY, Parameter, text_kind
from outlast.operations.actions import OperationResult
from outlast.operations.table import OPERATIONS, Operation, perform
from outlast.web.access.callers import Role
from outlast.web.access.token_access import TokenAccess, Tokens
from outlast.web.site import build_site
from web_asking import Client
from web_table import FORM, VARIABLES, filled


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


VALID = {"dead_letter_id": "1", "replay_id": "1", "task_id": "1", "source_id": "1", "fingerprint": "x", "queue": "x",
         "resource": "x", "minutes": "5", "group": "x", "patch": "[]", "version": "1"}  # fmt: skip


@pytest.mark.parametrize("twin", ["", "/api"], ids=["form", "twin"])
@pytest.mark.parametrize("action", OPERATIONS, ids=lambda action: action.name)
def test_every_action_leaves_an_entry(site, action, twin):
    app, _, _ = site
    if not app.sources.list():
        app.sources.add("https://a.test/")
    before = app.store.audits(limit=1)
    names = {each.name for each in action.fields}
    fields = {name: value for name, value in VALID.items() if name in names} | {"why": "because"}
    fields |= {} if action.is_strict else {"odd": "zebra-4711"}
    path = twin + filled(action.path, VARIABLES | {"{source_id}": "1"})
    client(site, Role.OPERATOR).ask("POST", path, FORM, body=urlencode(fields).encode())
    entry, *rest = app.store.audits(limit=2)
    assert rest[:1] == before, "one entry"
    assert (entry.action, entry.who, entry.reason) == (action.name, "ann", "because")
    assert entry.subject != "refused" or action.name in {"remove_source", "edit_dead_letter"}, entry
    assert "zebra" not in str(entry)


@pytest.mark.parametrize(
    "action",
    [each for each in OPERATIONS if each.is_strict or any(p.required for p in each.fields)],
    ids=lambda action: action.name,
)
def test_what_is_refused_leaves_one_too(site, action):
    app, _, _ = site
    before = app.store.audits(limit=1)
    body = b"why=because&odd=zebra-4711&minutes=x"
    assert (
        client(site, Role.OPERATOR).ask("POST", f"/api{filled(action.path, VARIABLES)}", FORM, body=body).status == 400
    )
    entry, *rest = app.store.audits(limit=2)
    assert rest[:1] == before, "one entry"
    assert (entry.action, entry.subject, entry.who, entry.reason) == (action.name, "refused", "ann", "because")
    assert "zebra" not in str(entry)


@pytest.mark.parametrize("action", OPERATIONS, ids=lambda action: action.name)
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
    assert app.store.get(letter.original_task_id).replays >= 1


def thing(run):
    names = (Parameter("thing_id", ROW, "The thing.", required=True), Parameter("resource", RESOURCE, "A resource."),
             Parameter("note", text_kind(20, is_audited=False), "A note."), WHY)  # fmt: skip
    return Operation("do", "Do it.", run, names, "thing:{thing_id}".format_map, "/things/{thing_id}/do", {})


def test_what_cannot_be_written_down_is_not_done():
    app, done = outlast.App("memory://"), []

    def broken(*_, **__):
        raise OSError("disk full")

    app.store.audit = broken
    with pytest.raises(OSError, match="disk full"):
        perform(app, thing(lambda *given: done.append(given)), {"thing_id": 1})
    assert done == []


def test_it_is_written_before():
    app, seen = outlast.App("memory://"), []

    def run(app, values, who):
        seen.extend(app.store.audits())
        app.dead_letters.replay(7, who=who)
        return OperationResult("", {})

    values = {"thing_id": 1, "resource": "https://u:hunter2@h/", "note": "secret", "why": "x"}
    perform(app, thing(run), values, "ann")
    (entry,) = app.store.audits()
    assert seen == [entry], "once, and first"
    assert (entry.who, entry.subject, entry.reason) == ("ann", "thing:1", "x")
    assert entry.detail == {"resource": "https://***@h/"}


@pytest.mark.parametrize("word", ["replay", "discard"])
def test_all_numbers_of_a_bulk_action_are_written(site, word):
    app, _, _ = site
    numbers = [str(number) for number in range(1001, 1501)]
    body = "&".join(f"dead_letter_id={each}" for each in [*numbers, *numbers[:20]]).encode()
    answer = client(site, Role.OPERATOR).ask("POST", f"/api/dead-letters/{word}", FORM, body=body)
    assert answer.status == 200
    (entry,) = app.store.audits(limit=1)
    assert (entry.action, entry.detail) == (f"{word}_dead_letters", {"dead_letter_id": [*map(int, numbers)]})


def test_no_value_of_a_payload_is_shown():
    kinds = {each.name: each.kind for operation in OPERATIONS for each in operation.parameters}
    assert kinds["note"].audited("secret") is None
    assert kinds["patch"].audited([{"op": "add", "path": "/pin", "value": "4711"}]) == ["add /pin"]
