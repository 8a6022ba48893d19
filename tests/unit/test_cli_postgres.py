"""The same commands against PostgreSQL: nothing is created unless asked for, and no password is shown."""

import pytest

from cli_world import JOBS, make_world  # noqa: F401  # a fixture


@pytest.fixture
def url(postgres_server, world, monkeypatch):
    postgres_server.execute("DROP DATABASE IF EXISTS cli", "CREATE DATABASE cli")
    url = postgres_server.url.rpartition("/")[0] + "/cli"
    monkeypatch.setenv("OUTLAST_URL", url)
    (world.folder / "jobs.py").write_text(JOBS.replace("sqlite:///outlast.db", url))
    return url


def test_from_nothing_to_a_replayed_dead_letter(world, url, postgres_server):
    for words in (["db", "check"], ["worker", "jobs:app", "--drain"]):
        assert "run: outlast db init" in world.run(*words, code=1).stderr
    assert "version" in world.run("db", "init").stdout
    world.run("db", "migrate")
    world.dead_letters(2)
    text = world.run("db", "check").stdout + world.run("status").stdout + world.run("dlq", "list").stdout

    assert f"postgresql://127.0.0.1:{postgres_server.port}/cli" in text
    assert postgres_server.password not in text
    assert world.json("dlq", "replay", "--all") == {"replayed": 2}
    assert world.json("status")["counts"]["QUEUED"] == 2
    assert "dead letters 2" in world.run("worker", "jobs:app", "--drain").stderr
    assert world.json("dlq", "discard", "--all", "--yes") == {"discarded": 2}


@pytest.mark.parametrize(
    "words",
    [
        ["worker", "jobs:app", "--drain"], ["worker", "jobs:app", "--queues", "nosuch"], ["enqueue", "jobs:app", "flaky"],
        ["status"], ["tasks", "list"], ["tasks", "show", 1], ["dlq", "groups"], ["dlq", "replay", "--all"], ["queues", "list"],
        ["queues", "pause", "mail"], ["db", "check"],
    ],
)  # fmt: skip
def test_without_tables_a_line_says_what_to_do(world, url, words):
    result = world.run(*words, code=1)

    assert result.stderr == "Error: the database has no Outlast tables\n  run: outlast db init\n"
    assert result.stdout == ""


def test_without_tables_the_whole_command_is_told_unless_it_would_show_a_password(world, url):
    assert world.run("status", "--app", "jobs:app", code=1).stderr.endswith("  run: outlast db init --app jobs:app\n")
    assert world.run("status", "--url", url, code=1).stderr.endswith("  run: outlast db init\n")


def test_a_server_that_is_not_there(world):
    result = world.run("status", "--url", "postgresql://me:hidden@127.0.0.1:1/nowhere", code=1)

    assert result.stderr.startswith("Error: database error: OperationalError: ")
    assert result.stderr.splitlines()[1:] == [
        "  check that the server is running, and the URL; outlast db check tests the connection"
    ]
    assert "hidden" not in result.output


def test_a_wrong_password(world, postgres_server):
    url = postgres_server.url.replace(postgres_server.password, "hidden-and-wrong")
    result = world.run("status", "--url", url, code=1)

    assert "password authentication failed" in result.stderr
    assert "hidden-and-wrong" not in result.output
