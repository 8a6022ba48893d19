"""Replays in steps, in memory."""

from itertools import islice

from holdfast import clock
from holdfast.ports.rows import Status
from holdfast.ports.triage_rows import Canaries, NewReplay, Replay, ReplayState, ReplayStep
from holdfast.stores.memory.book import LIVE, Book, Held, moment
from holdfast.stores.memory.dead_letters import is_meant, queue_again
from holdfast.stores.triaging import MOST_CONFLICTS

__all__ = ["MemoryReplays"]

_ENDED = {Status.CANCELLED, Status.DISCARDED}


class MemoryReplays:
    """The part of the duty `Triage` that has to do with replays."""

    book: Book

    def add_replay(self, new: NewReplay) -> Replay:
        """Begin a replay."""
        with self.book.lock:
            meant = sorted((each.id for each in self.book.letters.values() if is_meant(each, new.which)), reverse=True)
            meant, now = meant[: new.which.limit], moment(clock.now())
            replay = Replay(
                id=next(self.book.replay_ids),
                which=new.which,
                canary=new.canary,
                rate=new.rate,
                state=ReplayState.RUNNING,
                stage=0,
                total=len(meant),
                newest=meant[0] if meant else 0,
                cursor=meant[-1] - 1 if meant else 0,
                replayed=0,
                conflicts=0,
                conflict_ids=(),
                stopped_by="",
                who=new.who,
                reason=new.reason,
                epoch=0,
                created_at=now,
                updated_at=now,
                ended_at=None,
            )
            self.book.replays[replay.id] = Held(replay, replay.newest)
            return replay

    def replay_run(self, number: int) -> Replay | None:
        """Return one."""
        with self.book.lock:
            held = self.book.replays.get(number)
            return None if held is None else held.replay

    def replay_runs(self, *, running: bool = False, limit: int = 20) -> list[Replay]:
        """Return replays, newest first."""
        with self.book.lock:
            known = [held.replay for held in reversed(self.book.replays.values())]
        return [each for each in known if not running or each.state is ReplayState.RUNNING][:limit]

    def claim_replay(self, owner: str, lease: float) -> Replay | None:
        """Take a running replay."""
        with self.book.lock:
            now = clock.now()
            free = [
                held
                for held in self.book.replays.values()
                if held.replay.state is ReplayState.RUNNING
                and (held.owner in {None, owner} or held.leased_until <= now)
            ]
            if not free:
                return None
            held = min(free, key=lambda each: (each.leased_until, each.replay.id))
            held.replay = held.replay._replace(epoch=held.replay.epoch + (held.owner != owner))
            held.owner, held.leased_until = owner, now + lease
            return held.replay

    def replay_step(self, number: int, epoch: int, limit: int, *, stage: int, canary: bool) -> ReplayStep | None:
        """Queue the next dead letters of a replay again."""
        with self.book.lock:
            held = self.book.replays.get(number)
            if held is None or held.replay.epoch != epoch or held.replay.state is not ReplayState.RUNNING:
                return None
            replay = held.replay
            left = [
                each.id
                for each in sorted(self.book.letters.values())
                if replay.cursor < each.id <= replay.newest
                and (is_meant(each, replay.which) if each.id <= held.bound else self._is_of(each.id, number))
            ]
            numbers = left[: max(limit, 0)]
            outcomes = {each: queue_again(self.book, each, number, canary=canary) for each in numbers}
            stayed = [each for each, outcome in outcomes.items() if outcome == "conflict"]
            replayed = sum(outcome == "replayed" for outcome in outcomes.values())
            cursor = replay.newest if len(numbers) == len(left) else max(numbers, default=replay.cursor)
            held.replay = replay._replace(
                stage=stage,
                cursor=cursor,
                replayed=replay.replayed + replayed,
                conflicts=replay.conflicts + len(stayed),
                conflict_ids=(*replay.conflict_ids, *stayed)[:MOST_CONFLICTS],
                updated_at=moment(clock.now()),
            )
            return ReplayStep(replayed, len(stayed), more=cursor < replay.newest)

    def _is_of(self, letter: int, number: int) -> bool:
        return self.book.replayed_by.get(letter) == number

    def canaries(self, number: int) -> Canaries:
        """Return how the tasks of a replay fare."""
        with self.book.lock:
            held = self.book.replays.get(number)
            mine = [row for row in self.book.tasks.values() if row.canary and row.replay_id == number]
            forgiven = 0 if held is None else held.forgiven
            dead = sorted(each for each in self.book.letters if each > forgiven and self._is_of(each, number))
            ended = sorted((row.id, f"it was {row.status.lower()}") for row in mine if row.status in _ENDED)
            letters = (self.book.letters[each] for each in dead)
            bad = [*((each.original_task_id, each.error_message) for each in islice(letters, 1)), *ended]
            task_id, error = bad[0] if bad else (None, "")
            live = sum(row.status in LIVE for row in mine)
            return Canaries(live, sum(row.status is Status.DONE for row in mine), task_id, error)

    def end_replay(self, number: int, state: ReplayState, why: str = "", *, epoch: int | None = None) -> bool:
        """End a running replay."""
        with self.book.lock:
            held = self.book.replays.get(number)
            if held is None or held.replay.state is not ReplayState.RUNNING or epoch not in {None, held.replay.epoch}:
                return False
            now = moment(clock.now())
            held.replay = held.replay._replace(state=state, stopped_by=why, ended_at=now, updated_at=now)
            held.owner, held.leased_until = None, 0.0
            return True

    def resume_replay(self, number: int) -> Replay | None:
        """Have a replay go on from its first stage."""
        with self.book.lock:
            held = self.book.replays.get(number)
            if held is None or held.replay.state not in {ReplayState.STOPPED, ReplayState.CANCELLED}:
                return None
            again = held.replay._replace(state=ReplayState.RUNNING, stage=0, stopped_by="", ended_at=None)
            failed = [each for each in self.book.letters if each > again.newest and self._is_of(each, number)]
            again = again._replace(total=again.total + len(failed), newest=max([again.newest, *failed]))
            held.replay = again._replace(epoch=again.epoch + 1, updated_at=moment(clock.now()))
            held.forgiven = self.book.newest_letter
            for row in self.book.tasks.values():
                if row.replay_id == number and row.status not in LIVE:
                    row.canary = False
            return held.replay
