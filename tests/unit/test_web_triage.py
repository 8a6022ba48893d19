"""Clearing up in the page: replays of all that match, edits, what is said of groups, and the log of who did it."""

import json
import re

import pytest
from starlette.testclient import TestClient

import outlast
from outlast.ports.read_rows import FailureFilter
from outlast.web import dashboard

SECRET = "hunter2hunter2"


class World:
    """An app on SQLite whose task succeeds once its address is a good one, and a browser that may change things."""

    def __init__(self, folder):
        self.app = outlast.App(f"sqlite:///{folder / 'outlast.db'}")
        self.app.create_schema()
        self.broken = True

        @self.app.task
        def fetch(url: str, api_key: str = "", tries: int = 1, deep: bool = False):
            if self.broken and "good" not in url:
                raise outlast.errors.InvalidParametersError(f"no such page: {url}, password={SECRET}")

        self.fetch = fetch
        self.role = "operator"
        site = dashboard(self.app, auth=lambda _: self.role)
        self.client = TestClient(site, base_url="http://localhost", headers={"Origin": "http://localhost"})

    def fail(self, number=1, **more):
        for each in range(number):
            self.fetch.enqueue(**{"url": f"https://x.test/{each}", "api_key": SECRET, "tries": 1, "deep": False} | more)
        self.drain()
        return sorted(letter.id for letter in self.app.dead_letters.list(None))

    def drain(self):
        self.app.worker(concurrency=1).drain()

    @property
    def group(self):
        return self.app.store.failures(FailureFilter()).rows[0].fingerprint

    def get(self, path):
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        assert SECRET not in answer.text
        return answer.text

    def json(self, path):
        answer = self.client.get(f"/api{path}")
        assert answer.status_code == 200, answer.text
        assert SECRET not in answer.text
        return answer.json()

    def post(self, path, **form):
        return self.client.post(path, data=form, follow_redirects=False)

    def stored(self, number):
        return json.loads(self.app.store.dead_letter(number).parameters)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.app.close()


# Replays


def test_a_replay_is_counted_before_it_begins(world):
    world.fail(3)
    found = world.json(f"/replays/new?group={world.group}")
    assert (found["total"], found["tasks"], found["categories"]) == (
        3,
        [{"name": "fetch", "size": 3}],
        [{"name": "invalid_parameters", "size": 3}],
    )
    assert [each["size"] for each in found["groups"]] == [3]
    page = world.get(f"/replays/new?group={world.group}")
    assert "Replay 3 dead letters" in page
    assert "No worker is alive" in page
    assert world.app.store.replay_runs() == []


def test_only_what_was_counted_is_replayed(world):
    world.fail(2)
    page = world.get("/replays/new")
    before = re.search(r'name="before" value="(\d+)"', page)[1]
    world.fail(1)
    answer = world.post("/replays/start", all="1", before=before, canary="1", rate="30/min", why="the page is back")
    assert answer.headers["location"] == "/replays/1"
    (replay,) = world.app.store.replay_runs()
    assert (replay.total, replay.canary, replay.rate, replay.reason) == (2, True, 0.5, "the page is back")
    assert "replay 1 has started: 2 dead letters" in world.get("/replays/1")


def test_a_rate_that_is_none_is_shown_again_with_what_was_typed(world):
    world.fail(1)
    answer = world.post("/replays/start", group=world.group, rate="fast", why="<b>because</b>")
    assert answer.status_code == 400
    assert "give a number per second" in answer.text
    assert 'value="fast"' in answer.text
    assert "&lt;b&gt;because&lt;/b&gt;" in answer.text
    assert f'name="group" value="{world.group}"' in answer.text
    assert world.client.post("/api/replays/start", json={"all": 1, "rate": "fast"}).status_code == 400
    assert world.app.store.replay_runs() == []


def test_how_many_may_fail_is_asked_kept_and_shown(world):
    world.fail(1)
    assert 'name="max_failures"' in world.get("/replays/new?all=1")
    answer = world.post("/replays/start", all="1", canary="no", rate="10/s", max_failures="5")
    assert answer.status_code in {200, 303}
    assert world.app.store.replay_run(1).max_failures == 5
    assert "More than 5 failures stop it" in world.get("/replays/1")
    for wrong in ("some", "-1", "9" * 30):
        answer = world.post("/replays/start", all="1", max_failures=wrong)
        assert (answer.status_code, "give a whole number" in answer.text) == (400, True)
        assert f'value="{wrong}"' in answer.text
    assert len(world.app.store.replay_runs()) == 1


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        ({}, "send a filter for the dead letters"),
        ({"why": "x", "rate": "10"}, "send a filter"),
        ({"group": ""}, "send a filter"),
        ({"group": " "}, "send a filter"),
        ({"group": None}, "send a filter"),
        ({"before": 99}, "send a filter"),
        ({"all": 0}, "send a filter"),
        ({"all": False}, "send a filter"),
        ({"fingerprint": "g1"}, "'fingerprint' is not a field here"),
        ({"number": 1}, "'number' is not a field"),
        ({"all": 1, "Canary": "no"}, "'Canary' is not a field"),
        ({"all": 1, "task": "fetch"}, "not both"),
    ],
)
def test_nothing_is_replayed_that_nobody_meant(world, sent, wrong):
    world.fail(2)
    answer = world.client.post("/api/replays/start", json=sent)
    assert answer.status_code == 400
    assert wrong in answer.text
    form = {name: str(value) for name, value in sent.items() if value is not None}
    assert world.post("/replays/start", **form).status_code == 400
    assert world.app.store.replay_runs() == []


@pytest.mark.parametrize("field", ["category", "task", "group", "reason", "queue", "since", "until", "text"])
def test_whatever_narrows_is_enough(world, field):
    world.fail(1)
    value = {
        "category": "invalid_parameters", "reason": "permanent", "since": "1h", "until": "1h", "group": world.group,
    }.get(field, "x")  # fmt: skip
    assert world.client.post("/api/replays/start", json={field: value}).status_code == 200


@pytest.mark.parametrize(
    ("canary", "tried"),
    [
        ({}, True), ({"canary": ""}, True), ({"canary": None}, True), ({"canary": True}, True), ({"canary": "yes"}, True),
        ({"canary": False}, False), ({"canary": 0}, False), ({"canary": "no"}, False), ({"canary": "False"}, False),
    ],
)  # fmt: skip
def test_one_is_tried_first_unless_somebody_says_no(world, canary, tried):
    world.fail(1)
    assert world.client.post("/api/replays/start", json={"all": True} | canary).status_code == 200
    (replay,) = world.app.store.replay_runs()
    assert replay.canary is tried


@pytest.mark.parametrize("query", ["", "?task=fetch"])
@pytest.mark.parametrize("checked", [True, False])
def test_the_form_says_it_whether_its_box_is_checked_or_not(world, query, checked):
    world.fail(2)
    page = world.get(f"/replays/new{query}")
    form = {}
    for field in re.findall(r'<input type="(?:hidden|checkbox)" name="[^>]*>', page[page.index("/replays/start") :]):
        if checked or 'type="checkbox"' not in field:
            form.setdefault(re.search(r'name="(\w+)"', field)[1], []).append(re.search(r'value="([^"]*)"', field)[1])
    assert form["canary"] == (["1", "no"] if checked else ["no"])
    assert ("all" in form) is not bool(query)
    wrong = world.post("/replays/start", **form, rate="fast")
    assert ("checked><" in wrong.text) is checked
    assert world.post("/replays/start", **form).status_code == 303
    (replay,) = world.app.store.replay_runs()
    assert (replay.total, replay.canary) == (2, checked)
    assert world.app.store.audits(limit=1)[0].detail["canary"] == checked


def test_a_replay_is_stopped_and_goes_on(world):
    world.fail(2)
    world.post("/replays/start", all="1")
    page = world.get("/replays/1")
    assert 'data-replay="running"' in page
    assert 'data-view="replay-1"' in page
    assert world.post("/replays/1/stop", why="wait").status_code == 303
    assert "data-resumable" in world.get("/replays/1")
    told = world.client.post("/api/replays/1/stop").json()
    assert (told["ok"], told["stopped"]) == (False, False)
    assert world.client.post("/api/replays/1/resume").json()["resumed"] is True
    assert world.client.post("/api/replays/1/resume").json()["ok"] is False
    assert world.json("/replays")["replays"][0]["state"] == "running"


@pytest.mark.parametrize("path", ["/replays/7", "/replays/x", "/replays/0"])
def test_a_replay_that_is_not_there(world, path):
    assert world.client.get(path).status_code == 404
    assert world.post(f"{path}/stop").status_code == 404
    assert world.post(f"{path}/resume").status_code == 404


def test_nothing_matches(world):
    assert "No dead letters match." in world.get("/replays/new?text=nothing")
    assert "No replays yet." in world.get("/replays")


# Edits


def typed(world, number, **texts):
    """Return the form as a browser would send it, with some fields typed into, by their labels."""
    found = world.json(f"/dead-letters/{number}/edit")
    form = {field["name"]: field["text"] for field in found["fields"]}
    names = {field["label"]: field["name"] for field in found["fields"]}
    return form | {names[label]: text for label, text in texts.items()} | {"version": str(found["version"])}


def test_arguments_are_edited_and_replayed(world):
    (letter,) = world.fail()
    assert "unchanged; type to replace it" in world.get(f"/dead-letters/{letter}/edit")
    form = typed(world, letter, url="https://x.test/good") | {"why": "it has moved", "replay": "1"}
    answer = world.post(f"/dead-letters/{letter}/edit", **form)
    assert answer.status_code == 303, answer.text
    task = answer.headers["location"]
    world.drain()
    assert world.json(task)["history"]["task"]["status"] == "DONE"
    page = world.get(task)
    assert "it has moved" in page
    assert "https://x.test/good" in page
    (edit,) = world.json(task)["edits"]
    assert edit["changed"] == [{"path": "/url", "before": '"https://x.test/0"', "after": '"https://x.test/good"'}]


def test_a_secret_is_replaced_and_never_shown(world):
    (letter,) = world.fail()
    field = next(each for each in world.json(f"/dead-letters/{letter}/edit")["fields"] if each["label"] == "api_key")
    assert (field["masked"], field["text"]) == (True, "")
    world.post(f"/dead-letters/{letter}/edit", **typed(world, letter, tries="2"), why="x")
    assert world.stored(letter)["api_key"] == SECRET
    world.post(f"/dead-letters/{letter}/edit", **typed(world, letter, api_key="another-secret-1"), why="rotated")
    assert world.stored(letter)["api_key"] == "another-secret-1"
    page = world.get(f"/dead-letters/{letter}")
    assert "another-secret-1" not in page
    assert "rotated" in page
    assert "another-secret-1" not in world.get("/audit")


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"tries": "many"}, "is not a number"),
        ({"patch": "{"}, "the patch is not valid JSON"),
        ({"patch": '[{"op": "copy", "from": "/api_key", "path": "/url"}]'}, "is not a valid operation"),
        ({"patch": '[{"op": "replace", "path": "/tries", "value": "many"}]'}, "tries"),
        ({"patch": '[{"op": "add", "path": "/unheard_of", "value": 1}]'}, "unheard_of"),
        ({}, "nothing was changed"),
        ({"url": "https://x.test/y", "why": ""}, "give a reason"),
    ],
)
def test_what_cannot_be_used_is_told_beside_the_form_with_what_was_typed(world, more, wrong):
    (letter,) = world.fail()
    before = world.stored(letter)
    fields = {name: text for name, text in more.items() if name in {"url", "tries"}}
    others = {name: text for name, text in more.items() if name not in fields}
    form = typed(world, letter, **fields) | {"why": "a <i>reason</i>"} | others
    answer = world.post(f"/dead-letters/{letter}/edit", **form)
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text
    assert wrong in answer.text
    assert SECRET not in answer.text
    for text in (*fields.values(), others.get("patch", "")):
        assert text.replace('"', "&#34;") in answer.text
    assert others.get("why") == "" or "a &lt;i&gt;reason&lt;/i&gt;" in answer.text
    assert world.stored(letter) == before


def test_somebody_else_was_faster(world):
    (letter,) = world.fail()
    form = typed(world, letter, url="https://x.test/mine") | {"why": "mine"}
    assert (
        world.post(
            f"/dead-letters/{letter}/edit", **typed(world, letter, url="https://x.test/theirs"), why="theirs"
        ).status_code
        == 303
    )
    answer = world.post(f"/dead-letters/{letter}/edit", **form)
    assert answer.status_code == 400
    assert "someone else has changed the arguments" in answer.text
    assert 'value="https://x.test/theirs"' in answer.text
    assert 'value="mine"' in answer.text
    assert world.stored(letter)["url"] == "https://x.test/theirs"


def test_a_program_edits_by_patch_alone(world):
    (letter,) = world.fail()
    patch = json.dumps([{"op": "replace", "path": "/deep", "value": True}])
    answer = world.client.post(f"/api/dead-letters/{letter}/edit", json={"patch": patch, "why": "deeper"}).json()
    assert (answer["ok"], answer["outcome"], answer["operations"]) == (True, "edited", 1)
    assert world.stored(letter)["deep"] is True


# Groups


def test_a_group_is_taken_on_and_opens_again(world):
    world.fail()
    world.app.store.roll_up()
    path = f"/failures/{world.group}"
    assert "Not acknowledged yet." in world.get(path)
    assert world.client.post(f"/api{path}/acknowledge").json()["standing"] == "acknowledged"
    page = world.get(path)
    assert "Acknowledged by" in page
    assert "Reopen" in page
    assert [each["fingerprint"] for each in world.json("/failures?standing=acknowledged")["groups"]] == [world.group]
    assert world.json("/failures?standing=open")["groups"] == []
    assert world.client.post(f"/api{path}/reopen").json()["standing"] == "open"


def test_a_group_is_snoozed_and_noted(world):
    world.fail()
    path = f"/failures/{world.group}"
    assert world.client.post(f"/api{path}/snooze", json={"for": "2h"}).json()["standing"] == "snoozed"
    assert world.post(f"{path}/snooze", **{"for": "for ever"}).status_code == 400
    assert world.post(f"{path}/note", note=f"<b>ask Ada</b> password={SECRET}").status_code == 303
    assert "&lt;b&gt;ask Ada&lt;/b&gt;" in world.get("/failures")
    assert "&lt;b&gt;ask Ada&lt;/b&gt;" in world.get(path)
    assert world.post(f"{path}/note", note="x" * 2001).status_code == 400
    assert world.post("/failures/nothing/note", note="x").status_code == 404
    assert world.post("/failures/nothing/acknowledge").status_code == 404


def test_failures_are_narrowed_by_time_and_that_can_be_cleared(world):
    world.fail()
    assert len(world.json("/failures?since=1h")["groups"]) == 1
    assert world.json("/failures?until=1h")["groups"] == []
    page = world.get("/failures?category=invalid_parameters&since=20261115T1000&until=20991115T1002")
    assert "Failing between" in page
    assert 'href="/failures?category=invalid_parameters" aria-label="Clear the time filter"' in page
    assert world.client.get("/failures?since=yesterday").status_code == 400


def test_a_bar_leads_to_what_failed_then(world):
    world.fail(2)
    page = world.get("/?range=1h")
    found = re.search(r'href="(/failures\?category=invalid_parameters&amp;since=\w+&amp;until=\w+)"', page)[1]
    (group,) = world.json(found.replace("&amp;", "&"))["groups"]
    assert group["task_type"] == "fetch"
    assert 'href="/dead-letters?since=1h"' in page


# Who did it


def test_all_of_it_is_in_the_audit_log(world):
    letters = world.fail(2)
    assert "No actions yet." in world.get("/audit")
    world.post(f"/dead-letters/{letters[0]}/edit", **typed(world, letters[0], tries="5"), why="five")
    world.post(f"/failures/{world.group}/acknowledge")
    world.post("/dead-letters/discard", number=str(letters[0]), why="useless")
    world.post("/replays/start", why="once more", all="1")
    entries = [row["entry"] for row in world.json("/audit")["rows"]]
    assert len(entries) == 4, "each is written once"
    assert [entry["reason"] for entry in entries] == ["once more", "useless", "", "five"]
    assert all(entry["who"] for entry in entries)
    page = world.get("/audit")
    assert "useless" in page
    only = world.json(f"/audit?action={entries[1]['action']}")["rows"]
    assert [row["entry"]["reason"] for row in only] == ["useless"]


def test_what_was_asked_for_stands_with_what_it_is_about(world):
    (letter,) = world.fail()
    world.post(f"/dead-letters/{letter}/replay", why=f"once more, password={SECRET}")
    task = world.app.store.dead_letter(letter)
    assert task is None, "it is queued again"
    world.drain()
    (again,) = world.fail(0)
    world.app.store.audit("ada", "discard_dead_letter", f"dead_letter:{again}", {}, "<i>useless</i>")
    page = world.get(f"/dead-letters/{again}")
    assert "&lt;i&gt;useless&lt;/i&gt;" in page
    assert world.json(f"/dead-letters/{again}")["by_hand"][0]["action"] == "discard_dead_letter"
    assert "Replayed before" in page


def test_the_audit_log_has_pages(world):
    for number in range(51):
        world.app.store.audit("ada", "pause", f"queue:q{number}")
    first = world.json("/audit")
    assert len(first["rows"]) == 50
    second = world.json(f"/audit?before={first['next']}")
    assert [row["entry"]["subject"] for row in second["rows"]] == ["queue:q0"]
    assert second["next"] is None


def test_a_reader_sees_all_and_can_press_nothing(world):
    (letter,) = world.fail()
    world.post("/replays/start", all="1")
    world.role = "reader"
    for path in (f"/failures/{world.group}", "/replays/new", "/replays", "/replays/1", f"/dead-letters/{letter}", f"/dead-letters/{letter}/edit", "/audit", "/dead-letters"):  # fmt: skip
        page = world.get(path)
        assert 'method="post"' not in page, path
        assert not re.search(r'href="[^"]*(?:/edit|/replays/new)', page), path
    assert world.post("/replays/1/stop").status_code == 403


def test_metrics_are_for_those_who_are_let_in(world):
    world.fail()
    answer = world.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert "outlast_up 1.0" in answer.text
    world.role = None
    assert world.client.get("/metrics").status_code == 403


def test_without_the_library_the_metrics_say_what_to_install(world, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "prometheus_client", None)
    answer = world.client.get("/metrics")
    assert answer.status_code == 404
    assert "pip install 'outlast[metrics]'" in answer.text
