"""outlast dlq edit, and the lineage that dlq show prints."""

import json

import pytest

import outlast
from cli_world import in_one_line, make_world  # noqa: F401  # a fixture
from outlast.errors import ConfigError, PayloadError
from outlast.queue.dead_letters import masked_edit

APP = ("--app", "jobs:app")
WHY = ("--why", "typo")


def edit(world, *words, code=0):
    return world.run("dlq", "edit", 1, *words, *WHY, *APP, code=code)


def stored(world):
    return json.loads(world.app().store.dead_letter(1).parameters)


class TestSet:
    def test_a_value(self, world):
        world.dead_letters(1, "token=hunter2")
        said = edit(world, "--set", "/url=https://a.example").stdout

        assert "dead letter 1: arguments changed" in said
        assert '"url":"https://a.example"' in said
        assert "outlast dlq replay 1 --app jobs:app" in said
        assert "hunter2" not in said
        assert stored(world) == {"url": "https://a.example", "token": "hunter2"}

    def test_what_stays_although_it_may_have_been_computed_from_the_arguments(self, world):
        world.dead_letters(1, "--unique-key", "once")
        said = edit(world, "--set", "url=good").stdout
        assert "the unique key stays once" in said
        assert "the resource" not in said

    def test_several_and_what_was_not_there(self, world):
        world.dead_letters(1)
        edit(world, "--set", "url=x", "--set", "/depth=3")
        assert stored(world) == {"url": "x", "depth": 3}

    def test_text_that_looks_like_a_number_stays_text_where_text_is_wanted(self, world):
        world.dead_letters(1)
        edit(world, "--set", "url=17")
        assert stored(world) == {"url": "17"}

    def test_what_is_masked_can_be_replaced(self, world):
        world.dead_letters(1, "token=hunter2")
        said = edit(world, "--set", "token=correct-horse").stdout
        assert "correct-horse" not in said
        assert stored(world)["token"] == "correct-horse"

    def test_it_is_used_by_the_replay(self, world):
        world.dead_letters(1)
        edit(world, "--set", "url=good")
        world.run("dlq", "replay", 1)
        world.drain()
        assert world.json("status")["counts"]["DONE"] == 1

    @pytest.mark.parametrize("pair", ["url", "=x"])
    def test_no_pair(self, world, pair):
        world.dead_letters(1)
        assert "is not PATH=VALUE" in edit(world, "--set", pair, code=2).stderr


class TestPatch:
    def test_operations(self, world):
        world.dead_letters(1, "depth=2")
        edit(world, "--patch", '[{"op": "remove", "path": "/depth"}, {"op": "replace", "path": "/url", "value": "y"}]')
        assert stored(world) == {"url": "y"}

    @pytest.mark.parametrize(
        ("patch", "said"),
        [
            ("{", "not valid JSON"),
            ("{}", "a patch must be a list of operations"),
            (
                '[{"op": "test", "path": "/token", "value": "hunter2"}]',
                "is not a valid operation\n  choose one of: add, replace, remove",
            ),
            (
                '[{"op": "copy", "from": "/token", "path": "/url"}]',
                "is not a valid operation\n  choose one of: add, replace, remove",
            ),
            ('[{"op": "remove", "path": "/token"}]', "is masked"),
            ('[{"op": "remove", "path": "/url"}]', "has no url"),
            ('[{"op": "add", "path": "/colour", "value": "red"}]', "an unknown colour"),
            ('[{"op": "replace", "path": "/depth", "value": "deep"}]', "parameter depth"),
        ],
    )
    def test_what_cannot_be_done_changes_nothing(self, world, patch, said):
        world.dead_letters(1, "token=hunter2", "depth=2")
        result = edit(world, "--patch", patch, code=2)
        assert said in result.stderr
        assert "hunter2" not in result.stderr
        assert stored(world) == {"url": "bad0/x", "token": "hunter2", "depth": 2}
        assert world.app().store.audits(action="edit_dead_letter") == []

    def test_either_or(self, world):
        world.dead_letters(1)
        assert "either --patch or --set" in edit(world, code=2).stderr
        assert "either --patch or --set" in edit(world, "--patch", "[]", "--set", "a=b", code=2).stderr


class TestWhoAndWhy:
    def test_a_reason_has_to_be_given(self, world):
        world.dead_letters(1)
        assert "Missing option '--why'" in world.run("dlq", "edit", 1, "--set", "url=x", *APP, code=2).stderr

    def test_the_task_has_to_be_known(self, world):
        world.dead_letters(1)
        said = in_one_line(world.run("dlq", "edit", 1, "--set", "url=x", *WHY, code=2).stderr)
        assert "the app has no task 'scrape'; give --app MODULE:APP" in said

    def test_gone(self, world):
        world.dead_letters(1)
        assert (
            "dead letter 9 does not exist" in world.run("dlq", "edit", 9, "--set", "url=x", *WHY, *APP, code=1).stderr
        )

    def test_lineage_is_shown_masked(self, world):
        world.dead_letters(1, "token=hunter2")
        edit(world, "--set", "url=first")
        edit(world, "--set", "token=correct-horse")
        text, data = world.run("dlq", "show", 1).stdout, world.json("dlq", "show", 1)

        assert "changed by hand: 2 times" in text
        assert text.count(": typo") == 2
        assert [each["reason"] for each in data["edits"]] == ["typo", "typo"]
        assert "@" in data["edits"][0]["who"]
        assert json.loads(data["edits"][0]["before"]) == {"url": "bad0/x", "token": "***"}
        assert json.loads(data["edits"][0]["after"]) == {"url": "first", "token": "***"}
        assert json.loads(data["edits"][1]["patch"])[0].keys() == {"op", "path"}
        for secret in ("hunter2", "correct-horse"):
            assert secret not in text + json.dumps(data)

    def test_it_stays_when_it_was_replayed(self, world):
        world.dead_letters(1)
        edit(world, "--set", "url=bad9")
        world.run("dlq", "replay", 1)
        world.drain()
        data = world.json("dlq", "show", 2)
        assert (len(data["edits"]), data["replays"]) == (1, 1)

    def test_the_audit_log_has_no_value_of_it(self, world):
        world.dead_letters(1, "token=hunter2")
        edit(world, "--set", "token=correct-horse", "--set", "url=zebra")
        (entry,) = world.json("audit", "--action", "edit_dead_letter")
        assert (entry["subject"], entry["reason"]) == ("dead_letter:1", "typo")
        assert entry["detail"] == {"task": 1, "operations": ["add /token", "add /url"]}
        assert "horse" not in json.dumps(entry)
        assert "zebra" not in json.dumps(entry)

    def test_as_json(self, world):
        world.dead_letters(1)
        data = json.loads(edit(world, "--set", "url=x", "--json").stdout)
        assert (data["task_id"], data["reason"], json.loads(data["after"])) == (1, "typo", {"url": "x"})


class TestBox:
    """What a program gets."""

    @pytest.fixture
    def letter(self, tmp_path):
        app = outlast.App(f"sqlite:///{tmp_path}/x.db", payload_limit=200)

        @app.task
        def pay(pin: str, amount: int) -> None:
            raise ValueError("no")

        pay.enqueue("4711-secret", 3)
        app.worker().drain()
        yield app, pay, app.dead_letters.list()[0]
        app.close()

    def test_the_size_counts(self, letter):
        app, pay, dead = letter
        with pytest.raises(PayloadError, match="the limit is 200"):
            app.dead_letters.edit(dead.id, [{"op": "replace", "path": "/pin", "value": "x" * 300}], definition=pay)

    def test_a_message_about_a_masked_value_does_not_hold_it(self, letter):
        app, pay, dead = letter
        pay.function.__annotations__["pin"] = "Colour"
        del pay.codec.__dict__["_plan"]
        pay.function.__globals__["Colour"] = __import__("enum").Enum("Colour", {"RED": "red"})
        with pytest.raises(PayloadError) as caught:
            app.dead_letters.edit(dead.id, [{"op": "replace", "path": "/amount", "value": 4}], definition=pay)
        assert "pin" in str(caught.value)
        assert "4711-secret" not in str(caught.value)

    def test_another_task_is_refused(self, letter):
        app, _, dead = letter

        @app.task
        def other(pin: str) -> None: ...

        for definition in (None, other):
            with pytest.raises(ConfigError, match="has no task 'pay'"):
                app.dead_letters.edit(
                    dead.id, [{"op": "replace", "path": "/amount", "value": 4}], definition=definition
                )

    def test_two_at_once(self, letter, monkeypatch):
        app, pay, dead = letter
        monkeypatch.setattr(app.store, "dead_letter", lambda _: dead._replace(parameters='{"pin":"x","amount":1}'))
        with pytest.raises(LookupError, match="was changed at the same time"):
            app.dead_letters.edit(dead.id, [{"op": "replace", "path": "/amount", "value": 4}], definition=pay)
        monkeypatch.setattr(app.store, "dead_letter", lambda _: dead)
        app.store.discard(dead.id)
        with pytest.raises(LookupError, match="no longer exists"):
            app.dead_letters.edit(dead.id, [{"op": "replace", "path": "/amount", "value": 4}], definition=pay)

    def test_the_whole_is_kept_and_shown_masked(self, letter):
        app, pay, dead = letter
        patch = [
            {"op": "replace", "path": "/pin", "value": "first"},
            {"op": "replace", "path": "/pin", "value": "last"},
        ]
        found = app.dead_letters.edit(dead.id, patch, definition=pay, who="ann", why="wrong one")
        assert (json.loads(found.before)["pin"], json.loads(found.after)["pin"]) == ("4711-secret", "last")
        assert (found.who, found.reason, json.loads(found.patch)) == ("ann", "wrong one", patch)
        shown = masked_edit(found)
        assert not {"4711-secret", "first", "last"} & set(
            (shown.before + shown.after + shown.patch).replace('"', " ").split()
        )

    @pytest.mark.parametrize(
        "secret", ["-----BEGIN KEY-----\nMIIabc\n-----END KEY-----\n", 'hunter"2\\x', "typo-secret"]
    )
    def test_no_value_of_a_patch_is_shown(self, letter, secret):
        app, pay, dead = letter
        patch = [
            {"op": "replace", "path": "/pin", "value": secret},
            {"op": "replace", "path": "/pin", "value": "last"},
        ]
        shown = masked_edit(app.dead_letters.edit(dead.id, patch, definition=pay, why="x"))
        assert json.loads(shown.patch) == [{"op": "replace", "path": "/pin"}] * 2
        for part in (secret, json.dumps(secret)[1:-1], "MIIabc", "hunter"):
            assert part not in shown.before + shown.after + shown.patch
