"""The pages of tasks: what they list, what they show of one as it stands, and what can be done about it."""

import re
import sqlite3

import pytest
from starlette.testclient import TestClient

import outlast
from outlast.ports.rows import Claim, Kind, Note, SettleAndClaim, Settlement, WorkerRow
from outlast.web import dashboard
from outlast.web.task_view import SHOWN_ATTEMPTS, payload_text

NOTE = Note(
    "ConnectionError",
    "down, token=hunter2",
    "network",
    "ab" * 8,
    '{"rule":"r","retryable":true,"http_status":503,"retry_after":2.5}',
    "Traceback: x",
)


class World:
    """An app on SQLite, a worker in it that does what it is told, and a browser."""

    def __init__(self, folder):
        self.path = folder / "outlast.db"
        self.app = outlast.App(f"sqlite:///{self.path}")
        self.store = self.app.store
        self.app.create_schema()

        @self.app.task
        def scrape(url: str = "", token: str = ""): ...

        self.scrape = scrape
        site = dashboard(self.app, auth=lambda _: "operator")
        self.client = TestClient(site, base_url="http://localhost", headers={"Origin": "http://localhost"})
        now = self.store.now()
        self.store.register(
            WorkerRow(
                "w-1", "w", "host", 1, ("default",), 4, "running", 0, alive=True, started_at=now, heartbeat_at=now
            ),
            60,
        )

    def enqueue(self, **more):
        return self.scrape.enqueue(**more).id

    def settle_and_claim(self, *settlements, claim=None, done=()):
        return self.store.settle_and_claim(SettleAndClaim("w-1", list(done), list(settlements), [], claim)).claimed

    def take(self, start=1):
        (claimed,) = self.settle_and_claim(claim=Claim(("default",), 1, start))
        return claimed

    def settle(self, kind, note=NOTE, **more):
        """Take the next task and have it end so."""
        claimed = self.take()
        self.settle_and_claim(Settlement(claimed.id, claimed.epoch, kind, note=note, **more))
        return claimed.id

    def page(self, number):
        answer = self.client.get(f"/tasks/{number}")
        assert answer.status_code == 200
        return answer.text

    def data(self, number):
        return self.client.get(f"/api/tasks/{number}").json()

    def kinds(self, number):
        return [part["outcome"] or part["kind"] for part in self.data(number)["history"]["drawn"]["segments"]]

    def post(self, path):
        return self.client.post(path, follow_redirects=False)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.store.leave("w-1")
    made.app.close()


def test_none(world):
    assert "No tasks yet." in world.client.get("/tasks").text
    assert world.client.get("/tasks/1").status_code == 404
    assert world.post("/tasks/1/cancel").status_code == world.post("/tasks/1/run-now").status_code == 404


def test_the_list_is_narrowed(world):
    first, second = world.enqueue(), world.enqueue(delay=60)
    world.settle(Kind.FAIL, reason="permanent")

    def listed(query=""):
        return [row["id"] for row in world.client.get(f"/api/tasks{query}").json()["rows"]]

    assert listed() == [second, first]
    assert listed("?status=failed") == listed(f"?before={second}") == [first]
    assert listed("?status=QUEUED&queue=default&task=scrape") == [second]
    assert listed("?queue=mail") == listed("?task=mail") == listed("?status=running") == []
    counts = world.client.get("/api/tasks").json()["counts"]
    assert (counts["QUEUED"], counts["FAILED"], counts["DONE"]) == (1, 1, 0)
    assert "No tasks match." in world.client.get("/tasks?task=mail").text
    assert world.client.get("/tasks?status=lost").status_code == 400
    assert "hunter2" not in world.client.get("/tasks").text


def test_a_task_that_waits_for_its_time(world):
    number = world.enqueue(delay=3600)
    page = world.page(number)

    assert world.kinds(number)[-1] == "scheduled"
    assert world.data(number)["history"]["drawn"]["segments"][-1]["planned"]
    assert "Run now" in page
    assert "Cancel" in page
    assert "only waiting" in page


def test_a_task_is_run_now_and_cancelled(world):
    number = world.enqueue(delay=3600)
    made = world.post(f"/tasks/{number}/run-now")
    assert (made.status_code, made.headers["location"]) == (303, f"/tasks/{number}")
    assert "is due now" in (page := world.page(number))
    assert "Run now" not in page
    assert world.client.post(f"/api/tasks/{number}/cancel").json()["status"] == "CANCELLED"
    assert world.store.get(number).status == "CANCELLED"

    left = world.client.post(f"/api/tasks/{number}/cancel").json()
    assert not left["ok"]
    assert left["message"] == f"task {number} is cancelled and was not changed: only a waiting task can be cancelled"
    assert not world.client.post(f"/api/tasks/{number}/run-now").json()["ok"]


def test_a_task_that_runs_and_one_that_is_only_held(world):
    running, held = world.enqueue(), world.enqueue()
    assert [each.id for each in world.settle_and_claim(claim=Claim(("default",), 2, 1))] == [running, held]
    assert world.kinds(running)[-1] == "running"
    assert world.kinds(held)[-1] == "held"
    assert "Cancel" not in world.page(running)


def test_every_attempt_tells_what_it_was(world):
    number = world.enqueue(token="hunter2")
    world.settle(Kind.RETRY, delay=0.0)
    world.settle(Kind.RETRY, NOTE._replace(traceback="Traceback: y"), delay=0.0)
    world.settle(Kind.FAIL, reason="exhausted")
    page, data = world.page(number), world.data(number)
    attempts = data["history"]["attempts"]

    assert [(each["place"], each["outcome"], each["same_as"]) for each in attempts] == [
        (3, "fail", 0),
        (2, "retry", 0),
        (1, "retry", 3),
    ]
    assert [each["traceback"] for each in attempts] == ["Traceback: x", "Traceback: y", ""]
    assert {(each["rule"], each["retryable"], each["http_status"], each["retry_after"]) for each in attempts} == {
        ("r", True, 503, 2.5)
    }
    for text in ("HTTP status", "Asked to wait", "Rule that decided", "A retry may help", "failed for good"):
        assert text in page
    assert page.count('id="attempt-') == 3
    assert set(re.findall(r'<a href="#(attempt-\d)"><title>', page)) == {"attempt-1", "attempt-2", "attempt-3"}
    words = page.partition("As text")[2].partition("</ol>")[0]
    assert words.count("<li>") == len(data["history"]["drawn"]["segments"])
    assert "hunter2" not in page + str(data)
    assert "style=" not in page


def test_a_dead_task_leads_to_its_letter_and_is_replayed_from_here(world):
    numbers = [world.enqueue() for _ in range(3)]
    claimed = world.settle_and_claim(claim=Claim(("default",), 3, 3))
    world.settle_and_claim(
        *(Settlement(each.id, each.epoch, Kind.FAIL, note=NOTE, reason="permanent") for each in claimed)
    )
    letters = {letter.original_task_id: letter.id for letter in world.app.dead_letters.list()}

    for number in numbers:
        assert world.data(number)["dead_letter_id"] == letters[number]
        assert f'href="/dead-letters/{letters[number]}"' in world.page(number)
    assert world.post(f"/dead-letters/{letters[numbers[1]]}/replay").status_code == 303
    assert world.data(numbers[1])["dead_letter_id"] is None
    assert "fail" in world.kinds(numbers[1])
    assert world.data(numbers[1])["history"]["task"]["replays"] == 1


def test_a_done_task(world):
    number = world.enqueue()
    claimed = world.take()
    world.settle_and_claim(done=[(claimed.id, claimed.epoch)])
    assert world.kinds(number)[-1] == "done"
    assert "No attempt has failed." in world.page(number)


def test_why_a_task_was_put_off_is_told_also_when_nothing_cools_any_more(world):
    number = world.enqueue()
    world.settle(Kind.DEFER, delay=600)
    assert "1 time, last because of: down, token=***" in world.page(number)
    world.app.tasks.pause("default")
    assert "It will not run when it is due, because its queue, default, is paused" in world.page(number)


def test_a_page_is_kept_live_until_the_task_is_over(world):
    number = world.enqueue()
    assert f'data-view="task-{number}"' in world.page(number)
    (before,) = re.findall('data-mark="(.*?)"', world.page(number))
    claimed = world.take()
    (after,) = re.findall('data-mark="(.*?)"', world.page(number))
    assert before != after
    world.settle_and_claim(done=[(claimed.id, claimed.epoch)])
    assert 'data-view="page"' in world.page(number)
    assert 'data-mark=""' in world.page(number)


def test_why_a_ready_task_is_not_taken_up(world):
    number = world.enqueue()
    assert world.data(number)["held_up"] == ""
    world.app.tasks.pause("default")
    assert "its queue, default, is paused" in world.page(number)
    world.app.tasks.resume("default")
    world.store.leave("w-1")
    assert world.data(number)["held_up"] == "no worker is alive"


def test_a_resource_that_cools_down_is_told(tmp_path):
    app = outlast.App(f"sqlite:///{tmp_path / 'x.db'}")

    @app.task(resource="api.example.com")
    def call(): ...

    number = call.enqueue().id
    app.store.start_cooldown("api.example.com", 600, "rate_limit: token=hunter2")
    client = TestClient(dashboard(app, auth=lambda _: "reader"), base_url="http://localhost")
    page = client.get(f"/tasks/{number}").text
    kinds = [part["kind"] for part in client.get(f"/api/tasks/{number}").json()["history"]["drawn"]["segments"]]
    app.close()

    assert "api.example.com is in cooldown" in page
    assert kinds[-1] == "cooldown"
    assert "hunter2" not in page
    assert "Run now" not in page, "a reader changes nothing"


def test_a_long_history_keeps_the_page_small(world):
    number = world.enqueue()
    for count in range(SHOWN_ATTEMPTS + 30):
        world.settle(Kind.RETRY, NOTE._replace(traceback=f"{count} " + "line\n" * 5000), delay=0.0)
    page, data = world.page(number), world.data(number)

    assert len(data["history"]["attempts"]) == SHOWN_ATTEMPTS
    assert data["history"]["earlier"] == 30
    assert data["history"]["attempts"][0]["traceback"].startswith("… beginning left out …")
    assert data["history"]["attempts"][5]["cut"]
    assert "30 earlier attempts are not listed" in page
    assert "are not drawn" in page
    assert set(re.findall(r'href="#(attempt-\d+)"', page)) == set(re.findall(r'id="(attempt-\d+)"', page))
    assert len(page.encode()) < 56_000


def test_numbers_beyond_what_a_script_counts(world):
    with sqlite3.connect(world.path) as connection:
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('task_queue', ?)", (2**53,))
    number = world.enqueue()
    assert number == 2**53 + 1
    assert f"/tasks/{number}" in world.client.get("/tasks").text
    assert world.data(number)["history"]["task"]["id"] == str(number)
    assert f"Task {number}" in world.page(number)


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (
            '{"a":9007199254740993,"b":-12345678901234567890123}',
            '{\n  "a": 9007199254740993,\n  "b": -12345678901234567890123\n}',
        ),
        (
            '{"password":"x","é":[1.5,null,true]}',
            '{\n  "password": "***",\n  "é": [\n    1.5,\n    null,\n    true\n  ]\n}',
        ),
        ('{"to":"me","__celery__":{"id":"i-1","options":{"reply_to":"r"}}}', '{\n  "to": "me"\n}'),
        ("not json", "not json"),
        ('{"a":1e999}', '{\n  "a": "1e999"\n}'),
    ],
)
def test_arguments_are_masked_and_exact(stored, shown):
    assert payload_text(stored) == (shown, False)


def test_arguments_that_are_too_long_are_cut():
    text, cut = payload_text("[" + ",".join(["1"] * 60_000) + "]")
    assert cut
    assert len(text) == 6_000
