"""Most sources failing together, and sources that come back (pitfalls 60 and 61, C18)."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from integration.monitoring import KINDS, QUICK, add, alerts, feed, new_url, opened, outcomes, states
from outlast.ports.source_rows import SourceChange
from servers.feeds import Answer, FeedServer, page

PORTAL = Answer(200, body=page("<h1>Please log in to the network</h1>"))


@pytest.fixture(params=KINDS)
def url(request, tmp_path):
    return new_url(request, tmp_path)


@pytest.fixture
def app(url):
    with opened(url) as app:
        yield app


class Network:
    """All paths of a server answer as the network is: well, or with the same trouble for all."""

    def __init__(self, server, count):
        self.server, self.trouble = server, None
        for each in range(count):
            server.script(f"/{each}", [self.answer])
        self.urls = [server.url(f"/{each}") for each in range(count)]

    def answer(self, request):
        return self.trouble or feed()


def move(app, number, **columns):
    """Write columns of a source."""
    app.store.change_sources({number: (None, lambda source, now: SourceChange(source._replace(**columns)))})


def counted(app, numbers):
    return [app.sources.get(number).consecutive_failures for number in numbers]


@pytest.mark.parametrize(
    "trouble", [Answer(500), Answer(404), Answer(fault="reset"), PORTAL], ids=["500", "404", "reset", "portal"]
)
def test_an_outage_counts_against_nobody_and_is_told_once(app, trouble):
    with FeedServer() as server:
        network = Network(server, 40)
        numbers = add(app, network.urls)
        monitor = app.monitor(QUICK.replace(threshold=2), per_host=100)
        monitor.cycle()
        network.trouble = trouble
        during = [monitor.cycle().cycle for _ in range(4)]
        told = alerts(app)
        assert counted(app, numbers) == [0] * 40
        network.trouble = None
        after = monitor.cycle().cycle

    assert told == [("outage:feed", "first")], "one for all, and one only"
    assert alerts(app) == [("outage:feed", "first"), ("outage:feed", "recovered")]
    assert [each.failed for each in during] == [40] * 4
    assert len({each.outage_since for each in during}) == 1, "it began with the first"
    assert during[0].outage_since is not None
    assert (after.failed, after.outage_since) == (0, None)
    assert app.sources.health()["healthy"] == 40
    for number in numbers:
        assert outcomes(app, number) == ["changed", *["failed", "withdrawn"] * 4, "unchanged"]
        assert states(app, number) == []
        source = app.sources.get(number)
        assert (source.health.failing_since, source.last_error, source.pending) == (None, None, None)


def test_a_refused_connection_is_an_outage_like_any_other(app):
    """Nobody listens: no request arrives anywhere."""
    with FeedServer() as server:
        urls = [server.url(f"/{each}") for each in range(40)]
    numbers = add(app, urls)
    monitor = app.monitor(QUICK.replace(threshold=1), per_host=100)
    summaries = [monitor.cycle() for _ in range(3)]

    assert [(each.cycle.polled, each.cycle.failed, each.transitions) for each in summaries] == [(40, 40, 0)] * 3
    assert alerts(app) == [("outage:feed", "first")]
    assert counted(app, numbers) == [0] * 40
    assert "an outage" in str(summaries[0])


def test_monitors_that_share_a_cycle_see_one_outage(url):
    """Half of the sources each: neither of them decides alone."""
    with FeedServer() as server, opened(url) as one, opened(url) as two:
        gate = threading.Event()
        network = Network(server, 40)
        network.trouble = Answer(404, gate=gate)
        numbers = add(one, network.urls)
        summaries, monitors = [], [app.monitor(QUICK.replace(threshold=1), concurrency=10, per_host=100) for app in (one, two)]  # fmt: skip
        running = [
            threading.Thread(target=lambda each=each: summaries.append(each.cycle(everything=False)))
            for each in monitors
        ]
        for each in running:
            each.start()
        while server.count() < 20:  # both have their hands full
            gate.wait(0.01)
        gate.set()
        for each in running:
            each.join(60)
        polls = [one.store.polls(number, 10) for number in numbers]
        assert server.count() == 40
        assert alerts(one) == [("outage:feed", "first")]
        assert counted(one, numbers) == [0] * 40

    assert len({each.cycle.id for each in summaries}) == 1
    assert [(each.cycle.failed, each.transitions) for each in summaries] == [(40, 0)] * 2
    assert [[line.outcome for line in each] for each in polls] == [["withdrawn", "failed"]] * 40


def test_a_book_half_of_which_is_dead_has_no_outage_for_ever(app):
    """Its failures are withdrawn for as long as an outage may last; then they stand, and are no sign of one again."""
    with FeedServer() as server:
        for each in range(40):
            server.script(f"/{each}", [feed(), Answer(404)] if each % 2 else [feed()])
        numbers = add(app, [server.url(f"/{each}") for each in range(40)])
        monitor = app.monitor(QUICK, per_host=100)
        brief = app.monitor(QUICK.replace(outage_limit=0.001), per_host=100)
        monitor.cycle()  # all of them are well, once
        withdrawn = [monitor.cycle() for _ in range(2)]
        assert counted(app, numbers) == [0] * 40
        stood = brief.cycle()
        later = [monitor.cycle() for _ in range(4)]

    assert [each.transitions for each in withdrawn] == [0, 0]
    assert (stood.transitions, stood.cycle.outage_since) == (20, withdrawn[0].cycle.outage_since)
    assert [each.cycle.outage_since for each in later] == [None] * 4
    assert counted(app, numbers) == [0, 5] * 20
    assert app.sources.health()["disabled"] == 20
    assert alerts(app, "outage:feed") == [("outage:feed", each) for each in ("first", "changed", "recovered")]
    assert len(alerts(app)) == 3 + 20


def test_a_new_list_with_many_wrong_addresses_is_no_outage(app):
    with FeedServer() as server:
        for each in range(12):
            server.script(f"/{each}", 404 if each % 2 else feed())
        numbers = add(app, [server.url(f"/{each}") for each in range(12)])
        summary = app.monitor(QUICK, per_host=100).cycle()

    assert summary.cycle.outage_since is None
    assert counted(app, numbers) == [0, 1] * 6


def test_an_outage_that_lasts_too_long_is_counted_from_then_on(app):
    with FeedServer() as server:
        network = Network(server, 12)
        numbers = add(app, network.urls)
        network.trouble = Answer(404)
        long, brief = (app.monitor(QUICK.replace(outage_limit=each), per_host=100) for each in (3600.0, 0.001))
        long.cycle()
        assert counted(app, numbers) == [0] * 12
        brief.cycle()
        assert counted(app, numbers) == [1] * 12
        long.cycle()
        assert counted(app, numbers) == [2] * 12, "who is known to fail is no sign of an outage"


@pytest.mark.parametrize(("count", "failures"), [(9, 1), (10, 0)])
def test_fewer_than_ten_sources_are_no_outage(app, count, failures):
    with FeedServer() as server:
        network = Network(server, count)
        network.trouble = Answer(404)
        numbers = add(app, network.urls)
        app.monitor(QUICK, per_host=100).cycle()
    assert counted(app, numbers) == [failures] * count


def test_less_than_half_is_no_outage_and_what_is_put_off_has_no_part_in_it(app):
    with FeedServer() as server:
        for each in range(40):
            server.script(f"/{each}", 404 if each < 9 else feed())
            server.script(f"/busy/{each}", Answer(429, {"Retry-After": "600"}))
        numbers = add(app, [server.url(f"/{each}") for each in range(19)])
        add(app, [server.host_url(2, f"/busy/{each}") for each in range(20)])
        cycle = app.monitor(QUICK, per_host=1).cycle().cycle
    assert (cycle.polled, cycle.failed, cycle.deferred, cycle.outage_since) == (19, 9, 20, None)
    assert counted(app, numbers) == [1] * 9 + [0] * 10


def past(app, number):
    """Let the time come at which a disabled source is probed; return how long it would have taken."""
    source = app.sources.get(number)
    wait = source.not_before - source.health.last_failure_at
    move(app, number, not_before=app.store.now() - timedelta(seconds=1))
    return wait.total_seconds()


def test_a_disabled_feed_is_probed_less_and_less_often_and_comes_back_by_a_304(app):
    """Pitfall 61; the probation is passed by the success after the probe's."""
    profile = QUICK.replace(threshold=2, first_probe=100.0, longest_probe=350.0, probation=1)
    with FeedServer() as server:
        server.script("/", [feed(), *[404] * 5, feed()])
        (number,) = add(app, [server.url("/")])
        monitor = app.monitor(profile)
        for _ in range(3):
            monitor.cycle()
        assert app.sources.get(number).state == "disabled"
        assert monitor.cycle() is None, "not before its time"
        waits = []
        for _ in range(4):
            waits.append(past(app, number))
            assert monitor.cycle().cycle.sources == 1
        assert waits == [100.0, 200.0, 350.0, 350.0], "twice as long each time, up to the longest"
        assert app.sources.get(number).state == "probation"
        assert app.sources.history(number, 1)[0].http_status == 304
        monitor.cycle()
        assert server.count() == 8

    source = app.sources.get(number)
    assert (source.state, source.consecutive_failures, source.health.probes) == ("healthy", 0, 0)
    assert (source.health.disabled_by, source.not_before) == (None, None)
    assert states(app, number) == [
        ("healthy", "warning"),
        ("warning", "disabled"),
        ("disabled", "probation"),
        ("probation", "healthy"),
    ]
    assert [kind for _, kind in alerts(app)] == ["first", "recovered"]


def test_a_failure_in_probation_disables_again_and_the_next_probe_takes_longer(app):
    profile = QUICK.replace(threshold=2, first_probe=100.0)
    with FeedServer() as server:
        server.script("/", [404, 404, feed(), 404, feed()])
        (number,) = add(app, [server.url("/")])
        monitor = app.monitor(profile)
        monitor.cycle()
        monitor.cycle()
        past(app, number)
        monitor.cycle()
        assert app.sources.get(number).state == "probation"
        monitor.cycle()
        assert app.sources.get(number).state == "disabled"
        assert past(app, number) == 200.0
    assert [kind for _, kind in alerts(app)] == ["first", "recovered", "first"]


def test_a_source_that_somebody_disabled_is_never_polled_until_somebody_enables_it(app):
    with FeedServer() as server:
        server.script("/", feed())
        (number,) = add(app, [server.url("/")])
        monitor = app.monitor(QUICK.replace(first_probe=0.001))
        app.sources.disable(number, "moved away")
        assert app.sources.probe(number) is False
        assert [monitor.cycle() for _ in range(3)] == [None] * 3
        assert server.count() == 0
        app.sources.enable(number)
        assert monitor.cycle().cycle.changed == 1
    assert states(app, number) == [("healthy", "disabled"), ("disabled", "healthy")]
    assert alerts(app) == []


def test_what_somebody_disables_in_the_middle_of_a_cycle_is_not_polled_in_it(app):
    with FeedServer() as server:
        for path in ("/0", "/1"):
            server.script(path, feed())
        kept, off = add(app, [server.url("/0"), server.url("/1")])
        running = app.store.open_cycle("feed", everything=True)
        app.sources.disable(off)
        cycle = app.monitor(QUICK).cycle(everything=False).cycle
        assert (server.count("/0"), server.count("/1")) == (1, 0)
    assert (cycle.id, cycle.sources, cycle.polled, cycle.deferred) == (running.id, 2, 1, 1)
    assert [str(app.sources.get(each).state) for each in (kept, off)] == ["healthy", "disabled"]


def test_a_name_that_never_resolves_is_told_of_after_its_time_and_never_disabled(app):
    """C18."""
    number, *_ = add(app, ["http://nothing.invalid/feed"])
    monitor = app.monitor(QUICK.replace(stale_after=3600.0))
    monitor.cycle()
    health = app.sources.get(number).health
    move(app, number, health=health._replace(failing_since=health.failing_since - timedelta(hours=1)))
    for _ in range(7):
        monitor.cycle()
    source = app.sources.get(number)
    assert (source.state, source.consecutive_failures) == ("error", 0)
    assert alerts(app) == [(f"source:{number}", "first")]
    assert "no success since" in app.store.alerts()[0].title


def test_a_monitor_that_comes_late_to_a_cycle_long_ended_goes_on(app):
    """Others have had more cycles since than it looks at."""
    add(app, ["http://one.example/"])
    monitor = app.monitor(QUICK, fetch=lambda source: "content")
    cycle = app.store.open_cycle("feed", everything=True)
    for _ in range(12):
        monitor.cycle()
    summary = asyncio.run(asyncio.wait_for(monitor._take_part(cycle, None), 30))
    assert summary.cycle.id == cycle.id
