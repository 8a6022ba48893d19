"""How a replay goes on: one first, then ten, then the rest; and when it stops."""

from typing import NamedTuple

REPLAY_STAGES = (1, 10, None)
"""How many are tried at each stage; None for the rest."""


class ReplayProgress(NamedTuple):
    """How a replay stands.

    Attributes:
        canary: Whether it goes in stages at all.
        stage: The stage it is in.
        begun: Whether something of this stage was queued already.
        more: Whether dead letters are left to queue.
        live: Canaries that are not over yet.
        bad: What became of a task that did not end well; empty for none.
    """

    canary: bool
    stage: int
    begun: bool
    more: bool
    live: int
    bad: str


class QueueStage(NamedTuple):
    """Queue so many; None for as many as the rate allows. As canaries they get one attempt."""

    stage: int
    most: int | None
    canary: bool


class WaitForStage(NamedTuple):
    """Look again later."""


class StopReplay(NamedTuple):
    """Something failed: no more is queued."""

    why: str


class FinishReplay(NamedTuple):
    """All is queued."""


def next_replay_step(standing: ReplayProgress) -> QueueStage | WaitForStage | StopReplay | FinishReplay:
    """Decide what comes next.

    Any failure of a task that the replay has queued stops it, in every stage.
    """
    if standing.bad:
        return StopReplay(standing.bad)
    stage = standing.stage if standing.canary else len(REPLAY_STAGES) - 1
    if REPLAY_STAGES[stage] is not None and standing.begun:
        if standing.live:
            return WaitForStage()
        stage += 1
    if not standing.more:
        return FinishReplay()
    most = REPLAY_STAGES[stage]
    return QueueStage(stage, most, canary=most is not None)
