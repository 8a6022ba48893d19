"""What users bring: `on_change`, fetchers of their own, addresses that are none (B1; one source's trouble is its own)."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

import outlast
from hostile_errors import TABLE, hostile
from integration.monitoring import KINDS, QUICK, add, alerts, feed, new_url, opened, outcomes
from outlast.errors import ConfigError
from outlast.ports.source_rows import NewSource, SourceChange
from outlast.sources.fetchers import Fetched
from outlast.sources.outcomes import next_slot
from servers.feeds import Answer, FeedServer, rss


@pytest.fixture(params=KINDS)
def url(request, tmp_path):
    return new_url(request, tmp_path)


@pytest.fixture
def app(url):
    with opened(url) as app:
        yield app


class Bad(BaseException):
    """Of no kind that anybody catches."""


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("not even that")


ERRORS = [ValueError("mine"), SystemExit(3), asyncio.CancelledError(), Bad(), Unspeakable(), StopIteration()]


class Callback:
    """Fails a few times, and keeps what it was called with."""

    def __init__(self, times, error=None):
        self.left, self.error = times, error or ValueError("mine")
        self.calls = []

    def __call__(self, changed):
        self.calls.append((changed.first, len(changed.fetched.entries)))
        if self.left:
            self.left -= 1
            raise self.error

    async def later(self, changed):
        await asyncio.sleep(0)
        if isinstance(self.error, StopIteration):
            self.error = RuntimeError("a coroutine cannot raise it")
        self(changed)


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("validators", [True, False], ids=["etag", "plain"])
def test_on_change_is_called_until_it_returns_and_its_errors_count_against_nobody(app, way, validators):
    """Its validators are not kept before: else 304 would be all that is ever heard of the change."""
    with FeedServer() as server:
        server.script("/", [Answer(body=rss(entries), conditional=validators) for entries in (3, 3, 3, 3, 5, 5, 5)])
        (number,) = add(app, [server.url("/")])
        callback = Callback(2)
        monitor = app.monitor(QUICK, on_change=callback if way == "sync" else callback.later)
        summaries = [monitor.cycle() for _ in range(4)]
        callback.left = 1
        summaries += [monitor.cycle() for _ in range(3)]
        assert server.count() == 7

    assert callback.calls == [(True, 3), (True, 3), (True, 3), (False, 2), (False, 2)]
    assert [each.broken_callbacks for each in summaries] == [1, 1, 0, 0, 1, 0, 0]
    assert outcomes(app, number) == ["changed"] * 3 + ["unchanged"] + ["changed"] * 2 + ["unchanged"]
    source = app.sources.get(number)
    assert (source.state, source.consecutive_failures, source.health.failing_since) == ("healthy", 0, None)
    assert alerts(app) == []


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("way", ["sync", "async"])
def test_whatever_on_change_raises_is_its_own_trouble(way, error):
    with opened("memory://") as app:
        numbers = add(app, [f"http://one.example/{each}" for each in range(12)])
        callback = Callback(3, error)
        monitor = app.monitor(
            QUICK, fetch=lambda source: source.url, on_change=callback if way == "sync" else callback.later
        )
        assert monitor.cycle().broken_callbacks == 3
        assert monitor.cycle().broken_callbacks == 0
        assert len(callback.calls) == 15
        assert {app.sources.get(number).state for number in numbers} == {"healthy"}
        assert monitor.cycle().cycle.changed == 0


def raising(error, way):
    """Return a fetcher for which every fourth source fails."""

    def fetch(source):
        if source.id % 4 == 0:
            raise error
        return f"content of {source.url}"

    async def later(source):
        await asyncio.sleep(0)
        if isinstance(error, StopIteration) and source.id % 4 == 0:
            raise RuntimeError("a coroutine cannot raise it")
        return fetch(source)

    return fetch if way == "sync" else later


FETCHERS = [*((way, error) for way in ("sync", "async") for error in ERRORS), ("sync", KeyboardInterrupt())]


@pytest.mark.parametrize(
    ("way", "error"), FETCHERS, ids=lambda each: each if isinstance(each, str) else type(each).__name__
)
def test_whatever_a_fetcher_raises_is_that_sources_alone(way, error):
    """In a thread also KeyboardInterrupt; in the event loop that is Ctrl-C."""
    with opened("memory://") as app:
        numbers = add(app, [f"http://h{each}.example/" for each in range(40)])
        cycle = app.monitor(QUICK, fetch=raising(error, way)).cycle().cycle
        assert (cycle.polled, cycle.changed, cycle.failed) == (40, 30, 10)
        failed = [number for number in numbers if number % 4 == 0]
        assert {app.sources.get(number).consecutive_failures for number in failed} == {1}
        assert app.sources.health()["warning"] == 10


@pytest.mark.parametrize("way", ["sync", "async"])
def test_errors_that_raise_while_they_are_read_count_as_unknown(way):
    """Also on the event loop, where a monitor handles Ctrl-C as a signal."""
    with opened("memory://") as app:
        numbers = add(app, [f"http://h{each}.example/" for each in range(3 * len(TABLE))])
        bad = dict(zip(numbers, TABLE, strict=False))

        def fetch(source):
            if source.id in bad:
                raise hostile(*bad[source.id])
            return "content"

        async def fetch_async(source):
            return fetch(source)

        escaped = ended = None
        try:
            ended = app.monitor(QUICK, fetch=fetch if way == "sync" else fetch_async).cycle()
        except BaseException as error:  # pytest could not print it: its own code raises
            escaped = type(error)
        assert escaped is None
        cycle = ended.cycle
        assert (cycle.polled, cycle.changed, cycle.failed) == (3 * len(TABLE), 2 * len(TABLE), len(TABLE))
        failed = [app.sources.get(number) for number in bad]
        assert {(each.last_failure["category"], each.consecutive_failures) for each in failed} == {("unknown", 1)}


NONSENSE = [
    None,
    7,
    {"content": "a dictionary"},
    Fetched("x", etag=7),
    Fetched("x", last_modified=b"bytes"),
    Fetched("x", hash=object()),
    Fetched("x", memory=["a list"]),
    Fetched("x", memory="with \x00 in it"),
    Fetched("x", memory="with \ud800 in it"),
    Fetched("x", http_status=10**12),
    Fetched("x", http_status="200"),
    Fetched("x", http_status=True),
]


def test_what_no_store_could_take_spoils_nobody_elses_result(app):
    """The results of many sources are written in one transaction."""
    urls = [f"http://h{each}.example/" for each in range(40)]
    numbers = add(app, urls)
    given = dict(zip(numbers, NONSENSE, strict=False))
    odd = {numbers[-1]: Fetched("x", hash="h\x00", etag="\x00", last_modified="\ud800"), numbers[-2]: "\ud800\x00"}
    given |= odd
    cycle = app.monitor(QUICK, fetch=lambda source: given.get(source.id, "content")).cycle().cycle

    assert (cycle.polled, cycle.changed, cycle.failed) == (40, 40 - len(NONSENSE), len(NONSENSE))
    bad = [app.sources.get(number) for number in numbers[: len(NONSENSE)]]
    assert {each.last_failure["category"] for each in bad} == {"configuration"}
    assert {each.consecutive_failures for each in bad} == {0}, "no fault of the source"


def test_a_fetcher_may_take_the_client_or_not(app):
    seen = []

    async def with_client(source, client):
        seen.append(client is not None)
        return "content"

    add(app, ["http://one.example/"])
    for fetch in (with_client, lambda source: "content", lambda source, client: f"content {client is not None}"):
        assert app.monitor(QUICK, fetch=fetch).cycle().cycle.failed == 0
    assert seen == [True]


def test_sync_fetchers_that_hang_keep_neither_the_store_nor_the_program_waiting(app):
    """As many of them hang as there are slots: the lease is renewed all the same, and the monitor can be stopped."""
    hanging, released = threading.Event(), threading.Event()
    renewed, renew = threading.Event(), app.store.renew_sources

    def fetch(source):
        hanging.set()
        released.wait(60)
        return "content"

    def watched(*args):
        renewed.set()
        return renew(*args)

    app.store.renew_sources = watched
    numbers = add(app, [f"http://h{each}.example/" for each in range(60)])
    monitor = app.monitor(QUICK, fetch=fetch, concurrency=50, lease=0.5, grace=0.0)
    running = threading.Thread(target=monitor.run)
    running.start()
    try:
        assert hanging.wait(30)
        renewed.clear()
        assert renewed.wait(30)
        monitor.stop()
        running.join(30)
        assert not running.is_alive(), "no thread that hangs is waited for"
    finally:
        released.set()
        running.join(30)
    assert {app.sources.get(number).leased_until for number in numbers} == {None}, "all given back"


def test_a_response_that_cannot_be_read_starts_the_cooldown_of_the_source(app):
    class Hostile(outlast.errors.RateLimitError):
        @property
        def response(self):
            raise SystemExit(3)

    def fetch(source):
        raise Hostile("slow down", retry_after=600)

    add(app, ["https://busy.example/feed"])
    summary = app.monitor(QUICK, fetch=fetch).cycle()
    assert summary.cycle.deferred == 1
    assert [each.resource for each in app.tasks.cooldowns()] == ["busy.example"]


def test_what_cannot_be_polled_is_listed_all_at_once_before_any_request(app):
    """B1: also what was stored by something else than the book."""
    bad = ["ftp://files.example/", "http://", "http://user:hunter2@/", "http://ok.example:99999/"]
    with FeedServer() as server:
        server.script("/", feed())
        good = server.url("/")
        with pytest.raises(ConfigError) as raised:
            app.sources.add_many([NewSource(good, "feed"), *(NewSource(each, "feed") for each in bad)])
        assert app.sources.list() == [], "all or none"
        app.store.add_sources([NewSource(each, "blog") for each in (good, *bad)])
        app.store.add_sources([NewSource(f"{good}page", "blog", "", "div[")])
        monitor = app.monitor("blog")
        for start in (monitor.cycle, monitor.run):
            with pytest.raises(ConfigError) as raised:
                start()
            message = str(raised.value)
            assert all(each in message for each in ("ftp://", "99999", "div[")), message
            assert len(message.splitlines()) == 1 + len(bad) + 1
            assert "hunter2" not in message
        assert server.count() == 0
    assert app.sources.cycles() == []


def test_sources_of_one_interval_stay_together_and_those_put_off_rejoin(app, url):
    """Cycles of a few sources each would tell no outage."""
    every = 900.0
    with FeedServer() as server:
        paths = ["/well", "/missing", "/busy", "/late"]
        server.script("/well", feed())
        server.script("/missing", 404)
        server.script("/busy", [Answer(429, {"Retry-After": "600"}), feed()])
        server.script("/late", feed())
        numbers = add(app, [server.host_url(place, path) for place, path in enumerate(paths[:3], 1)])
        monitor = app.monitor(QUICK, every=timedelta(minutes=15))
        before = app.store.now()
        monitor.cycle(everything=False)
        numbers += add(app, [server.host_url(4, "/late")])
        assert monitor.cycle(everything=False).cycle.sources == 1, "only the new one is due"
        assert monitor.cycle(everything=False) is None
        busy = numbers[2]
        assert app.sources.get(busy).next_poll_at == app.sources.get(busy).not_before

        def over(source, now):
            return SourceChange(source._replace(next_poll_at=now, not_before=now))

        app.cooling.end_cooldown(server.host_url(3).split("/")[2])
        app.store.change_sources({busy: (None, over)})
        with opened(url) as another:  # it learns from the store that the cooldown is over
            assert another.monitor(QUICK, every=every).cycle(everything=False).cycle.changed == 1
        slots = {app.sources.get(number).next_poll_at for number in numbers}
        assert slots <= {next_slot(before, every), next_slot(app.store.now(), every)}
        assert all(each.timestamp() % every == 0 for each in slots)
        assert monitor.cycle(everything=True).cycle.sources == 4


def test_a_slot_is_the_next_whole_multiple_of_the_interval():
    at = datetime(2026, 3, 1, 12, 7, 30, tzinfo=UTC)
    assert next_slot(at, 900) == datetime(2026, 3, 1, 12, 15, tzinfo=UTC)
    assert next_slot(datetime(2026, 3, 1, 12, 15, tzinfo=UTC), 900) == datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    assert next_slot(at, 0) == at


@pytest.mark.parametrize(
    "settings", [{"concurrency": 0}, {"per_host": True}, {"every": -1}, {"on_change_timeout": 0}, {"fetch": "tweets"}]
)
def test_settings_that_cannot_be_used_are_refused(settings):
    with opened("memory://") as app, pytest.raises(ConfigError):
        app.monitor(**settings)


def test_a_blog_is_told_of_at_the_fifth_failure_and_polled_on(app):
    """B4, C9: it counts on, is never disabled, and one success ends it."""
    with FeedServer() as server:
        server.script("/", [*[404] * 7, Answer(body=b"<html><body>News</body></html>")])
        (number,) = add(app, [server.url("/")], "blog")
        monitor = app.monitor(outlast.profile("blog").replace(policy=outlast.preset("blog").replace(base_delay=0.01)))
        counts = []
        for _ in range(8):
            monitor.cycle()
            counts.append(app.sources.get(number).consecutive_errors)
        assert server.count() == 8
    assert counts == [1, 2, 3, 4, 5, 6, 7, 0]
    assert [kind for _, kind in alerts(app)] == ["first", "recovered"]
