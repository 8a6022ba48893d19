"""Every page of the table of routes weighs little, with the longest texts and lists far longer than a page."""

import logging

import pytest
from starlette.testclient import TestClient

import outlast
from outlast.ports.job_rows import TargetDone, TargetStatus
from outlast.ports.read_rows import FailureFilter
from outlast.ports.rows import WorkerRow
from outlast.ports.source_rows import NewSource, Poll, SourceChange
from outlast.web import dashboard
from outlast.web.site import PAGES
from web_weighing import MOST_BYTES, weight

SECRET = "hunter2-is-a-secret"
LONG = f"password={SECRET} " + "<a long text that goes on> " * 200
MANY = 120


class Heavy:
    """A store that is full, and a browser of somebody who may change things."""

    def __init__(self, url):
        self.app = outlast.App(url, policy=outlast.RetryPolicy(max_attempts=1))
        self.app.create_schema()
        site = dashboard(self.app, auth=lambda _: "operator")
        self.client = TestClient(site, base_url="http://localhost", headers={"Origin": "http://localhost"})
        logging.disable(logging.CRITICAL)
        try:
            self.parts = {**self._tasks(), **self._sources(), **self._runs()}
        finally:
            logging.disable(logging.NOTSET)
        self._waits()

    def _tasks(self):
        def fails(text):
            raise ValueError(LONG)

        for number in range(MANY):
            name = f"task-{number:03}-{'n' * 20}"
            self.app.task(name=name, queue=f"queue-{number:03}-{'q' * 20}")(fails).enqueue(text=LONG)
        queues = [row.name for row in self.app.tasks.queues()]
        self.app.worker(queues[: MANY // 2], concurrency=1).drain()
        now = self.app.store.now()
        for number in range(MANY):
            name = f"worker-{number:03}-{'w' * 40}"
            self.app.store.register(
                WorkerRow(name, name, "h" * 60, 1, tuple(queues[:3]), 4, LONG, 0, True, now, now), 3600
            )
        letter = self.app.dead_letters.list()[0]
        answer = self.client.post("/api/replays/start", json={"all": 1, "canary": False, "why": "w" * 400})
        assert answer.status_code == 200, answer.text
        return {
            "failure": {"fingerprint": self.app.store.failures(FailureFilter()).rows[0].fingerprint},
            "dead_letter": {"dead_letter_id": letter.id},
            "dead_letter_arguments": {"dead_letter_id": letter.id},
            "task": {"task_id": letter.original_task_id},
            "replay": {"replay_id": self.app.store.replay_runs()[0].id},
        }

    def _sources(self):
        store = self.app.store
        new = [
            NewSource(f"https://{number:03}.test/{'u' * 200}", "feed", name=f"source {number}")
            for number in range(MANY)
        ]
        numbers = [each.id for each in store.add_sources(new)]

        def change(source, now):
            line = Poll(source.id, 1, now, "failed", 1, error=LONG, category="api_temporary")
            return SourceChange(source._replace(outcome="failed"), line)

        for _ in range(50):
            store.change_sources(dict.fromkeys(numbers[:30], (None, change)))
        return {"source": {"source_id": numbers[0]}}

    def _runs(self):
        more = {"category": "data", "error_type": "E", "error_message": LONG}
        targets = [
            TargetDone(
                f"https://bob:{SECRET}@{each:03}.test/{'t' * 100}", TargetStatus.FAILED, fingerprint=str(each), **more
            )
            for each in range(MANY)
        ]
        for number in range(MANY // 2):
            self.app.store.add_run(f"run-{number:03}", f"job-{number} {LONG[:190]}", None, "test", None)
        self.app.store.add_targets("run-000", targets)
        return {"run": {"run_id": "run-000"}}

    def _waits(self):
        for number in range(MANY):
            self.app.store.start_cooldown(f"host-{number:03}-{'h' * 100}.test", 3600, LONG)
        rows = [(f"api-{number:03}-{'a' * 100}.test", "open", 60.0, LONG) for number in range(MANY)]
        for process in range(10):
            self.app.store.report_breakers(f"host:{process}:x", rows)

    def path(self, page):
        return page.path.format(**self.parts.get(page.name, {}))


@pytest.fixture(scope="module")
def heavy(tmp_path_factory):
    made = Heavy(f"sqlite:///{tmp_path_factory.mktemp('heavy') / 'outlast.db'}")
    yield made
    made.app.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_weighs_little_whatever_there_is(heavy, page):
    path = heavy.path(page)
    assert weight(heavy.client, path) < MOST_BYTES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lists_longer_than_a_page_show_no_secret(heavy, page):
    path = heavy.path(page)
    assert SECRET not in heavy.client.get(path).text
    assert SECRET not in heavy.client.get(f"/api{path}".rstrip("/")).text
