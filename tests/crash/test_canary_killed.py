"""A replay in steps whose worker is killed, at every point. Pitfalls 56 and 57."""

import os
import signal
import subprocess
import sys

import pytest

from crash.processes import until
from outlast.ports.rows import DeadLetterFilter, Status
from outlast.ports.triage import ReplayState

COUNT = 30
SOAK = os.environ.get("OUTLAST_SOAK") == "1"


@pytest.fixture(autouse=True)
def brisk(monkeypatch):
    monkeypatch.setenv("CRASH_REPLAY_LEASE", "0.5")


class Canary:
    """Dead letters of one cause, and a replay of them."""

    def __init__(self, scene):
        self.scene, self.fixed = scene, scene.folder / "fixed"
        self.numbers = set(scene.add("fixable", COUNT, fixed=str(self.fixed)))
        worker = scene.start()
        scene.settle()
        worker.stop()
        scene.check_books()
        self.group = scene.app.dead_letters.groups()[0].fingerprint

    def begin(self, **more):
        return self.scene.app.dead_letters.replay_later(group=self.group, **more)

    def check_places(self):
        """See that every task is in exactly one place; return how many are dead letters."""
        tasks = self.scene.tasks()
        letters = [each.original_task_id for each in self.scene.store.dead_letters(DeadLetterFilter())]
        failed = {number for number, each in tasks.items() if each.status is Status.FAILED}
        assert tasks.keys() == self.numbers
        assert sorted(letters) == sorted(failed), "no dead letter without its task, none twice"
        return len(letters)

    def until(self, replay, *states):
        def over():
            found = self.scene.store.replay_run(replay.id)
            return found if found.state in states else None

        return until(over, 40, lambda: f"{self.scene.store.replay_run(replay.id)}\n{self.scene.fleet.said()}")

    def finish(self, replay):
        """Have another worker go on; see that all is done, and none was replayed twice."""
        worker = self.scene.start()
        ended = self.until(replay, ReplayState.DONE, ReplayState.STOPPED)
        self.scene.settle()
        worker.stop()
        assert ended.state is ReplayState.DONE, ended
        assert self.check_places() == 0
        tasks = self.scene.check_books()
        assert {each.status for each in tasks.values()} == {Status.DONE}
        assert {each.replays for each in tasks.values()} == {1}, "none was replayed twice"
        assert ended.replayed == COUNT
        return ended


POINTS = [
    *("stepping:1", "stepped:1", "stepping:2", "stepped:2", "stepped:3", "ending"),
    *("effect:1", "effect:5", "settling:1", "settled:1"),  # of the canaries themselves
]


# the databases in turn; the long run has each point on both
PLACES = [
    (kind, at)
    for number, at in enumerate(POINTS)
    for kind in (("sqlite", "postgres") if SOAK else (("sqlite", "postgres")[number % 2],))
]


@pytest.mark.parametrize(("scene", "at"), PLACES, indirect=["scene"])
def test_killed_it_goes_on(scene, at):
    canary = Canary(scene)
    canary.fixed.touch()
    replay = canary.begin()
    worker = scene.start(at=at)
    worker.dies()
    scene.announce(worker)
    canary.check_places()
    canary.finish(replay)


def test_killed_within_a_step(sqlite_scene):
    """On PostgreSQL one statement does it all; here tasks are queued one by one in one transaction."""
    canary = Canary(sqlite_scene)
    canary.fixed.touch()
    replay = canary.begin()
    sqlite_scene.start(at="replay sql:15").dies()
    assert canary.check_places() == COUNT - 11, "the whole step is undone"
    canary.finish(replay)


def test_a_cause_that_is_not_fixed_costs_one_also_where_workers_die(scene):
    canary = Canary(scene)
    replay = canary.begin()
    worker = scene.start(at="ending")
    worker.dies()
    scene.announce(worker)
    assert canary.check_places() == COUNT
    worker = scene.start()
    ended = canary.until(replay, ReplayState.STOPPED, ReplayState.DONE)
    worker.stop()
    assert (ended.state, ended.replayed) == (ReplayState.STOPPED, 1)
    assert len(scene.effects.lines()) == COUNT + 1, "one was tried, once"
    canary.fixed.touch()
    scene.app.dead_letters.resume_replay(replay.id)
    worker = scene.start(at="stepped:2")
    worker.dies()
    scene.announce(worker)
    canary.check_places()
    worker = scene.start()
    ended = canary.until(replay, ReplayState.STOPPED, ReplayState.DONE)
    scene.settle()
    worker.stop()
    assert (ended.state, ended.replayed, canary.check_places()) == (ReplayState.DONE, COUNT + 1, 0)


@pytest.mark.parametrize(("allowed", "state"), [(None, ReplayState.DONE), (5, ReplayState.STOPPED)])
def test_without_a_canary_the_number_of_failures_decides_also_where_workers_die(scene, allowed, state):
    canary = Canary(scene)
    replay = canary.begin(canary=False, rate=20, max_failures=allowed)
    worker = scene.start(at="stepped:2")
    worker.dies()
    scene.announce(worker)
    canary.check_places()
    worker = scene.start()
    ended = canary.until(replay, ReplayState.DONE, ReplayState.STOPPED)
    scene.settle()
    worker.stop()
    assert (ended.state, canary.check_places()) == (state, COUNT), "the cause is not fixed"
    assert (ended.replayed == COUNT) is (allowed is None)


def test_whoever_began_it_may_die(scene):
    """The command has done its duty once it has begun one."""
    canary = Canary(scene)
    canary.fixed.touch()
    worker = scene.start()
    until(lambda: any(each.alive for each in scene.store.workers()), 20, worker.said)
    words = ["dlq", "replay", "--group", canary.group, "--canary", "--rate", "10/s", "--url", scene.url]
    command = subprocess.Popen(
        [sys.executable, "-m", "outlast", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ
    )
    try:
        replay = until(scene.store.replay_runs, 20, "a replay")[0]
        command.send_signal(signal.SIGKILL)
    finally:
        command.communicate(timeout=20)
    ended = canary.until(replay, ReplayState.DONE, ReplayState.STOPPED)
    scene.settle()
    worker.stop()
    assert (ended.state, ended.replayed, canary.check_places()) == (ReplayState.DONE, COUNT, 0)
    assert (ended.ended_at - ended.created_at).total_seconds() > (COUNT - 11 - 2) / 10, "and the rate was kept"
