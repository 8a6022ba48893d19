"""outlast status, queues and db."""

import sqlite3
from datetime import UTC, datetime

from cli_world import make_world  # noqa: F401  # a fixture
from outlast.ports.rows import WorkerRow


class TestStatus:
    def test_everything(self, world):
        world.dead_letters(2)
        world.enqueue("flaky")
        app = world.app()
        app.store.start_cooldown("api.example.com", 600, "429 Too Many Requests")
        app.tasks.pause("mail")
        data, text = world.json("status"), world.run("status").stdout

        assert data["counts"]["QUEUED"] == 1
        assert data["counts"]["dead_letters"] == 2
        assert {row["name"]: row["paused"] for row in data["queues"]} == {"default": False, "mail": True}
        assert data["cooldowns"][0]["resource"] == "api.example.com"
        assert data["cooldowns"][0]["until"].endswith("+00:00")
        assert sum(group["size"] for group in data["groups"]) == 2
        assert data["workers"] == []
        for words in ("queued 1", "dead letters 2", "paused", "no workers; ", "in 10m", "429 Too Many Requests"):
            assert words in text
        assert data["groups"][0]["fingerprint"] in text
        assert all(len(line) <= 80 for line in text.splitlines()[1:])

    def test_an_app_that_only_polls_needs_no_worker(self, world):
        (world.folder / "only_feeds.py").write_text(
            'import outlast\napp = outlast.App("sqlite:///outlast.db")\nfeeds = app.monitor(fetch=lambda source: "")\n'
        )
        world.run("db", "init", "--app", "only_feeds:app")
        assert "no workers" not in world.run("status", "--app", "only_feeds:app").stdout
        assert "no workers; " in world.run("status", "--app", "jobs:app").stdout

    def test_groups_can_be_left_out(self, world):
        world.dead_letters(1)

        assert world.json("status", "--groups", 0)["groups"] == []

    def test_workers(self, world):
        now = datetime.now(UTC)
        store = world.app().store
        for name, lease in (("here", 60.0), ("gone", -60.0)):
            row = WorkerRow(
                name,
                name,
                "host",
                1,
                ("default", "mail"),
                4,
                "running",
                0,
                alive=True,
                started_at=now,
                heartbeat_at=now,
            )
            store.register(row, lease)
        text, data = world.run("status").stdout, world.json("status")

        assert {row["name"]: row["queues"] for row in data["workers"]}["here"] == ["default", "mail"]
        assert "0/4" in text
        assert "default,mail" in text

    def test_an_empty_store(self, world):
        world.run("db", "init", "--url", "sqlite:///outlast.db")

        assert "no tasks" in world.run("status").stdout

    def test_watch_refreshes_until_ctrl_c(self, world, monkeypatch):
        world.enqueue("flaky")
        slept = []

        def sleep(seconds):
            slept.append(seconds)
            if len(slept) == 3:
                raise KeyboardInterrupt
            world.enqueue("flaky")

        monkeypatch.setattr("outlast.cli.status.time.sleep", sleep)
        result = world.run("status", "--watch")

        assert slept == [1.0, 1.0, 1.0]
        assert "queued 3" in result.stdout

    def test_watch_is_for_people(self, world):
        world.enqueue("flaky")

        assert "not both" in world.run("status", "--watch", "--json", code=2).stderr


class TestQueues:
    def test_list(self, world):
        world.enqueue("flaky")
        world.enqueue("mail", "to=me", "--delay", "1h")
        rows = {row["name"]: row for row in world.json("queues", "list")}

        assert rows["default"]["ready"] == rows["mail"]["scheduled"] == 1
        assert "mail" in world.run("queues", "list").stdout

    def test_pause_and_resume(self, world):
        world.enqueue("mail", "to=me")
        assert world.run("queues", "pause", "mail", "later", "--new").stdout == (
            "queue mail is paused: running tasks continue\nqueue later is paused: it has no tasks yet\n"
        )
        world.drain()
        assert not (world.folder / "mailed").exists()
        assert world.run("queues", "resume", "mail").stdout == "queue mail is resumed\n"
        assert world.run("queues", "resume", "mail").stdout == "queue mail was not paused\n"
        world.drain()
        assert (world.folder / "mailed").exists()

    def test_pause_of_a_queue_that_nobody_knows(self, world):
        world.run("db", "init", "--url", "sqlite:///outlast.db")
        result = world.run("queues", "pause", "nosuch", code=1)

        assert result.output == (
            "queue nosuch has no tasks and no worker; check the name, or give new (--new) to pause it in advance\n"
        )
        assert world.json("queues", "list") == []
        assert world.run("queues", "pause", "mail", "--app", "jobs:app").stdout.startswith("queue mail is paused")

    def test_close_of_a_breaker_that_nobody_has(self, world):
        world.run("db", "init", "--url", "sqlite:///outlast.db")
        world.run("breakers", "close", "nosuch", code=1)
        world.run("breakers", "open", "nosuch")
        world.run("breakers", "close", "nosuch")  # an order is withdrawn
        world.run("breakers", "close", "nosuch", code=1)

    def test_resume_of_a_queue_that_nobody_knows(self, world):
        world.enqueue("mail", "to=me")
        world.run("queues", "pause", "empty", "--new")
        result = world.run("queues", "resume", "nosuch", "mail", "empty", code=1)

        assert result.stdout == (
            "queue nosuch is not paused and has no tasks; check the name\n"
            "queue mail was not paused\n"
            "queue empty is resumed\n"
        )
        assert [row["name"] for row in world.json("queues", "list")] == ["mail"]
        world.run("queues", "resume", "empty", code=1)

    def test_none(self, world):
        world.run("db", "init", "--url", "sqlite:///outlast.db")

        assert "no queue has tasks" in world.run("queues", "list").stdout


class TestDatabase:
    def test_init_twice(self, world):
        for _ in range(2):
            assert "the tables have version" in world.run("db", "init", "--url", "sqlite:///new.db").stdout
        assert "the tables have version" in world.run("db", "migrate", "--url", "sqlite:///new.db").stdout

    def test_check(self, world):
        world.dead_letters(1)
        text, data = world.run("db", "check").stdout, world.json("db", "check")

        assert "ok; " in text
        assert "dead letters 1" in text
        assert data["version"] >= 1
        assert data["counts"]["dead_letters"] == 1
        assert len(world.json("dlq", "list")) == 1  # the trial was taken back

    def test_newer_tables(self, world):
        """Pitfall 54: an old Outlast on a newer schema stops with a clear message."""
        world.run("db", "init", "--url", "sqlite:///outlast.db")
        with sqlite3.connect("outlast.db") as connection:
            connection.execute("INSERT INTO schema_version VALUES (999, 0)")
        connection.close()
        for words in (["db", "check"], ["status"], ["db", "migrate"], ["worker", "jobs:app", "--drain"]):
            result = world.run(*words, code=1)
            assert "version 999" in result.stderr
            assert "Traceback" not in result.output
