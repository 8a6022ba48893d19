"""What a terminal shows: narrow tables, no escape sequences with NO_COLOR, one traceback per cause."""

import logging
import os
import pty
import re
import signal
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from cli_world import make_world  # noqa: F401  # a fixture
from outlast import clock
from outlast.cli import cli
from outlast.cli.logs import PlainFormatter
from outlast.operations.table import OPERATIONS
from outlast.ports.rows import NewTask
from outlast.ports.source_rows import NewAlert
from outlast.queue.audit import SUBJECTS

QUEUE = "letters-that-go-round-the-world-and-come-back"
HOST = "api.a-host-with-a-name-of-quite-some-length.example.com"
FIRST_COLUMNS = {
    "tasks list": r"\d+",
    "dlq list": r"\d+",
    "dlq groups": r"[0-9a-f]{16}",
    "dlq replays list": r"\d+",
    "queues list": re.escape(QUEUE),
    "sources list": r"\d+",
    "sources cycles": r"\d+",
    "alerts list": r"\d+",
    "audit": r"\d+",
    "policy list": "default",
    "job list": r"\d{8}T\d{6}-[0-9a-f]{6}",
    "limits": re.escape(HOST),
}


@pytest.fixture
def full(world):
    """A store with something in every list."""
    world.dead_letters(3)
    world.run("dlq", "replay", "--all", "--canary", "--no-wait", "--app", "jobs:app")
    app = world.app()
    app.store.enqueue([NewTask("scrape", '{"url":"x"}', queue=QUEUE)])
    app.sources.add("https://example.com/a-rather-long-address/that-goes-on-and-on/feed.xml")
    app.store.open_cycle("feed")
    app.store.raise_alerts([NewAlert("k", "bad", "a title that is too long for forty columns, and for eighty too")])
    app.store.add_run("20261115T100000-3f2a1b", "items-of-a-shop-with-a-long-name", None, "local", None)
    app.limit(HOST, rate="10/s")
    app.store.start_cooldown(HOST, 900, "by hand")
    return world


@pytest.mark.parametrize("name", [name for name in FIRST_COLUMNS if name != "limits"])
def test_the_id_is_whole_in_40_columns(full, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "40")
    lines = full.run(*name.split()).stdout.splitlines()
    start = next(
        number for number, line in enumerate(lines) if re.match(r"\s*[A-Z]{2,}", line) and line == line.upper()
    )
    rows = lines[start + 1 :]

    found = re.match(rf"\s*({FIRST_COLUMNS[name]})(?:\s|$)", rows[0])
    folded = "".join(line.strip() for line in rows if "no room" not in line)
    assert found or re.match(FIRST_COLUMNS[name], folded), rows
    assert (
        max(len(line.rstrip()) for line in lines if not re.search("no room|; |there may|add your|healthy", line)) <= 40
    )


@pytest.mark.parametrize("name", [name for name in FIRST_COLUMNS if name not in {"limits", "policy list"}])
def test_wide_cuts_nothing(full, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "40")
    text = full.run(*name.split(), "--wide").stdout

    assert "…" not in text
    assert "no room for" not in text
    heading = next(line for line in text.splitlines() if re.match(r"\s*[A-Z]{2,}  ", line))
    assert len(heading.split()) >= 4


def test_a_name_wider_than_the_terminal_is_folded(full, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    text = full.run("status").stdout

    assert HOST[:40] in text
    assert f"\n{HOST[40:]}" in text


def test_columns_left_out_are_named(full, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    text = " ".join(full.run("dlq", "list").stdout.split())

    assert "no room for CATEGORY, WHEN; --wide shows all" in text


class Terminal:
    """Runs commands with a pseudo-terminal for all of their output."""

    def __init__(self, world):
        self.world = world

    def start(self, words, **environment):
        mine, theirs = pty.openpty()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OUTLAST_", "NO_COLOR"))}
        process = subprocess.Popen(
            [sys.executable, "-m", "outlast", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=self.world.folder,
            env=kept | {"TERM": "xterm-256color", "COLUMNS": "100"} | environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # ignored in the background
        )
        os.close(theirs)
        return process, mine

    def read(self, mine):
        found = b""
        while True:
            try:
                part = os.read(mine, 65_536)
            except OSError:  # the end, on Linux
                part = b""
            if not part:
                os.close(mine)
                return found
            found += part

    def run(self, *words, **environment):
        process, mine = self.start(words, **environment)
        shown = self.read(mine)
        process.wait(30)
        return shown


COMMANDS = [
    ["status"], ["dlq", "list"], ["dlq", "show", "1"], ["tasks", "list", "--status", "done"], ["explain", "429"],
    ["worker", "jobs:app", "--drain"], ["tasks", "show", "99"], ["queues", "pause", "nosuch"], ["dlq", "nosuch"],
    ["dlq", "replay", "1"], ["--help"],
]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_color_means_no_escape_sequences(full, words):
    shown = Terminal(full).run(*words, NO_COLOR="1", FORCE_COLOR="1")

    assert shown.strip()
    assert b"\x1b" not in shown, shown


def test_a_terminal_has_colours_without_no_color(full):
    assert b"\x1b[" in Terminal(full).run("dlq", "list")
    assert b"\x1b[" in Terminal(full).run("dlq", "list", NO_COLOR="")


def test_no_color_of_a_progress_bar_and_of_watch(full):
    full.run("dlq", "list")
    shown = Terminal(full).run("dlq", "replay", "--all", NO_COLOR="1", FORCE_COLOR="1")
    assert b"\x1b" not in shown
    process, mine = Terminal(full).start(["status", "--watch"], NO_COLOR="1", FORCE_COLOR="1")
    first = b""
    while first.count(b"queued") < 2:  # refreshed once
        first += os.read(mine, 65_536)
    process.send_signal(signal.SIGINT)
    assert b"\x1b" not in first + Terminal(full).read(mine)
    process.wait(30)


def failed(number, error=ValueError, line=7):
    frames = f'  File "jobs.py", line {line}, in scrape\n    raise {error.__name__}\n'
    text = f"scrape {number}: dead letter\nTraceback (most recent call last):\n{frames}{error.__name__}: bad {number}"
    record = logging.LogRecord("outlast.worker", logging.ERROR, __file__, 1, text, (), None)
    record.exception_name = error.__name__
    return record


def test_failures_of_one_cause_print_one_traceback_and_a_count(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    formatter = PlainFormatter()
    lines = [formatter.format(failed(number)) for number in range(60)]

    assert "".join(lines).count("Traceback") == 1
    assert lines[0].endswith("ValueError: bad 0")
    assert lines[59].endswith("scrape 59: dead letter (failure 60 of this cause; see the traceback above)")
    assert "Traceback" in formatter.format(failed(60, error=KeyError)), "another class"
    assert "Traceback" in formatter.format(failed(61, line=8)), "another line of code"
    now[0] += 3600
    assert "Traceback" in formatter.format(failed(62)), "the log may have been rotated"


def test_a_worker_prints_one_traceback(world):
    for number in range(20):
        world.enqueue("scrape", f"url=bad{number}/x")
    shown = world.run("worker", "jobs:app", "--drain").stderr

    assert shown.count("dead letter (permanent)") == 20
    assert shown.count("Traceback (most recent call last)") == 1
    assert "failure 20 of this cause" in shown


def test_many_attempts_with_one_error_are_shown_as_two(world, capsys):
    world.enqueue("flaky")
    app = world.app()
    for _ in range(4):
        app.tasks.run_now(1)
        app.worker(concurrency=1).drain()
    shown = world.run("tasks", "show", 1).stdout

    assert "history: 4 failed attempts" in shown
    assert len(re.findall(r"^  \d\. ", shown, re.MULTILINE)) == 2
    assert "… 2 more attempts with the same error" in shown


class TestOptionsWithoutAValue:
    @pytest.mark.parametrize(
        ("words", "name"),
        [
            (["dlq", "replay", "--group", "--canary"], "--group"),
            (["dlq", "list", "--task", "--json"], "--task"),
            (["tasks", "list", "--status", "--wide"], "--status"),
            (["queues", "pause", "mail", "--why", "--"], "--why"),
        ],
    )
    def test_an_option_is_not_the_value_of_another(self, full, words, name):
        result = full.run(*words, code=2)

        assert result.stderr == (
            f"Error: {name} has no value: {words[-1]} looks like an option\n"
            f"  give a value, or {name}={words[-1]} if you mean that\n"
        )
        assert not full.json("dlq", "replays", "list")[1:], "no replay was started"

    def test_a_value_after_an_equals_sign_may_look_like_one(self, full):
        assert full.run("dlq", "list", "--text=--canary").stdout.startswith("no dead letters match")
        assert full.run("dlq", "note", full.json("dlq", "groups")[0]["fingerprint"], "--", "--odd").exit_code == 0

    @pytest.mark.parametrize(
        "words", [["dlq", "replay", "--group"], ["tasks", "list", "--queue"], ["explain", "--app"]]
    )
    def test_the_help_of_the_command_is_named(self, full, words):
        path = " ".join(words[:-1])
        assert full.run(*words, code=2).stderr.endswith(f"requires an argument\n  see outlast {path} --help\n")


class TestStartOfAGroup:
    @pytest.fixture
    def groups(self, world):
        """Failure groups whose fingerprints share their first characters."""
        world.dead_letters(7)
        app, db = world.app(), world.app().store.db
        for number in range(1, 8):
            mark = f"aa{number}" + "0" * 13
            db.write(lambda own, mark=mark, number=number: own.execute(
                "UPDATE dead_letter_queue SET fingerprint = ? WHERE id = ?", (mark, number)))  # fmt: skip
            db.write(lambda own, mark=mark: own.execute(
                "INSERT INTO failure_groups (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen)"
                " SELECT ?, task_type, error_type, error_category, error_message, first_seen, last_seen FROM failure_groups LIMIT 1", (mark,)))  # fmt: skip
        assert app.store.fingerprints("aa", 100) == [f"aa{number}" + "0" * 13 for number in range(1, 8)]
        return world

    def test_a_unique_start_is_enough(self, groups):
        assert groups.run("dlq", "ack", "aa3").stdout.startswith("group aa30000000000000 was acknowledged")
        assert groups.run("dlq", "snooze", "aa4", "--for", "2h").stdout.startswith("group aa40000000000000 was snoozed")
        assert groups.json("audit", "--subject", "group:aa30000000000000")[0]["action"] == "acknowledge_group"
        assert [each["id"] for each in groups.json("dlq", "list", "--group", "aa2")] == [2]
        assert groups.json("dlq", "replay", "--group", "aa2") == {"replayed": 1}

    def test_several_are_listed(self, groups):
        listed = ", ".join(f"aa{number}" + "0" * 13 for number in range(1, 6))
        said = f"several groups begin with 'aa': {listed}, …"
        assert f"Invalid value for GROUP: {said}" in groups.run("dlq", "ack", "aa", code=2).stderr
        assert said in groups.run("dlq", "replay", "--group", "aa", code=2).stderr
        assert len(groups.json("dlq", "list")) == 7

    def test_one_that_is_not_there(self, groups):
        assert (
            "group zz does not exist; outlast dlq groups shows the groups"
            in groups.run("dlq", "ack", "zz", code=1).output
        )


class TestNothingMatches:
    @pytest.mark.parametrize(
        "words", [["replay"], ["discard", "--yes"], ["replay", "--canary"], ["replay", "--rate", "1/s", "--no-wait"]]
    )
    def test_an_action_fails(self, full, words):
        before = full.json("dlq", "replays", "list")
        result = full.run("dlq", *words, "--task", "nosuch", code=1)

        assert "no dead letters match" in result.output
        assert full.json("dlq", "replays", "list") == before

    def test_a_list_or_a_dry_run_only_says_so(self, full):
        assert full.run("dlq", "list", "--task", "nosuch").stdout.startswith("no dead letters match")
        assert full.run("dlq", "replay", "--task", "nosuch", "--dry-run").stdout.startswith("0 dead letters")

    def test_a_kind_of_subject(self, full):
        result = full.run("audit", "--subject", "bogus", code=2)

        assert "'bogus' is not a subject" in result.stderr
        assert "dead_letter:ID" in result.stderr
        assert full.run("audit", "--subject", "task:99").stdout.startswith("no audit entries match")
        full.run("audit", "--subject", "dead_letter", code=2)
        full.run("audit", "--subject", "dead_letters:7", code=2)


def test_every_subject_of_an_operation_is_a_known_kind():
    class Anything(dict):
        def __missing__(self, name):
            return "x"

    kinds = {each.partition(":")[:2] for each in SUBJECTS}
    assert {operation.subject(Anything()).partition(":")[:2] for operation in OPERATIONS} <= kinds


@pytest.mark.parametrize("words", [["dlq", "replay"], ["worker"], ["sources", "list"]])
def test_help_is_readable_in_40_columns(words):
    lines = CliRunner().invoke(cli, [*words, "--help"], terminal_width=40).stdout.splitlines()

    texts = [line for line in lines if line.startswith(" " * 10)]
    assert max(map(len, texts)) <= 40
    assert max(len(line) - len(line.lstrip()) for line in texts) <= 20, "more than half of the width is left"
    assert {"--app", "--log-level"} & {word for line in lines for word in line.split()}


def test_no_short_help_is_cut(world):
    root = click.Context(cli)
    groups = [[name] for name in cli.list_commands(root) if isinstance(cli.get_command(root, name), click.Group)]
    for words in ([], *groups, ["dlq", "replays"]):
        assert "..." not in world.run(*words, "--help").stdout.partition("Commands:")[2], words
