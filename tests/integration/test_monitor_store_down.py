"""A store that cannot be asked for a while: nothing is lost, nothing is polled twice (pitfall 25)."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter

import psycopg
import pytest

from integration.monitoring import KINDS, QUICK, add, feed, new_url, opened, outcomes
from outlast.sources import monitor as monitors
from servers.feeds import Answer, FeedServer


@pytest.fixture(params=KINDS)
def app(request, tmp_path):
    with opened(new_url(request, tmp_path)) as app:
        app.down = psycopg.OperationalError if request.param == "postgres" else sqlite3.OperationalError
        yield app


@pytest.fixture
def server():
    with FeedServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(monitors, "_PAUSE", 0.02)


def break_store(app, method, times, after=0):
    """Let a method of the store fail a number of times; return the calls that are still to fail."""
    works, left = getattr(app.store, method), Counter(fails=times, after=after)

    def broken(*args, **kwargs):
        if left["after"] > 0:
            left["after"] -= 1
        elif left["fails"] > 0:
            left["fails"] -= 1
            raise app.down("the server has gone away")
        return works(*args, **kwargs)

    setattr(app.store, method, broken)
    return left


def run_until(monitor, condition):
    """Run a monitor until a condition is true."""
    running = threading.Thread(target=monitor.run)
    running.start()
    try:
        for _ in range(1500):
            if condition() or not running.is_alive():
                break
            running.join(0.02)
    finally:
        monitor.stop()
        running.join(30)
    assert not running.is_alive()
    assert condition()


@pytest.mark.parametrize("method", ["change_sources", "claim_sources", "open_cycle", "close_cycle", "renew_sources"])
def test_what_was_polled_is_written_when_the_store_is_back(app, server, method):
    for each in range(60):
        server.script(f"/{each}", feed())
    numbers = add(app, [server.url(f"/{each}") for each in range(60)])
    left = break_store(app, method, 3, after=0 if method in {"open_cycle", "renew_sources"} else 1)
    monitor = app.monitor(QUICK, every=604_800, concurrency=20, per_host=20, lease=5)
    if method == "close_cycle":
        left["after"] = 0
    ended = lambda: any(each.ended_at is not None for each in app.sources.cycles())  # noqa: E731
    run_until(monitor, ended)

    assert method == "renew_sources" or left["fails"] == 0
    assert server.count() == 60, "each of them once"
    assert [outcomes(app, number) for number in numbers] == [["changed"]] * 60
    assert [each.polled for each in app.sources.cycles()] == [60]


def test_a_lease_that_could_not_be_renewed_is_renewed_when_the_store_is_back(app, server):
    """The monitor holds its sources for longer than one lease, and nobody else gets them."""
    gate = threading.Event()
    server.script("/", feed(gate=gate))
    (number,) = add(app, [server.url("/")])
    renew, renewals, asked = app.store.renew_sources, [], Counter()

    def broken(*args):
        asked["calls"] += 1
        if asked["calls"] == 1:
            raise app.down("the server has gone away")
        renewals.append(renew(*args))
        if len(renewals) == 3:
            gate.set()
        return renewals[-1]

    app.store.renew_sources = broken
    run_until(app.monitor(QUICK, every=604_800, lease=1.5), lambda: app.sources.get(number).outcome is not None)
    assert renewals[:3] == [1, 1, 1]
    assert server.count() == 1
    assert app.sources.get(number).epoch == 1


def test_one_cycle_ends_with_the_error_and_the_next_goes_on_where_it_was(app, server):
    """For cron: what was polled is written at the end, what was not is left to the next."""
    for each in range(20):
        server.script(f"/{each}", feed())
    numbers = add(app, [server.url(f"/{each}") for each in range(20)])
    break_store(app, "change_sources", 1)
    monitor = app.monitor(QUICK, concurrency=2, per_host=2)
    with pytest.raises(app.down):
        monitor.cycle()
    assert 0 < server.count() < 20
    assert app.sources.cycles()[0].ended_at is None
    assert {app.sources.get(number).leased_until for number in numbers} == {None}
    summary = monitor.cycle(everything=False)
    assert (summary.cycle.id, summary.cycle.changed) == (app.sources.cycles()[0].id, 20)
    assert server.count() == 20
    assert [outcomes(app, number) for number in numbers] == [["changed"]] * 20


def test_a_monitor_can_be_stopped_while_the_store_is_down(app, server):
    server.script("/", feed())
    add(app, [server.url("/")])
    monitor = app.monitor(QUICK, grace=0.1)
    left = break_store(app, "change_sources", 1_000_000)
    failed: list[BaseException] = []

    def run():
        try:
            monitor.run()
        except BaseException as error:
            failed.append(error)

    running = threading.Thread(target=run)
    running.start()
    while left["fails"] > 1_000_000 - 3:
        running.join(0.02)
    monitor.stop()
    running.join(30)
    assert not running.is_alive()
    assert failed == []
    left["fails"] = 0
    assert app.sources.list()[0].leased_until is None, "given back, to be polled again"


def test_with_the_store_down_a_process_keeps_its_own_cooldowns(app, server, caplog):
    """Pitfall 25: the local limit holds; one warning, not one for each source."""
    for each in range(10):
        server.script(f"/{each}", Answer(429, {"Retry-After": "600"}))
        server.script(f"/other/{each}", feed())
    add(app, [server.url(f"/{each}") for each in range(10)])
    add(app, [server.host_url(2, f"/other/{each}") for each in range(10)])
    for method in ("start_cooldown", "cooldowns"):
        break_store(app, method, 1_000_000)
    monitor = app.monitor(QUICK, per_host=1)
    cycle = monitor.cycle().cycle
    assert (cycle.deferred, cycle.changed) == (10, 10)
    assert server.count() == 11
    (number,) = add(app, [server.url("/9?again")])
    assert monitor.cycle().cycle.deferred == 1
    assert app.sources.get(number).outcome == "deferred"
    assert server.count() == 11 + 10, "the other host is polled as ever"
    warnings = [each for each in caplog.records if "could not read cooldowns" in each.getMessage()]
    assert len(warnings) == 1
