"""A monitor and a batch job that stand still for longer than they may, and go on when others have their work.

For workers see ``crash/test_stale_workers.py``. Pitfall 39.
"""

import json
import signal
import threading

import psycopg
import pytest

from crash import monitoring
from crash.processes import until
from outlast.ports.job_rows import RunState
from outlast.ports.source_rows import NewSource
from servers.feeds import Answer, FeedServer, rss

pytestmark = pytest.mark.xdist_group("fleet")
WEEK = 7 * 86400  # polls sit on multiples of it, and no test shall sit on one of them
SOURCES, HELD = 24, 6
MONITOR = {"every": WEEK, "concurrency": HELD, "per_host": 100, "lease": 2, "grace": 15}


@pytest.fixture
def feeds():
    with FeedServer() as server:
        server.gate = threading.Event()
        yield server
        server.gate.set()


def test_a_monitor_that_stood_still_writes_nothing_late(scene, feeds):
    """Another one has polled its sources by then, and their cycle is over."""

    def answer(_):
        feeds.gate.wait(60)
        return Answer(body=rss(3))

    paths = [f"/{each}" for each in range(SOURCES)]
    for path in paths:
        feeds.script(path, [answer])
    found = scene.app.sources.add_many([NewSource(feeds.url(path), "feed") for path in paths])
    one = monitoring.start(scene, "run", user_agent="one", **MONITOR)
    until(lambda: len(feeds.requests) == HELD, 30, scene.said)
    one.send(signal.SIGSTOP)
    two = monitoring.start(scene, "run", user_agent="two", **MONITOR)
    feeds.gate.set()
    until(lambda: [each for each in scene.app.sources.cycles("feed") if each.ended_at], 40, scene.said)
    before = {each.id: scene.app.sources.get(each.id) for each in found}
    assert {each.outcome for each in before.values()} == {"changed"}
    one.send(signal.SIGCONT)
    (more,) = scene.app.sources.add_many([NewSource(feeds.script("/more", Answer(body=rss(1))), "feed")])
    until(lambda: scene.app.sources.get(more.id).outcome, 40, scene.said)
    for child in (one, two):
        child.stop()  # what it still has is written, where it may
    assert {number: scene.app.sources.get(number) for number in before} == before
    assert [len(scene.app.sources.history(number)) for number in before] == [1] * SOURCES, "each is counted once"
    (*_, cycle) = scene.app.sources.cycles("feed")
    assert (cycle.sources, cycle.polled, cycle.failed) == (SOURCES, SOURCES, 0)


def test_a_job_that_stood_still_keeps_its_lock_and_ends_when_it_was_taken(scene, postgres_url):
    """As long as its session stands, nobody runs beside it; once that is gone, it does not go on beside another."""
    stale = scene.start_job("held", 50)
    until(lambda: scene.store.job_holder("held"), 30, scene.said)
    until(lambda: len(scene.ran_targets()) >= 10, 30, scene.said)
    stale.send(signal.SIGSTOP)
    refused = scene.start_job("held", 50)
    assert refused.wait(30) == 1
    assert "is already running" in refused.said()
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
    until(lambda: scene.store.job_holder("held") is None, 20, scene.said)
    other = scene.start_job("held", 50)
    until(lambda: sum(pid == other.pid for _, pid in scene.ran_targets()) >= 10, 30, scene.said)
    other_run = scene.store.runs("held")[0].id
    stale.send(signal.SIGCONT)
    (scene.folder / "go").touch()
    assert stale.wait(30) == 1
    assert "lock of the job was lost" in stale.said()
    assert other.wait(30) == 0, other.said()
    kept, summary = (
        scene.store.run(other_run),
        json.loads(next(line for line in other.said().splitlines() if line.startswith("{"))),
    )
    assert (kept.state, summary["success_targets"], summary["run_id"]) == (RunState.DONE, 50, other_run)
    assert scene.store.job_holder("held") is None
