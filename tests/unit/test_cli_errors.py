"""Errors of every command: one line of what is wrong, one of what to do next, and never a traceback."""

import subprocess
import sys

import click
import pytest

from cli_world import make_world  # noqa: F401  # a fixture
from outlast.cli import cli

NEEDED = {
    "simulate": ["--history", "2026-11-10..2026-11-11"],
    "completion": ["bash"], "dlq ack": ["f"], "dlq discard": ["1"], "dlq edit": ["1", "--set", "a=1", "--why", "x"],
    "dlq note": ["f", "x"], "dlq reopen": ["f"], "dlq replay": ["1"], "dlq replays resume": ["1"],
    "dlq replays show": ["1"], "dlq replays stop": ["1"], "dlq show": ["1"], "dlq snooze": ["f", "--for", "1h"],
    "cooldowns start": ["a.test", "--minutes", "5"], "cooldowns end": ["a.test"],
    "breakers open": ["a.test"], "breakers close": ["a.test"],
    "enqueue": ["jobs:app", "flaky"],
    "explain": ["--unknown"], "job failures": ["a"], "job run": ["etl:items"], "job show": ["a"], "monitor": ["jobs:app"],
    "queues pause": ["mail"], "queues resume": ["mail"], "sources add": ["https://example.com/"],
    "sources disable": ["1"], "sources enable": ["1"], "sources import": ["feeds.opml"], "sources probe": ["1"],
    "sources remove": ["1"], "sources show": ["1"], "tasks cancel": ["1"], "tasks run-now": ["1"], "tasks show": ["1"],
    "mark deploy": ["v1.2"], "periodic pause": ["nightly"], "periodic resume": ["nightly"],
    "periodic run-now": ["nightly"], "simulate": ["--history", "2026-11-10T00:00..2026-11-11T00:00"], "worker": ["jobs:app"],
}  # fmt: skip


def commands(group=cli, path=()):
    """All commands that do something, with the options that they have."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        elif name != "web":  # whose errors are those of a server
            yield " ".join((*path, name)), {option for each in command.params for option in each.opts}


COMMANDS = dict(commands())
WITH_A_STORE = [name for name, options in COMMANDS.items() if "--url" in options]


def told(result):
    """See that the form is kept; return both lines."""
    first, second = result.stderr.splitlines()[-2:]
    assert first.startswith("Error: ")
    assert second.startswith("  ")
    assert "Traceback" not in result.stderr
    return first.removeprefix("Error: "), second.strip()


def words_of(name):
    return [*name.split(), *NEEDED.get(name, [])]


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_that_is_not_there(world, name):
    wrong, what_to_do = told(world.run(*words_of(name), "--zzz", code=2))

    assert wrong == "No such option '--zzz'"
    assert what_to_do == f"see outlast {name} --help"


@pytest.mark.parametrize("name", WITH_A_STORE)
def test_no_store(world, name):
    wrong, what_to_do = told(world.run(*words_of(name), code=2))

    assert wrong == "no store is configured, and there is no outlast.db in this folder"
    assert what_to_do.startswith("give --app MODULE:APP or --url URL, set OUTLAST_URL, or put url under [app]")


@pytest.mark.parametrize("name", WITH_A_STORE)
def test_a_module_that_is_not_there(world, name):
    wrong, what_to_do = told(world.run(*words_of(name), "--app", "nowhere:app", code=2))

    assert wrong == "module 'nowhere' was not found"
    assert what_to_do.endswith("run this command in the module's folder, or install it")


def test_a_database_that_is_of_another_kind_or_cannot_be_opened(world):
    (world.folder / "text.db").write_text("this is no database, and long enough to be read as one " * 10)
    (world.folder / "folder.db").mkdir()

    for words in (["status"], ["sources", "show", "1"]):
        assert told(world.run(*words, "--url", "sqlite:///text.db", code=2))[1] == (
            "check the path, or move the file away"
        )
    assert told(world.run("status", "--url", "sqlite:///folder.db", code=2))[1] == "give the path of a file"
    assert told(world.run("db", "init", "--url", "sqlite:///no/such/outlast.db", code=2))[1] == (
        "create the folder, or correct the URL"
    )


@pytest.mark.parametrize(
    ("words", "wrong", "what_to_do"),
    [
        (["tasks", "show", 9], "task 9 does not exist", "outlast tasks list shows the tasks"),
        (["dlq", "show", 9], "dead letter 9 does not exist", "outlast dlq list shows the dead letters"),
        (["job", "show", "x"], "run x does not exist", "{command} job list{store} shows the runs"),
        (["job", "failures", "x"], "run x does not exist", "{command} job list{store} shows the runs"),
        (["sources", "show", 9], "source 9 does not exist", "{command} sources list shows the sources"),
        (["tasks", "show", "x"], "Invalid value for 'ID': 'x' is not a valid number", "give a whole number from 1 to {most}"),
        (["tasks", "list", "--status", "x"], "Invalid value for '--status': 'x' is not one of ", "see outlast tasks "),
        (["tasks", "list", "--limit", 0], "Invalid value for '--limit': '0' is not a valid number", "give a whole number from 1 to "),
        (["dlq", "list", "--category", "x"], "'x' is not a valid category", "choose one of: network, "),
        (["dlq", "list", "--since", "x"], "Invalid value for --since: since is 'x'", "it must be a time in UTC such as"),
        (["dlq", "replay"], "no dead letters selected", "give ids, filters such as"),
        (["status", "--watch", "--json"], "give --watch or --json, not both", "see outlast status --help"),
        (["sources", "import", "no.opml"], "no.opml: cannot be read", "check the name"),
    ],
)  # fmt: skip
def test_what_is_not_there_or_makes_no_sense(world, words, wrong, what_to_do):
    world.run("db", "init", "--app", "jobs:app")
    known = {"command": "outlast", "store": " --app jobs:app", "most": 2**63 - 1}
    ends = 1 if wrong.endswith("does not exist") else 2
    first, second = told(world.run(*words, "--app", "jobs:app", code=ends))

    assert wrong in first
    assert second.startswith(what_to_do.format(**known))


def test_an_extra_that_is_not_installed(world):
    start = "import sys; sys.modules['psycopg'] = None; from outlast.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, "status", "--url", "postgresql://localhost/x"], capture_output=True, text=True,
        cwd=world.folder, check=False,
    )  # fmt: skip

    assert done.stderr == "Error: PostgreSQL needs psycopg\n  run: pip install 'outlast[postgres]'\n"
    assert done.returncode == 2


def test_the_options_before_the_command(world):
    assert told(world.run("--nosuch", code=2)) == ("No such option '--nosuch'", "see outlast --help")


def test_no_words_at_all_are_answered_with_the_help(world):
    assert "Commands:\n" in world.run(code=2).output
