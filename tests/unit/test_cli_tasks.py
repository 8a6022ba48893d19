"""outlast tasks, and how text of others is shown."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from cli_world import make_world  # noqa: F401  # a fixture
from outlast.ports.rows import Claim, Kind, NewTask, Note, SettleAndClaim, Settlement, WorkerRow

FORGED = "bad\x1b[2J\x1b]0;title\x07\r\x9b31m\u202e[red]hidden[/red]\n\tTask 9: done"


def test_an_empty_list(world):
    world.run("db", "init", "--url", "sqlite:///outlast.db")

    assert world.run("tasks", "list").stdout == "no tasks; outlast enqueue MODULE:APP TASK adds one\n"
    assert world.run("tasks", "list", "--queue", "mail").stdout == "no tasks match; outlast tasks list shows all\n"
    assert world.json("tasks", "list") == []


def test_filters(world):
    for words in (["flaky"], ["scrape", "url=good"], ["mail", "to=me"], ["mail", "to=you"]):
        world.enqueue(*words)
    world.drain()
    world.enqueue("mail", "to=later", "--delay", "1h")

    def ids(*words):
        return [task["id"] for task in world.json("tasks", "list", *words)]

    assert ids() == [5, 4, 3, 2, 1]
    assert ids("--status", "done") == [4, 3, 2]
    assert ids("--status", "QUEUED") == [5, 1]
    assert ids("--queue", "mail", "--limit", 2) == [5, 4]
    assert ids("--task", "mail", "--before", 5) == [4, 3]
    assert "--before 4" in world.run("tasks", "list", "--limit", 2).stdout


def test_the_list_keeps_to_eighty_columns(world):
    for number in range(3):
        world.enqueue("scrape", f"url={'https://example.com/a/long/way' * 5}{number}", "--queue", "q" * 60)
    lines = world.run("tasks", "list").stdout.splitlines()

    assert all(len(line) <= 80 for line in lines)
    assert lines[0].split() == ["ID", "STATUS", "TASK", "QUEUE", "FAILED", "WHEN", "ARGUMENTS"]
    assert lines[1].split()[:3] == ["3", "QUEUED", "scrape"]
    assert lines[1].endswith("…")


def test_times_are_iso_with_their_offset(world):
    world.enqueue("flaky")

    assert world.json("tasks", "list")[0]["created_at"].endswith("+00:00")


def test_what_is_over_shows_its_end_not_when_it_was_due(world):
    for words in (["scrape", "url=bad1"], ["scrape", "url=bad2"], ["scrape", "url=good"]):
        world.enqueue(*words)
    world.drain()
    world.enqueue("mail", "to=me")
    world.run("tasks", "cancel", 4)
    world.run("dlq", "discard", 2, "--yes")
    with closing(sqlite3.connect(world.folder / "outlast.db")) as database, database:
        database.execute("UPDATE task_queue SET next_run_after = next_run_after + 60000")  # as Celery's rows have it
    listed = world.run("tasks", "list").stdout

    assert [line.split()[1] for line in listed.splitlines()[1:]] == ["CANCELLED", "DONE", "DISCARDED", "FAILED"]
    assert " in " not in listed


def test_what_only_celery_needs_is_in_json_alone(world):
    payload = {"to": "me", "password": "hunter2", "__celery__": {"id": "i-1", "options": {"reply_to": "r-1"}}}
    app = world.app()
    app.create_schema()
    app.store.enqueue([NewTask("scrape", json.dumps(payload))])

    for words in (["list"], ["show", 1]):
        text = world.run("tasks", *words).stdout
        assert '{"to":"me","password":"***"}' in "".join(text.split())
        assert "__celery__" not in text
    shown = world.json("tasks", "show", 1)["parameters"]
    assert shown == payload | {"password": "***"}


def test_show(world):
    number = world.enqueue("flaky", "--unique-key", "once")
    world.drain()
    text = world.run("tasks", "show", number).stdout
    data = world.json("tasks", "show", number)

    assert "history: 1 failed attempt\n" in text
    assert "ConnectionError: down" in text
    assert "network: retry in 60 s" in text
    assert 'raise ConnectionError("down")' in text
    assert "unique key" in text
    assert data["attempts"][0]["error_category"] == "network"
    assert data["retry_count"] == 1


def test_lost_workers_are_no_failed_attempts(world):
    number = world.enqueue("flaky")
    store = world.app().store
    now = datetime.now(UTC)
    row = WorkerRow("w1", "w1", "h", 1, ("default",), 1, "running", 0, alive=True, started_at=now, heartbeat_at=now)
    store.register(row, -1.0)
    store.settle_and_claim(SettleAndClaim("w1", [], [], [], Claim(("default",), 1, 1)))
    store.rescue(3)
    text = world.run("tasks", "show", number).stdout

    assert "1, 0 failed, 1 lost with a worker" in text
    assert "history: 1 lost worker\n" in text
    assert "lost: its process died, or its lease ran out" in text
    assert "failed attempt" not in text
    world.drain()
    text = world.run("tasks", "show", number).stdout
    assert "2, 1 failed, 1 lost with a worker" in text
    assert "history: 1 failed attempt, 1 lost worker\n" in text


def test_crashes_apart_are_neither(world):
    number = world.enqueue("flaky")
    store = world.app().store
    now = datetime.now(UTC)
    row = WorkerRow("w1", "w1", "h", 1, ("default",), 1, "running", 0, alive=True, started_at=now, heartbeat_at=now)
    store.register(row, 60.0)
    note = Note("ProcessDied", "its process was ended by SIGSEGV", "unknown", "f1", "{}")
    for suspect in (False, True):
        (claimed,) = store.settle_and_claim(
            SettleAndClaim("w1", [], [], [], Claim(("default",), 1, 1, suspect=suspect))
        ).claimed
        store.settle_and_claim(
            SettleAndClaim("w1", [], [Settlement(claimed.id, claimed.epoch, Kind.CRASH, note=note)], [])
        )
    text = world.run("tasks", "show", number).stdout

    assert "2, 0 failed, 2 crashed in isolation" in text
    assert "history: 2 isolated crashes\n" in text
    assert "lost: its process was ended by SIGSEGV" in text


def test_after_a_replay_the_count_begins_anew(world):
    world.dead_letters(1)
    world.run("dlq", "replay", 1)
    text = world.run("tasks", "show", 1).stdout

    assert "1, 0 failed since the last replay" in text
    assert "history: 1 failed attempt\n" in text


def test_one_is_one(world):
    world.dead_letters(1)
    text = world.run("dlq", "show", 1).stdout
    with sqlite3.connect("outlast.db") as connection:
        connection.execute("UPDATE task_queue SET deferrals = 1")
    connection.close()

    assert "1 attempt\n" in "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    assert "1 times" not in world.run("tasks", "show", 1).stdout
    assert "1 time" in world.run("tasks", "show", 1).stdout


def test_no_such_task(world):
    world.enqueue("flaky")
    result = world.run("tasks", "show", 99, code=1)

    assert result.stderr == "Error: task 99 does not exist\n  outlast tasks list shows the tasks\n"


@pytest.mark.parametrize("number", ["0", "-1", str(2**63), "x", "１", "1_0", "²", "٣", " 1", "1" * 5000])
def test_numbers_that_are_none(world, number):
    world.enqueue("flaky")
    world.run("tasks", "show", "--", number, code=2)
    world.run("tasks", "list", "--before", number, code=2)


def test_cancel(world):
    for _ in range(3):
        world.enqueue("flaky")
    assert world.run("tasks", "cancel", 1, 2).stdout == "task 1 was cancelled\ntask 2 was cancelled\n"
    result = world.run("tasks", "cancel", 2, 3, 9, code=1)

    assert result.stdout == (
        "task 2 is cancelled and was not changed: only a waiting task can be cancelled\n"
        "task 3 was cancelled\n"
        "task 9 does not exist: finished tasks are pruned after a while; outlast tasks list shows the tasks\n"
    )


def test_run_now_makes_waiting_tasks_due(world):
    number = world.enqueue("flaky", "--delay", "2h")
    assert world.run("tasks", "run-now", number).stdout == f"task {number} is due now\n"
    world.drain()
    assert world.json("tasks", "show", number)["retry_count"] == 1


def test_run_now_of_a_failed_task_leads_to_its_dead_letter(world):
    world.dead_letters(1)

    assert "replay its dead letter" in world.run("tasks", "run-now", 1, code=1).stdout


def test_a_payload_that_is_no_json_is_shown_as_text(world):
    world.run("db", "init", "--url", "sqlite:///outlast.db")
    world.app().store.enqueue([NewTask("scrape", '{"password": "hunter2')])
    assert world.json("tasks", "list")[0]["parameters"] == '{"password": ***'
    assert '{"password": ***' in world.run("tasks", "show", 1).stdout


@pytest.mark.parametrize(
    "text", ["[" * 5000, "[" * 900 + "]" * 900, '{"x": NaN}', '{"x": 1e999}', "9" * 5000, '"\\ud800"']
)
def test_one_stored_payload_breaks_no_list(world, text):
    def refuse(name):
        raise AssertionError(name)

    world.run("db", "init", "--url", "sqlite:///outlast.db")
    world.app().store.enqueue([NewTask("scrape", text), NewTask("scrape", '{"url":"x"}')])
    for words in (["tasks", "list"], ["tasks", "show", 1]):
        json.loads(world.run(*words, "--json").stdout, parse_constant=refuse)
        world.run(*words)
    assert world.json("tasks", "list")[0]["parameters"] == {"url": "x"}


def test_text_that_is_no_utf8(world):
    world.enqueue("flaky")

    assert "not valid UTF-8" in world.run("tasks", "list", "--queue", "\udcff", code=2).stderr


class TestTextOfOthers:
    """Pitfall 66 at a terminal: nothing that was enqueued or raised can forge what is shown."""

    @pytest.fixture
    def forged(self, world):
        world.run("enqueue", "jobs:app", "scrape", "--args", json.dumps({"url": FORGED, "token": "hunter2"}))
        world.app().tasks_by_name["scrape"].enqueue(url="x", unique_key=FORGED, queue=FORGED)
        world.drain()
        return world

    @pytest.mark.parametrize(
        "words",
        [
            ["tasks", "list"], ["tasks", "show", 1], ["tasks", "show", 2], ["dlq", "list"], ["dlq", "show", 1], ["dlq", "groups"],
            ["queues", "list"], ["status"], ["queues", "pause", FORGED], ["dlq", "list", "--task", FORGED],
        ],
    )  # fmt: skip
    def test_no_control_characters_and_no_secrets(self, forged, words):
        text = forged.run(*words).stdout

        assert [char for char in text if not char.isprintable() and char != "\n"] == []
        assert "hunter2" not in text

    def test_markup_is_text(self, forged):
        assert "[red]hidden" in forged.run("tasks", "show", 1).stdout

    @pytest.mark.parametrize("words", [["tasks", "list"], ["tasks", "show", 1], ["dlq", "list"], ["status"]])
    def test_json_escapes_and_means_the_same(self, forged, words):
        text = forged.run(*words, "--json").stdout

        assert [char for char in text if not char.isprintable() and char != "\n"] == []
        assert "hunter2" not in text
        if words == ["tasks", "list"]:
            assert json.loads(text)[0]["unique_key"] == FORGED

    def test_an_error_keeps_to_its_lines(self, forged):
        result = forged.run("enqueue", "jobs:app", FORGED, code=2)

        assert result.stderr.count("\n") == 2
        assert [char for char in result.stderr if not char.isprintable() and char != "\n"] == []
