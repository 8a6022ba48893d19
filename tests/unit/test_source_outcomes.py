"""What is written for a poll, for a hand and for the end of a cycle: values in, values out."""

from datetime import UTC, datetime, timedelta

import pytest

import outlast
from outlast.classify import classify
from outlast.decide.source_health import SourceHealth, SourceRules, SourceState
from outlast.errors import ContentError, NetworkError, RateLimitError, ResourceNotFoundError
from outlast.ports.source_rows import Cycle, Source
from outlast.sources import outcomes
from outlast.sources.fetchers import Fetched

NOW = datetime(2026, 3, 1, 12, 7, tzinfo=UTC)
SLOT = datetime(2026, 3, 1, 12, 15, tzinfo=UTC)
RULES = outlast.profile("feed").rules
GONE = classify(ResourceNotFoundError("gone"))
EARLIER = NOW - timedelta(hours=3)


def source(number=1, **columns):
    given = {
        "id": number, "url": f"https://feeds.test/{number}?token=s3cret", "profile": "feed", "name": "", "selector": None,
        "health": SourceHealth(), "last_error": None, "last_failure": None, "next_poll_at": EARLIER, "not_before": None,
        "etag": '"old"', "last_modified": "then", "content_hash": "old", "memory": "[1]", "cycle": 7, "outcome": None,
        "pending": None, "epoch": 3, "leased_until": NOW, "created_at": EARLIER,
    }  # fmt: skip
    return Source(**given | columns)


def off(by="hand", **health):
    return SourceHealth(SourceState.DISABLED, 5, EARLIER, EARLIER, by, **health)


def done(change, **columns):
    return change(source(**columns), NOW)


def success(fetched=None, content_hash=None, outcome="unchanged", **columns):
    fetched = fetched or Fetched()
    return done(outcomes.success_change(RULES, 900, fetched, content_hash, outcome=outcome, attempts=2), **columns)


def test_a_success_is_seen_with_its_validators_and_ends_the_lease():
    fetched = Fetched("x", etag='"new"', last_modified="now", memory="[2]", http_status=200)
    written = success(fetched, "new", "changed", health=SourceHealth(SourceState.WARNING, 2, EARLIER), pending={"a": 1})
    after = written.source

    assert (after.etag, after.last_modified, after.content_hash, after.memory) == ('"new"', "now", "new", "[2]")
    assert (after.outcome, after.pending, after.leased_until, after.next_poll_at) == ("changed", None, None, SLOT)
    assert (after.state, after.consecutive_failures, after.health.last_success_at) == ("healthy", 0, NOW)
    assert (written.poll.outcome, written.poll.attempts, written.poll.http_status) == ("changed", 2, 200)
    assert (written.transition.before, written.transition.after) == ("warning", "healthy")
    assert written.alerts == (), "nobody was told of a warning"


def test_what_was_not_taken_in_leaves_what_was_seen_before():
    after = success(Fetched("x", etag='"new"', memory="[2]"), None, "changed").source

    assert (after.etag, after.content_hash, after.memory, after.outcome) == ('"old"', "old", "[1]", "changed")


@pytest.mark.parametrize("etag", ["x" * 1001, "a\nb", "a\x00b", "\ud800"])
def test_a_validator_that_cannot_be_sent_again_is_forgotten(etag):
    assert success(Fetched("x", etag=etag), "new", "changed").source.etag is None


def test_a_failure_waits_for_the_end_of_its_cycle():
    written = done(outcomes.failure_change(RULES, 900, GONE, 4), health=SourceHealth(SourceState.WARNING, 4, EARLIER))
    after = written.source

    assert (after.consecutive_failures, after.state, after.last_error) == (4, "warning", None)
    assert (after.pending["category"], after.pending["message"]) == ("not_found", "gone")
    assert (after.outcome, after.next_poll_at, after.not_before, after.leased_until) == ("failed", SLOT, None, None)
    assert (written.transition, written.alerts) == (None, ())
    assert (written.poll.category, written.poll.attempts, written.poll.error) == ("not_found", 4, "ResourceNotFoundError: gone")  # fmt: skip


def test_a_probe_that_fails_is_not_repeated_at_once_though_it_may_be_withdrawn():
    after = done(outcomes.failure_change(RULES, 900, GONE, 1), health=off("rule", probes=1)).source

    assert after.not_before == NOW + timedelta(days=2)


def test_a_failure_that_is_reported_counts_at_once():
    written = done(outcomes.reported_failure_change(RULES, GONE), health=SourceHealth(SourceState.WARNING, 4, EARLIER))

    assert (written.source.consecutive_failures, written.source.state) == (5, "disabled")
    assert written.source.not_before == NOW + timedelta(days=1)
    assert (written.poll.outcome, written.poll.before, written.poll.after) == ("failed", "warning", "disabled")
    assert [(each.key, each.state) for each in written.alerts] == [("source:1", "disabled")]
    assert written.alerts[0].title == "https://feeds.test/1?token=***: disabled after 5 failures in a row"
    assert "s3cret" not in str(written.alerts) + str(written.poll)


def test_what_is_put_off_is_due_when_its_wait_is_over_and_counts_nothing():
    written = done(
        outcomes.deferral_change(RULES, 60, None, 0),
        health=SourceHealth(SourceState.WARNING, 2, EARLIER),
        pending={"a": 1},
    )
    after = written.source

    assert after.next_poll_at == after.not_before == NOW + timedelta(minutes=1)
    assert (after.health, after.outcome, after.pending) == (
        SourceHealth(SourceState.WARNING, 2, EARLIER),
        "deferred",
        None,
    )
    assert (written.poll.outcome, written.poll.attempts) == ("deferred", 0)


def test_no_poll_that_was_on_its_way_brings_back_what_somebody_switched_off():
    assert success(Fetched("x"), "new", "changed", health=off()).source.health == off()
    pending = outcomes.failure_change(RULES, 900, GONE, 1)(source(health=off()), NOW).source
    (stood,) = close([pending]).changes
    assert (stood.source.health, stood.source.pending, stood.transition, stood.alerts) == (off(), None, None, ())


def test_enabling_begins_anew_and_settles_what_was_told():
    written = done(outcomes.enable_change, health=off("rule", probes=3), not_before=NOW + timedelta(days=7))

    assert written.source.health == SourceHealth()
    assert (written.source.not_before, written.source.next_poll_at) == (None, NOW)
    assert [(each.key, each.state) for each in written.alerts] == [("source:1", None)]


@pytest.mark.parametrize(
    ("columns", "outcome"),
    [({"outcome": None}, "deferred"), ({"outcome": "failed"}, "failed"), ({"outcome": None, "cycle": 0}, None)],
)
def test_what_somebody_disables_is_not_waited_for_by_a_cycle(columns, outcome):
    written = done(outcomes.disable_change("spam"), **columns)

    assert (written.source.state, written.source.health.disabled_by) == ("disabled", "hand")
    assert written.source.outcome == outcome
    assert [each.state for each in written.alerts] == [None], "who did it knows"
    assert written.transition.reason == "spam"


def test_a_probe_is_for_whatever_was_not_switched_off_by_hand():
    probed = outcomes.probe_change(source(health=off("rule"), not_before=SLOT), NOW)

    assert (probed.source.not_before, probed.source.next_poll_at) == (None, NOW)
    assert outcomes.probe_change(source(health=off()), NOW) is None


def close(sources, rules=RULES, since=None, now=NOW, before=40, ended=EARLIER):
    previous = Cycle(6, "feed", EARLIER, ended, before, polled=before, outage_since=since)
    return outcomes.cycle_close("feed", rules)(Cycle(7, "feed", EARLIER, None, 99), previous, sources, now)


def polled(good, bad, failure=GONE):
    well = [source(number, outcome="unchanged") for number in range(good)]
    change = outcomes.failure_change(RULES, 900, failure, 1)
    was_well = SourceHealth(last_success_at=EARLIER)
    return [*well, *(change(source(number, health=was_well), NOW).source for number in range(good, good + bad))]


def test_a_cycle_ends_with_its_figures():
    sources = [*polled(8, 3), source(50, outcome="deferred"), source(51, outcome="changed")]
    closing = close(sources)

    assert closing.cycle == Cycle(7, "feed", EARLIER, NOW, 13, polled=12, changed=1, failed=3, deferred=1)
    assert (closing.withdraw, len(closing.changes)) == (False, 3)
    assert {each.source.consecutive_failures for each in closing.changes} == {1}
    assert [(each.key, each.state) for each in closing.alerts] == [("outage:feed", None)], (
        "if there was one, it is over"
    )


def test_half_of_them_failing_is_an_outage():
    closing = close(polled(5, 5))

    assert (closing.withdraw, closing.changes, closing.cycle.outage_since) == (True, [], NOW)
    (told,) = closing.alerts
    assert (told.key, told.state, told.text) == ("outage:feed", "outage", "not_found 5")
    assert "5 of 10" in told.title


def test_sources_that_never_were_well_tell_of_no_outage_while_others_are_well():
    new = [each._replace(health=SourceHealth()) for each in polled(0, 9)]

    assert close([*polled(1, 0), *new]).withdraw is False, "their addresses are more likely wrong"
    assert close([*new, new[0]]).withdraw is True, "nothing answers at all"


def test_an_outage_goes_on_counting_when_it_lasts():
    since = NOW - timedelta(days=1)
    closing = close(polled(1, 9), since=since)

    assert (closing.withdraw, len(closing.changes), closing.cycle.outage_since) == (False, 9, since)
    assert [each.state for each in closing.alerts] == ["lasting"]


def test_an_outage_is_not_over_while_those_whose_failures_stood_fail_on():
    since = NOW - timedelta(days=2)
    known = SourceHealth(SourceState.WARNING, 1, EARLIER)
    failing = [each._replace(health=known) for each in polled(0, 12)]

    lasting = close(failing, since=since)
    assert (lasting.withdraw, lasting.cycle.outage_since, lasting.alerts) == (False, since, ())
    half = close([*polled(12, 0), *failing], since=since)
    assert half.cycle.outage_since is None, "the others are well: these are dead by themselves"
    assert [each.state for each in half.alerts] == [None]


def test_a_source_that_only_ever_asks_to_wait_is_noticed_in_the_end():
    limited = classify(RateLimitError("slow down", retry_after=60))
    first = done(outcomes.deferral_change(RULES, 60, limited, 1)).source
    assert (first.state, first.consecutive_failures, first.health.failing_since) == ("healthy", 0, NOW)
    late = outcomes.deferral_change(RULES, 60, limited, 1)(first, NOW + timedelta(days=14))
    assert (late.source.state, late.source.consecutive_failures) == ("error", 0)
    assert [each.state for each in late.alerts] == ["error"]
    held = outcomes.deferral_change(RULES, 60, None, 0)(first, NOW + timedelta(days=14)).source
    assert held.health == first.health, "it was not even asked"


def test_a_few_sources_tell_neither_that_an_outage_began_nor_that_it_is_over():
    closing = close(polled(9, 0), since=EARLIER)

    assert (closing.cycle.outage_since, closing.alerts) == (EARLIER, ())


def test_an_outage_of_a_book_that_became_small_ends_too():
    assert close(polled(9, 0), since=EARLIER, before=12).cycle.outage_since is None
    assert close(polled(8, 1), since=EARLIER, before=12).cycle.outage_since == EARLIER


def test_an_outage_of_long_ago_says_nothing_of_today():
    """The program was switched off in between: nobody knows whether it lasted."""
    long_ago = NOW - timedelta(days=7)
    closing = close(polled(1, 11), since=long_ago, ended=long_ago)

    assert (closing.withdraw, closing.cycle.outage_since) == (True, NOW)


def test_a_change_without_a_transition_leaves_no_second_line():
    sources = polled(20, 1)
    sources[-1] = sources[-1]._replace(health=SourceHealth(SourceState.WARNING, 1, EARLIER))
    (change,) = close(sources).changes

    assert (change.poll, change.transition, change.alerts) == (None, None, ())
    assert (change.source.consecutive_failures, change.source.last_error) == (2, "ResourceNotFoundError: gone")


def test_texts_are_kept_as_every_store_takes_them():
    failure = classify(ContentError("bad \x00 \ud800 " + "x" * 5000))
    after = done(outcomes.failure_change(RULES, 900, failure, 1)).source
    (change,) = close([*polled(20, 0), after]).changes
    texts = [after.pending["message"], change.source.last_error, change.transition.reason, change.poll.error or ""]

    assert all("\x00" not in each and len(each) <= 1000 for each in texts)
    assert [each.encode() for each in texts]


def test_a_source_without_a_success_for_long_is_told_of_by_its_date():
    rules = SourceRules(stale_after=3600.0)
    failed = outcomes.failure_change(rules, 900, classify(NetworkError("down")), 1)(source(health=SourceHealth(failing_since=EARLIER)), NOW).source  # fmt: skip
    (change,) = close([*polled(20, 0), failed], rules).changes

    assert (change.source.state, change.source.consecutive_failures) == ("error", 0)
    assert change.alerts[0].title.endswith("no success since 2026-03-01")


@pytest.mark.parametrize("every", [1.0, 7.0, 60.0, 900.0, 86400.0])
def test_a_slot_is_ahead_by_an_interval_at_most_and_the_same_for_all_within_it(every):
    slot = outcomes.next_slot(NOW, every)

    assert timedelta(0) < slot - NOW <= timedelta(seconds=every)
    assert slot.timestamp() % every == 0
    assert outcomes.next_slot(slot - timedelta(milliseconds=1), every) == slot
    assert outcomes.next_slot(slot, every) == slot + timedelta(seconds=every)
