"""outlast audit: every acting command is written down before it is done."""

import getpass
import socket

import pytest

from cli_world import make_world  # noqa: F401  # a fixture
from outlast.queue import audit
from outlast.queue.audit import audit_disabled, os_user, write_audit
from outlast.stores.sqlite.memory import MemoryStore

ACTING = [
    (["dlq", "replay", 1], "replay_dead_letter", "dead_letter:1"),
    (["dlq", "replay", "--task", "scrape"], "replay_dead_letters", "dead_letters"),
    (["dlq", "replay", "--all", "--canary", "--no-wait"], "start_replay", "dead_letters"),
    (["dlq", "discard", 1, "--yes"], "discard_dead_letter", "dead_letter:1"),
    (["dlq", "discard", "--all", "--yes"], "discard_dead_letters", "dead_letters"),
    (["dlq", "edit", 1, "--set", "url=x", "--why", "y", "--app", "jobs:app"], "edit_dead_letter", "dead_letter:1"),
    (["dlq", "ack", "GROUP"], "acknowledge_group", "group:GROUP"),
    (["dlq", "snooze", "GROUP", "--for", "2h"], "snooze_group", "group:GROUP"),
    (["dlq", "reopen", "GROUP"], "reopen_group", "group:GROUP"),
    (["dlq", "note", "GROUP", "text"], "note_group", "group:GROUP"),
    (["tasks", "cancel", 3], "cancel_task", "task:3"),
    (["tasks", "run-now", 3], "run_task_now", "task:3"),
    (["cooldowns", "start", "a.test", "--minutes", 5], "start_cooldown", "resource:a.test"),
    (["breakers", "open", "a.test"], "open_breaker", "resource:a.test"),
    (["breakers", "close", "a.test"], "close_breaker", "resource:a.test"),
    (["queues", "pause", "mail"], "pause_queue", "queue:mail"),
    (["queues", "resume", "mail"], "resume_queue", "queue:mail"),
    (["sources", "add", "https://b.example/"], "add_sources", "sources"),
    (["sources", "import", "urls.txt"], "import_sources", "sources"),
    (["sources", "enable", 1], "enable_source", "source:1"),
    (["sources", "disable", 1], "disable_source", "source:1"),
    (["sources", "probe", 1], "probe_source", "source:1"),
    (["sources", "remove", 1, "--yes"], "remove_source", "source:1"),
    (["alerts", "deliver"], "deliver_alerts", "alerts"),
]
LOOKING = [
    ["dlq", "list"], ["dlq", "show", 1], ["dlq", "groups"], ["dlq", "replays"], ["dlq", "replay", "--all", "--dry-run"],
    ["dlq", "discard", "--all", "--dry-run"], ["tasks", "list"], ["tasks", "show", 1], ["queues", "list"], ["sources", "list"],
    ["alerts", "list"], ["status"], ["audit"], ["sources", "import", "urls.txt", "--dry-run"],
]  # fmt: skip


@pytest.fixture
def full(world):
    """A store with something of everything."""
    world.dead_letters(2)
    world.enqueue("mail", "to=x", "--delay", "1h")
    (world.folder / "urls.txt").write_text("https://c.example/\n")
    app = world.app()
    app.sources.add("https://a.example/")
    app.store.order_breaker("a.test", "open", None)
    app.store.raise_alerts(
        [__import__("outlast.ports.source_rows", fromlist=["NewAlert"]).NewAlert("k", "bad", "title")]
    )
    return world


def entries(world):
    return [(each.action, each.subject) for each in world.app().store.audits(limit=1000)]


@pytest.mark.parametrize(
    ("words", "action", "subject"), ACTING, ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_acting_command_is_written_down(full, words, action, subject):
    group = full.json("dlq", "groups")[0]["fingerprint"]
    full.run(*(group if word == "GROUP" else word for word in words))
    assert entries(full) == [(action, subject.replace("GROUP", group))]
    (entry,) = full.app().store.audits()
    assert entry.who == f"{getpass.getuser()}@{socket.gethostname()}"


@pytest.mark.parametrize("words", LOOKING, ids=lambda words: " ".join(map(str, words)))
def test_who_only_looks_is_not(full, words):
    full.run(*words)
    assert entries(full) == []


def test_it_is_written_before_it_is_done(full, monkeypatch):
    """Also what then fails was asked for; and what cannot be written down is not done."""
    store = full.app().store

    def broken(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "replay", broken)
    full.run("dlq", "replay", 1, "--app", "jobs:app", code=130)
    assert entries(full) == [("replay_dead_letter", "dead_letter:1")]
    monkeypatch.undo()
    monkeypatch.setattr(store, "audit", broken)
    full.run("dlq", "discard", 1, "--yes", "--app", "jobs:app", code=130)
    assert store.dead_letter(1) is not None


def test_a_canary_and_its_stop(full):
    full.run("dlq", "replay", "--all", "--canary", "--no-wait", "--why", "fixed")
    full.run("dlq", "replays", "stop", 1, "--why", "no")
    full.run("dlq", "replays", "resume", 1, "--no-wait")
    assert entries(full) == [
        ("resume_replay", "replay:1"),
        ("stop_replay", "replay:1"),
        ("start_replay", "dead_letters"),
    ]


class TestTable:
    def test_of_it(self, full):
        full.run("dlq", "discard", 1, "--why", "not needed", "--yes")
        full.run("queues", "pause", "mail")
        said = full.run("audit").stdout
        assert "pause_queue" in said
        assert "not needed" in said
        assert [each["id"] for each in full.json("audit")] == [2, 1]
        assert [each["action"] for each in full.json("audit", "--subject", "queue:mail")] == ["pause_queue"]
        assert [each["id"] for each in full.json("audit", "--action", "discard_dead_letter")] == [1]
        assert [each["id"] for each in full.json("audit", "--before", 2)] == [1]
        assert "there may be more: --before 2" in full.run("audit", "--limit", 1).stdout

    def test_none(self, full):
        assert full.run("audit").stdout.startswith("no audit entries; ")
        assert full.run("audit", "--action", "x").stdout.startswith("no audit entries match")

    def test_secrets_are_masked(self, full):
        full.run("dlq", "discard", 1, "--why", "password=hunter2 is wrong", "--yes")
        full.run("sources", "add", "https://user:hunter2@b.example/")
        assert "hunter2" not in full.run("audit").stdout
        assert "hunter2" not in str(full.app().store.audits()), "not even in the table"

    def test_values_of_secret_names_are_masked(self, full):
        full.app().store.audit("ann", "edit", "tasks", {"password": "hunter2", "n": 1}, "")
        said = full.run("audit", "--wide").stdout
        assert "password ***, n 1" in said
        assert "hunter2" not in full.run("audit", "--json").stdout


class TestWriting:
    def test_what_is_kept_is_plain_and_short(self):
        store = MemoryStore()
        detail = {"text": "x" * 1000, "ids": tuple(range(500)), "n": 3, "flag": True, "none": None, "bad": "a\x00b"}
        write_audit(store, "replay", "s" * 1000, detail, who="ann\nbob", why="y" * 5000)
        (entry,) = store.audits()
        assert len(entry.subject) == 300
        assert len(entry.detail["text"]) == 300
        assert entry.detail["ids"][-1] == "… 400 more"
        assert (entry.detail["n"], entry.detail["flag"], entry.detail["bad"]) == (3, True, "a\ufffdb")
        assert "none" not in entry.detail
        assert (entry.who, len(entry.reason)) == ("ann bob", 1000)

    def test_once_where_somebody_has_done_it_already(self):
        store = MemoryStore()
        with audit_disabled():
            write_audit(store, "replay", "dead_letter:1")
        assert store.audits() == []
        write_audit(store, "replay", "dead_letter:1")
        assert len(store.audits()) == 1

    def test_a_user_without_a_name(self, monkeypatch):
        def nobody():
            raise KeyError("getpwuid(): uid not found: 4711")

        monkeypatch.setattr(audit.getpass, "getuser", nobody)
        monkeypatch.setattr(audit.os, "getuid", lambda: 4711)
        assert os_user() == f"uid4711@{socket.gethostname()}"
