"""outlast dlq replay --canary, dlq replays, and what people say of groups."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading

import pytest

from cli_world import in_one_line, make_world  # noqa: F401  # a fixture
from crash.processes import until
from outlast.queue import heartbeat, replay


@pytest.fixture
def working(world, monkeypatch):
    """Start a worker in this process; it carries replays on quickly."""
    monkeypatch.setattr(heartbeat, "REPLAY_EVERY", 0.02)
    monkeypatch.setattr(replay, "REPLAY_LEASE", 0.2)
    started = []

    def start():
        working = world.app().worker(concurrency=2)
        thread = threading.Thread(target=working.run)
        thread.start()
        started.append((working, thread))
        until(lambda: any(each.alive for each in world.app().store.workers()), 20, "a worker")

    yield start
    for working, thread in started:
        working.stop()
        thread.join(20)


def fix(world):
    """Let the tasks succeed from now on."""
    world.app().tasks_by_name["scrape"].function = lambda url, depth=1, token=None: None


class TestCanary:
    def test_stops_after_one_and_after_the_fix_it_finishes(self, world, working):
        world.dead_letters(14)
        working()
        result = world.run("dlq", "replay", "--task", "scrape", "--canary", "--rate", "1000/s", code=1)

        assert result.stdout.startswith("replay 1 started: One dead letter is replayed first.")
        assert "It stopped because" in result.stdout
        assert "failed again: no good: bad0" in result.stdout
        assert "outlast dlq replays resume 1" in result.stdout
        assert len(world.json("dlq", "list")) == 14
        shown = world.run("dlq", "replays", 1).stdout
        assert "stopped" in shown
        assert "One first: failed" in shown

        fix(world)
        assert "replay 1 resumed" in world.run("dlq", "replays", "resume", 1).stdout
        assert world.json("dlq", "replays", "show", 1)["state"] == "done"
        until(lambda: world.json("status")["counts"]["DONE"] == 14, 20, "all done")
        assert world.json("dlq", "list") == []

    def test_it_is_carried_on_though_nobody_waits(self, world, working):
        world.dead_letters(3)
        fix(world)
        working()
        data = world.json("dlq", "replay", "--all", "--canary", "--no-wait", "--why", "fixed")
        assert (data["state"], data["total"], data["reason"], data["canary"]) == ("running", 3, "fixed", True)
        until(lambda: world.json("dlq", "replays", "show", data["id"])["state"] == "done", 20, "the end")

    def test_ids_that_do_not_exist_are_told_and_nothing_starts(self, world):
        world.dead_letters(2)
        result = world.run("dlq", "replay", 1, 99, "--canary", "--no-wait", code=1)
        assert result.stderr.startswith("Error: only 1 of these ids exist\n")
        assert world.json("dlq", "replays", "list") == []

    def test_no_worker_is_alive(self, world):
        world.dead_letters(2)
        result = world.run("dlq", "replay", "--all", "--canary", code=1)
        assert "no worker is alive to run it" in result.stderr
        assert "outlast dlq replays show 1" in result.stderr
        again = world.run("dlq", "replays", "list")
        assert "no worker is alive" in again.stderr
        assert len(world.json("dlq", "list")) == 2
        assert world.run("dlq", "replay", "--all", "--canary", "--no-wait").exit_code == 0

    def test_a_conflict_stays_and_is_told(self, world, working):
        """Pitfall 57."""
        world.dead_letters(1, "--unique-key", "once")
        world.enqueue("scrape", "url=x", "--unique-key", "once", "--delay", "1h")
        fix(world)
        working()
        result = world.run("dlq", "replay", "--all", "--canary", code=1)
        assert "1 stayed: its unique key is taken" in result.stdout
        assert "dead letter 1: a live task has the same unique key; it stays a dead letter" in result.stderr

    def test_by_number_and_at_a_rate_alone(self, world, working):
        world.dead_letters(3)
        fix(world)
        working()
        assert world.json("dlq", "replay", 1, 3, "--rate", "100")["replayed"] == 2
        assert [each["id"] for each in world.json("dlq", "list")] == [2]
        assert world.json("dlq", "replays")[0]["canary"] is False

    def test_json_at_the_end(self, world, working):
        world.dead_letters(2)
        working()
        data = world.json("dlq", "replay", "--all", "--canary", code=1)
        assert (data["state"], data["replayed"], data["filters"]) == ("stopped", 1, {})
        assert "epoch" not in data

    @pytest.mark.parametrize("rate", ["0", "fast", "-1", "10/year", "1/s/s", ""])
    def test_no_rate(self, world, rate):
        world.dead_letters(1)
        assert (
            in_one_line(world.run("dlq", "replay", "--all", "--rate", rate, code=2).stderr).count(
                "is not a rate; give a number per second"
            )
            == 1
        )

    @pytest.mark.parametrize(
        ("rate", "seconds"), [("10", 10), ("10/s", 10), ("30/min", 0.5), ("36/h", 0.01), ("6/m", 0.1)]
    )
    def test_rates(self, world, rate, seconds):
        world.dead_letters(1)
        assert world.json("dlq", "replay", "--all", "--rate", rate, "--no-wait")["rate"] == pytest.approx(seconds)

    def test_how_many_may_fail(self, world):
        world.dead_letters(1)
        begun = world.json("dlq", "replay", "--all", "--rate", "5/s", "--max-failures", 3, "--no-wait")
        assert (begun["max_failures"], begun["canary"], begun["rate"], begun["filters"]) == (3, False, 5.0, {})
        assert "More than 3 failures stop it" in in_one_line(world.run("dlq", "replays", "show", 1).stdout)
        world.json("dlq", "replay", "--all", "--rate", "1/s", "--no-wait")
        assert "Failures do not stop it" in in_one_line(world.run("dlq", "replays", "show", 2).stdout)
        world.run("dlq", "replay", "--all", "--max-failures", "-1", code=2)
        assert "max_failures needs" in in_one_line(
            world.run("dlq", "replay", "--all", "--max-failures", 3, code=2).stderr
        )


class TestWaiting:
    def start(self, world, *words, **more):
        return subprocess.Popen(
            [sys.executable, "-m", "outlast", *words, "--url", world.url],
            cwd=world.folder, env=os.environ | {"PYTHONUNBUFFERED": "1"}, **more,
        )  # fmt: skip

    def test_ctrl_c_leaves_it_running_and_says_how_to_look_at_it(self, world, working, monkeypatch):
        world.dead_letters(20)
        fix(world)
        working()
        command = self.start(
            world, "dlq", "replay", "--all", "--canary", "--rate", "2/s", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler), text=True,
        )  # fmt: skip
        until(lambda: (world.json("dlq", "replays") or [{}])[0].get("stage") == 2, 20, "the rest")
        command.send_signal(signal.SIGINT)
        out, errors = command.communicate(timeout=20)
        assert command.returncode == 130
        assert "replay 1 started" in out
        assert "replay 1 continues without this command" in errors
        assert "dlq replays show 1" in errors
        assert world.json("dlq", "replays", "show", 1)["state"] == "running"
        world.run("dlq", "replays", "stop", 1)

    def test_a_bar_at_a_terminal(self, world, working):
        world.dead_letters(13)
        fix(world)
        working()
        ours, theirs = pty.openpty()
        command = self.start(
            world, "dlq", "replay", "--all", "--canary", "--rate", "1/s", stdout=subprocess.DEVNULL, stderr=theirs
        )
        os.close(theirs)
        seen = b""
        while True:
            try:
                more = os.read(ours, 4096)
            except OSError:  # as Linux says that nobody writes any more
                break
            if not more:
                break
            seen += more
        os.close(ours)
        assert command.wait(20) == 0
        assert b"/13" in seen


class TestReplays:
    def test_none(self, world):
        world.dead_letters(1)
        assert world.run("dlq", "replays").stdout.startswith("no replays; outlast dlq replay")
        assert world.run("dlq", "replays", "--running").stdout.startswith("no replays match; ")
        assert world.json("dlq", "replays") == []

    def test_list_stop_and_resume(self, world):
        world.dead_letters(2)
        world.run("dlq", "replay", "--task", "scrape", "--canary", "--no-wait")
        said = world.run("dlq", "replays").stdout
        assert "running" in said
        assert "task scrape" in said
        assert all(len(line) <= 80 for line in said.splitlines())
        assert "replay 1 was stopped" in world.run("dlq", "replays", "stop", 1, "--why", "too early").stdout
        assert world.json("dlq", "replays", "--running") == []
        shown = world.json("dlq", "replays", 1)
        assert (shown["state"], shown["stopped_by"]) == ("cancelled", "too early")
        assert "had already ended" in world.run("dlq", "replays", "stop", 1, code=1).stdout
        world.run("dlq", "replays", "resume", 1, "--no-wait")
        assert world.json("dlq", "replays", 1)["state"] == "running"
        assert "replay 1 is running" in world.run("dlq", "replays", "resume", 1, code=2).stderr

    def test_there_is_none(self, world):
        world.dead_letters(1)
        for words in (["show"], ["stop"], ["resume"]):
            assert "replay 9 does not exist" in world.run("dlq", "replays", *words, 9, code=1).output

    def test_the_help_is_that_of_the_group(self, world):
        said = world.run("dlq", "replays", "--help").stdout
        assert "resume" in said
        assert "List, stop and resume the replays" in said


class TestGroups:
    def test_acknowledged_snoozed_noted_and_open_again(self, world):
        world.dead_letters(1)
        (group,) = [each["fingerprint"] for each in world.json("dlq", "groups")]
        store = world.app().store

        assert "acknowledged by" in world.run("dlq", "ack", group).stdout
        assert store.failure(group).standing(store.now()) == "acknowledged"
        assert "reopened" in world.run("dlq", "reopen", group).stdout
        assert store.failure(group).standing(store.now()) == "open"
        assert "snoozed for 2 h" in world.run("dlq", "snooze", group, "--for", "2h").stdout
        assert store.failure(group).standing(store.now()) == "snoozed"
        assert "reopened" in world.run("dlq", "snooze", group, "--for", "0").stdout
        assert store.failure(group).standing(store.now()) == "open"
        world.run("dlq", "note", group, "fixed in 1.4")
        assert store.failure(group).note == "fixed in 1.4"
        assert "has no note any more" in world.run("dlq", "note", group, "").stdout
        assert store.failure(group).note == ""

    @pytest.mark.parametrize(
        "words", [["ack", "f0"], ["snooze", "f0", "--for", "1h"], ["reopen", "f0"], ["note", "f0", "x"]]
    )
    def test_there_is_none(self, world, words):
        world.dead_letters(1)
        assert "group f0 does not exist" in world.run("dlq", *words, code=1).stdout

    def test_what_makes_no_sense(self, world):
        world.dead_letters(1)
        (group,) = [each["fingerprint"] for each in world.json("dlq", "groups")]
        assert "up to a year" in world.run("dlq", "snooze", group, "--for", "500d", code=2).stderr
        assert "at most 2000 are allowed" in world.run("dlq", "note", group, "x" * 2001, code=2).stderr
        assert world.app().store.audits() == []


def test_discard_with_a_reason(world):
    world.dead_letters(2)
    world.run("dlq", "discard", 1, "--why", "not needed", "--yes")
    (entry,) = world.json("audit")
    assert (entry["action"], entry["subject"], entry["reason"]) == (
        "discard_dead_letter",
        "dead_letter:1",
        "not needed",
    )
    assert json.loads(json.dumps(entry["detail"])) == {}
