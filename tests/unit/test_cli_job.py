"""outlast job run: targets of the job, a gate, a summary, and the command that does the rest."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

import pytest

from cli_world import in_one_line, make_world  # noqa: F401  # a fixture
from outlast.cli import job

LIMIT = 30.0
SECRET = "hunter2hunter2"
ETL = """
import os
import time
from pathlib import Path

import outlast
from outlast.errors import QuotaExhaustedError, SkipTarget

app = outlast.App("sqlite:///outlast.db")
once = outlast.RetryPolicy(max_attempts=1)
a_number = 4


@app.job("items", entity="item", policy=once, targets=lambda: [f"i{number:03}" for number in range(40)])
def items(context, target):
    with open("seen", "a") as file:
        file.write(f"{target} {context.dry_run}\\n")
    if Path("well").exists():
        return
    if target in {"i003", "i004"}:
        raise ConnectionError("down, token=hunter2hunter2")
    if target == "i005":
        raise QuotaExhaustedError("used up", retry_after=4000)
    if target == "i006":
        raise SkipTarget("not wanted")
    context.count("diff_new_hash")


@app.job("tags", entity="tag", policy=once, targets=lambda: range(3))
def tags(context, target):
    pass


@app.job("bare", entity="tag", policy=once)
def bare(context, target):
    pass


@app.job("unkept", max_failure_rate=0.1, policy=once, ledger=False, targets=lambda: ["a"])
def unkept(context, target):
    raise ValueError("no good")


def unreadable():
    raise ConnectionError("postgresql://me:hunter2hunter2@db/x is down")


@app.job("blind", entity="tag", targets=unreadable)
def blind(context, target):
    pass


def gated(context, target):
    Path(f"begun-{target}").touch()
    while not Path("go").exists():
        time.sleep(0.01)


listed = app.job("listed", entity="tag", policy=once, targets=lambda: list(range(20)))(gated)
streamed = app.job("streamed", entity="tag", policy=once, targets=lambda: iter(range(20)))(gated)
"""
E10 = [
    "total_targets", "success_targets", "failed_targets", "diff_new_hash", "s3_put_success", "s3_put_fail",
    "db_upsert_success", "db_upsert_fail", "failure_rate", "exit_code",
]  # fmt: skip


@pytest.fixture
def etl(world):
    """A folder with ``etl.py``; what it says can be changed before the first command."""
    (world.folder / "etl.py").write_text(ETL)
    sys.modules.pop("etl", None)
    yield world
    if (module := sys.modules.pop("etl", None)) is not None:
        module.app.close()


@pytest.fixture
def start(etl):
    begun = []

    def start(*words, **streams):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "outlast", "job", "run", *map(str, words)], cwd=etl.folder, env=environment,
            preexec_fn=_hearing_interrupts,  # noqa: PLW1509  # this process has no other thread that matters
            **(streams or {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}),
        )  # fmt: skip
        begun.append(process)
        return process

    yield start
    for process in begun:
        process.kill()
        process.communicate()


def wait_for(condition):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def figures(text):
    return dict(re.findall(r"^([a-z][a-z0-9]*(?: [a-z0-9]+)*)  +(\S.*?) *$", text, re.MULTILINE))


def command_in(text):
    (line,) = [line for line in text.splitlines() if line.startswith("to run the rest: outlast ")]
    return shlex.split(line.removeprefix("to run the rest: outlast "))


def seen(world):
    return (world.folder / "seen").read_text().split()[::2]


class TestTheSummary:
    def test_it_says_how_the_run_went_and_what_to_do(self, etl):
        result = etl.run("job", "run", "etl:items", code=1)
        told = figures(result.stdout)

        assert result.stdout.splitlines()[0].endswith(": failed")
        assert [name for each in told if (name := each.replace(" ", "_")) in E10] == E10
        assert (told["total targets"], told["success targets"], told["failed targets"]) == ("40", "36", "2")
        assert (told["deferred targets"], told["skipped targets"], told["not attempted"]) == ("1", "1", "0")
        assert (told["failure rate"], told["exit code"], told["diff new hash"]) == ("7.50%", "1", "36")
        assert told["by category"] == "network 2, quota_exhausted 1"
        assert "by origin" in told
        assert re.search(r"^ +2  network .*ConnectionError: down, token=\*\*\*$", result.stdout, re.MULTILINE)
        assert "exit code 1: 3 of 40 targets failed" in result.stdout
        assert SECRET not in result.output

    def test_the_rest_is_done_by_the_command_that_it_prints(self, etl):
        first = etl.run("job", "run", "etl:items", code=1)
        (etl.folder / "well").touch()
        (etl.folder / "seen").unlink()
        second = etl.run(*command_in(first.stdout))

        assert sorted(seen(etl)) == ["i003", "i004", "i005"]
        assert ": passed" in second.stdout.splitlines()[0]
        assert "3 fixed, 0 broken, 0 still failing" in second.stdout
        assert "to run the rest:" not in second.stdout

    def test_as_json_it_stands_alone_on_standard_output(self, etl):
        data = etl.json("job", "run", "etl:items", code=1)

        assert [name for name in data if name in E10] == E10
        assert (data["total_targets"], data["failed_targets"], data["exit_code"]) == (40, 2, 1)
        assert data["groups"][0]["error"] == "ConnectionError: down, token=***"
        assert etl.json("job", "run", "etl:tags")["exit_code"] == 0

    def test_a_run_that_passes(self, etl):
        result = etl.run("job", "run", "etl:tags")

        assert result.stdout.splitlines()[0].endswith(": passed")
        assert "exit code 1" not in result.stdout

    def test_a_dry_run_is_not_written_down(self, etl):
        result = etl.run("job", "run", "etl:items", "--dry-run", "--limit", 5, code=1)

        assert "dry run" in result.stdout.splitlines()[0]
        assert "to run the rest:" not in result.stdout
        assert (etl.folder / "seen").read_text().split()[1::2] == ["True"] * 5
        assert not (etl.folder / "outlast.db").exists()

    def test_what_was_handed_over_is_told(self, etl):
        given = '@app.task\ndef later(target):\n    pass\n\n\n@app.job("items", hand_over=later, '
        (etl.folder / "etl.py").write_text(ETL.replace('@app.job("items", ', given))
        result = etl.run("job", "run", "etl:items", code=1)

        assert "failed targets were passed to the task later; outlast tasks list shows them" in result.stdout
        assert etl.json("status")["counts"]["QUEUED"] == 2

    def test_without_a_ledger_there_is_no_rest_to_be_done(self, etl):
        assert "to run the rest:" not in etl.run("job", "run", "etl:unkept", code=1).stdout
        assert "has no ledger" in etl.run("job", "run", "etl:unkept", "--resume", "x", code=2).stderr


class TestWhichJob:
    def test_of_an_app_by_its_name(self, etl):
        assert etl.json("job", "run", "etl:app", "--name", "tags")["job_id"] == "tags"
        first = etl.run("job", "run", "etl:app", "--name", "items", code=1)
        assert command_in(first.stdout)[:5] == ["job", "run", "etl:app", "--name", "items"]

    def test_of_an_app_that_has_but_one(self, etl):
        (etl.folder / "etl.py").write_text(ETL.partition('@app.job("tags"')[0])

        assert etl.json("job", "run", "etl:app", code=1)["job_id"] == "items"

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["etl:app"], "etl:app has several jobs; choose one: --name items, --name tags, "),
            (["etl:app", "--name", "nosuch"], "etl:app has no job 'nosuch'; it has: items, tags, "),
            (["etl:items", "--name", "tags"], "etl:items is the job items, not tags"),
            (["jobs:app"], "jobs:app has no jobs; @app.job(…) makes a function a job"),
            (["etl:nosuch"], "module etl has no 'nosuch'; it has etl:app, etl:items"),
            (["etl:a_number"], "etl:a_number is of type int, not an App or Job"),
            (["nosuch:items"], "module 'nosuch' was not found"),
            (["etl:bare"], "bare has no targets"),
            (["etl:items", "--resume", "a", "--only-failed", "b"], "give only one of them"),
            (["etl:items", "--resume", "nosuch"], "items has no run nosuch"),
            (["etl:items", "--only-failed", "nosuch"], "items has no run nosuch"),
            (["etl:items", "--limit", "0"], "--limit"),
            (["etl:items", "--concurrency", "0"], "--concurrency"),
        ],
    )
    def test_what_makes_no_sense(self, etl, words, said):
        result = etl.run("job", "run", *words, code=2)

        assert said in in_one_line(result.stderr)
        assert result.stdout == ""

    def test_the_last_run_need_not_be_called_by_its_number(self, etl):
        assert "job items has no run yet" in etl.run("job", "run", "etl:items", "--resume", "last", code=1).stderr
        first = etl.json("job", "run", "etl:items", "--limit", 10, code=1)
        again = etl.json("job", "run", "etl:items", "--only-failed", "last", code=1)
        assert etl.json("job", "show", again["run_id"])["parent"] == first["run_id"]
        assert again["total_targets"] == first["failed_targets"] + first["deferred_targets"]
        etl.run("job", "run", "etl:items", "--limit", 10, code=1)
        last = etl.json("job", "list")[0]["run_id"]
        assert etl.json("job", "run", "etl:items", "--resume", "last", code=1)["run_id"] == last

    def test_targets_that_cannot_be_had(self, etl):
        result = etl.run("job", "run", "etl:blind", code=1)

        assert "in unreadable" in result.stderr
        assert result.stderr.splitlines()[-1].startswith("Error: the targets of blind cannot be listed: ")
        assert SECRET not in result.output

    def test_a_job_whose_app_is_hidden(self, etl):
        (etl.folder / "etl.py").write_text(ETL + "\nhidden = [app]\ndel app\nclass app:\n    close = hidden[0].close\n")

        assert etl.json("job", "run", "etl:tags")["total_targets"] == 3


class TestStopping:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("job", ["listed", "streamed"])
    def test_one_signal_stops_it_cleanly_and_the_run_can_be_resumed(self, etl, start, job, number):
        process = start(f"etl:{job}", "--concurrency", 2, "--limit", 19)
        wait_for((etl.folder / "begun-1").exists)
        process.send_signal(number)
        _read_until(process.stderr, "stopping: running targets finish")
        (etl.folder / "go").touch()
        out, err = process.communicate(timeout=LIMIT)
        told, command = figures(out), command_in(out)

        assert process.returncode == 1, err
        assert ": failed, stopped" in out.splitlines()[0]
        assert (told["success targets"], told["exit code"]) == ("2", "1")
        assert command == ["job", "run", f"etl:{job}", "--resume", out.split()[1][:-1], "--limit", "19"]
        resumed = etl.json(*command)
        assert (resumed["success_targets"], resumed["skipped_targets"], resumed["total_targets"]) == (19, 0, 19)

    def test_a_second_signal_ends_it_at_once_and_it_says_how_to_go_on(self, etl, start):
        process = start("etl:listed", "--concurrency", 2)
        wait_for((etl.folder / "begun-1").exists)
        process.send_signal(signal.SIGINT)
        wait_for(lambda: _ended_by(process, signal.SIGINT))
        out, _ = process.communicate(timeout=LIMIT)

        assert process.returncode == 130
        assert "exit code 1: aborted: ended by KeyboardInterrupt" in out
        assert command_in(out)[:4] == ["job", "run", "etl:listed", "--resume"]

    def test_while_it_runs_nobody_else_runs_it_and_if_it_is_killed_it_has_died(self, etl, start):
        process = start("etl:listed", "--concurrency", 1)
        wait_for((etl.folder / "begun-0").exists)
        locked = etl.run("job", "run", "etl:listed", code=1)
        (running,) = etl.json("job", "list")
        status = etl.run("status").stdout
        assert f"job listed is already running ({running['holder']})" in locked.stderr
        assert f"process {process.pid}" in running["holder"]
        assert (running["state"], running["exit_code"]) == ("running", None)
        assert f"by {running['holder']}" in etl.run("job", "show", running["run_id"]).stdout
        assert re.search(rf"job listed is running, started .*: run {running['run_id']}", status)

        process.kill()
        process.wait()
        (died,) = etl.json("job", "list")
        shown = etl.run("job", "show", died["run_id"]).stdout
        assert (died["state"], died["holder"]) == ("died", None)
        assert f"job listed died: outlast job show {died['run_id']}" in etl.run("status").stdout
        assert f"to run the rest: outlast job run MODULE:JOB --resume {died['run_id']}" in shown
        (etl.folder / "go").touch()
        assert etl.json("job", "run", "etl:listed", "--resume", died["run_id"])["exit_code"] == 0
        assert etl.json("status")["jobs"] == []


def _read_until(stream, words):
    for line in stream:
        if words in line:
            return
    pytest.fail(f"it did not say: {words}")


def _ended_by(process, number):
    """Send a signal again, but no sooner than people do: two of one moment are taken for one."""
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        return False
    return True


class TestProgress:
    @pytest.fixture
    def _at_once(self, monkeypatch):
        monkeypatch.setattr(job, "_LINE_EVERY", 0.0)

    @pytest.mark.usefixtures("_at_once")
    def test_without_a_terminal_it_is_lines_in_the_log(self, etl):
        result = etl.run("job", "run", "etl:items", "--concurrency", 1, code=1)
        lines = [line for line in result.stderr.splitlines() if " INFO outlast.jobs: items: " in line]

        assert re.search(r"items: \d+/40  \S+/s  failed \d  deferred \d", lines[0])
        assert result.stdout.startswith("items ")

    @pytest.mark.usefixtures("_at_once")
    def test_in_json_a_line_has_its_figures_as_keys(self, etl):
        result = etl.run("job", "run", "etl:items", "--concurrency", 1, "--json-logs", code=1)
        line = next(line for line in map(json.loads, result.stderr.splitlines()) if "seconds_left" in line)

        assert (line["logger"], line["level"], line["job_id"], line["total"]) == ("outlast.jobs", "info", "items", 40)
        assert {"done", "failed", "deferred", "rate"} <= line.keys()

    @pytest.mark.usefixtures("_at_once")
    @pytest.mark.parametrize("word", ["--json", "--no-progress"])
    def test_there_is_none_where_nobody_wants_it(self, etl, word):
        assert "deferred 0" not in etl.run("job", "run", "etl:tags", word, "--log-level", "warning").stderr
        assert "tags: " not in etl.run("job", "run", "etl:tags", word).stderr

    def test_a_run_of_a_moment_needs_no_line(self, etl):
        assert "/s" not in etl.run("job", "run", "etl:tags").stderr

    def test_at_a_terminal_it_is_a_bar_above_which_logs_stand(self, etl, start):
        pty = pytest.importorskip("pty")
        (etl.folder / "go").touch()
        ours, theirs = pty.openpty()
        process = start("etl:streamed", stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        text = _all_of(ours)

        assert process.wait(LIMIT) == 0
        assert "━" in text
        assert re.search(r"\d+ done  \S+/s  failed 0  deferred 0", text)
        assert "0 deferred" not in text  # the summary is logged where no table shows it
        assert figures(re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", text.replace("\r", "")))["total targets"] == "20"


def _all_of(terminal):
    found = []

    def read():
        while True:
            try:
                found.append(os.read(terminal, 65536))
            except OSError:  # as Linux has it, where nobody is on the other side any more
                return
            if not found[-1]:
                return

    thread = threading.Thread(target=read)
    thread.start()
    thread.join(LIMIT)
    os.close(terminal)
    assert not thread.is_alive()
    return b"".join(found).decode()


def _hearing_interrupts():
    """Who is started in the background ignores Ctrl-C, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
