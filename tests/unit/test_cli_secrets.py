"""Secrets do not leave through the columns beside the payload, neither to people nor in JSON."""

import sqlite3

import pytest

from cli_world import make_world  # noqa: F401  # a fixture

SECRET = "hunter2"
DSN = f"postgresql://me:{SECRET}@db/shop"
PATTERNS = "[redact]\npatterns = ['customer \\d+']\n"


@pytest.fixture
def leaking(world):
    """A store in which every text holds a secret, as another program could have written it."""
    world.dead_letters(1)
    world.enqueue("flaky")
    world.drain()
    text = f"customer 4711 {DSN} api_key={SECRET}"
    failure = f'{{"message": "{text}", "rule": "x", "more": ["{text}"]}}'
    with sqlite3.connect("outlast.db") as connection:
        connection.execute("UPDATE task_queue SET unique_key = id || ?1, resource = ?1, last_error = ?1", (text,))
        connection.execute(
            "UPDATE dead_letter_queue SET unique_key = ?1, resource = ?1, error_message = ?1, traceback = ?1, failure = ?2",
            (text, failure),
        )
        connection.execute("UPDATE task_attempts SET error_message = ?1, traceback = ?1, failure = ?2", (text, failure))
    connection.close()
    world.app().store.start_cooldown(text, 600, text)
    (world.folder / "outlast.toml").write_text(PATTERNS)
    return world


@pytest.mark.parametrize(
    "words",
    [
        ["tasks", "list"], ["tasks", "show", 1], ["tasks", "show", 2], ["dlq", "list"], ["dlq", "show", 1], ["dlq", "groups"],
        ["status"], ["queues", "list"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_no_secret_is_shown(leaking, words, form):
    text = leaking.run(*words, *form).stdout

    assert SECRET not in text
    assert "4711" not in text


def test_what_is_no_secret_is_shown(leaking):
    shown = "*** postgresql://***@db/shop api_key=***"
    data = leaking.json("tasks", "show", 2)
    cooling = leaking.json("status")["cooldowns"][0]
    letter = leaking.json("dlq", "show", 1)

    assert (data["unique_key"], data["resource"], data["last_error"]) == (f"2{shown}", shown, shown)
    assert data["attempts"][0]["failure"]["more"] == [shown]
    assert (cooling["resource"], cooling["reason"]) == (shown, shown)
    assert (letter["reason"], letter["traceback"]) == ("permanent", shown)


def test_an_error_line_knows_the_patterns_of_the_file(leaking):
    result = leaking.run("enqueue", "jobs:app", "customer 4711", code=2)

    assert "4711" not in result.output
