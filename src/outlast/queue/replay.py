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
"""Seconds between two rounds."""
REPLAY_LEASE = 15.0
"""Seconds after which another worker takes over a replay."""
REPLAY_BATCH = 500
"""Maximum number of tasks that one transaction queues."""
_QUEUE_SECONDS = 0.5  # maximum seconds of one round
_MAX_BUCKET_SECONDS = 2.0  # seconds of the rate that can be saved up when a round is late


class _TokenBucket(NamedTuple):
    """Number of tasks that the rate allows to queue, and the time it was computed."""

    tokens: float
    at: float


class Replayer:
    """Continues the replays that no other worker continues.

    Args:
        store: The store with the replays.
        owner: Returns the id of the worker, which changes after a lost lease.
        monotonic: The clock for the rate.
    """

    def __init__(
        self, store: Store, owner: Callable[[], str], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._owner, self._monotonic = store, owner, monotonic
        self._buckets: dict[tuple[int, int], _TokenBucket] = {}

    def advance_replays(self) -> None:
        """Advance each replay that is free by some steps. Call it again and again."""
        before, self._buckets = self._buckets, {}  # buckets of replays that ended, or that others continue, are dropped
        while (replay := self._store.claim_replay(self._owner(), REPLAY_LEASE)) is not None:
            key = replay.id, replay.epoch
            if key in self._buckets:
                break
            self._buckets[key] = self._filled_bucket(replay, before.get(key))
            end = self._monotonic() + _QUEUE_SECONDS
            going: Replay | None = replay
            while going is not None and self._monotonic() < end:
                going = self._advance(going)

    def _filled_bucket(self, replay: Replay, bucket: _TokenBucket | None) -> _TokenBucket:
        """Return the tokens for now. A worker that takes over a replay starts without tokens."""
        now, rate = self._monotonic(), replay.rate
        if rate is None or bucket is None:
            return _TokenBucket(0.0, now)
        return _TokenBucket(min(bucket.tokens + rate * (now - bucket.at), max(1.0, rate * _MAX_BUCKET_SECONDS)), now)

    def _advance(self, replay: Replay) -> Replay | None:
        """Do the next step. Returns the replay after it, or None if there is nothing to do now."""
        canaries = self._store.canaries(replay.id, (replay.allowed_failures or 0) + 1)
        match next_replay_step(_replay_progress(replay, canaries)):
            case WaitForStage():
                return None
            case StopReplay(why):
                self._end(replay, ReplayState.STOPPED, why)
                return None
            case FinishReplay():
                self._end(replay, ReplayState.DONE, "")
                return None
            case QueueStage() as stage:
                return self._queue(replay, stage, canaries)
            case other:
                assert_never(other)

    def _queue(self, replay: Replay, step: QueueStage, canaries: Canaries) -> Replay | None:
        key = replay.id, replay.epoch
        limit = self._limit(replay, step, canaries)
        if limit < 1:
            return None
        queued = self._store.replay_step(*key, limit, stage=step.stage, canary=step.canary)
        if queued is None:  # another worker has it by now, or it was stopped by hand
            return None
        if step.most is None:
            bucket = self._buckets[key]
            self._buckets[key] = bucket._replace(tokens=bucket.tokens - queued.replayed)
        again = self._store.replay_run(replay.id)
        return again if again is not None and again.epoch == replay.epoch else None

    def _limit(self, replay: Replay, step: QueueStage, canaries: Canaries) -> int:
        if step.most is not None:
            return _canaries_wanted(step.stage) - canaries.live - canaries.done
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


def _replay_progress(replay: Replay, canaries: Canaries) -> ReplayProgress:
    """Return the progress of a replay. A stage has begun when all of its canaries are queued, or none are left."""
    more = replay.cursor < replay.newest
    queued = canaries.live + canaries.done
    begun = not more or queued >= _canaries_wanted(replay.stage)
    bad = ""
    if canaries.dead is not None:
        bad = f"task {canaries.dead} failed again: {masked_text(canaries.error)[:500]}"
        if canaries.failed > 1:
            bad = f"{canaries.failed} tasks failed again; {replay.allowed_failures} may. The first: {bad}"
    allowed = replay.allowed_failures
    return ReplayProgress(replay.canary, replay.stage, begun, more, canaries.live, bad, canaries.failed, allowed)


def _canaries_wanted(stage: int) -> int:
    """Return the number of canaries up to and including a stage."""
    return sum(each for each in REPLAY_STAGES[: stage + 1] if each is not None)
