"""The stages of a replay of dead letters: first one, then ten, then the rest; and the failures that stop it."""

from typing import NamedTuple

REPLAY_STAGES = (1, 10, None)
"""Dead letters replayed in each stage; None for the rest."""


class ReplayProgress(NamedTuple):
    """The progress of a replay.

    Attributes:
        canary: Whether it runs in stages.
        stage: The current stage.
        begun: Whether tasks of this stage were queued already.
        more: Whether dead letters are left to queue.
        live: Canaries that have not finished.
        bad: How a replayed task failed; empty if none did.
        failed: Replayed tasks that failed again.
        allowed: Tasks that may fail after the canaries before the replay stops; None for any number.
    """

    canary: bool
    stage: int
    begun: bool
    more: bool
    live: int
    bad: str
    failed: int
    allowed: int | None


class QueueStage(NamedTuple):
    """Queue up to `most` tasks; None for as many as the rate allows. Canaries get one attempt."""

    stage: int
    most: int | None
    canary: bool


class WaitForStage(NamedTuple):
    """Wait for the current stage to finish."""


class StopReplay(NamedTuple):
    """A canary failed, or too many of the rest: queue no more."""

    why: str


class FinishReplay(NamedTuple):
    """Everything is queued."""


def next_replay_step(progress: ReplayProgress) -> QueueStage | WaitForStage | StopReplay | FinishReplay:
    """Return the next step of a replay. Any failure of a canary stops it; after that, more failures than allowed."""
    stage = progress.stage if progress.canary else len(REPLAY_STAGES) - 1
    is_canary_stage = REPLAY_STAGES[stage] is not None
    too_many = progress.allowed is not None and progress.failed > progress.allowed
    if progress.bad and (is_canary_stage or too_many):
        return StopReplay(progress.bad)
    if is_canary_stage and progress.begun:
        if progress.live:
            return WaitForStage()
        stage += 1
    if not progress.more:
        return FinishReplay()
    most = REPLAY_STAGES[stage]
    return QueueStage(stage, most, canary=most is not None)
