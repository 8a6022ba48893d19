"""200 feeds of mixed faults over six cycles: every request, outcome, transition and alert (F1-F3, C6, C18, pitfalls 25, 60)."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import NamedTuple

import pytest

import outlast
from integration.monitoring import KINDS, QUICK, add, alerts, feed, lines, new_url, opened
from servers.feeds import Answer, FeedServer, rss

DISABLED = [(1, "healthy", "warning"), (5, "warning", "disabled")]
GARBAGE = Answer(body=b"\x00not packed at all", headers={"Content-Encoding": "gzip"})


class Expected(NamedTuple):
    """What is to become of one kind of source, cycle by cycle: requests, outcomes with the last status, transitions."""

    requests: list
    outcomes: list
    state: str
    failures: int = 0
    transitions: tuple = ()
    told: bool = False


def answers(status, times, then):
    return [*[status] * times, then]


def moving():
    return [feed(3), feed(3), feed(4), feed(4), feed(5)]


def failing(requests=1, status=404, category="not_found"):
    return Expected([requests] * 5 + [0], [("failed", status, category)] * 5, "disabled", 5, tuple(DISABLED), told=True)


def well(first=1, status=304):
    return Expected([first, 1, 1, 1, 1, 1], [("changed", 200), *[("unchanged", status)] * 5], "healthy")


BOOK = {  # kind: how many, what its path answers, what is expected
    "steady": (60, lambda: [feed()], well()),
    "plain": (10, lambda: [Answer(body=rss(3))], well(status=200)),
    "moving": (20, moving, Expected([1] * 6, [(each, 200 if each == "changed" else 304) for each in ["changed", "unchanged"] * 2 + ["changed", "unchanged"]], "healthy")),
    "shaky": (20, lambda: answers(403, 2, feed()), well(first=3)),
    "back": (5, lambda: answers(404, 2, feed()), Expected([1] * 6, [*[("failed", 404, "not_found")] * 2, ("changed", 200), *[("unchanged", 304)] * 3], "healthy", 0, ((1, "healthy", "warning"), (3, "warning", "healthy")))),
    "forbidden": (15, lambda: [403], failing(4, 403, "access_denied")),
    "missing": (10, lambda: [404], failing()),
    "gone": (5, lambda: [410], failing(status=410)),
    "garbled": (10, lambda: [GARBAGE], failing(1, None, "data")),
    "down": (15, lambda: [503], Expected([1] * 6, [("failed", 503, "api_temporary")] * 6, "healthy")),
    "dead": (10, None, Expected([0] * 6, [("failed", None, "network")] * 6, "healthy")),
}  # fmt: skip
LIMITED = {  # the first of a host is answered 429, the other nine are not asked; all of them after the cooldown
    True: Expected([1, 0, 0, 0, 0, 1], [("deferred", 429, "rate_limit"), ("changed", 200)], "healthy"),
    False: Expected([0, 0, 0, 0, 0, 1], [("deferred", None, None), ("changed", 200)], "healthy"),
}
HOSTS = 5


@pytest.fixture(params=KINDS)
def url(request, tmp_path):
    return new_url(request, tmp_path)


@pytest.fixture
def app(url):
    with opened(url) as app:
        yield app


def test_two_hundred_feeds_of_mixed_faults_are_accounted_for_exactly(app, url):
    """The last cycle is another process's: what is known is in the store, the end of a cooldown by hand included."""
    book = {}  # path: number of the source, what is expected
    with FeedServer() as server:
        for kind, (count, script, expected) in BOOK.items():
            for each in range(count):
                path = f"/{kind}/{each}"
                if script is None:
                    address = f"http://{kind}{each}.invalid{path}"
                else:
                    server.script(path, script())
                    address = server.host_url(each % HOSTS + 1, path)
                book[path] = (*add(app, [address]), expected)
        date = format_datetime(datetime.now(UTC) + timedelta(minutes=30), usegmt=True)
        limited = {}
        for host in (HOSTS + 1, HOSTS + 2):
            for each in range(10):
                path = f"/limited/{host}/{each}"
                server.script(path, [Answer(429, {"Retry-After": date}), feed()] if each == 0 else [feed()])
                limited[path] = add(app, [server.host_url(host, path)])[0]
                book[path] = (limited[path], LIMITED[each == 0])
        assert len(book) == 200

        seen, changes, requests, summaries = [], [], [], []
        unsubscribe = outlast.subscribe(seen.append, outlast.events.SourceChanged)
        settings = {"on_change": lambda changed: changes.append((changed.source.id, changed.first)), "per_host": 1}
        try:
            monitor = app.monitor(QUICK, **settings)
            for _ in range(5):
                server.forget()
                summaries.append(monitor.cycle())
                requests.append(Counter(each.path for each in server.requests))
            for host in (HOSTS + 1, HOSTS + 2):
                app.cooling.end_cooldown(server.host_url(host).split("/")[2])
            for number in limited.values():
                app.sources.probe(number)
            with opened(url) as another:
                server.forget()
                summaries.append(another.monitor(QUICK, **settings).cycle())
                requests.append(Counter(each.path for each in server.requests))
        finally:
            unsubscribe()

    check_each(app, book, requests)
    check_cycles(summaries, book)
    numbers = [number for number, _ in book.values()]
    first = [number for number, expected in book.values() if ("changed", 200) in expected.outcomes]
    again = [number for number, expected in book.values() for _ in range(expected.outcomes.count(("changed", 200)) - 1)]
    assert sorted(changes) == sorted([*((each, True) for each in first), *((each, False) for each in again)])
    told = sorted(f"source:{number}" for number, expected in book.values() if expected.told)
    rows = app.store.alerts(limit=1000)
    assert sorted(each.key for each in rows) == told
    assert len(told) == 40
    assert {(each.kind, each.state, each.delivered_at is not None) for each in rows} == {("first", "disabled", True)}
    moved = Counter((each.source_id, each.before, each.after) for each in seen)
    assert moved == {(number, *each[1:]): 1 for number, expected in book.values() for each in expected.transitions}
    states = Counter(expected.state for _, expected in book.values())
    assert app.sources.health() == {**dict.fromkeys(app.sources.health(), 0), **states} == {"healthy": 160, "disabled": 40, "warning": 0, "error": 0, "probation": 0}  # fmt: skip
    assert len(app.sources.list()) == len(numbers) == 200


def check_each(app, book, requests):
    """Hold each source and its path against what is expected of it."""
    for path, (number, expected) in book.items():
        assert [each[path] for each in requests] == expected.requests, path
        history = lines(app, number)
        polls = [each for each in history if each.outcome in {"changed", "unchanged", "failed", "deferred"}]
        found = [(each.outcome, each.http_status, each.category)[: len(wanted)] for each, wanted in zip(polls, expected.outcomes, strict=True)]  # fmt: skip
        assert found == expected.outcomes, path
        assert [(each.cycle, each.before, each.after) for each in history if each.after] == list(expected.transitions)
        attempts = Counter({each.cycle: each.attempts for each in polls})
        server_has = [0] * 6 if path.startswith("/dead") else expected.requests
        assert path.startswith("/dead") or [attempts[cycle] for cycle in range(1, 7)] == server_has, path
        source = app.sources.get(number)
        assert (source.state, source.consecutive_failures, source.pending) == (expected.state, expected.failures, None)
        assert (source.health.disabled_by, source.not_before is not None) == (("rule", True) if expected.told else (None, False)), path  # fmt: skip
    assert sum(map(sum, (each.values() for each in requests))) == sum(sum(each.requests) for _, each in book.values())


def check_cycles(summaries, book):
    """Hold the figures of the cycles against the sum of what is expected of the sources."""
    for cycle, summary in enumerate(summaries, 1):
        figures = Counter()
        for path, (_, expected) in book.items():
            place = {1: 0, 6: 1}.get(cycle, 9) if path.startswith("/limited") else cycle - 1
            figures[expected.outcomes[place][0] if place < len(expected.outcomes) else "absent"] += 1
        row = summary.cycle
        polled = figures["changed"] + figures["unchanged"] + figures["failed"]
        assert (row.id, row.sources, row.polled, row.changed, row.failed, row.deferred, row.outage_since) == (
            cycle,
            200 - figures["absent"],
            polled,
            figures["changed"],
            figures["failed"],
            figures["deferred"],
            None,
        )
        assert summary.broken_callbacks == 0


def test_a_host_is_asked_again_when_its_date_is_over_and_not_before(app):
    """Pitfalls 22 and 25, C7: it is the sources' host that waits, and nobody else."""
    asked = []

    def busy(request):
        asked.append(time.time())
        if len(asked) == 1:
            until.append(int(time.time()) + 2)
            return Answer(429, {"Retry-After": format_datetime(datetime.fromtimestamp(until[0], UTC), usegmt=True)})
        return feed()

    until = []
    with FeedServer() as server:
        for path in ("/a", "/b", "/c"):
            server.script(path, [busy])
        server.script("/other", feed())
        numbers = add(app, [server.url(path) for path in ("/a", "/b", "/c")])
        add(app, [server.host_url(2, "/other")])
        monitor = app.monitor(QUICK, every=604_800, per_host=1)
        first = monitor.cycle(everything=False)
        assert (first.cycle.deferred, first.cycle.polled, len(asked)) == (3, 1, 1)
        while all(app.sources.get(number).outcome == "deferred" for number in numbers):
            later = monitor.cycle(everything=False)
            assert later is None or app.store.now().timestamp() >= until[0]
            time.sleep(0.05)
        while monitor.cycle(everything=False) is not None:
            pass
        assert [app.sources.get(number).outcome for number in numbers] == ["changed"] * 3
        assert server.count("/other") == 1
    assert len(asked) == 4
    assert min(asked[1:]) >= until[0]
    assert alerts(app) == []
    due = {app.sources.get(number).next_poll_at for number in (*numbers, numbers[-1] + 1)}
    assert len(due) == 1, "those that were put off are due with the others again"


def test_a_host_without_a_hint_is_left_alone_for_a_minute_at_least(app):
    """C8: for all of its sources, not only for the one that was told."""
    with FeedServer() as server:
        server.script("/a", [429, feed()])
        server.script("/b", feed())
        numbers = add(app, [server.url("/a"), server.url("/b")])
        app.monitor("feed", per_host=1).cycle()
        assert server.count() == 1
        (left,) = app.cooling.waits().values()
    assert left > 55
    now = app.store.now()
    assert all((app.sources.get(number).not_before - now).total_seconds() > 50 for number in numbers)
    assert [app.sources.get(number).state for number in numbers] == ["healthy"] * 2


def test_sources_are_left_alone_with_a_fetcher_that_knows_no_cooldown(app):
    """Those that wait for their host ask again when it is their turn."""
    asked = []

    def fetch(source):
        asked.append(source.url)
        raise outlast.errors.RateLimitError("slow down", retry_after=60)

    add(app, [f"http://one.example/{each}" for each in range(20)])
    add(app, ["http://two.example/"])
    summary = app.monitor(QUICK, fetch=fetch, per_host=1).cycle()
    assert sorted(asked) == ["http://one.example/0", "http://two.example/"]
    assert summary.cycle.deferred == 21
