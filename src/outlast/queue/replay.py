"""Advances replays of dead letters step by step. Any worker can continue a replay."""

import time
from collections.abc import Callable
from typing import NamedTuple, assert_never

from outlast.decide.replay_stages import (
    REPLAY_STAGES,
    FinishReplay,
    QueueStage,
    ReplayProgress,
    StopReplay,
    WaitForStage,
    next_replay_step,
)
from outlast.ports.store import Store
from outlast.ports.triage import Canaries, Replay, ReplayState
from outlast.queue.logs import log
from outlast.queue.masking import masked_text

REPLAY_EVERY = 1.0
"""Seconds between two looks."""
REPLAY_LEASE = 15.0
"""Seconds after which another worker takes a replay over."""
REPLAY_BATCH = 500
"""Tasks that are queued by one transaction at most."""
_QUEUE_SECONDS = 0.5  # seconds for which one look goes on queueing
_MAX_BUCKET_SECONDS = 2.0  # seconds for which tasks are saved up where a look comes late


class _TokenBucket(NamedTuple):
    """Tasks that may be queued by now, as the rate has it, and when that was reckoned."""

    tokens: float
    at: float


class Replayer:
    """Carries on the replays that nobody else does.

    Args:
        store: Where they are.
        owner: Tells under which name; a worker has another one after its lease was lost.
        monotonic: The clock by which a rate is kept.
    """

    def __init__(
        self, store: Store, owner: Callable[[], str], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with no replay."""
        self._store, self._owner, self._monotonic = store, owner, monotonic
        self._buckets: dict[tuple[int, int], _TokenBucket] = {}

    def advance_replays(self) -> None:
        """Take every replay that can be had some steps further; to be called every so often."""
        before, self._buckets = (
            self._buckets,
            {},
        )  # of those that are over, or with somebody else by now, nothing is kept
        while (replay := self._store.claim_replay(self._owner(), REPLAY_LEASE)) is not None:
            key = replay.id, replay.epoch
            if key in self._buckets:
                break
            self._buckets[key] = self._filled(replay, before.get(key))
            end = self._monotonic() + _QUEUE_SECONDS
            going: Replay | None = replay
            while going is not None and self._monotonic() < end:
                going = self._step(going)

    def _filled(self, replay: Replay, purse: _TokenBucket | None) -> _TokenBucket:
        """Return what may be queued by now; whoever takes a replay over begins with nothing."""
        now, rate = self._monotonic(), replay.rate
        if rate is None or purse is None:
            return _TokenBucket(0.0, now)
        return _TokenBucket(min(purse.tokens + rate * (now - purse.at), max(1.0, rate * _MAX_BUCKET_SECONDS)), now)

    def _step(self, replay: Replay) -> Replay | None:
        """Do what comes next; return the replay as it is then, None if there is nothing more to do now."""
        canaries = self._store.canaries(replay.id)
        match next_replay_step(_replay_standing(replay, canaries)):
            case WaitForStage():
                return None
            case StopReplay(why):
                self._end(replay, ReplayState.STOPPED, why)
                return None
            case FinishReplay():
                self._end(replay, ReplayState.DONE, "")
                return None
            case QueueStage() as go:
                return self._queue(replay, go, canaries)
            case other:
                assert_never(other)

    def _queue(self, replay: Replay, go: QueueStage, canaries: Canaries) -> Replay | None:
        key = replay.id, replay.epoch
        limit = self._limit(replay, go, canaries)
        if limit < 1:
            return None
        step = self._store.replay_step(*key, limit, stage=go.stage, canary=go.canary)
        if step is None:  # it is with somebody else by now, or was stopped by hand
            return None
        if go.most is None:
            purse = self._buckets[key]
            self._buckets[key] = purse._replace(tokens=purse.tokens - step.replayed)
        again = self._store.replay_run(replay.id)
        return again if again is not None and again.epoch == replay.epoch else None

    def _limit(self, replay: Replay, go: QueueStage, canaries: Canaries) -> int:
        if go.most is not None:
            return _canaries_wanted(go.stage) - canaries.live - canaries.done
        if replay.rate is None:
            return REPLAY_BATCH
        return min(REPLAY_BATCH, int(self._buckets[replay.id, replay.epoch].tokens))

    def _end(self, replay: Replay, state: ReplayState, why: str) -> None:
        if not self._store.end_replay(replay.id, state, why, epoch=replay.epoch):
            return
        stayed = f", {replay.conflicts} skipped because their unique keys are in use" if replay.conflicts else ""
        if state is ReplayState.DONE:
            log.info("replay %d: queued %d tasks again%s", replay.id, replay.replayed, stayed)
        else:
            log.warning("replay %d: stopped after %d tasks%s: %s", replay.id, replay.replayed, stayed, why)


def _replay_standing(replay: Replay, canaries: Canaries) -> ReplayProgress:
    """Return how a replay stands. A stage has begun when all of its canaries are queued, or there are no more."""
    more = replay.cursor < replay.newest
    queued = canaries.live + canaries.done
    begun = not more or queued >= _canaries_wanted(replay.stage)
    bad = ""
    if canaries.dead is not None:
        bad = f"task {canaries.dead} failed again: {masked_text(canaries.error)[:500]}"
    return ReplayProgress(replay.canary, replay.stage, begun, more, canaries.live, bad)


def _canaries_wanted(stage: int) -> int:
    """Return how many canaries there are once a stage has begun."""
    return sum(each for each in REPLAY_STAGES[: stage + 1] if each is not None)
