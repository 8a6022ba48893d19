"""outlast enqueue."""

from datetime import UTC, datetime, timedelta

import pytest

from cli_world import in_one_line, make_world  # noqa: F401  # a fixture


def stored(world, *words):
    number = world.enqueue(*words)
    return world.json("tasks", "show", number)


@pytest.mark.parametrize(
    ("words", "parameters"),
    [
        (["scrape", "url=https://example.com/?a=b", "depth=2"], {"url": "https://example.com/?a=b", "depth": 2}),
        (["scrape", "url=123"], {"url": "123"}),  # annotated as str
        (["scrape", 'url="quoted"'], {"url": "quoted"}),
        (["scrape", "url="], {"url": ""}),
        (["scrape", "--args", '{"url": "x", "depth": 3}'], {"url": "x", "depth": 3}),
        (["scrape", "--args", '["x", 3]'], {"url": "x", "depth": 3}),
        (["mail", "to=me", "at=2026-11-15T10:00:00Z"], {"to": "me", "at": "2026-11-15T10:00:00+00:00"}),
        (["flaky"], {}),
        (["many", "first=1", "colour=red"], {"first": 1, "more": {"colour": "red"}}),
        (["many", "--args", "[1, 2, 3]"], {"first": 1, "rest": [2, 3]}),
    ],
)
def test_arguments(world, words, parameters):
    assert stored(world, *words)["parameters"] == parameters


def test_what_was_enqueued_runs_with_the_types_of_its_hints(world):
    world.enqueue("mail", "to=me", "at=2026-11-15T10:00:00Z")
    world.drain()

    assert (world.folder / "mailed").read_text() == "me datetime"


def test_options(world):
    task = stored(world, "flaky", "--delay", "2h", "--priority", 3, "--queue", "other", "--unique-key", "k")
    due = datetime.fromisoformat(task["next_run_after"])

    assert (task["priority"], task["queue"], task["unique_key"]) == (3, "other", "k")
    assert timedelta(minutes=119) < due - datetime.now(UTC) < timedelta(minutes=121)


def test_run_at(world):
    task = stored(world, "flaky", "--run-at", "2040-01-02T03:04:05+09:00")

    assert datetime.fromisoformat(task["next_run_after"]) == datetime(2040, 1, 1, 18, 4, 5, tzinfo=UTC)


def test_a_unique_key_that_is_taken(world):
    number = world.enqueue("flaky", "--unique-key", "once")
    again = world.json("enqueue", "jobs:app", "flaky", "--unique-key", "once")

    assert again == {"task_id": number, "created": False, "task_type": "flaky", "queue": "default"}
    assert "nothing was added" in world.run("enqueue", "jobs:app", "flaky", "--unique-key", "once").stdout


def test_people_are_told(world):
    assert world.run("enqueue", "jobs:app", "flaky").stdout == "task 1: flaky is queued\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["scrap"], 2, "the app has no task 'scrap'; did you mean scrape?"),
        (["zzz"], 2, "it has: flaky, mail, many, scrape, slow"),
        (["scrape"], 2, "scrape() is missing the argument 'url'; its parameters are (url: str"),
        (["scrape", "url=x", "dept=2"], 2, "scrape() has no argument 'dept'"),
        (["scrape", "url"], 2, "'url' is not KEY=VALUE"),
        (["scrape", "url=1", "url=2"], 2, "url is given twice"),
        (["scrape", "url=x", "--args", "{}"], 2, "--args or KEY=VALUE, not both"),
        (["scrape", "--args", "{"], 2, "not valid JSON"),
        (["scrape", "--args", "3"], 2, "give an object"),
        (["scrape", "--args", "[1,2,3,4]"], 2, "too many arguments for task scrape"),
        (["mail", "to=me", "at=yesterday"], 2, "task mail, parameter at: the text is not a valid datetime"),
        (["flaky", "--run-at", "2040-01-02T03:04:05"], 2, "has no UTC offset"),
        (["flaky", "--run-at", "soon"], 2, "is not a time"),
        (["flaky", "--delay", "soon"], 2, "is not a duration"),
        (["flaky", "--delay", "1h", "--run-at", "2040-01-02T03:04Z"], 2, "give delay or run_at, not both"),
        (["flaky", "--priority", "10"], 2, "--priority"),
    ],
)
def test_mistakes(world, words, code, said):
    result = world.run("enqueue", "jobs:app", *words, code=code)

    assert said in in_one_line(result.stderr)
    assert "Traceback" not in result.output
