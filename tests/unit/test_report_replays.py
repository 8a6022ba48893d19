"""What people are told of a replay: how far it is, what comes next, why it stopped."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.ports.rows import DeadLetterFilter
from outlast.ports.triage import Replay, ReplayState
from outlast.report.dead_letters import filter_params, filter_text, rate_text, replay_line

NOW = datetime(2026, 11, 15, 12, 0, 30, tzinfo=UTC)


def replay(**more):
    values = {
        "id": 3,
        "filters": DeadLetterFilter(category="rate_limit", task_type="fetch"),
        "canary": True,
        "rate": 10.0,
        "state": ReplayState.RUNNING,
        "stage": 0,
        "total": 120,
        "newest": 120,
        "cursor": 0,
        "replayed": 0,
        "conflicts": 0,
        "conflict_ids": (),
        "stopped_by": "",
        "who": "ada",
        "reason": "",
        "epoch": 1,
        "created_at": NOW,
        "updated_at": NOW,
        "ended_at": None,
    }
    return Replay(**values | more)


DONE, STOPPED, CANCELLED = ReplayState.DONE, ReplayState.STOPPED, ReplayState.CANCELLED
TOLD = [
    ({}, "One dead letter is replayed first. It is about to be queued again."),
    ({"replayed": 1}, "One dead letter was replayed first, with one attempt. If it succeeds, ten more follow."),
    ({"stage": 1, "replayed": 5}, "The first one succeeded. Ten more are replayed, with one attempt each. If all succeed, the rest follows."),
    ({"stage": 2, "replayed": 20}, "The first ones succeeded. The rest is queued again, 10 per second; about 10 s left. A failure stops it."),
    ({"stage": 2, "replayed": 20, "rate": None}, "The first ones succeeded. The rest is queued again, without a rate limit. A failure stops it."),
    ({"canary": False, "stage": 2, "rate": None}, "All are queued again, without a rate limit. Failures do not stop it."),
    ({"canary": False, "stage": 2, "rate": None, "max_failures": 3}, "All are queued again, without a rate limit. More than 3 failures stop it."),
    ({"canary": False, "stage": 2, "rate": None, "max_failures": 0}, "All are queued again, without a rate limit. A failure stops it."),
    ({"canary": False, "state": STOPPED, "replayed": 119, "max_failures": 3}, "It stopped because more than 3 of its tasks failed. 119 of 120 dead letters were queued again. 1 dead letter was not replayed."),
    ({"stage": 1, "state": STOPPED, "replayed": 119, "max_failures": 3}, "It stopped because one of its tasks failed. 119 of 120 dead letters were queued again. 1 dead letter was not replayed."),
    ({"state": DONE, "replayed": 120}, "120 of 120 dead letters were queued again."),
    ({"state": DONE, "replayed": 1, "total": 1}, "1 of 1 dead letter was queued again."),
    ({"state": DONE, "replayed": 118, "conflicts": 2}, "118 of 120 dead letters were queued again. 2 stayed: their unique keys are taken."),
    ({"state": DONE, "total": 0}, "There was nothing to replay."),
    ({"state": CANCELLED, "total": 0}, "There was nothing to replay."),
    ({"state": STOPPED, "replayed": 1}, "It stopped because one of its tasks failed. 1 of 120 dead letters was queued again. 119 dead letters were not replayed."),
    ({"state": STOPPED, "replayed": 119}, "It stopped because one of its tasks failed. 119 of 120 dead letters were queued again. 1 dead letter was not replayed."),
    ({"state": DONE, "replayed": 121}, "121 of 121 dead letters were queued again."),
    ({"state": CANCELLED, "replayed": 120}, "It was stopped by hand. 120 of 120 dead letters were queued again."),
]  # fmt: skip


@pytest.mark.parametrize(("more", "told"), TOLD, ids=[f"{number}" for number in range(len(TOLD))])
def test_how_it_stands_is_told_in_sentences(more, told):
    assert replay_line(replay(**more)).told == told


@pytest.mark.parametrize(
    ("more", "steps"),
    [
        ({}, [("One first", "now"), ("Then ten", "later"), ("The other 109", "later")]),
        ({"stage": 1, "state": STOPPED}, [("One first", "done"), ("Then ten", "failed"), ("The other 109", "later")]),
        ({"stage": 2, "state": DONE}, [("One first", "done"), ("Then ten", "done"), ("The other 109", "done")]),
        ({"stage": 0, "state": CANCELLED}, [("One first", "later"), ("Then ten", "later"), ("The other 109", "later")]),
        ({"total": 4}, [("One first", "now"), ("Then 3", "later")]),
        ({"total": 1}, [("One first", "now")]),
        ({"canary": False}, []),
    ],
)
def test_the_steps(more, steps):
    assert list(replay_line(replay(**more)).steps) == steps


def test_what_can_be_done_with_it():
    def ways(**more):
        line = replay_line(replay(**more))
        return line.can_stop, line.can_resume

    assert ways() == (True, False)
    assert ways(state=STOPPED, replayed=1) == ways(state=CANCELLED) == (False, True)
    assert ways(state=STOPPED, replayed=120) == (False, True), "what failed is taken again"
    assert ways(state=CANCELLED, replayed=120) == ways(state=DONE, replayed=120) == (False, False)


@given(st.integers(0, 200), st.integers(0, 50), st.integers(0, 200), st.sampled_from(list(ReplayState)))
def test_it_is_never_further_than_it_is(replayed, conflicts, total, state):
    line = replay_line(replay(replayed=replayed, conflicts=conflicts, total=total, state=state))
    assert 0 <= line.percent <= 100
    assert (line.percent == 100) == (line.left == 0)


@pytest.mark.parametrize(
    ("rate", "text"),
    [(None, "without a rate limit"), (10.0, "10 per second"), (0.5, "30 per minute"), (2.5, "2.5 per second")],
)
def test_the_rate(rate, text):
    assert rate_text(rate) == text


def test_which_are_meant():
    which = DeadLetterFilter(category="rate_limit", fingerprint="ff", since=NOW, text="timed out")
    given_names = {"category": "rate_limit", "group": "ff", "since": "2026-11-15T12:00:30", "text": "timed out"}
    assert filter_params(which) == given_names
    assert filter_text(given_names) == "category rate limit, group ff, since 2026-11-15T12:00:30, text timed out"
    assert filter_text({}) == "all dead letters"
    assert filter_text({}, DeadLetterFilter(ids=(1, 2))) == "2 dead letters by number"
