"""outlast monitor, against a server on loopback."""

import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from cli_world import make_world  # noqa: F401  # a fixture
from outlast.ports.source_rows import NewSource
from servers.feeds import Answer, FeedServer, page, rss
from servers.webhooks import WebhookServer

LIMIT = 30.0
SECRET = "hunter2"
APP = 'import outlast\n\napp = outlast.App("sqlite:///outlast.db")\n'
TWO = (
    APP
    + """
def seen(changed):
    with open("seen", "a") as file:
        file.write(f"{changed.source.profile} {changed.first}\\n")

feeds = app.monitor("feed", on_change=seen, every=600, grace=0.2, name="here")
blogs = app.monitor("blog", on_change=seen)
again = feeds
"""
)
ONE = TWO.replace('blogs = app.monitor("blog", on_change=seen)\n', "")


@pytest.fixture
def server():
    with FeedServer() as server:
        yield server


@pytest.fixture
def feeds(world):
    """A folder with ``feeds.py``; what it says can be changed before the first command."""
    levels = {name: logging.getLogger(name).level for name in ("httpx", "httpx2", "httpcore", "httpcore2")}
    (world.folder / "feeds.py").write_text(APP)
    sys.modules.pop("feeds", None)
    world.run("db", "init", "--url", "sqlite:///outlast.db")
    yield world
    if (module := sys.modules.pop("feeds", None)) is not None:
        module.app.close()
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture
def start(feeds):
    begun = []

    def start(*words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "outlast", "monitor", *map(str, words)],
            cwd=feeds.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        begun.append(process)
        return process

    yield start
    for process in begun:
        process.kill()
        process.communicate()


def wait_for(condition):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def logged(result, logger="outlast.monitor"):
    return [line.partition(f"{logger}: ")[2] for line in result.stderr.splitlines() if f" {logger}: " in line]


class TestOnce:
    def test_it_polls_everything_and_says_what_came_of_it(self, feeds, server):
        feeds.run("sources", "add", server.script("/a", Answer(body=rss(3))), server.script("/b", 404))
        result = feeds.run("monitor", "feeds:app", "--once")
        again = feeds.json("monitor", "feeds:app", "--once")

        told = dict(line.rsplit(maxsplit=1) for line in result.stdout.splitlines()[1:])
        assert (told["polled"], told["changed"], told["failed"], told["changed state"]) == ("2", "1", "1", "1")
        assert (again["cycle"], again["polled"], again["changed"], again["outage"]) == (2, 2, 0, False)
        assert (again["profile"], again["stopped"]) == ("feed", False)
        assert server.count() == 4
        assert [row["failed"] for row in feeds.json("sources", "cycles", "--profile", "feed")] == [1, 1]
        assert feeds.run("sources", "cycles").stdout.splitlines()[1].split()[-1] == "feed"

    def test_changes_are_logged_where_nobody_else_looks_at_them(self, feeds, server):
        url = server.script("/a?api_key=x", [Answer(body=rss(3)), Answer(body=rss(4))])
        feeds.run("sources", "add", url)
        first, second, third = (feeds.run("monitor", "feeds:app", "--once") for _ in range(3))

        shown = f"{server.url('/a')}?api_key=***"
        assert logged(first)[1:] == [f"source 1 has 3 new entries, polled for the first time: {shown}"]
        assert logged(second)[1:] == [f"source 1 has 1 new entry: {shown}"]
        assert logged(third)[1:] == []

    def test_an_outage(self, feeds, server):
        feeds.run("sources", "add", *(server.script(f"/{number}", 404) for number in range(12)))
        result = feeds.run("monitor", "feeds:app", "--once", code=1)

        assert "outage: many sources failed together" in result.stdout
        assert feeds.json("monitor", "feeds:app", "--once", code=1)["outage"] is True
        assert {source["consecutive_failures"] for source in feeds.json("sources", "list")} == {0}

    def test_what_a_killed_run_has_left_is_ended_and_then_everything_polled(self, feeds, server):
        feeds.run("sources", "add", server.script("/a", Answer(body=rss(3))))
        left = feeds.app().store.open_cycle("feed", everything=True)
        feeds.run("sources", "add", server.script("/b", Answer(body=rss(3))))
        told = feeds.json("monitor", "feeds:app", "--once")

        assert (told["cycle"], told["polled"]) == (left.id + 1, 2)
        assert (server.count("/a"), server.count("/b")) == (2, 1)

    def test_nothing_to_poll(self, feeds):
        result = feeds.run("monitor", "feeds:app", "--once")

        assert "no source of the profile feed can be polled now" in result.stdout
        assert "add some: outlast sources add https://… --profile feed --app feeds:app" in result.stderr
        assert feeds.json("monitor", "feeds:app", "--once") == {"cycle": None, "profile": "feed", "stopped": False}

    def test_alerts_are_delivered(self, feeds, server):
        with WebhookServer() as hook:
            address = hook.url("/services/T0/B0/x").replace("http:", "slack+http:")
            (feeds.folder / "feeds.py").write_text(
                APP.replace('db")', f'db", notify="{address}", notify_private=True)')
                + "quick = app.monitor(outlast.profile('feed').replace(threshold=1))\n"
            )
            feeds.run("sources", "add", server.script("/a", 410))
            result = feeds.run("monitor", "feeds:app", "--once")

            assert "; alerts go to slack#" in logged(result)[0]
            assert len(hook.requests) == 1
        assert feeds.json("alerts", "list")[0]["delivery"] == "done"

    def test_a_signal_stops_it(self, feeds, server, start):
        (feeds.folder / "feeds.py").write_text(ONE)
        feeds.run("sources", "add", server.script("/a", Answer(gate=threading.Event())))
        process = start("feeds:app", "--once", "--json")
        wait_for(lambda: server.count("/a"))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT)

        assert process.returncode == 1, err
        assert json.loads(out) == {"cycle": None, "profile": "feed", "stopped": True}
        assert feeds.json("sources", "show", 1)["outcome"] is None


class TestWhichMonitor:
    def test_the_one_that_the_module_has(self, feeds, server):
        (feeds.folder / "feeds.py").write_text(ONE)
        feeds.run("sources", "add", server.script("/a", Answer(body=rss(1))))
        result = feeds.run("monitor", "feeds:app", "--once")

        assert logged(result)[0].startswith("monitor here: profile feed; 1 source (healthy 1); every 600 s;")
        assert (feeds.folder / "seen").read_text() == "feed True\n"

    def test_of_several_one_is_named(self, feeds, server):
        (feeds.folder / "feeds.py").write_text(TWO)
        feeds.run("sources", "add", server.script("/a", Answer(body=page())), "--profile", "blog")
        several = feeds.run("monitor", "feeds:app", "--once", code=2)
        assert several.stderr.endswith("name one of them: feeds:feeds (feed), feeds:blogs (blog)\n")
        feeds.run("monitor", "feeds:app", "--once", "--profile", "blog")
        feeds.run("monitor", "feeds:blogs", "--once")
        assert (feeds.folder / "seen").read_text() == "blog True\n"
        assert server.count() == 2
        other = feeds.run("monitor", "feeds:blogs", "--profile", "feed", code=2)
        assert "feeds:blogs polls the sources of blog, not of feed" in other.stderr

    def test_one_whose_app_is_hidden(self, feeds, server):
        (feeds.folder / "feeds.py").write_text(
            "import outlast\n\ndef make():\n    return outlast.App('sqlite:///outlast.db').monitor('feed')\n\nalone = make()\n"
            "class app:\n    close = staticmethod(lambda: None)\n"
        )
        feeds.run("sources", "add", server.script("/a", Answer(body=rss(1))))

        assert feeds.json("monitor", "feeds:alone", "--once")["changed"] == 1

    def test_what_is_neither(self, feeds):
        (feeds.folder / "feeds.py").write_text(ONE + "number = 3\n")

        assert "feeds:number is of type int, not an App or Monitor\n  it has feeds:app, feeds:feeds\n" in (
            feeds.run("monitor", "feeds:number", code=2).stderr
        )
        assert "'nosuch' is not a profile" in feeds.run("monitor", "feeds:app", "--profile", "nosuch", code=2).stderr


class TestSettings:
    def test_options_go_before_what_the_module_says(self, feeds):
        (feeds.folder / "feeds.py").write_text(ONE)
        (feeds.folder / "outlast.toml").write_text("")
        words = ["--every", "20m", "--concurrency", 7, "--per-host", 1]
        line = logged(feeds.run("monitor", "feeds:app", "--once", *words))[0]

        assert "; every 1200 s; concurrency 7, per host 1; store sqlite:///" in line
        assert line.endswith("outlast.db; alerts go to the log only; settings outlast.toml")

    def test_mistakes(self, feeds):
        assert "must be above 0" in feeds.run("monitor", "feeds:app", "--every", "0", code=2).stderr
        assert "--json needs --once" in feeds.run("monitor", "feeds:app", "--json", code=2).stderr
        assert "--per-host" in feeds.run("monitor", "feeds:app", "--per-host", "0", code=2).stderr

    def test_sources_that_can_never_be_polled_are_all_told_before_any_request(self, feeds, server):
        store = feeds.app().store
        urls = [server.script("/a"), "ftp://example.com/", f"htp://me:{SECRET}@x/"]
        store.add_sources([NewSource(url, "feed") for url in urls])
        result = feeds.run("monitor", "feeds:app", code=2)

        assert [line.partition("': ")[0] for line in result.stderr.splitlines()] == [
            "Error: 2 problems with sources:",
            "  'ftp://example.com/",
            "  'htp://***@x/",
        ]
        assert server.count() == 0

    def test_tables_that_do_not_fit_end_it(self, feeds):
        with sqlite3.connect("outlast.db") as connection:
            connection.execute("INSERT INTO schema_version VALUES (999, 0)")
        connection.close()

        assert "version 999" in feeds.run("monitor", "feeds:app", code=1).stderr


@pytest.mark.parametrize("level", ["info", "debug"])
@pytest.mark.parametrize("form", [[], ["--json-logs"]])
def test_no_secret_is_logged(feeds, server, level, form):
    server.script("/a", [Answer(body=rss(1)), 404])
    url = server.url(f"/a?token={SECRET}").replace("http://", f"http://me:{SECRET}@")
    feeds.run("sources", "add", url)
    for _ in range(2):
        result = feeds.run("monitor", "feeds:app", "--once", "--log-level", level, *form)
        assert SECRET not in result.output
        assert ("HTTP Request" in result.stderr) is (level == "debug")
    assert server.requests[0].headers["authorization"].startswith("Basic ")


def test_it_runs_until_it_is_told_to_stop(feeds, server, start):
    feeds.run("sources", "add", server.script("/a", Answer(body=rss(1))))
    process = start("feeds:app", "--every", "0.2", "--json-logs")
    wait_for(lambda: server.count("/a") >= 3)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=LIMIT)
    lines = [json.loads(line) for line in err.splitlines()]

    assert process.returncode == 0, err
    assert out == ""
    assert (lines[0]["profile"], lines[0]["sources"], lines[0]["every"], lines[0]["channels"]) == (
        "feed", {"healthy": 1}, 0.2, [],
    )  # fmt: skip
    assert "ended after" in lines[-1]["message"]
    assert sum(line.get("entries") == 1 for line in lines) == 1  # one change, one line
