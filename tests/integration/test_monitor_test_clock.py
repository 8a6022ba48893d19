"""A monitor in a test: on the test clock its polls wait together and keep their leases; ended cooldowns free sources."""

import asyncio

import pytest

import outlast
from integration.monitoring import KINDS, QUICK, add, feed, new_url, opened, states
from outlast.errors import NetworkError
from outlast.testing import fake_clock
from servers.feeds import Answer, FeedServer

SOURCES = 30
PATIENT = outlast.profile("feed").replace(
    policy=outlast.RetryPolicy(max_attempts=3, base_delay=420, max_delay=600, jitter="none", retry_on=outlast.RETRYABLE)
)


@pytest.fixture(params=KINDS)
def url(request, tmp_path):
    return new_url(request, tmp_path)


@pytest.fixture
def app(url):
    with opened(url) as opened_app:
        yield opened_app


def test_waits_of_minutes_overlap_and_no_lease_is_lost(app):
    tried = []

    async def fetch(source):
        tried.append(source.id)
        await asyncio.sleep(0)
        if tried.count(source.id) <= 1 + source.id % 2:  # half of them are done while the others wait again
            raise NetworkError("reset")
        return "content"

    numbers = add(app, [f"https://feeds{n}.example.com/" for n in range(SOURCES)])
    with fake_clock() as clock:
        before = clock.monotonic()
        summary = app.monitor(PATIENT, fetch=fetch, lease=60, concurrency=SOURCES).cycle()
        assert clock.monotonic() - before == 2 * 420
    assert (summary.cycle.polled, summary.cycle.changed, summary.cycle.failed) == (SOURCES, SOURCES, 0)
    assert {number: tried.count(number) for number in numbers} == {each: 2 + each % 2 for each in numbers}, "none twice"


def test_an_ended_cooldown_releases_the_sources_of_its_host(app, url):
    with FeedServer() as server:
        server.script("/busy", [Answer(429, {"Retry-After": "600"}), feed()])
        server.script("/late", feed())
        server.script("/other", Answer(429, {"Retry-After": "600"}))
        urls = [server.host_url(1, "/busy"), server.host_url(1, "/late"), server.host_url(2, "/other")]
        busy, late, other = add(app, urls)
        monitor = app.monitor(QUICK, per_host=1)
        assert monitor.cycle(everything=False).cycle.deferred == 3
        assert monitor.cycle(everything=False) is None
        host = urls[0].split("/")[2]
        assert {each.resource for each in app.tasks.cooldowns()} == {host, urls[2].split("/")[2]}, "with their ports"
        app.tasks.end_cooldown(host)
        assert app.sources.get(busy).not_before is app.sources.get(late).not_before is None
        assert app.sources.get(other).not_before is not None
        with opened(url) as another:
            assert another.monitor(QUICK, per_host=1).cycle(everything=False).cycle.changed == 2


def test_an_ended_cooldown_leaves_disabled_sources_alone(app):
    (number,) = add(app, ["https://feeds.example.com/"])
    app.sources.disable(number)
    app.cooling.start_cooldown("feeds.example.com", 600, "slow down")
    app.tasks.end_cooldown("feeds.example.com")
    assert app.sources.get(number).state == "disabled"


def test_a_summary_counts_recoveries_and_failures_alike(app):
    with FeedServer() as server:
        server.script("/back", [404, feed()])
        server.script("/well", feed())
        back, _ = add(app, [server.host_url(1, "/back"), server.host_url(2, "/well")])
        monitor = app.monitor(QUICK)
        assert monitor.cycle().transitions == 1
        assert monitor.cycle().transitions == 1
        assert states(app, back) == [("healthy", "warning"), ("warning", "healthy")]
        assert "1 changed state" not in str(monitor.cycle())
