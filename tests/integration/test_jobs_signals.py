"""Ctrl-C and SIGTERM in a process of its own: a summary, an exit code, and a run that can be resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import outlast
from crash.processes import until
from outlast.ports.job_rows import RunState

_TESTS = Path(__file__).parents[1]


class Program:
    """A process that runs a job on a SQLite file."""

    def __init__(self, folder):
        self.folder, self.url = folder, f"sqlite:///{folder}/jobs.db"
        self.processes = []

    def start(self, verb, **settings):
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(_TESTS)]),
            "JOB_URL": self.url,
            "JOB_FOLDER": str(self.folder),
            **{f"JOB_{name.upper()}": str(value) for name, value in settings.items()},
        }
        program = [sys.executable, str(_TESTS / "integration" / "job_program.py"), verb]
        process = subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def effects(self):
        path = self.folder / "effects"
        return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []

    def wait_for(self, number):
        until(lambda: len(self.effects()) >= number, 30, lambda: f"{number} targets, there are {self.effects()}")


@pytest.fixture
def program(tmp_path):
    program = Program(tmp_path)
    yield program
    for process in program.processes:
        process.kill()
        process.communicate()


def wait_until_seen(process):
    """Wait until a process has seen its first signal: then it says so."""
    assert any("a second signal ends at once" in line for line in process.stderr)


def ended(process):
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("number", "verb", "concurrency"),
    [
        (signal.SIGINT, "held", 1),
        (signal.SIGTERM, "held", 4),
        (signal.SIGTERM, "held async", 1),
        (signal.SIGINT, "held async", 4),
    ],
)
def test_a_signal_stops_a_run_which_is_then_resumed(program, number, verb, concurrency):
    process = program.start(verb, concurrency=concurrency)
    program.wait_for(10 + concurrency)
    process.send_signal(number)
    if (verb, concurrency) != (
        "held",
        1,
    ):  # there it is the main thread that waits for "go", and it sees a signal first
        wait_until_seen(process)
    (program.folder / "go").touch()
    code, out, err = ended(process)
    summary = json.loads(out)
    assert code == summary["exit_code"] == 1
    assert (summary["state"], summary["total_targets"]) == ("stopped", 100)
    assert summary["success_targets"] == len(program.effects()) == 10 + concurrency
    assert summary["not_attempted"] == 90 - concurrency
    assert "stopped before its end" in err
    assert "Traceback" not in err
    code, out, _ = ended(program.start(verb, concurrency=concurrency, resume=summary["run_id"]))
    again = json.loads(out)
    assert (code, again["state"]) == (0, "done")
    assert (again["success_targets"], again["skipped_targets"]) == (100, 0)
    assert sorted(program.effects()) == list(range(100)), "each once"


@pytest.mark.parametrize("verb", ["held", "held async"])
def test_a_second_signal_interrupts(program, verb):
    process = program.start(verb)
    program.wait_for(14)
    process.send_signal(signal.SIGINT)
    wait_until_seen(process)
    time.sleep(0.5)  # what comes sooner is taken for the same
    assert process.poll() is None, "running targets finish"
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert code not in {0, None}
    assert "KeyboardInterrupt" in err
    assert "10 success" in err, "the summary is told"
    with_app = outlast.App(program.url)
    (run,) = with_app.store.runs("held" if verb == "held" else "held async")
    assert (run.state, run.summary["success_targets"], run.summary["not_attempted"]) == (RunState.ABORTED, 10, 90)
    assert with_app.store.job_holder(run.job) is None
    with_app.close()


def test_one_signal_that_comes_twice_is_one(program):
    """Some supervisors send it to the process and to its group."""
    process = program.start("held")
    program.wait_for(14)
    for _ in range(3):
        process.send_signal(signal.SIGTERM)
    wait_until_seen(process)
    (program.folder / "go").touch()
    _, out, _ = ended(process)
    assert json.loads(out)["state"] == "stopped"


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_signal_ends_a_wait_for_another_attempt(program, concurrency):
    process = program.start("waiting", concurrency=concurrency)
    program.wait_for(concurrency)
    process.send_signal(signal.SIGTERM)
    code, out, _ = ended(process)
    assert code == 1
    assert json.loads(out)["not_attempted"] == 100


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_signal_ends_a_wait_for_targets(program, concurrency):
    process = program.start("idle", concurrency=concurrency)
    until(lambda: (program.folder / "blocked").exists() and len(program.effects()) == 10, 30, "ten targets")
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    summary = json.loads(out)
    assert (code, summary["state"], summary["success_targets"]) == (1, "stopped", 10)
    assert not summary["total_is_known"]
    assert "Traceback" not in err


def test_handlers_of_signals_are_put_back(tmp_path):
    app = outlast.App("memory://")
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    seen = []

    def handler(context, target):
        seen.append([signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)])
        if target == "raise":
            raise SystemExit

    job = app.job("signals", max_failure_rate=0)(handler)
    job.run([1], concurrency=1)
    assert seen[0] != before
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
    with pytest.raises(SystemExit):
        job.run(["raise"])
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_job_inside_a_job_leaves_the_handlers_of_the_outer_one():
    app = outlast.App("memory://")
    inner = app.job("inner", max_failure_rate=0)(lambda *_: None)

    def handler(context, target):
        before = signal.getsignal(signal.SIGINT)
        assert inner.run([1]).exit_code == 0
        assert signal.getsignal(signal.SIGINT) is before

    assert app.job("outer", max_failure_rate=0)(handler).run([1], concurrency=1).exit_code == 0


def test_who_ignores_signals_goes_on_doing_so():
    app = outlast.App("memory://")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:

        def handler(context, target):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN

        assert app.job("a", max_failure_rate=0)(handler).run([1], concurrency=1).exit_code == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_run_in_another_thread_leaves_signals_alone():
    app = outlast.App("memory://")
    before, seen = signal.getsignal(signal.SIGINT), []
    job = app.job("a", max_failure_rate=0)(lambda *_: seen.append(signal.getsignal(signal.SIGINT)))
    thread = threading.Thread(target=job.run, args=([1],))
    thread.start()
    thread.join()
    assert seen == [before]
