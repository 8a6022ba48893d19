"""The health of a source: what a success, a failure and an outage make of it (F2, B4, C5, C6, C9, C18, pitfalls 60, 61)."""

from datetime import UTC, datetime, timedelta

import pytest

import outlast
from outlast.decide.decision import next_alert_kind
from outlast.decide.source_health import (
    COUNTED_CATEGORIES,
    PollCounts,
    SourceHealth,
    SourceRules,
    SourceState,
    after_failure,
    after_success,
    is_outage,
    probe_delay,
)
from outlast.errors import ConfigError
from outlast.failure import Category

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FEED, BLOG = outlast.profile("feed").rules, outlast.profile("blog").rules
DAY = 86400.0


def after(rules, *categories, health=None, step=timedelta(hours=1)):
    health, now = health or SourceHealth(), NOW
    for category in categories:
        health = after_success(health, rules, now) if category is None else after_failure(health, category, rules, now)
        now += step
    return health


def test_a_feed_is_disabled_at_the_fifth_failure_in_a_row():
    states = [after(FEED, *[Category.NOT_FOUND] * count).state for count in range(6)]

    assert states == ["healthy", "warning", "warning", "warning", "warning", "disabled"]
    assert after(FEED, *[Category.NOT_FOUND] * 5).disabled_by == "rule"


def test_a_blog_is_never_disabled_and_its_count_goes_on():
    health = after(BLOG, *[Category.NOT_FOUND] * 9)

    assert (health.state, health.consecutive_failures, health.disabled_at) == ("error", 9, None)


def test_a_success_resets_the_count():
    health = after(FEED, *[Category.ACCESS_DENIED] * 4, None, *[Category.ACCESS_DENIED] * 4)

    assert (health.state, health.consecutive_failures) == ("warning", 4)
    assert after(BLOG, *[Category.DATA] * 7, None) == SourceHealth(
        last_success_at=NOW + timedelta(hours=7), last_failure_at=NOW + timedelta(hours=6)
    )


@pytest.mark.parametrize("category", [each for each in Category if each not in COUNTED_CATEGORIES])
def test_what_is_no_fault_of_the_source_is_never_counted(category):
    health = after(FEED, *[category] * 50)

    assert (health.state, health.consecutive_failures) == ("healthy", 0)


def test_the_counted_categories_are_those_of_the_design():
    assert {
        "access_denied", "not_found", "invalid_parameters", "authentication", "data", "unknown",
    } == COUNTED_CATEGORIES  # fmt: skip


@pytest.mark.parametrize("category", [Category.NETWORK, Category.API_TEMPORARY])
def test_a_dead_domain_is_noticed_after_fourteen_days_and_never_disabled(category):
    nearly = after(FEED, *[category] * 14, step=timedelta(days=1))
    over = after(FEED, *[category] * 40, step=timedelta(days=1))

    assert (nearly.state, over.state, over.consecutive_failures) == ("healthy", "error", 0)


def test_fourteen_days_begin_anew_after_a_success():
    health = after(FEED, *[Category.NETWORK] * 10, None, *[Category.NETWORK] * 10, step=timedelta(days=1))

    assert health.state == "healthy"


def test_a_disabled_source_is_probed_after_a_day_and_then_ever_later():
    health, waits = after(FEED, *[Category.NOT_FOUND] * 5), []
    for _ in range(6):
        waits.append(probe_delay(health, FEED) / DAY)
        health = after_failure(health, Category.NOT_FOUND, FEED, NOW)

    assert waits == [1, 2, 4, 7, 7, 7]
    assert health.state == "disabled"


def test_any_failure_of_a_probe_puts_the_next_one_off():
    disabled = after(FEED, *[Category.NOT_FOUND] * 5)

    assert after_failure(disabled, Category.NETWORK, FEED, NOW).probes == 1


def test_a_probe_that_succeeds_brings_a_source_back_on_probation():
    back = after(FEED, *[Category.NOT_FOUND] * 5, Category.NOT_FOUND, None)

    assert (back.state, back.consecutive_failures, back.disabled_by) == ("probation", 0, None)
    assert after_success(back, FEED, NOW).state == "healthy"
    relapsed = after_failure(back, Category.NOT_FOUND, FEED, NOW)
    assert (relapsed.state, relapsed.probes) == ("disabled", 2)


def test_probation_of_none_and_of_several():
    none, several = FEED.replace(probation=0), FEED.replace(probation=2)
    disabled = after(FEED, *[Category.NOT_FOUND] * 5)

    assert after_success(disabled, none, NOW).state == "healthy"
    assert after(several, None, None, health=disabled).state == "probation"
    assert after(several, None, None, None, health=disabled).state == "healthy"


def test_what_does_not_count_leaves_probation_alone():
    back = after(FEED, *[Category.NOT_FOUND] * 5, None)

    assert after_failure(back, Category.NETWORK, FEED, NOW).state == "probation"


@pytest.mark.parametrize(
    ("polls", "outage"),
    [
        (PollCounts(10, 5), True),
        (PollCounts(10, 4), False),
        (PollCounts(9, 9), False),
        (PollCounts(2000, 1000), True),
        (PollCounts(10, 10, known=10, known_failed=10), False),  # all of them were known to be dead
        (PollCounts(20, 12, known=12, known_failed=12), False),  # the others are well
        (PollCounts(20, 16, known=12, known_failed=12), True),  # half of the others fail too
        (PollCounts(20, 9, known=4, known_failed=4), False),
    ],
)
def test_most_sources_failing_together_is_an_outage(polls, outage):
    assert is_outage(polls, FEED) is outage


def test_an_outage_that_lasts_for_a_day_is_none_any_more():
    assert is_outage(PollCounts(10, 10), FEED, lasts=DAY - 1)
    assert not is_outage(PollCounts(10, 10), FEED, lasts=DAY)


@pytest.mark.parametrize(
    "changes",
    [
        {"threshold": 0}, {"threshold": True}, {"probation": -1}, {"outage_share": 0}, {"outage_share": 1.5},
        {"outage_share": float("nan")}, {"first_probe": 0}, {"stale_after": float("nan")}, {"disables": 1},
        {"counted": {"nonsense"}}, {"outage_limit": float("inf")},
    ],
)  # fmt: skip
def test_rules_that_cannot_be_used_are_refused(changes):
    with pytest.raises(ConfigError):
        SourceRules(**changes)


def test_a_profile_of_ones_own():
    news = outlast.profile("feed").replace(name="news", threshold=3, counted={"not_found"})

    assert (news.name, news.rules.threshold, news.rules.counted) == ("news", 3, {Category.NOT_FOUND})
    assert outlast.profile("feed").rules.threshold == 5
    with pytest.raises(ConfigError, match="not a setting of a profile"):
        news.replace(treshold=3)
    with pytest.raises(ConfigError, match="blog, feed"):
        outlast.profile("news")


@pytest.mark.parametrize(
    ("told", "state", "kind"),
    [
        (None, "disabled", "first"), ("disabled", "disabled", None), ("error", "disabled", "changed"),
        ("disabled", None, "recovered"), (None, None, None),
    ],
)  # fmt: skip
def test_what_is_told_of_a_matter(told, state, kind):
    assert next_alert_kind(told, state) == kind


def test_states_have_the_names_that_people_read():
    assert list(SourceState) == ["healthy", "warning", "error", "disabled", "probation"]
