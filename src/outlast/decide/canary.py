"""How a replay goes on: one first, then ten, then the rest; and when it stops."""

from typing import NamedTuple

__all__ = ["STAGES", "Finish", "Go", "Standing", "Stop", "Wait", "next_step"]

STAGES = (1, 10, None)
"""How many are tried at each stage; None for the rest."""


class Standing(NamedTuple):
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


class Go(NamedTuple):
    """Queue so many; None for as many as the rate allows. As canaries they get one attempt."""

    stage: int
    most: int | None
    canary: bool


class Wait(NamedTuple):
    """Look again later."""


class Stop(NamedTuple):
    """Something failed: no more is queued."""

    why: str


class Finish(NamedTuple):
    """All is queued."""


def next_step(standing: Standing) -> Go | Wait | Stop | Finish:
    """Decide what comes next.

    Any failure of a task that the replay has queued stops it, in every stage.
    """
    if standing.bad:
        return Stop(standing.bad)
    stage = standing.stage if standing.canary else len(STAGES) - 1
    if STAGES[stage] is not None and standing.begun:
        if standing.live:
            return Wait()
        stage += 1
    if not standing.more:
        return Finish()
    most = STAGES[stage]
    return Go(stage, most, canary=most is not None)
