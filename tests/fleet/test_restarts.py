"""PostgreSQL restarted, by hand and by a crash, under workers and monitors; some begin while it is down. Pitfall 47."""

import signal
import sys

import psycopg
import pytest

from crash import monitoring
from crash.processes import until
from outlast.ports.rows import Status
from outlast.ports.source_rows import NewSource
from servers.feeds import Answer, FeedServer, rss

pytestmark = pytest.mark.xdist_group("fleet")
WEEK = 7 * 86400  # polls sit on multiples of it, and no test shall sit on one of them
SOURCES = 30
MONITOR = {"every": WEEK, "concurrency": 4, "per_host": 100, "lease": 30, "grace": 15}


@pytest.mark.needs("pgbouncer")
def test_a_fleet_outlives_two_restarts(scene, fleet_server, bouncer, database):
    """Workers and monitors that are there go on; those that begin meanwhile wait. No task is lost or given twice."""
    ways = (scene.url, bouncer.url(database))
    workers = [scene.start(url=url, worker={"concurrency": 3}) for url in ways]
    with FeedServer() as feeds:
        urls = [feeds.script(f"/{each}", Answer(body=rss(2))) for each in range(SOURCES)]
        monitors = [monitoring.start(scene, "run", **MONITOR)]
        scene.begun(2)
        scene.add("hasty", 60, name="hasty")
        scene.add("broken", 10, name="broken")
        until(lambda: len(scene.ran("hasty")) > 20, 30, scene.said)
        fleet_server.stop_hard()
        late = scene.start(worker={"concurrency": 3})
        monitors.append(monitoring.start(scene, "run", **MONITOR))
        until(lambda: "cannot start because the store" in late.said(), 30, late.said)
        until(lambda: "is not available" in monitors[-1].said(), 30, monitors[-1].said)
        fleet_server.restart()
        until(lambda: _reaches(scene), 40, scene.said)
        scene.begun(3)
        found = scene.app.sources.add_many([NewSource(url, "feed") for url in urls])
        scene.add("note", 60, name="notes")
        fleet_server.restart()
        until(lambda: _reaches(scene), 40, scene.said)
        scene.settled()
        until(lambda: all(each.outcome for each in scene.app.sources.list()), 40, scene.said)
        for child in (*workers, late, *monitors):
            assert child.alive, scene.said()
            child.stop()
    scene.balanced()
    counts = scene.store.counts()
    assert (counts["DONE"], counts["FAILED"], counts["dead_letters"]) == (120, 10, 10)
    assert len(scene.ran("notes")) >= 60
    assert not [each for each in scene.children if "of lost worker" in each.said()], "nobody was taken for dead"
    assert {scene.app.sources.get(each.id).outcome for each in found} == {"changed"}


def _reaches(scene):
    try:
        return scene.store.now()
    except psycopg.OperationalError:
        return None


def _command(scene, url):
    """Start a worker by the command."""
    words = [sys.executable, "-m", "outlast", "worker", "fleet.waiting:app"]
    return scene.launch(words, scene.environment(FLEET_URL=url, FLEET_FOLDER=str(scene.folder)))


def test_who_is_told_to_stop_while_it_waits_for_the_database_ends_well(scene, fleet_server):
    """By the command too; what it was asked to do is not done, and nothing is wrong."""
    (number,) = scene.add("note", name="late")
    fleet_server.stop_hard()
    try:
        child = scene.start()
        command = _command(scene, scene.url)
        for each in (child, command):
            until(lambda each=each: "cannot start because the store" in each.said(), 30, each.said)
            each.send(signal.SIGTERM)
        assert [each.wait(40) for each in (child, command)] == [0, 0], scene.said()
    finally:
        fleet_server.restart()
    until(lambda: _reaches(scene), 40, scene.said)
    assert scene.store.get(number).status is Status.QUEUED


def test_what_waiting_does_not_help_against_ends_a_worker_at_once(scene):
    """A wrong password, and a database without tables."""
    server = scene.url.rpartition("/")[0]
    wrong = {
        scene.url.replace("secret", "wrong"): "password authentication failed",
        f"{server}/postgres": "outlast db init",
    }
    children = [_command(scene, url) for url in wrong]
    for child, said in zip(children, wrong.values(), strict=True):
        assert child.wait(60) == 1
        assert said in child.said()
        assert "cannot start because the store" not in child.said()
        assert "Traceback" not in child.said()
