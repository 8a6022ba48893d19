"""outlast dlq."""

import pytest

from cli_world import make_world  # noqa: F401  # a fixture


def test_none(world):
    world.run("db", "init", "--url", "sqlite:///outlast.db")

    assert world.run("dlq", "list").stdout.startswith("no dead letters; no task failed for good")
    assert world.run("dlq", "groups").stdout.startswith("no dead letters; ")
    assert world.json("dlq", "groups") == []
    assert world.run("dlq", "replay", "--all").stdout == "no dead letters match\n"


def test_list_and_filters(world):
    world.dead_letters(3)

    def ids(*words):
        return [letter["id"] for letter in world.json("dlq", "list", *words)]

    group = world.json("dlq", "groups")[0]["fingerprint"]
    assert ids() == [3, 2, 1]
    assert ids("--limit", 2) == [3, 2]
    assert ids("--task", "scrape", "--queue", "default", "--category", "unknown", "--reason", "permanent") == [3, 2, 1]
    assert ids("--task", "mail") == ids("--queue", "mail") == ids("--reason", "crash") == []
    assert ids("--text", "bad1") == [2]
    assert group in {letter["fingerprint"] for letter in world.json("dlq", "list")}
    assert ids("--group", group)
    assert ids("--since", "2h") == [3, 2, 1]
    assert ids("--until", "2h") == ids("--since", "2040-01-01T00:00Z") == []
    assert "3 in total" in world.run("dlq", "list", "--limit", 2).stdout


def test_bad_filters(world):
    world.dead_letters(1)

    assert "is not a valid category" in world.run("dlq", "list", "--category", "netwrok", code=2).stderr
    assert "or an age: 15m" in world.run("dlq", "list", "--since", "yesterday", code=2).stderr
    world.run("dlq", "list", "--since", "2026-11-15T10:00")  # in UTC, as on the page


def test_tables_keep_to_eighty_columns(world):
    world.dead_letters(2)
    lines = [*world.run("dlq", "list").stdout.splitlines(), *world.run("dlq", "groups").stdout.splitlines()]
    group = world.json("dlq", "groups")[0]["fingerprint"]

    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith(group) for line in lines)


def test_show(world):
    world.dead_letters(1, "token=hunter2")
    text, data = world.run("dlq", "show", 1).stdout, world.json("dlq", "show", 1)

    assert "ValueError: no good: bad0" in text
    assert text.count("Traceback") == 1
    assert "hunter2" not in text
    assert data["parameters"] == {"url": "bad0/x", "token": "***"}
    assert len(data["attempts"]) == 1
    assert world.run("dlq", "show", 9, code=1).stderr == (
        "Error: dead letter 9 does not exist\n  outlast dlq list shows the dead letters\n"
    )


def test_groups(world):
    world.dead_letters(3)
    groups = world.json("dlq", "groups")

    assert sum(group["size"] for group in groups) == 3
    assert groups[0]["first_seen"].endswith("+00:00")


class TestReplay:
    def test_by_number(self, world):
        world.dead_letters(3)
        assert world.run("dlq", "replay", 1, 3).stdout == "2 replayed\n"
        assert [letter["id"] for letter in world.json("dlq", "list")] == [2]
        assert world.json("status")["counts"]["QUEUED"] == 2

    def test_twice(self, world):
        """Pitfall 56: twice replays nothing twice."""
        world.dead_letters(1)
        world.run("dlq", "replay", 1)
        result = world.run("dlq", "replay", 1, code=1)

        assert result.stdout == "1 gone\n"
        assert "dead letter 1: does not exist" in result.stderr
        assert world.json("status")["counts"]["QUEUED"] == 1

    def test_by_filter_and_limit(self, world):
        world.dead_letters(4)
        assert world.json("dlq", "replay", "--text", "bad", "--limit", 3) == {"replayed": 3}
        assert [letter["id"] for letter in world.json("dlq", "list")] == [1]

    def test_numbers_and_filters_narrow_together(self, world):
        world.dead_letters(3)
        assert world.json("dlq", "replay", 1, 2, "--text", "bad1") == {"replayed": 1}

    def test_all(self, world):
        world.dead_letters(3)
        assert world.json("dlq", "replay", "--all") == {"replayed": 3}

    def test_dry_run(self, world):
        world.dead_letters(3)
        groups = {each["fingerprint"]: each["size"] for each in world.json("dlq", "groups")}
        said = world.run("dlq", "replay", "--all", "--dry-run").stdout.splitlines()
        counts = world.json("dlq", "replay", "--all", "--dry-run")

        assert said[0] == "3 dead letters would be replayed"
        assert said[1:] == [
            *(f"  group {name}: {size}" for name, size in groups.items()),
            "  task scrape: 3",
            "  category unknown: 3",
        ]
        assert counts == {
            "count": 3, "total": 3, "groups": groups, "tasks": {"scrape": 3}, "categories": {"unknown": 3},
        }  # fmt: skip
        assert world.json("dlq", "replay", 1, "--dry-run")["count"] == 1
        assert world.json("dlq", "replay", "--all", "--limit", 2, "--dry-run")["tasks"] == {"scrape": 2}
        assert len(world.json("dlq", "list")) == 3

    def test_a_conflict_stays_and_is_told(self, world):
        """Pitfall 57."""
        world.dead_letters(1, "--unique-key", "once")
        world.enqueue("scrape", "url=x", "--unique-key", "once")
        result = world.run("dlq", "replay", "--all", code=1)

        assert result.stdout == "1 conflict\n"
        assert "dead letter 1: a live task has the same unique key; it stays a dead letter" in result.stderr
        assert len(world.json("dlq", "list")) == 1

    @pytest.mark.parametrize("command", ["replay", "discard"])
    def test_which_has_to_be_said(self, world, command):
        world.dead_letters(1)
        assert "no dead letters selected" in world.run("dlq", command, code=2).stderr
        assert "--all cannot be combined with" in world.run("dlq", command, "--all", "--task", "scrape", code=2).stderr
        assert "--all cannot be combined with" in world.run("dlq", command, "--all", 1, code=2).stderr

    def test_stopped_halfway_tells_what_was_done(self, world, monkeypatch):
        world.dead_letters(3)
        app = world.app()
        replay, calls = app.store.replay, []

        def interrupted(number):
            calls.append(number)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return replay(number)

        monkeypatch.setattr(app.store, "replay", interrupted)
        result = world.run("dlq", "replay", "--all", "--app", "jobs:app", code=130)

        assert result.stdout == "1 replayed\n"

    def test_a_bar_at_a_terminal(self, world, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")
        world.dead_letters(7)
        result = world.run("dlq", "replay", "--all")

        assert "7 replayed" in result.stdout
        assert "100%" in result.stderr


class TestDiscard:
    def test_is_asked_for(self, world):
        world.dead_letters(2)
        result = world.run("dlq", "discard", "--all", code=1, text="n\n")
        assert "Discard 2 dead letters for good?" in result.stderr
        assert len(world.json("dlq", "list")) == 2
        assert world.run("dlq", "discard", 1, text="y\n").stdout.endswith("1 discarded\n")
        assert len(world.json("dlq", "list")) == 1

    def test_nobody_there_to_answer(self, world):
        world.dead_letters(1)
        world.run("dlq", "discard", "--all", code=1, text="")
        assert len(world.json("dlq", "list")) == 1

    def test_yes(self, world):
        world.dead_letters(2)
        assert world.json("dlq", "discard", "--task", "scrape", "--yes") == {"discarded": 2}
        assert world.json("status")["counts"]["DISCARDED"] == 2

    def test_dry_run(self, world):
        world.dead_letters(2)
        assert world.run("dlq", "discard", 1, "--dry-run").stdout.startswith("1 dead letter would be discarded\n")
