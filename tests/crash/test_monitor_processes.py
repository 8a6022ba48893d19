"""Several monitors, in processes of their own, on one book: shared, killed and stopped (pitfalls 25 and 62)."""

from __future__ import annotations

import json
import threading
from collections import Counter

import psycopg
import pytest

from crash import monitoring
from crash.processes import until
from outlast.errors import ResourceNotFoundError
from outlast.ports.source_rows import NewSource, SourceChange
from servers.feeds import Answer, FeedServer, rss

SOURCES, HELD = 200, 10
# what is due every week is not due again by itself while a test runs, whatever the hour
SETTINGS = {"every": 604_800, "concurrency": HELD, "per_host": 100, "lease": 2, "grace": 15}


class Feeds:
    """Feeds on loopback; while the gate is shut their answers wait."""

    def __init__(self, server):
        self.server, self.gate = server, threading.Event()
        self.asked = []  # who asked, and for which path

    def answer(self, request):
        self.asked.append((request.headers["user-agent"], request.path))
        self.gate.wait(60)
        return Answer(body=rss(3))

    def urls(self, count):
        for each in range(count):
            self.server.script(f"/{each}", [self.answer])
        return [self.server.host_url(each % 4 + 1, f"/{each}") for each in range(count)]

    def by(self, agent):
        """Return what one of them has asked for."""
        return [path for who, path in list(self.asked) if who == agent]

    def counts(self):
        return Counter(path for _, path in self.asked)


@pytest.fixture
def feeds():
    with FeedServer() as server:
        feeds = Feeds(server)
        yield feeds
        feeds.gate.set()


def add(scene, urls):
    return [each.id for each in scene.app.sources.add_many([NewSource(url, "feed") for url in urls])]


def start(scene, agent):
    return monitoring.start(scene, "run", user_agent=agent, **SETTINGS)


def start_two(scene, feeds):
    """Start two monitors, and wait until both have their hands full."""
    one, two = start(scene, "one"), start(scene, "two")
    until(lambda: all(len(feeds.by(each)) == HELD for each in ("one", "two")), 30, scene.fleet.said)
    return one, two


def ended(scene, cycles=1):
    """Wait until so many cycles have ended."""

    def enough():
        try:
            rows = scene.app.sources.cycles("feed")
        except psycopg.OperationalError:  # restarting
            return False
        return len(rows) == cycles and all(each.ended_at is not None for each in rows)

    until(enough, 40, scene.fleet.said)


def check_outcomes(scene, numbers, outcome="changed"):
    assert Counter(each.outcome for each in scene.app.sources.list()) == {outcome: len(numbers)}
    assert {each.pending for each in scene.app.sources.list()} == {None}
    lines = Counter(line.outcome for number in numbers for line in scene.app.sources.history(number))
    assert lines["changed"] == len(numbers)


def test_two_monitors_poll_each_source_once_in_each_cycle(scene, feeds):
    numbers = add(scene, feeds.urls(SOURCES))
    one, two = start_two(scene, feeds)
    feeds.gate.set()
    ended(scene)
    assert feeds.counts() == dict.fromkeys((f"/{each}" for each in range(SOURCES)), 1)
    check_outcomes(scene, numbers)

    def due(source, now):
        return SourceChange(source._replace(next_poll_at=now))

    scene.store.change_sources(dict.fromkeys(numbers, (None, due)))
    ended(scene, 2)
    assert feeds.counts() == dict.fromkeys((f"/{each}" for each in range(SOURCES)), 2)
    for child in (one, two):
        child.stop()
    assert [(each.sources, each.polled, each.changed) for each in scene.app.sources.cycles()] == [
        (SOURCES, SOURCES, 0),
        (SOURCES, SOURCES, SOURCES),
    ]
    assert {each.epoch for each in scene.app.sources.list()} == {2}, "in nobody else's hands"
    assert {each.leased_until for each in scene.app.sources.list()} == {None}


def test_a_host_that_sends_one_away_is_left_alone_by_the_other(scene, feeds):
    """Pitfall 25: within a second; the one that was told has ended by then."""
    feeds.gate.set()
    children = {each: start(scene, each) for each in ("one", "two")}
    add(scene, feeds.urls(40))
    ended(scene)
    feeds.server.script("/busy", Answer(429, {"Retry-After": "600"}))
    add(scene, [feeds.server.host_url(9, "/busy")])
    ended(scene, 2)
    (request,) = [each for each in feeds.server.requests if each.path == "/busy"]
    told = request.headers["user-agent"]
    children.pop(told).stop()
    (other,) = children.values()
    until(scene.store.cooldowns, 5, "the cooldown is stored")
    threading.Event().wait(1.0)  # what is promised
    more = [feeds.server.host_url(9, f"/{each}?more") for each in range(20)]
    numbers = add(scene, [*more, feeds.server.host_url(8, "/0?other")])
    ended(scene, 3)
    other.stop()
    assert feeds.server.count("/busy") == 1
    assert [each.path for each in feeds.server.requests if "?" in each.path] == ["/0?other"]
    assert [scene.app.sources.get(each).outcome for each in numbers] == ["deferred"] * 20 + ["changed"]


def test_the_sources_of_a_killed_monitor_are_polled_by_the_other(scene, feeds):
    numbers = add(scene, feeds.urls(SOURCES))
    one, two = start_two(scene, feeds)
    one.kill()
    lost = feeds.by("one")
    assert len(lost) == HELD
    feeds.gate.set()
    ended(scene)
    two.stop()
    counts = feeds.counts()
    assert {path for path, times in counts.items() if times > 1} == set(lost), "what it had asked for, and nothing else"
    assert max(counts.values()) == 2
    assert len(counts) == SOURCES
    assert len(feeds.by("one")) == HELD
    check_outcomes(scene, numbers)
    (cycle,) = scene.app.sources.cycles()
    assert (cycle.sources, cycle.polled, cycle.changed, cycle.failed) == (SOURCES, SOURCES, SOURCES, 0)


def test_a_monitor_that_is_stopped_finishes_what_runs_and_gives_the_rest_back(scene, feeds):
    numbers = add(scene, feeds.urls(SOURCES))
    one, two = start_two(scene, feeds)
    one.send(15)
    until(lambda: "stopping" in one.said(), 20, one.said)
    feeds.gate.set()
    assert one.wait() == 0, one.said()
    ended(scene)
    two.stop()
    assert feeds.counts() == dict.fromkeys((f"/{each}" for each in range(SOURCES)), 1), "nothing twice"
    assert len(feeds.by("one")) == HELD, "nothing was begun after the signal"
    check_outcomes(scene, numbers)
    assert len(scene.app.sources.cycles()) == 1


@pytest.mark.xdist_group("crash-postgres")
def test_a_database_that_restarts_in_the_middle_of_a_cycle_loses_nothing(restarting_scene, crash_server, feeds):
    scene = restarting_scene
    numbers = add(scene, feeds.urls(60))
    child = monitoring.start(scene, "run", user_agent="one", **(SETTINGS | {"lease": 60}))
    until(lambda: len(feeds.by("one")) == HELD, 30, child.said)
    crash_server.restart()
    feeds.gate.set()
    ended(scene)
    child.stop()
    assert feeds.counts() == dict.fromkeys((f"/{each}" for each in range(60)), 1)
    check_outcomes(scene, numbers)


def test_eight_that_report_the_fifth_failure_make_one_transition_and_one_alert(scene):
    """Pitfall 62: none of their failures is lost either."""
    (number,) = add(scene, ["http://feed.example/"])
    for _ in range(4):
        scene.app.sources.record_failure(number, ResourceNotFoundError("gone"))
    children = [monitoring.start(scene, "fail", number, each) for each in range(8)]
    until(lambda: len(list(scene.folder.glob("ready-*"))) == 8, 30, scene.fleet.said)
    (scene.folder / "go").touch()
    assert [each.wait() for each in children] == [0] * 8, scene.fleet.said()
    said = Counter(line for each in children for line in each.said().splitlines() if line == "NONE" or "TRANS" in line)

    assert said == {"NONE": 7, "TRANSITION warning disabled": 1}
    source = scene.app.sources.get(number)
    assert (source.consecutive_failures, source.state, source.health.probes) == (12, "disabled", 7)
    moves = [each for each in scene.app.sources.history(number, 50) if each.after is not None]
    assert [(each.before, each.after) for each in moves] == [("warning", "disabled"), ("healthy", "warning")]
    assert len(scene.app.sources.history(number, 50)) == 12
    assert [(each.key, each.kind) for each in scene.store.alerts()] == [(f"source:{number}", "first")]


@pytest.fixture
def hook():
    from servers.webhooks import WebhookServer

    with WebhookServer() as hook:
        yield hook


def address(hook):
    return f"slack+http://127.0.0.1:{hook.port}/services/T0/B0/secret"


@pytest.mark.parametrize("verb", ["cycle", "run"])
def test_an_alert_goes_out_though_the_process_dies_after_the_transition(scene, hook, verb):
    with FeedServer() as server:
        server.script("/", 404)
        (number,) = add(scene, [server.url("/")])
        settings = {"rules": {"threshold": 1}, "notify": address(hook)}
        monitoring.start(scene, verb, at="closed", **settings).dies()
        assert hook.requests == []
        (alert,) = scene.store.alerts()
        assert (alert.kind, alert.state, alert.delivered_at, alert.deliveries) == ("first", "disabled", None, 0)
        child = monitoring.start(scene, verb, **settings)
        until(lambda: scene.store.alerts()[0].delivered_at is not None, 30, child.said)
        if verb == "run":
            child.stop()
        assert child.wait() == 0
        again = monitoring.start(scene, "cycle", **settings)
        assert again.wait() == 0, again.said()
        assert server.count() == 1, "it is disabled"
    assert len(hook.requests) == 1, "once"
    assert "disabled after 1 failure" in json.loads(hook.requests[0].body)["text"] + str(hook.requests[0].body)
    assert [(each.key, each.kind) for each in scene.store.alerts()] == [(f"source:{number}", "first")]


def test_a_process_that_dies_after_sending_sends_again_and_the_outbox_has_one(scene, hook):
    """At least once: the one thing that cannot be known is whether the message arrived."""
    with FeedServer() as server:
        server.script("/", 404)
        (number,) = add(scene, [server.url("/")])
        settings = {"rules": {"threshold": 1}, "notify": address(hook)}
        monitoring.start(scene, "cycle", at="sent", **settings).dies()
        assert len(hook.requests) == 1
        assert [each.delivered_at for each in scene.store.alerts()] == [None]
        child = monitoring.start(scene, "deliver", **settings)
        assert child.wait(30) == 0, child.said()
    assert len(hook.requests) == 2
    (alert,) = scene.store.alerts()
    assert (alert.key, alert.kind, alert.deliveries) == (f"source:{number}", "first", 2)
    assert alert.delivered_at is not None
