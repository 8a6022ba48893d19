"""What the overview says: the headline, what is wrong, what changed, badges, and the flow that charts are drawn from."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.ports.read_rows import Change, FlowEvent, FlowPoint, Pulse
from outlast.report.flow import event_count, failed_attempts, failures_by_category, flow_of
from outlast.report.overview import badges, compact, headline, points, recent_changes
from outlast.report.text_format import CATEGORIES

NOW = datetime(2026, 11, 15, 12, 0, 30, tzinfo=UTC)
F = FlowEvent
NO_SOURCES = {"healthy": 0, "warning": 0, "error": 0, "disabled": 0, "probation": 0}


def before(minutes):
    return NOW - timedelta(minutes=minutes)


def pulse(**more):
    values = {
        "at": NOW,
        "counts": {"QUEUED": 0, "RUNNING": 0, "dead_letters": 0},
        "flow": (),
        "last_hour": {},
        "hour_before": {},
        "retries_waiting": 0,
        "oldest_ready": None,
        "workers": 2,
        "silent_workers": 0,
        "sources": NO_SOURCES,
        "cooldowns": 0,
        "open_breakers": 0,
        "paused_queues": 0,
        "alerts_waiting": 0,
        "running_jobs": 0,
        "newest_task": 7,
        "newest_dead_letter": 0,
        "changes": (),
    }
    return Pulse(**values | more)


def group(name="fetch_page", category="rate_limit", text="HTTP 429", subject="f1", minutes=5):
    return Change(before(minutes), "group", subject, name, "", category, text)


def test_changes_with_the_same_sentence_share_a_line_with_the_newest_time():
    runs = [Change(before(n), "run", f"r{n}", "nightly", "running", "done 0", "") for n in (9, 2, 5)]
    (line,) = recent_changes(pulse(changes=tuple(runs)))
    assert (line.times, line.at, line.params) == (3, before(2), {"run_id": "r2"})


HEADLINES = [
    ({}, "ok", "All is well"),
    ({"newest_task": 0, "workers": 0}, "mute", "Nothing has happened yet"),
    ({"newest_task": 0, "workers": 0, "running_jobs": 1}, "ok", "All is well"),
    ({"newest_task": 0, "sources": NO_SOURCES | {"healthy": 3}}, "ok", "All is well"),
    ({"workers": 0}, "ok", "All is well"),
    ({"workers": 0, "counts": {"QUEUED": 1}}, "bad", "No worker is alive: 1 task waits"),
    ({"workers": 0, "counts": {"QUEUED": 1234}}, "bad", "No worker is alive: 1,234 tasks wait"),
    (
        {"last_hour": {(F.RETRIED, "rate_limit"): 120}, "hour_before": {(F.RETRIED, "network"): 10}},
        "warn",
        "120 failures in the last hour, 10 in the hour before: all rate limit",
    ),
    (
        {
            "last_hour": {(F.RETRIED, "rate_limit"): 100, (F.RETRIED, "network"): 20},
            "hour_before": {(F.RETRIED, "network"): 10},
            "changes": (group(),),
        },
        "warn",
        "120 failures in the last hour, 10 in the hour before: mostly rate limit in fetch_page",
    ),
    (
        {
            "last_hour": {(F.RETRIED, "rate_limit"): 100, (F.RETRIED, "network"): 20},
            "changes": (group(), group("parse")),
        },
        "warn",
        "120 failures in the last hour, 0 in the hour before: mostly rate limit",
    ),
    (
        {"last_hour": {(F.RETRIED, "network"): 4, (F.LOST, "system"): 4, (F.RETRIED, "data"): 4}},
        "warn",
        "12 failures in the last hour, 0 in the hour before: most often data",
    ),
    ({"last_hour": {(F.RETRIED, "network"): 9}}, "ok", "All is well"),
    ({"last_hour": {(F.RETRIED, "network"): 19}, "hour_before": {(F.RETRIED, "network"): 10}}, "ok", "All is well"),
    (
        {"last_hour": {(F.FAILED, "data"): 1}},
        "bad",
        "1 task became a dead letter in the last hour, 0 in the hour before",
    ),
    (
        {"last_hour": {(F.FAILED, "data"): 3}, "hour_before": {(F.FAILED, "data"): 5}},
        "bad",
        "3 tasks became dead letters in the last hour, 5 in the hour before",
    ),
    ({"last_hour": {(F.DEFERRED, ""): 500}}, "ok", "All is well"),
    ({"oldest_ready": 299.0}, "ok", "All is well"),
    ({"oldest_ready": 3900.0}, "warn", "A ready task has waited for 1 h 5 min"),
    ({"silent_workers": 1}, "warn", "1 worker has gone silent"),
    ({"open_breakers": 2}, "warn", "2 breakers are open"),
    ({"cooldowns": 1}, "warn", "1 resource is in cooldown"),
    ({"paused_queues": 1}, "warn", "1 queue is paused"),
    ({"alerts_waiting": 20}, "warn", "20 alerts wait to be delivered"),
    ({"alerts_waiting": 19}, "ok", "All is well"),
    ({"sources": NO_SOURCES | {"error": 1}}, "warn", "1 source fails"),
    ({"sources": NO_SOURCES | {"disabled": 2}}, "info", "2 sources are disabled"),
]


@pytest.mark.parametrize(("more", "kind", "title"), HEADLINES, ids=[title for _, _, title in HEADLINES])
def test_the_headline_answers_whether_all_is_well(more, kind, title):
    said = headline(pulse(**more))
    assert (said.kind, said.title) == (kind, title)


def test_the_worst_comes_first_and_the_rest_stays():
    said = headline(pulse(paused_queues=1, sources=NO_SOURCES | {"disabled": 1}, workers=0, counts={"QUEUED": 4}))
    assert said.title == "No worker is alive: 4 tasks wait"
    assert [point.text for point in said.points] == ["1 queue is paused", "1 source is disabled"]
    assert [point.kind for point in said.points] == ["warn", "info"]


def test_every_point_leads_to_the_list_behind_it():
    found = points(
        pulse(
            last_hour={(F.RETRIED, "rate_limit"): 100, (F.FAILED, "data"): 3},
            cooldowns=1,
            paused_queues=1,
            sources=NO_SOURCES | {"error": 1},
        )
    )
    assert {(point.page, *point.params.items()) for point in found} == {
        ("failures", ("category", "rate_limit")),
        ("dead_letters", ("since", "1h")),
        ("waits",),
        ("queues",),
        ("sources", ("state", "error")),
    }


def test_the_line_below_tells_what_runs():
    said = headline(
        pulse(last_hour={(F.DONE, ""): 1500, (F.RETRIED, "network"): 2}, counts={"dead_letters": 3, "QUEUED": 0})
    )
    assert said.text == (
        "1,500 tasks done in the last hour, 2 attempts failed, 2 workers alive, 3 dead letters wait for a decision."
    )


CHANGES = [
    ((group(),), ["New failure in fetch_page: rate limit."]),
    (
        tuple(group(f"task_{n}", subject=f"f{n}") for n in range(4)),
        ["4 new kinds of failure: rate limit."],
    ),
    (
        (Change(before(2), "source", "3", "https://a.example/feed", "warning", "error", "HTTP 404"),),
        ["Source https://a.example/feed is failing now, was at a warning."],
    ),
    (
        (Change(before(2), "source", "3", "a", "error", "healthy", ""),),
        ["Source a is healthy again."],
    ),
    (
        tuple(Change(before(n), "source", str(n), f"s{n}", "healthy", "warning", "") for n in range(5)),
        ["5 sources are at a warning now, were healthy."],
    ),
    (
        tuple(Change(before(n), "source", str(n), f"s{n}", "error", "healthy", "") for n in range(3)),
        ["3 sources are healthy again."],
    ),
    (
        tuple(Change(before(1), "breaker", "api", "api", "closed", "open", "5 in a row") for _ in range(4)),
        ["Breaker of api opened."],
    ),
    (
        (
            Change(before(1), "breaker", "api", "api", "open", "closed", ""),
            Change(before(9), "breaker", "db", "db", "open", "half_open", ""),
        ),
        ["Breaker of api closed.", "Breaker of db is half-open."],
    ),
    (
        (Change(before(1), "run", "r1", "nightly", "running", "done 0", ""),),
        ["Run of job nightly done with exit code 0."],
    ),
    (
        (Change(before(1), "run", "r1", "nightly", "running", "aborted 3", ""),),
        ["Run of job nightly was aborted with exit code 3."],
    ),
    ((Change(before(1), "worker", "w1", "worker-1", "", "", ""),), ["Worker worker-1 started."]),
    (tuple(Change(before(1), "worker", f"w{n}", f"worker-{n}", "", "", "") for n in range(3)), ["3 workers started."]),
    ((Change(before(1), "something new", "x", "it", "a", "b", ""),), ["it: a became b."]),
]


@pytest.mark.parametrize(("changes", "expected"), CHANGES, ids=[expected[0] for _, expected in CHANGES])
def test_what_happened_is_told_in_sentences(changes, expected):
    assert [said.text for said in recent_changes(pulse(changes=changes))] == expected


NUMBERS = [
    ({(F.RETRIED, "network"): 30}, {(F.RETRIED, "network"): 10}, ["Failures rose from 10 to 30 per hour."]),
    ({(F.RETRIED, "network"): 5}, {(F.RETRIED, "network"): 40}, ["Failures fell from 40 to 5 per hour."]),
    ({}, {(F.RETRIED, "x"): 12}, ["Failures stopped: none in the last hour, 12 in the hour before."]),
    ({(F.RETRIED, "network"): 12}, {}, ["Failures started: 12 in the last hour, none in the hour before."]),
    ({(F.RETRIED, "network"): 19}, {(F.RETRIED, "network"): 10}, []),
    ({(F.DONE, ""): 100}, {(F.DONE, ""): 1000}, ["Tasks done fell from 1,000 to 100 per hour."]),
    ({(F.DONE, ""): 100}, {}, ["Work started: 100 in the last hour, none in the hour before."]),
    ({(F.FAILED, "data"): 1}, {}, ["1 task became a dead letter."]),
    ({(F.LOST, "system"): 2}, {}, ["2 tasks lost their worker."]),
    ({(F.LOST, "system"): 1}, {}, ["1 task lost its worker."]),
    ({(F.REPLAYED, "data"): 4, (F.CANCELLED, ""): 1}, {}, ["4 dead letters replayed.", "1 task cancelled."]),
]


@pytest.mark.parametrize(("now", "earlier", "expected"), NUMBERS)
def test_what_the_numbers_say_is_told_in_sentences(now, earlier, expected):
    assert [said.text for said in recent_changes(pulse(last_hour=now, hour_before=earlier))] == expected


def test_what_happened_last_stands_first_behind_the_numbers():
    changes = (group("old", subject="a", minutes=50), group("new", "network", subject="b", minutes=1))
    said = recent_changes(pulse(changes=changes, last_hour={(F.FAILED, "data"): 2}))
    assert [one.text for one in said] == [
        "2 tasks became dead letters.",
        "New failure in new: network.",
        "New failure in old: rate limit.",
    ]
    assert [one.page for one in said] == ["dead_letters", "failure", "failure"]
    assert said[1].params == {"fingerprint": "b"}


def test_no_more_is_told_than_fits():
    changes = tuple(Change(before(n), "run", f"r{n}", f"job{n}", "running", "done 0", "") for n in range(40))
    assert len(recent_changes(pulse(changes=changes), most=12)) == 12


def test_the_flow_names_every_step_and_counts_each_point_once():
    step, start = 120.0, datetime(2026, 11, 15, 11, 2, tzinfo=UTC)
    given_points = [
        FlowPoint(start, F.DONE, "", 5),
        FlowPoint(start + timedelta(minutes=57), F.DONE, "", 2),
        FlowPoint(start + timedelta(minutes=58), F.RETRIED, "network", 3),
        FlowPoint(start + timedelta(minutes=58), F.FAILED, "network", 1),
        FlowPoint(start + timedelta(minutes=58), F.DEFERRED, "", 9),
        FlowPoint(start, F.RETRIED, "of_tomorrow", 1),
        FlowPoint(start - timedelta(minutes=2), F.DONE, "", 100),
    ]
    flow = flow_of(given_points, NOW, 3600.0, step)
    assert len(flow.steps) == 30
    assert flow.steps[0] == start
    assert flow.steps[-1] == datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
    assert sum(flow.done) == 7
    assert flow.done[0] == 5
    assert flow.failures == {"network": (*[0] * 29, 4), "of_tomorrow": (1, *[0] * 29)}


@given(
    st.lists(st.tuples(st.sampled_from(list(F)), st.sampled_from(["", *CATEGORIES]), st.integers(1, 1000)), max_size=30)
)
def test_failures_by_category_add_up(events):
    counts: dict = {}
    for event, category, number in events:
        counts[event, category] = counts.get((event, category), 0) + number
    assert sum(failures_by_category(counts).values()) == failed_attempts(counts)
    assert failed_attempts(counts) <= sum(counts.values())
    assert event_count(counts, *F) == sum(counts.values())


def test_badges_stand_where_there_is_something_to_say():
    assert badges(pulse()) == {}
    found = badges(
        pulse(
            counts={"QUEUED": 5, "RUNNING": 3, "dead_letters": 1234},
            last_hour={(F.FAILED, "data"): 2},
            workers=0,
            sources=NO_SOURCES | {"warning": 1},
            running_jobs=1,
            cooldowns=2,
            open_breakers=1,
        )
    )
    assert {name: (badge.text, badge.kind) for name, badge in found.items()} == {
        "failures": ("2", "mute"),
        "dead_letters": ("1.2k", "bad"),
        "tasks": ("3", "mute"),
        "queues": ("!", "bad"),
        "sources": ("1", "warn"),
        "jobs": ("1", "info"),
        "waits": ("3", "warn"),
    }
    assert found["waits"].title == "2 cooldowns, 1 open breaker"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (38_400, "38k"), (2_100_000, "2.1M"), (38_400_000, "38M")],
)
def test_badges_are_short(number, text):
    assert compact(number) == text


@given(st.integers(0, 10**9))
def test_no_badge_is_longer_than_five_characters(number):
    assert len(compact(number)) <= 5
