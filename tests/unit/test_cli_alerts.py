"""outlast alerts, and where they go."""

import sys

import pytest

from cli_world import make_world  # noqa: F401  # a fixture
from outlast.errors import ResourceNotFoundError
from servers.webhooks import Reply, WebhookServer

FEED = "https://example.com/feed.xml"
SECRET = "hunter2"
FEEDS = """
import outlast

app = outlast.App("sqlite:///outlast.db", notify={notify}, notify_private=True)
"""


@pytest.fixture
def hook():
    with WebhookServer() as server:
        yield server


@pytest.fixture
def told(world, hook):
    """An app whose alerts go to the server, with one alert that waits."""
    address = hook.url(f"/services/T0/B0/{SECRET}").replace("http://", "slack+http://")
    (world.folder / "feeds.py").write_text(FEEDS.format(notify=[address]))
    sys.modules.pop("feeds", None)
    world.run("sources", "add", FEED, "--app", "jobs:app")
    for _ in range(5):
        world.app().sources.record_failure(FEED, ResourceNotFoundError("404"))
    yield world
    if (feeds := sys.modules.pop("feeds", None)) is not None:
        feeds.app.close()


def test_list(told):
    (alert,) = told.json("alerts", "list")
    assert (alert["kind"], alert["state"], alert["delivery"], alert["delivered_to"]) == (
        "first",
        "disabled",
        "waits",
        [],
    )
    assert "epoch" not in alert
    text = told.run("alerts", "list", "--waiting").stdout
    assert text.split()[:6] == ["ID", "KIND", "WHEN", "TRIES", "DELIVERY", "ALERT"]
    assert "https://example.com/feed.xml: disabled" in text
    assert "there may be more" in told.run("alerts", "list", "--limit", 1).stdout
    assert "no process has tried to deliver them; " in text
    assert text.endswith("if neither runs: outlast alerts deliver\n")


def test_list_of_none(world):
    world.run("db", "init", "--url", "sqlite:///outlast.db")

    assert world.run("alerts", "list").stdout.startswith("no alerts; ")
    assert world.run("alerts", "list", "--waiting").stdout.startswith("no alerts match; outlast alerts list ")
    assert world.run("alerts", "deliver").stdout == "no alerts are waiting\n"


def test_deliver(told, hook):
    channel, title, count = told.run("alerts", "deliver", "--app", "feeds:app").stdout.splitlines()
    assert channel.startswith("slack#")
    assert channel.endswith(": 1 alert delivered")
    assert title == "  1 https://example.com/feed.xml: disabled after 5 failures in a row"
    assert count == "1 alert tried"
    assert [request.path for request in hook.requests] == [f"/services/T0/B0/{SECRET}"]
    assert "no alerts are waiting" in told.run("alerts", "deliver", "--app", "feeds:app").stdout
    (alert,) = told.json("alerts", "list")
    assert alert["delivery"] == "done"
    assert alert["delivered_to"][0].startswith("slack#")
    assert "nobody has tried" not in told.run("alerts", "list").stdout
    assert told.json("alerts", "list", "--waiting") == []


def test_deliver_tells_of_what_could_not_be(told, hook):
    hook.script(Reply(404, body=SECRET.encode()))
    result = told.run("alerts", "deliver", "--app", "feeds:app", code=1)

    assert result.stdout == "1 alert tried; 1 waiting, 1 of them after a failure\n"
    assert "an alert was not delivered" in result.stderr
    assert SECRET not in result.output
    assert told.json("alerts", "deliver", "--app", "feeds:app", code=1) == {
        "tried": 0,
        "waiting": 1,
        "failed": 1,
        "delivered": {},
    }
    assert len(hook.requests) == 1  # it is not due again yet


def test_what_waits_after_a_failure_is_delivered_now(told, hook):
    hook.script(Reply(404))
    told.run("alerts", "deliver", "--app", "feeds:app", code=1)
    data = told.json("alerts", "deliver", "--now", "--app", "feeds:app")

    assert len(hook.requests) == 2
    assert (data["tried"], data["waiting"], data["failed"]) == (1, 0, 0)
    ((channel, ids),) = data["delivered"].items()
    assert channel.startswith("slack#")
    assert ids == [1]
    assert told.json("alerts", "list")[0]["delivery"] == "done"
    assert told.run("alerts", "deliver", "--now", "--app", "feeds:app").stdout == "no alerts are waiting\n"


def test_without_a_channel_alerts_are_written_to_standard_error(told):
    result = told.run("alerts", "deliver")

    assert "alert: https://example.com/feed.xml: disabled after 5 failures in a row" in result.stderr
    assert told.json("alerts", "list", "--waiting") == []


class TestOfChannels:
    def test_it_arrives(self, told, hook):
        result = told.run("alerts", "test", "--app", "feeds:app")
        (request,) = hook.requests

        assert result.stdout.startswith("slack#")
        assert result.stdout.endswith(": delivered\n")
        assert SECRET not in result.output
        assert b"Outlast: a test" in request.body
        assert told.json("alerts", "list")[0]["deliveries"] == 0  # nothing that waits is touched

    def test_one_that_fails(self, told, hook):
        (told.folder / "feeds.py").write_text(
            FEEDS.format(notify="[print, broken]").replace(
                "app =", f"def broken(message): raise ConnectionError('https://me:{SECRET}@x/ \\x1b[2J')\n\napp ="
            )
        )
        result = told.run("alerts", "test", "--app", "feeds:app", code=1)
        first, second = result.stdout.splitlines()[-2:]

        assert first == "builtins.print: delivered"
        assert second.startswith("feeds.broken: not delivered: network: ConnectionError: https://***@x/")
        assert SECRET not in result.output
        assert "\x1b" not in result.output

    def test_json(self, told, hook):
        hook.script(Reply(404))
        (row,) = told.json("alerts", "test", "--app", "feeds:app", code=1)

        assert row["delivered"] is False
        assert "404" in row["error"]

    def test_none(self, told):
        result = told.run("alerts", "test", code=1)

        assert "no alert channel is configured" in result.stderr
        assert "OUTLAST_NOTIFY" in result.stderr

    def test_those_of_the_environment_and_of_the_file(self, told, monkeypatch):
        """The address is a private one, which these may not lead to: that it is refused shows that it was used."""
        (told.folder / "outlast.toml").write_text(f'[app]\nnotify = ["slack+https://127.0.0.1:1/services/{SECRET}"]\n')
        (of_file,) = told.json("alerts", "test", code=1)
        monkeypatch.setenv("OUTLAST_NOTIFY", f"slack+https://127.0.0.2:1/{SECRET}, slack+https://127.0.0.3:1/{SECRET}")
        of_environment = told.json("alerts", "test", code=1)

        assert len({row["channel"] for row in (of_file, *of_environment)}) == 3
        assert not any(row["delivered"] for row in (of_file, *of_environment))
        assert SECRET not in str((of_file, of_environment))

    def test_an_address_that_cannot_be_used_hinders_no_other_command(self, told, monkeypatch):
        monkeypatch.setenv("OUTLAST_NOTIFY", f"slack+http://127.0.0.1/{SECRET}")
        told.run("status")
        told.run("alerts", "list")
        result = told.run("alerts", "test", code=2)

        assert SECRET not in result.output
