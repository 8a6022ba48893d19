"""kill -9 in the middle of a job: the run is resumed, little is done twice, and no lock is left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

import outlast
from conformance.places import need_postgres
from crash.processes import until
from outlast.jobs.ledger import _BATCH
from outlast.ports.job_rows import RunState, TargetStatus

_TESTS = Path(__file__).parents[1]
_numbers = count(1)
TARGETS, CONCURRENCY = 3000, 4
ON_THE_WAY = _BATCH + 2 * 128 * CONCURRENCY
"""What may be done and not written: a batch, and what is in the hands of threads."""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    need_postgres()
    server, name = request.getfixturevalue("postgres_server"), f"jobcrash{next(_numbers)}"
    server.execute(f"CREATE DATABASE {name}")
    return f"{server.url.rpartition('/')[0]}/{name}"


class Scene:
    """A program with a job, and what its targets have left."""

    def __init__(self, url, folder):
        self.url, self.folder, self.processes = url, folder, []
        self.app = outlast.App(url)
        self.app.create_schema()

    def start(self, verb="items", **settings):
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(_TESTS)]),
            "JOB_URL": self.url,
            "JOB_FOLDER": str(self.folder),
            "JOB_COUNT": str(TARGETS),
            "JOB_CONCURRENCY": str(CONCURRENCY),
            **{f"JOB_{name.upper()}": str(value) for name, value in settings.items()},
        }
        program = [sys.executable, str(_TESTS / "integration" / "job_program.py"), verb]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=log)
        self.processes.append(process)
        return process

    def effects(self):
        path = self.folder / "effects"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [int(line.split()[0]) for line in lines]

    def written(self, run_id):
        return self.app.store.target_counts(run_id)[TargetStatus.SUCCESS]

    def run_of(self, verb="items"):
        return self.app.store.runs(verb, 1)[0]

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)

    def said(self):
        return (self.folder / "log").read_text("utf-8", "replace")[-3000:]

    def end(self):
        for process in self.processes:
            process.kill()
            process.communicate()
        self.app.close()


@pytest.fixture
def scene(url, tmp_path):
    scene = Scene(url, tmp_path)
    yield scene
    scene.end()


def test_a_run_that_is_killed_again_and_again_ends_with_everything_done(scene):
    chance = random.Random(7)
    run_id, twice = "", 0
    for _ in range(3):
        enough = len(scene.effects()) + chance.randint(100, 700)
        process = scene.start(pause=0.001, resume=run_id)
        until(lambda enough=enough: len(scene.effects()) >= enough, 30, scene.said)
        scene.kill(process)
        found = scene.run_of()
        run_id = run_id or found.id
        assert (found.id, found.state) == (run_id, RunState.RUNNING)
        until(lambda: scene.app.store.job_holder("items") is None, 10, "the lock is gone with its process")
        unwritten = len(set(scene.effects())) - scene.written(run_id)
        assert 0 <= unwritten <= ON_THE_WAY
        twice += unwritten
    process = scene.start(resume=run_id)
    out, _ = process.communicate(timeout=60)
    summary = json.loads(out)
    assert (process.returncode, summary["state"], summary["run_id"]) == (0, "done", run_id), scene.said()
    assert summary["success_targets"] + summary["skipped_targets"] == summary["total_targets"] == TARGETS
    assert scene.written(run_id) == TARGETS
    done = Counter(scene.effects())
    assert done.keys() == set(range(TARGETS)), "all are done"
    assert sum(done.values()) - TARGETS <= twice, "only what was not written is done twice"
    assert len(scene.app.store.runs("items")) == 1


def test_what_was_done_is_written_soon_though_other_targets_take_long(scene):
    """Killed while four targets wait, nothing of what was done a second ago is done again."""
    process = scene.start("held")
    until(lambda: len(scene.effects()) >= 10 + CONCURRENCY, 30, scene.said)
    run_id = scene.run_of("held").id
    until(lambda: scene.written(run_id) == 10, 10, lambda: f"{scene.written(run_id)} are written")
    scene.kill(process)
    (scene.folder / "go").touch()
    process = scene.start("held", resume=run_id)
    out, _ = process.communicate(timeout=60)
    summary = json.loads(out)
    assert summary["success_targets"] == summary["total_targets"]
    done = Counter(scene.effects())
    assert {target for target, times in done.items() if times == 2} == set(range(10, 10 + CONCURRENCY))


def test_another_process_is_told_who_runs_the_job(scene):
    process = scene.start("held")
    until(lambda: len(scene.effects()) >= 10, 30, scene.said)
    other = scene.start("held")
    other.communicate(timeout=30)
    assert other.returncode == 1
    assert f"process {process.pid}" in scene.said()
    assert "is already running" in scene.said()
    scene.kill(process)
    until(lambda: scene.app.store.job_holder("held") is None, 10, "the lock is gone with its process")
    (scene.folder / "go").touch()
    again = scene.start("held")
    again.communicate(timeout=60)
    assert again.returncode == 0
