"""outlast worker, as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from cli_world import make_world  # noqa: F401  # a fixture

LIMIT = 30.0


@pytest.fixture
def start(world):
    """Starts a worker; what is left of it at the end is killed."""
    begun = []

    def start(*words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "outlast", "worker", "jobs:app", *map(str, words)],
            cwd=world.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
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


def ended(process, code):
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == code, err
    assert "outlast/cli/" not in err  # no traceback of ours
    return out, err


def test_drain(world, start):
    for words in (
        ["mail", "to=me"],
        ["scrape", "url=good"],
        ["scrape", "url=bad"],
        ["flaky"],
        ["flaky", "--delay", "1h"],
    ):
        world.enqueue(*words)
    out, err = ended(start("--drain", "--name", "here"), 0)
    counts = world.json("status")["counts"]

    assert (counts["DONE"], counts["FAILED"], counts["QUEUED"]) == (2, 1, 2)
    assert out == ""
    assert (
        "worker here: queues default, mail; 5 tasks: flaky, mail, many, scrape, slow; concurrency 10; store sqlite"
        in err
    )
    assert err.splitlines()[-1].endswith(": done 2, to retry 1, dead letters 1")
    assert "\x1b" not in err


def test_drain_with_nothing_to_do(start):
    assert "no task ended" in ended(start("--drain"), 0)[1]


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("mode", [[], ["--drain"]])
def test_a_signal_lets_the_running_task_finish(world, start, which, mode):
    world.enqueue("slow", "seconds=1")
    world.enqueue("slow", "seconds=60")
    process = start("--concurrency", 1, *mode)
    wait_for((world.folder / "begun").exists)
    process.send_signal(which)
    _, err = ended(process, 0)
    states = {task["id"]: task for task in world.json("tasks", "list")}

    assert (world.folder / "finished").exists()
    assert (states[1]["status"], states[2]["status"]) == ("DONE", "QUEUED")
    assert states[2]["attempt"] == 0  # given back at no cost
    assert "done 1" in err.splitlines()[-1]
    assert world.json("status")["workers"] == []


def test_a_second_sigterm_ends_it_at_once(world, start):
    world.enqueue("slow", "seconds=60")
    process = start()
    wait_for((world.folder / "begun").exists)
    process.send_signal(signal.SIGTERM)
    assert any("a second signal ends at once" in line for line in process.stderr)  # which it says when it has seen it
    time.sleep(0.5)  # what comes sooner counts as the same signal
    assert process.poll() is None  # it waits for the task
    process.send_signal(signal.SIGTERM)
    _, err = ended(process, 1)

    assert "second signal: ending at once" in err
    assert not (world.folder / "finished").exists()


def test_json_logs(world, start):
    world.enqueue("scrape", "url=bad", "token=hunter2")
    _, err = ended(start("--drain", "--json-logs"), 0)
    lines = [json.loads(line) for line in err.splitlines()]

    assert lines[0]["queues"] == ["default", "mail"]
    assert lines[0]["concurrency"] == 10
    assert lines[-1]["outcomes"]["fail"] == 1
    failed = next(line for line in lines if line["level"] == "error")
    assert (failed["task_id"], failed["error_category"], failed["reason"]) == (1, "unknown", "permanent")
    assert "hunter2" not in err


def test_log_level(world, start):
    assert ended(start("--drain", "--log-level", "error"), 0)[1] == ""


def test_settings_of_the_file_and_of_the_command(world, start):
    (world.folder / "outlast.toml").write_text('[app]\nconcurrency = 3\nqueues = ["mail"]\n')
    world.enqueue("flaky")
    world.enqueue("mail", "to=me")
    _, err = ended(start("--drain"), 0)
    assert "queues mail; " in err
    assert "concurrency 3" in err
    assert world.json("tasks", "show", 1)["attempt"] == 0
    _, err = ended(start("--drain", "--queues", "default, other", "--concurrency", "7"), 0)
    assert "queues default, other; " in err
    assert "concurrency 7" in err
    assert world.json("tasks", "show", 1)["attempt"] == 1


def test_mistakes(world):
    assert "names of queues, separated by commas" in world.run("worker", "jobs:app", "--queues", " , ", code=2).stderr
    assert "--concurrency" in world.run("worker", "jobs:app", "--concurrency", "0", code=2).stderr


def test_an_app_without_tasks_is_told(world):
    (world.folder / "empty.py").write_text("import outlast\napp = outlast.App('sqlite:///outlast.db')\n")

    assert "the app has no tasks" in world.run("worker", "empty:app", "--drain").stderr


def test_a_queue_that_nothing_names_is_told(world):
    world.enqueue("flaky", "--queue", "waiting", "--delay", "1h")
    err = world.run("worker", "jobs:app", "--drain", "--queues", "mail,waiting,default,nosuch").stderr

    assert [line.partition(": ")[2] for line in err.splitlines() if "WARNING" in line] == [
        "queue nosuch: no task of the app uses it and no task waits in it; check the name"
    ]
    assert "WARNING" not in world.run("worker", "jobs:app", "--drain").stderr
