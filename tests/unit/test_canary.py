"""How a replay goes on: the decisions, without any store."""

import pytest

from outlast.decide.replay_stages import (
    REPLAY_STAGES,
    FinishReplay,
    QueueStage,
    ReplayProgress,
    StopReplay,
    WaitForStage,
    next_replay_step,
)


def standing(**given):
    values = {"canary": True, "stage": 0, "begun": False, "more": True, "live": 0, "bad": "", "failed": 0, "allowed": 0}
    return ReplayProgress(**(values | given))


@pytest.mark.parametrize(
    ("given", "step"),
    [
        ({}, QueueStage(0, 1, canary=True)),
        ({"begun": True, "live": 1}, WaitForStage()),
        ({"begun": True}, QueueStage(1, 10, canary=True)),
        ({"stage": 1}, QueueStage(1, 10, canary=True)),
        ({"stage": 1, "begun": True, "live": 3}, WaitForStage()),
        ({"stage": 1, "begun": True}, QueueStage(2, None, canary=False)),
        ({"stage": 2}, QueueStage(2, None, canary=False)),
        ({"stage": 2, "live": 2}, QueueStage(2, None, canary=False)),
        ({"more": False}, FinishReplay()),
        ({"begun": True, "more": False}, FinishReplay()),
        ({"begun": True, "more": False, "live": 1}, WaitForStage()),
        ({"stage": 2, "more": False}, FinishReplay()),
        ({"canary": False}, QueueStage(2, None, canary=False)),
        ({"canary": False, "begun": True, "live": 5}, QueueStage(2, None, canary=False)),
        ({"canary": False, "more": False}, FinishReplay()),
    ],
)
def test_what_comes_next(given, step):
    assert next_replay_step(standing(**given)) == step


@pytest.mark.parametrize("canary", [True, False])
@pytest.mark.parametrize("stage", range(len(REPLAY_STAGES)))
@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize("live", [0, 4])
def test_any_failure_stops_it_in_every_stage(canary, stage, more, live):
    found = next_replay_step(
        standing(canary=canary, stage=stage, begun=True, more=more, live=live, bad="task 3 failed", failed=1)
    )
    assert found == StopReplay("task 3 failed")


@pytest.mark.parametrize(("failed", "allowed", "stops"), [(3, 3, False), (4, 3, True), (9, None, False)])
@pytest.mark.parametrize("canary", [True, False])
def test_after_the_canaries_the_number_of_failures_decides(canary, failed, allowed, stops):
    found = next_replay_step(standing(canary=canary, stage=2, bad="task 3 failed", failed=failed, allowed=allowed))
    assert found == (StopReplay("task 3 failed") if stops else QueueStage(2, None, canary=False))


def test_a_failed_canary_stops_whatever_is_allowed():
    for stage in (0, 1):
        found = next_replay_step(standing(stage=stage, begun=True, bad="task 3 failed", failed=1, allowed=None))
        assert found == StopReplay("task 3 failed")


def course(total, *, fails=None):
    """Go through a replay whose tasks end at once; return how many were queued at each step, and how it ended."""
    queued, stage, steps, canaries = 0, 0, [], 0
    while True:
        bad = "" if fails is None or queued <= fails else f"task {fails} failed"
        begun = queued == total or canaries >= sum(each or 0 for each in REPLAY_STAGES[: stage + 1])
        step = next_replay_step(ReplayProgress(True, stage, begun, queued < total, 0, bad, int(bool(bad)), 0))
        if not isinstance(step, QueueStage):
            return steps, step
        count = min(total - queued, step.most or total)
        queued, stage, canaries = queued + count, step.stage, canaries + (count if step.canary else 0)
        steps.append(count)


def test_one_then_ten_then_the_rest():
    assert course(100) == ([1, 10, 89], FinishReplay())
    assert course(11) == ([1, 10], FinishReplay())
    assert course(1) == ([1], FinishReplay())
    assert course(0) == ([], FinishReplay())


def test_a_cause_that_is_not_fixed_costs_one():
    assert course(100, fails=0) == ([1], StopReplay("task 0 failed"))
    assert course(100, fails=5) == ([1, 10], StopReplay("task 5 failed"))
