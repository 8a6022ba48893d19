"""Monitors that only observe: sources are polled and counted, no state changes, nobody is alerted."""

from __future__ import annotations

import pytest

import outlast
from outlast import errors
from outlast.errors import ConfigError
from outlast.ports.source_rows import NewSource
from outlast.record.events import Observed, SourceChanged

PROFILE = outlast.profile("feed").replace(
    policy=outlast.RetryPolicy(max_attempts=2, base_delay=0), threshold=3, disables=True, probation=1
)


@pytest.fixture
def app():
    app = outlast.App("memory://")
    yield app
    app.close()


@pytest.fixture
def told():
    events = []
    ends = [outlast.subscribe(events.append, Observed), outlast.subscribe(events.append, SourceChanged)]
    yield events
    for end in ends:
        end()


class Site:
    """Sources of which some are gone."""

    def __init__(self, app, count=3):
        added = app.sources.add_many([NewSource(f"https://example.com/{each}", "feed") for each in range(count)])
        self.app, self.numbers, self.gone, self.calls = app, [each.id for each in added], set(), []

    def fetch(self, source):
        self.calls.append(source.id)
        if source.id in self.gone:
            message = "gone"
            raise errors.ResourceNotFoundError(message)
        return "text"

    def monitor(self, mode="observe", profile=PROFILE, **more):
        return self.app.monitor(profile, fetch=self.fetch, mode=mode, **more)

    def state(self, number):
        source = self.app.sources.get(number)
        return str(source.state), source.consecutive_failures

    def alerts(self):
        return [each.key for each in self.app.store.alerts(limit=100)]

    def transitions(self, number):
        return [each for each in self.app.sources.history(number, 100) if each.after is not None]


@pytest.fixture
def site(app):
    return Site(app)


def decided(events):
    return [(each.name, each.decision, str(each.failure.category)) for each in events]


def test_a_source_that_would_have_been_disabled_is_told_once_and_polled_on(site, told):
    bad = site.numbers[0]
    site.gone = {bad}
    monitor = site.monitor()
    seen = []
    for _ in range(6):
        assert monitor.cycle().cycle.failed == 1
        seen.append((site.state(bad), len(told)))
    assert seen == [(("healthy", number), int(number >= 3)) for number in range(1, 7)]
    assert decided(told) == [("feed", "disable", "not_found")]
    assert "after 3 failures in a row" in told[0].reason
    assert site.calls.count(bad) == 6, "polled in every cycle"
    assert site.alerts() == []
    assert site.transitions(bad) == []
    assert site.app.sources.get(bad).last_error == "ResourceNotFoundError: gone", "what really happened is kept"
    assert site.app.sources.get(bad).health.disabled_at is None


def test_one_that_answers_again_begins_anew(site, told):
    bad = site.numbers[0]
    monitor = site.monitor()
    for _ in range(2):
        site.gone = {bad}
        for _ in range(3):
            monitor.cycle()
        site.gone = set()
        monitor.cycle()
        assert site.state(bad) == ("healthy", 0)
    assert decided(told) == [("feed", "disable", "not_found")] * 2, "told again, for it would have been disabled again"
    assert site.alerts() == []


def test_a_profile_that_disables_nothing_is_told_of_nothing(site, told):
    site.gone = {site.numbers[0]}
    monitor = site.monitor(profile=PROFILE.replace(disables=False))
    for _ in range(5):
        monitor.cycle()
    assert site.state(site.numbers[0]) == ("healthy", 5)
    assert (told, site.alerts()) == ([], [])


def test_an_outage_is_counted_against_nobody_and_told_to_nobody(app, told):
    site = Site(app, 12)
    monitor = site.monitor(profile=PROFILE.replace(threshold=1))
    monitor.cycle()
    site.gone = set(site.numbers)
    assert monitor.cycle().cycle.failed == 12
    assert {site.state(number) for number in site.numbers} == {("healthy", 0)}
    assert (told, site.alerts()) == ([], [])


def test_polls_try_again_and_tell_of_changes_as_usual(site, told):
    news = []
    failed_once = set()

    def fetch(source):
        if source.id not in failed_once:
            failed_once.add(source.id)
            raise ConnectionError
        return f"text of {source.id}"

    monitor = site.app.monitor(PROFILE, fetch=fetch, on_change=news.append, mode="observe")
    assert monitor.cycle().cycle.changed == 3
    assert sorted(each.source.id for each in news) == site.numbers
    assert monitor.cycle().cycle.changed == 0, "what was seen is known"
    assert told == []


class TestStatesFromBefore:
    """A source that an acting monitor has left in some state keeps it."""

    def disable(self, site):
        bad = site.numbers[0]
        site.gone = {bad}
        acting = site.monitor("act")
        for _ in range(3):
            acting.cycle()
        assert site.state(bad) == ("disabled", 3)
        return bad

    def test_disabled_stays_disabled_though_it_answers(self, site):
        bad = self.disable(site)
        alerts = site.alerts()
        site.gone = set()
        site.app.sources.probe(bad)
        monitor = site.monitor()
        monitor.cycle()
        asked = site.calls.count(bad)
        assert site.state(bad) == ("disabled", 0)
        assert site.alerts() == alerts, "nor is it told that it answers again"
        monitor.cycle()
        assert site.calls.count(bad) == asked, "it is left alone until its next probe"

    def test_one_on_probation_would_be_disabled_by_its_first_failure(self, site, told):
        bad = self.disable(site)
        site.gone = set()
        site.app.sources.probe(bad)
        site.monitor("act").cycle()
        assert site.state(bad)[0] == "probation"
        told.clear()
        site.gone = {bad}
        monitor = site.monitor()
        for _ in range(3):
            monitor.cycle()
        assert site.state(bad) == ("probation", 3)
        assert decided(told) == [("feed", "disable", "not_found")]

    def test_one_that_acts_again_goes_on_from_the_counts(self, site):
        bad = site.numbers[0]
        site.gone = {bad}
        monitor = site.monitor()
        for _ in range(4):
            monitor.cycle()
        site.monitor("act").cycle()
        assert site.state(bad) == ("disabled", 5)
        assert site.alerts() == [f"source:{bad}"]


def test_another_mode_is_refused(site):
    for mode in ("shadow", None, []):
        with pytest.raises(ConfigError, match="choose act or observe"):
            site.monitor(mode)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("mode", ["act", "observe"])
def test_a_fetch_can_ask_which_attempt_it_is(app, mode, is_async):
    numbers = []

    async def fetch_async(source):
        return fetch(source)

    def fetch(source):
        now = outlast.current_attempt()
        numbers.append((now.number, now.max_attempts))
        if now.number == 1:
            raise errors.NetworkError("x")
        return "text"

    app.sources.add_many([NewSource("https://example.com/1", "feed")])
    monitor = app.monitor(PROFILE, fetch=fetch_async if is_async else fetch, mode=mode)
    assert monitor.cycle().cycle.failed == 0
    assert numbers == [(1, 2), (2, 2)]
    assert outlast.current_attempt() is None
