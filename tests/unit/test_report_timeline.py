"""The time of a task: what is told of each stretch, and that the drawing is to scale."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.ports.rows import Attempt, Cooldown, Status, Task
from outlast.report.timeline import MAX_ATTEMPTS_DRAWN, IntervalKind, task_intervals, timeline

BEGIN = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)


def at(seconds):
    return BEGIN + timedelta(seconds=seconds)


def task(status=Status.DONE, **more):
    values = {
        "id": 1,
        "task_type": "scrape",
        "queue": "default",
        "priority": 5,
        "parameters": "{}",
        "status": status,
        "resource": None,
        "unique_key": None,
        "attempt": 1,
        "retry_count": 0,
        "crash_count": 0,
        "suspect": False,
        "lease_epoch": 1,
        "worker_id": "w",
        "deferrals": 0,
        "replays": 0,
        "last_error": None,
        "next_run_after": BEGIN,
        "expires_at": None,
        "started_at": None,
        "failed_at": None,
        "finished_at": None,
        "created_at": BEGIN,
        "updated_at": BEGIN,
    }
    return Task(**values | more)


def attempt(number, begin, end, delay=None, outcome="retry", **failure):
    return Attempt(
        1, number, outcome, "w", at(begin), at(end), "ConnectionError", "down", "network", "f" * 16, delay, "", failure
    )


def told(drawn):
    return [(part.kind.value, part.outcome, round(part.seconds, 3)) for part in drawn.segments]


def ends(drawn):
    """How far the last segment reaches; everything before it lies without gaps."""
    reach = 0.0
    for part in drawn.segments:
        assert part.x == pytest.approx(reach, abs=0.02)
        assert part.width > 0
        reach = part.x + part.width
    return reach


def test_backoffs_and_a_success():
    rows = [attempt(1, 1, 2, 4.0), attempt(2, 6, 7, 8.0)]
    drawn = timeline(task(started_at=at(15), finished_at=at(16), attempt=3), rows, at(99))

    assert told(drawn) == [
        ("queue", "", 1),
        ("attempt", "retry", 1),
        ("backoff", "", 4),
        ("attempt", "retry", 1),
        ("backoff", "", 8),
        ("attempt", "done", 1),
    ]
    assert [part.place for part in drawn.segments] == [0, 1, 0, 2, 0, 0]
    assert [part.number for part in drawn.segments] == [0, 1, 0, 2, 0, 3]
    assert ends(drawn) == pytest.approx(100, abs=0.05)
    assert drawn.segments[4].width == pytest.approx(2 * drawn.segments[2].width, abs=0.05)
    assert drawn.segments[2].width == pytest.approx(4 / 16 * 100, abs=0.05)
    assert drawn.summary == "done after 16 s: 2 failed attempts, 3 s of work, 13 s of waiting"
    assert drawn.scale == "To scale."
    assert drawn.now is None


@pytest.mark.parametrize(
    ("row", "rows", "expected"),
    [
        # a task that was put off until its time, before it first ran
        (
            task(next_run_after=at(60), started_at=at(60), finished_at=at(61)),
            [],
            [("scheduled", "", 60), ("attempt", "done", 1)],
        ),
        # ready long before a worker came
        (
            task(next_run_after=at(60), started_at=at(90), finished_at=at(91)),
            [],
            [("scheduled", "", 60), ("queue", "", 30), ("attempt", "done", 1)],
        ),
        # the other side asked to wait
        (
            task(started_at=at(32), finished_at=at(33)),
            [attempt(1, 1, 2, 30.0, retry_after=30)],
            [("queue", "", 1), ("attempt", "retry", 1), ("hint", "", 30), ("attempt", "done", 1)],
        ),
        # it asked for less than the policy waits anyway: no hint decided
        (
            task(started_at=at(4), finished_at=at(5)),
            [attempt(1, 1, 2, 2.0, retry_after=30)],
            [("queue", "", 1), ("attempt", "retry", 1), ("backoff", "", 2), ("attempt", "done", 1)],
        ),
        # due after the backoff, but no worker had time
        (
            task(started_at=at(64), finished_at=at(65)),
            [attempt(1, 1, 2, 2.0)],
            [("queue", "", 1), ("attempt", "retry", 1), ("backoff", "", 2), ("queue", "", 60), ("attempt", "done", 1)],
        ),
        # the same, and it was put off meanwhile
        (
            task(started_at=at(64), finished_at=at(65), deferrals=2),
            [attempt(1, 1, 2, 2.0)],
            [
                ("deferral", "", 1),
                ("attempt", "retry", 1),
                ("backoff", "", 2),
                ("deferral", "", 60),
                ("attempt", "done", 1),
            ],
        ),
        # its worker died, and it ran alone
        (
            task(started_at=at(30), finished_at=at(31)),
            [attempt(1, 1, 20, outcome="lost")],
            [("queue", "", 1), ("attempt", "lost", 19), ("queue", "", 10), ("attempt", "done", 1)],
        ),
        # it was dead, replayed, and then succeeded
        (
            task(started_at=at(502), finished_at=at(503), replays=1),
            [attempt(1, 1, 2, outcome="fail")],
            [("queue", "", 1), ("attempt", "fail", 1), ("dead", "", 500), ("attempt", "done", 1)],
        ),
        (
            task(Status.FAILED, failed_at=at(2)),
            [attempt(1, 1, 2, outcome="fail")],
            [("queue", "", 1), ("attempt", "fail", 1)],
        ),
        (
            task(Status.DISCARDED, failed_at=at(2), finished_at=at(9)),
            [attempt(1, 1, 2, outcome="fail")],
            [("queue", "", 1), ("attempt", "fail", 1), ("dead", "", 7)],
        ),
        (task(Status.CANCELLED, finished_at=at(9)), [], [("queue", "", 9)]),
        (task(Status.CANCELLED, next_run_after=at(5000), finished_at=at(9)), [], [("scheduled", "", 9)]),
        (task(Status.PARKED), [], [("parked", "", 99)]),
        (task(Status.RUNNING, updated_at=at(9)), [], [("queue", "", 9), ("held", "", 90)]),
        (task(Status.RUNNING, started_at=at(9)), [], [("queue", "", 9), ("attempt", "running", 90)]),
        (task(Status.QUEUED), [], [("queue", "", 99)]),
        # a start that is not known has no length
        (
            task(Status.FAILED),
            [attempt(1, 1, 2, outcome="fail")._replace(started_at=None)],
            [("queue", "", 2), ("attempt", "fail", 0)],
        ),
    ],
)
def test_what_is_told(row, rows, expected):
    drawn = timeline(row, rows, at(99))
    assert [each for each in told(drawn) if each[2] or each[1]] == expected
    assert ends(drawn) == pytest.approx(100, abs=0.05)


@pytest.mark.parametrize(
    ("row", "rows", "cooldown", "kind", "seconds"),
    [
        (task(Status.QUEUED, next_run_after=at(400)), [], None, "scheduled", (99, 301)),
        (task(Status.QUEUED, next_run_after=at(400), deferrals=1), [], None, "deferral", (99, 301)),
        (
            task(Status.QUEUED, next_run_after=at(2 + 198)),
            [attempt(1, 1, 2, 198.0)],
            None,
            "backoff",
            (97, 101),
        ),
        (
            task(Status.QUEUED, next_run_after=at(200), deferrals=3),
            [attempt(1, 1, 2, 4.0)],
            None,
            "deferral",
            (97, 101),
        ),
        (
            task(Status.QUEUED, next_run_after=at(400), resource="host"),
            [],
            Cooldown("host", at(400), "429"),
            "cooldown",
            (99, 301),
        ),
        (  # ready by the books, but nobody claims it before its resource has cooled down
            task(Status.QUEUED, next_run_after=at(5), resource="host"),
            [],
            Cooldown("host", at(400), "429"),
            "cooldown",
            (99, 301),
        ),
        (  # scheduled for long after the cooldown
            task(Status.QUEUED, next_run_after=at(400), resource="host"),
            [],
            Cooldown("host", at(120), "429"),
            "scheduled",
            (99, 301),
        ),
    ],
)
def test_what_it_waits_for_now_and_from_now_on(row, rows, cooldown, kind, seconds):
    drawn = timeline(row, rows, at(99), cooldown)
    past, planned = drawn.segments[-2:]

    assert (past.kind, planned.kind) == (kind, kind)
    assert (past.seconds, planned.seconds) == seconds
    assert (past.planned, planned.planned) == (False, True)
    assert drawn.now == planned.x
    assert drawn.end == planned.end


@pytest.mark.parametrize("started", [None, at(2)])
def test_no_work_is_told_where_the_start_is_not_known(started):
    drawn = timeline(
        task(Status.FAILED, failed_at=at(2)), [attempt(1, 2, 2, outcome="fail")._replace(started_at=started)], at(99)
    )
    assert drawn.summary == "a dead letter after 2 s: 1 failed attempt, 2 s of waiting"
    assert drawn.segments[-1].told == "attempt 1: failed for good: network (ConnectionError)"


def test_a_wait_that_was_cut_short_says_so():
    drawn = timeline(task(started_at=at(12), finished_at=at(13)), [attempt(1, 1, 2, 1000.0)], at(99))
    assert "planned for 16 min" in drawn.segments[2].text
    assert drawn.segments[2].text.endswith("and cut short by hand")


def test_a_replayed_task_that_waits_for_a_worker():
    row = task(Status.QUEUED, replays=1, next_run_after=at(50))
    drawn = timeline(row, [attempt(1, 1, 2, outcome="fail")], at(99))
    assert told(drawn)[2:] == [("dead", "", 48), ("queue", "", 49)]


def test_a_tiny_attempt_is_still_seen():
    rows = [attempt(1, 0, 0.01, 60.0), attempt(2, 60.01, 60.02, 120.0)]
    drawn = timeline(task(started_at=at(180.02), finished_at=at(180.03)), rows, at(999))
    attempts = [part for part in drawn.segments if part.kind == "attempt"]
    waits = [part for part in drawn.segments if part.kind == "backoff"]

    assert all(part.width >= 1.2 for part in attempts)
    assert waits[1].width == pytest.approx(2 * waits[0].width, abs=0.05)
    assert not any(part.cut for part in drawn.segments)
    assert drawn.scale == "To scale; very short attempts are drawn wider."


def test_a_very_long_wait_does_not_crush_the_rest_and_is_marked():
    rows = [attempt(1, 1, 2, 1.0), attempt(2, 3, 4, 2.0), attempt(3, 6, 7, outcome="fail")]
    drawn = timeline(task(started_at=at(86_407), finished_at=at(86_408), replays=1), rows, at(99_999))
    cut = [part for part in drawn.segments if part.cut]

    assert [(part.kind, part.seconds) for part in cut] == [("dead", 86_400)]
    assert cut[0].width == max(part.width for part in drawn.segments)
    assert drawn.segments[4].width > 3  # the backoff of two seconds
    assert drawn.segments[4].width == pytest.approx(2 * drawn.segments[2].width, abs=0.05)
    assert "one part is cut" in drawn.scale
    assert ends(drawn) == pytest.approx(100, abs=0.05)


def test_a_wait_that_the_other_side_asked_for_is_cut_too():
    rows = [attempt(1, 1, 2, 1.0), attempt(2, 3, 4, 21_600.0, retry_after=21_600)]
    drawn = timeline(task(started_at=at(21_604), finished_at=at(21_605)), rows, at(99_999))
    assert [part.kind for part in drawn.segments if part.cut] == ["hint"]


def test_one_long_wait_with_nothing_to_compare_is_drawn_as_it_is():
    drawn = timeline(task(next_run_after=at(86_400), started_at=at(86_400), finished_at=at(86_401)), [], at(99_999))
    assert not any(part.cut for part in drawn.segments)


def test_of_many_attempts_the_last_are_drawn():
    rows = [attempt(number, number * 10, number * 10 + 1, 9.0) for number in range(1, 101)]
    drawn = timeline(task(started_at=at(1010), finished_at=at(1011), attempt=101), rows, at(9999))
    attempts = [part for part in drawn.segments if part.kind == "attempt"]

    assert len(attempts) == MAX_ATTEMPTS_DRAWN
    assert drawn.left_out == 101 - MAX_ATTEMPTS_DRAWN
    assert attempts[-1].outcome == "done"
    assert drawn.begin == drawn.segments[0].begin > BEGIN
    assert ends(drawn) == pytest.approx(100, abs=0.05)
    assert "100 failed attempts" in drawn.summary


def test_a_task_of_this_moment_has_nothing_to_draw():
    drawn = timeline(task(Status.QUEUED), [], BEGIN)
    assert (drawn.segments, drawn.begin, drawn.end) == ((), BEGIN, BEGIN)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e6),
            st.floats(0, 1e6),
            st.one_of(st.none(), st.floats(0, 1e12)),
            st.sampled_from(["retry", "fail", "lost"]),
        ),
        max_size=60,
    ),
    st.sampled_from(Status),
    st.floats(-10, 1e7),
    st.integers(0, 3),
)
def test_whatever_the_rows_say_the_drawing_is_whole(rows, status, due, deferrals):
    """Clocks go wrong, delays are absurd: no gap, no overlap, nothing beyond the width, and it tells every attempt."""
    clock, attempts = 0.0, []
    for number, (wait, run, delay, outcome) in enumerate(rows, start=1):
        attempts.append(attempt(number, clock + wait, clock + wait + run, delay, outcome))
        clock += wait + run - 5
    row = task(status, next_run_after=at(due), deferrals=deferrals, finished_at=at(clock), started_at=at(clock / 2))
    drawn = timeline(row, attempts, at(clock / 3))

    assert not drawn.segments or ends(drawn) == pytest.approx(100, abs=0.1)
    for one, following in zip(drawn.segments, drawn.segments[1:], strict=False):
        assert one.begin <= one.end == following.begin
    stretches = task_intervals(row, attempts, at(clock / 3))
    assert [each.place for each in stretches if each.kind is IntervalKind.ATTEMPT and each.place] == list(
        range(1, len(rows) + 1)
    )
    assert all(part.told for part in drawn.segments)
