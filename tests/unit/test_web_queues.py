"""The page of queues and workers: what waits where, who has what in hand, pausing and resuming."""

import pytest
from starlette.testclient import TestClient

import outlast
from outlast.errors import ConfigError
from outlast.ports.rows import Claim, SettleAndClaim, WorkerRow
from outlast.web import dashboard
from web_weighing import MOST_BYTES, weight

ODD = "a/b ?%&<i>"
ODD_PATH = "a%2Fb%20%3F%25%26%3Ci%3E"
SECRET = "S3cr3tS3cr3tS3cr3t"


class World:
    """An app on SQLite and a browser."""

    def __init__(self, folder):
        self.app = outlast.App(f"sqlite:///{folder / 'outlast.db'}")
        self.store = self.app.store

        @self.app.task
        def scrape(): ...

        @self.app.task(queue=ODD)
        def odd(): ...

        self.scrape, self.odd = scrape, odd
        self.role = "operator"
        site = dashboard(self.app, auth=lambda _: self.role)
        self.client = TestClient(site, base_url="http://localhost", headers={"Origin": "http://localhost"})

    def register(self, name, *queues, lease=60.0, state="running"):
        now = self.store.now()
        worker = WorkerRow(name, name, "host", 7, queues, 4, state, 0, alive=True, started_at=now, heartbeat_at=now)
        self.store.register(worker, lease)

    def claim(self, name, queue, limit):
        return self.store.settle_and_claim(SettleAndClaim(name, [], [], [], Claim((queue,), limit, limit))).claimed

    def data(self, query=""):
        return self.client.get(f"/api/queues{query}").json()

    def page(self):
        answer = self.client.get("/queues")
        assert answer.status_code == 200
        return answer.text

    def paused(self):
        return {row["name"] for row in self.data()["queues"] if row["paused"]}

    def post(self, path, **form):
        return self.client.post(path, data=form, follow_redirects=False)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    for worker in made.store.workers():
        made.store.leave(worker.id)
    made.app.close()


def test_nothing_at_all(world):
    page = world.page()
    assert "No queues." in page
    assert "No workers." in page


def test_queues_and_who_does_not_look(world):
    world.scrape.enqueue()
    world.odd.enqueue()
    world.odd.enqueue(delay=60)
    world.register("w-1", "default")
    data = world.data()

    assert {row["name"]: (row["ready"], row["scheduled"]) for row in data["queues"]} == {"default": (1, 0), ODD: (1, 1)}
    assert (data["totals"]["ready"], data["totals"]["scheduled"], data["totals"]["alive"]) == (2, 1, 1)
    assert data["unserved"] == [ODD]
    page = world.page()
    assert "No live worker serves a/b ?%&amp;&lt;i&gt;" in page
    assert f'action="/queues/{ODD_PATH}/pause"' in page
    assert "<i>" not in page


def test_a_queue_is_paused_and_resumed_whatever_its_name(world):
    world.odd.enqueue()
    paused = world.post(f"/queues/{ODD_PATH}/pause")
    assert (paused.status_code, paused.headers["location"]) == (303, "/queues")
    assert world.paused() == {ODD}
    assert world.data()["unserved"] == [], "nobody looks because it is paused"
    resumed = world.client.post(f"/api/queues/{ODD_PATH}/resume").json()
    assert resumed == {"ok": True, "message": f"queue {ODD} is resumed", "queue": ODD, "paused": False}
    assert world.paused() == set()
    assert world.client.post(f"/api/queues/{ODD_PATH}/resume").json()["message"] == f"queue {ODD} was not paused"


def test_a_queue_that_nobody_used_yet_is_paused_by_its_name(world):
    assert world.post("/queues/pause", queue="  later ").status_code == 404
    assert world.post("/queues/pause", queue="  later ", new="yes").status_code == 303
    assert world.paused() == {"later"}
    assert "it has no tasks yet" in world.page()
    for name in ("", "  ", "x" * 201):
        assert world.post("/queues/pause", queue=name).status_code == 400
    assert world.post("/queues/pause").status_code == 400
    assert world.paused() == {"later"}


def test_a_queue_that_is_not_there_is_not_resumed(world):
    answer = world.post("/queues/nowhere/resume")
    assert answer.status_code == 404
    assert "check the name" in answer.text


def test_an_empty_queue_that_a_worker_looks_into_can_be_paused(world):
    world.register("w-1", "mail")
    assert [(row["name"], row["ready"]) for row in world.data()["queues"]] == [("mail", 0)]
    assert 'action="/queues/mail/pause"' in world.page()


def test_workers_and_what_they_have_in_hand(world):
    for _ in range(16):
        world.scrape.enqueue()
    world.register("w-1", "default")
    world.register("w-2", "default", state="pauses: disk full, password=hunter2")
    held = [each.id for each in world.claim("w-1", "default", 15)]
    first, second = sorted(world.data()["workers"], key=lambda each: each["worker"]["name"])

    assert first["worker"]["tasks"] == 15
    assert [row["id"] for row in first["tasks"]] == held[::-1][:6]
    assert first["more"] == 9
    assert (second["tasks"], second["more"]) == ([], 0)
    page = world.page()
    assert f'href="/tasks/{held[-1]}"' in page
    assert "and 9 more" in page
    assert "pauses: disk full" in page
    assert "hunter2" not in page + str(world.data())


def test_a_silent_worker_stands_first(world):
    world.register("b-silent", "default", lease=-1.0)
    world.register("a-alive", "default")
    data = world.data()
    assert [(each["worker"]["name"], each["says"]) for each in data["workers"]] == [
        ("b-silent", "silent"),
        ("a-alive", "running"),
    ]
    assert (data["totals"]["alive"], data["totals"]["silent"]) == (1, 1)
    assert "Silent workers" in world.page()


def test_who_may_only_look_changes_nothing(world):
    world.scrape.enqueue()
    world.role = "reader"
    assert 'method="post"' not in world.page()
    assert world.post("/queues/default/pause").status_code == 403
    assert world.paused() == set()


def test_many_queues_and_workers_are_shown_in_part(world):
    for number in range(60):
        world.app.task(name=f"task-{number}", queue=f"queue-{number:02}")(lambda: None).enqueue()
    for number in range(40):
        world.register(f"worker-{number:02}", *(f"nobody-{each}" for each in range(5)))
    data = world.data()

    assert [len(data[name]) for name in ("queues", "workers", "unserved")] == [25, 15, 10]
    assert data["totals"]["ready"] == 60
    assert (data["totals"]["alive"], data["more_unserved"]) == (40, 50)
    page = world.page()
    assert "25 of 65 queues, and 40 more" in page
    assert 'href="/queues?worker_page=2"' in page
    assert "and 50 more, where tasks are ready" in page
    assert weight(world.client, "/queues") < MOST_BYTES
    names = [row["name"] for part in (1, 2, 3) for row in world.data(f"?queue_page={part}")["queues"]]
    assert names == [*(f"nobody-{each}" for each in range(5)), *(f"queue-{number:02}" for number in range(60))]


def test_the_name_of_a_queue_contains_no_secret(world):
    """Names are shown as they are, so a secret is refused where a name comes in: a task, a call, a worker, a filter."""
    named = f"acme-token={SECRET}"
    task = world.app.task(name="plain")(print)
    for use in (
        lambda: world.app.task(name="named", queue=named)(print),
        lambda: world.app.task(name=named)(print),
        lambda: task.enqueue(queue=named),
        lambda: world.app.worker([named]),
    ):
        with pytest.raises(ConfigError, match="which contains a secret") as raised:
            use()
        assert SECRET not in str(raised.value)
    for path in ("/tasks", "/dead-letters", "/api/tasks"):
        answer = world.client.get(path, params={"queue": named})
        assert answer.status_code == 400
        assert "token=***" in answer.text
        assert SECRET not in answer.text
