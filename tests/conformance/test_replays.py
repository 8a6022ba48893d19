"""Replays in steps, carried on by whoever is there. Pitfalls 56 and 57."""

import threading
from collections import Counter

import pytest

import outlast
from conformance.acting import NOTE, add, bury, claim, fail, register, task, turn
from crash.processes import until
from outlast.errors import ConfigError, NetworkError, PermanentError, RateLimitError
from outlast.ports.rows import DeadLetterFilter, Reason, Status, TaskFilter
from outlast.ports.triage import ReplayState
from outlast.queue import heartbeat
from outlast.queue import replay as replaying
from outlast.queue.dead_letters import DeadLetterBox
from outlast.queue.replay import Replayer

RUNNING, DONE, STOPPED, CANCELLED = ReplayState


class World:
    """Dead letters, somebody who carries replays on, and a worker whose tasks end as the test says."""

    def __init__(self, store, count):
        self.store, self.box, self.now = store, DeadLetterBox(store), 0.0
        self.numbers = {bury(store, task(parameters=f'{{"n":{n}}}')).original_task_id for n in range(count)}
        self.replayer = self.another("r1")
        register(store, "w1")

    def another(self, owner):
        return Replayer(self.store, lambda: owner, monotonic=lambda: self.now)

    def advance_replays(self, replayer=None):
        (replayer or self.replayer).advance_replays()
        self.check_places()

    def check_places(self):
        """See that every task is in exactly one place."""
        tasks = {each.id: each for each in self.store.find(TaskFilter(limit=10_000))}
        letters = Counter(each.original_task_id for each in self.store.dead_letters(DeadLetterFilter()))
        assert tasks.keys() == self.numbers
        assert {number for number, each in tasks.items() if each.status is Status.FAILED} == letters.keys()
        assert set(letters.values()) <= {1}

    def work(self, *, well=True, limit=1000):
        """Have everything run that is queued; return the claims."""
        claimed = claim(self.store, limit=limit)
        for each in claimed:
            if well:
                turn(self.store, done=[(each.id, each.epoch)])
            else:
                fail(self.store, each, note=NOTE, reason=Reason.CANARY)
        self.check_places()
        return claimed

    def queued(self):
        return len(self.store.find(TaskFilter(status=Status.QUEUED, limit=10_000)))

    def dead(self):
        return self.store.count_dead_letters(DeadLetterFilter())

    def last(self):
        return self.box.replays(limit=1)[0]

    def state(self):
        return self.last().state

    def finish(self, replay):
        """Go on until the replay is over; return how many ran in each round."""
        rounds = []
        for _ in range(100):
            self.now += 1.0
            self.advance_replays()
            ran = self.work()
            if ran:
                rounds.append(len(ran))
            if self.box.replay_run(replay.id).state is not RUNNING:
                return rounds
        pytest.fail(f"it does not end: {self.box.replay_run(replay.id)}")


@pytest.fixture
def make(store):
    return lambda count: World(store, count)


class TestCanary:
    def test_one_then_ten_then_the_rest(self, make):
        world = make(30)
        replay = world.box.replay_later(all=True)
        assert replay.state is RUNNING
        assert world.queued() == 0, "who begins it does nothing"
        world.advance_replays()
        assert [each.canary for each in world.work()] == [True]
        world.advance_replays()
        assert [each.canary for each in world.work()] == [True] * 10
        world.advance_replays()
        assert [each.canary for each in world.work()] == [False] * 19
        ended = world.box.replay_run(replay.id)
        assert (ended.state, ended.replayed, ended.conflicts, ended.stage) == (DONE, 30, 0, 2)
        assert world.dead() == 0

    def test_it_waits_while_canaries_are_not_over(self, make):
        world = make(30)
        world.box.replay_later(all=True)
        for _ in range(3):
            world.advance_replays()
            assert world.queued() == 1
        world.work()
        world.advance_replays()
        world.work(limit=9)
        for _ in range(3):
            world.advance_replays()
            assert world.queued() == 1, "the tenth"

    @pytest.mark.parametrize("count", [0, 1, 2, 11, 12])
    def test_few(self, make, count):
        world = make(count)
        replay = world.box.replay_later(all=True)
        rounds = world.finish(replay)
        assert sum(rounds) == count
        assert rounds == [each for each in (min(count, 1), min(count - 1, 10), count - 11) if each > 0]
        assert world.state() is DONE

    def test_a_cause_that_is_not_fixed_costs_one(self, make):
        world = make(30)
        replay = world.box.replay_later(all=True)
        world.advance_replays()
        (tried,) = world.work(well=False)
        world.advance_replays()
        ended = world.box.replay_run(replay.id)
        assert (ended.state, ended.replayed) == (STOPPED, 1)
        assert ended.stopped_by == f"task {tried.id} failed again: {NOTE.error_message}"
        assert ended.ended_at is not None
        assert (world.dead(), world.queued()) == (30, 0)
        world.advance_replays()
        assert world.queued() == 0, "it stays so"

    def test_after_the_fix_it_finishes(self, make):
        world = make(30)
        replay = world.box.replay_later(all=True)
        world.advance_replays()
        world.work(well=False)
        world.advance_replays()
        resumed = world.box.resume_replay(replay.id)
        assert (resumed.state, resumed.stage, resumed.stopped_by) == (RUNNING, 0, "")
        assert world.finish(replay) == [1, 10, 19], "one first again, and what had failed is among the last"
        ended = world.box.replay_run(replay.id)
        assert (ended.state, ended.replayed, ended.total, world.dead()) == (DONE, 31, 31, 0)

    def test_what_failed_is_taken_again_whatever_it_failed_with(self, make, store):
        world = make(3)
        replay = world.box.replay_later(reason="exhausted", category="network", fingerprint="f1")
        world.advance_replays()
        (claimed,) = claim(store)
        fail(store, claimed, note=NOTE._replace(error_category="unknown", fingerprint="f9"), reason=Reason.CANARY)
        world.advance_replays()
        assert world.state() is STOPPED
        world.box.resume_replay(replay.id)
        assert world.finish(replay) == [1, 2]
        assert world.dead() == 0

    def test_it_can_be_stopped_again_and_again(self, make):
        world = make(5)
        replay = world.box.replay_later(all=True)
        for round_ in range(1, 4):
            world.advance_replays()
            world.work(well=False)
            world.advance_replays()
            assert world.state() is STOPPED
            assert world.box.replay_run(replay.id).replayed == round_
            world.box.resume_replay(replay.id)

    def test_one_of_the_ten_stops_it(self, make):
        world = make(30)
        world.box.replay_later(all=True)
        world.advance_replays()
        world.work()
        world.advance_replays()
        world.work(limit=4)
        world.work(well=False, limit=1)
        world.advance_replays()
        assert world.state() is STOPPED
        assert world.dead() == 30 - 11 + 1
        assert world.queued() == 5, "what is queued already is not taken back"

    def test_one_of_the_rest_stops_it_too(self, make):
        world = make(30)
        world.box.replay_later(all=True, rate=2)
        for _ in range(2):
            world.advance_replays()
            world.work()
        world.advance_replays()
        world.now += 1.0
        world.advance_replays()
        assert [each.canary for each in world.work(well=False)] == [False] * 2
        world.now += 1.0
        world.advance_replays()
        assert world.state() is STOPPED
        assert world.dead() == 30 - 11

    def test_a_canary_that_is_cancelled_stops_it(self, make):
        world = make(5)
        world.box.replay_later(all=True)
        world.advance_replays()
        (canary,) = world.store.find(TaskFilter(status=Status.QUEUED))
        world.store.cancel([canary.id])
        world.replayer.advance_replays()
        assert world.state() is STOPPED
        assert "was cancelled" in world.last().stopped_by

    def test_the_message_has_no_secret_in_it(self, make, store):
        world = make(2)
        world.box.replay_later(all=True)
        world.advance_replays()
        (claimed,) = claim(store)
        fail(store, claimed, note=NOTE._replace(error_message="password=hunter2 refused"), reason=Reason.CANARY)
        world.advance_replays()
        assert "hunter2" not in world.last().stopped_by


class TestConflicts:
    def test_pitfall_57_what_collides_with_a_unique_key_stays_and_is_reported(self, make, store):
        world = make(3)
        letter = bury(store, task(unique_key="once"))
        world.numbers |= {letter.original_task_id, *add(store, task(unique_key="once", delay=3600))}
        replay = world.box.replay_later(all=True)
        world.finish(replay)
        ended = world.box.replay_run(replay.id)
        assert (ended.state, ended.replayed, ended.conflicts, ended.conflict_ids) == (DONE, 3, 1, (letter.id,))
        assert [each.id for each in world.box.list()] == [letter.id]

    def test_pitfall_57_a_first_one_that_collides_is_followed_by_another_single_one(self, store):
        letters = [bury(store, task(unique_key=f"key{n}")) for n in range(20)]
        world = World(store, 0)
        world.numbers = {each.original_task_id for each in letters}
        world.numbers |= {*add(store, *(task(unique_key=f"key{n}", delay=3600) for n in range(2)))}
        replay = world.box.replay_later(all=True)
        assert world.finish(replay) == [1, 10, 7]
        assert world.box.replay_run(replay.id).conflict_ids == (letters[0].id, letters[1].id)

    def test_all_collide(self, store):
        letter = bury(store, task(unique_key="once"))
        world = World(store, 0)
        world.numbers = {letter.original_task_id, *add(store, task(unique_key="once", delay=3600))}
        replay = world.box.replay_later(all=True)
        world.finish(replay)
        assert (world.state(), world.last().conflicts, world.dead()) == (DONE, 1, 1)


class TestTwice:
    def test_pitfall_56_a_second_one_replays_nothing_twice(self, make):
        world = make(30)
        first, second = world.box.replay_later(all=True), world.box.replay_later(all=True)
        world.finish(first)
        world.finish(second)
        assert {each.replays for each in world.store.find(TaskFilter(limit=100))} == {1}
        assert sum(each.replayed for each in world.box.replays()) == 30
        third = world.box.replay_later(all=True)
        assert third.total == 0
        assert world.finish(third) == []

    def test_pitfall_56_by_two_who_carry_them_on(self, make, another, monkeypatch):
        """Whoever lost a replay to somebody else does nothing with it any more."""
        monkeypatch.setattr(replaying, "REPLAY_LEASE", 0.0)
        world = make(40)
        replay = world.box.replay_later(all=True)
        other = Replayer(another, lambda: "r2", monotonic=lambda: world.now)
        for _ in range(20):
            world.now += 1.0
            world.advance_replays()
            world.advance_replays(other)
            world.work()
        assert world.state() is DONE
        assert world.box.replay_run(replay.id).replayed == 40
        assert {each.replays for each in world.store.find(TaskFilter(limit=100))} == {1}

    def test_a_stale_holder_is_refused(self, make, monkeypatch):
        world = make(5)
        world.box.replay_later(all=True)
        stale = world.store.claim_replay("r1", 0.0)
        taken = world.store.claim_replay("r2", 60.0)
        assert taken.epoch > stale.epoch
        monkeypatch.setattr(world.store, "claim_replay", lambda *_: stale)
        world.advance_replays()
        assert (world.queued(), world.state()) == (0, RUNNING)

    def test_nobody_takes_what_another_holds(self, make):
        world = make(5)
        world.box.replay_later(all=True)
        world.store.claim_replay("r2", 60.0)
        world.advance_replays()
        assert world.queued() == 0

    def test_what_fails_again_is_not_taken_a_second_time(self, make):
        world = make(3)
        replay = world.box.replay_later(all=True, canary=False)
        world.advance_replays()
        assert world.state() is DONE
        world.work(well=False)
        world.advance_replays()
        assert world.queued() == 0
        assert world.box.replay_run(replay.id).replayed == 3
        assert world.dead() == 3


class TestRate:
    def test_is_kept(self, make):
        world = make(60)
        world.box.replay_later(all=True, canary=False, rate=10)
        world.advance_replays()
        assert world.queued() == 0, "it begins with nothing"
        for seconds in (0.25, 0.25, 0.5):
            world.now += seconds
            world.advance_replays()
        assert world.queued() == 10
        world.now += 0.1
        world.advance_replays()
        assert world.queued() == 11
        world.now += 0.05
        world.advance_replays()
        world.now += 0.05
        world.advance_replays()
        assert world.queued() == 12, "halves add up"

    def test_a_pause_is_not_made_up_for(self, make):
        world = make(60)
        world.box.replay_later(all=True, canary=False, rate=10)
        world.advance_replays()
        world.now += 3600.0
        world.advance_replays()
        assert world.queued() == 20

    def test_a_slow_one_goes_on_too(self, make):
        world = make(3)
        replay = world.box.replay_later(all=True, canary=False, rate=0.1)
        world.advance_replays()
        world.now += 9.0
        world.advance_replays()
        assert world.queued() == 0
        world.now += 2.0
        world.advance_replays()
        assert world.queued() == 1
        assert world.finish(replay) == [1, 1, 1]

    def test_canaries_are_not_held_up_by_it(self, make):
        world = make(15)
        world.box.replay_later(all=True, rate=1)
        world.advance_replays()
        assert len(world.work()) == 1
        world.advance_replays()
        assert len(world.work()) == 10
        world.advance_replays()
        assert len(world.work()) == 0

    def test_whoever_takes_over_begins_with_nothing(self, make, monkeypatch):
        monkeypatch.setattr(replaying, "REPLAY_LEASE", 0.0)
        world = make(60)
        world.box.replay_later(all=True, canary=False, rate=10)
        other = world.another("r2")
        for _ in range(10):
            world.now += 1.0
            world.advance_replays()
            world.advance_replays(other)
        assert world.queued() == 0, "who always loses it again never has anything saved up"

    def test_many_at_once_by_batches(self, make, monkeypatch):
        monkeypatch.setattr(replaying, "REPLAY_BATCH", 7)
        world = make(30)
        world.box.replay_later(all=True, canary=False)
        world.advance_replays()
        assert (world.queued(), world.state()) == (30, DONE)

    @pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), True, "fast", 1e9])
    def test_what_is_no_rate(self, store, rate):
        with pytest.raises(ConfigError, match="give a number per second"):
            DeadLetterBox(store).replay_later(all=True, rate=rate)
        assert store.replay_runs() == []


class TestMaxFailures:
    def one_second(self, world, *, well):
        world.now += 1.0
        world.advance_replays()
        return len(world.work(well=well))

    def test_without_a_canary_failures_do_not_stop_it(self, make):
        world = make(30)
        replay = world.box.replay_later(all=True, canary=False, rate=10)
        world.advance_replays()
        assert [self.one_second(world, well=False) for _ in range(3)] == [10, 10, 10]
        world.advance_replays()
        assert (world.state(), world.dead(), world.last().replayed) == (DONE, 30, 30)
        assert (replay.max_failures, replay.allowed_failures) == (None, None)

    def test_as_many_as_allowed_do_not_stop_it_and_one_more_does(self, make):
        world = make(30)
        replay = world.box.replay_later(all=True, canary=False, rate=10, max_failures=10)
        assert replay.max_failures == world.box.replay_run(replay.id).max_failures == 10
        world.advance_replays()
        assert self.one_second(world, well=False) == 10
        assert self.one_second(world, well=False) == 10, "ten may fail"
        world.advance_replays()
        assert (world.state(), world.dead(), world.last().replayed) == (STOPPED, 30, 20)
        assert world.last().stopped_by.startswith("11 tasks failed again; 10 may. The first: task ")

    def test_a_filter_with_its_name_in_it(self, store):
        box = DeadLetterBox(store)
        for text in ('"max_failures": 7', 'a\\"max_failures": 7', "\x00"):
            assert box.replay_later(text=text).max_failures is None
            replay = box.replay_later(text=text, max_failures=3)
            assert (replay.max_failures, replay.filters.text) == (3, text)

    def test_resuming_counts_from_nothing(self, make):
        world = make(10)
        replay = world.box.replay_later(all=True, canary=False, rate=5, max_failures=4)
        world.advance_replays()
        assert self.one_second(world, well=False) == 5
        world.advance_replays()
        assert world.state() is STOPPED
        resumed = world.box.resume_replay(replay.id)
        assert (resumed.max_failures, resumed.filters) == (4, replay.filters)
        world.finish(replay)
        assert (world.state(), world.dead()) == (DONE, 0)

    def test_a_failed_canary_stops_it_whatever_is_allowed(self, make):
        world = make(30)
        world.box.replay_later(all=True, max_failures=5)
        world.advance_replays()
        world.work(well=False)
        world.advance_replays()
        assert (world.state(), world.last().replayed) == (STOPPED, 1)

    def test_with_canaries_it_counts_the_rest(self, make):
        world = make(40)
        world.box.replay_later(all=True, rate=10, max_failures=10)
        for expected in (1, 10):
            world.advance_replays()
            assert len(world.work()) == expected
        world.advance_replays()
        assert self.one_second(world, well=False) == 10
        world.advance_replays()
        assert world.state() is RUNNING
        assert self.one_second(world, well=False) == 10
        world.advance_replays()
        assert world.state() is STOPPED

    def test_whoever_takes_over_knows_what_is_allowed(self, make, monkeypatch):
        monkeypatch.setattr(replaying, "REPLAY_LEASE", 0.0)
        world = make(10)
        world.box.replay_later(all=True, canary=False, rate=5, max_failures=4)
        world.advance_replays()
        assert self.one_second(world, well=False) == 5
        world.advance_replays(world.another("r2"))
        assert world.state() is STOPPED

    @pytest.mark.parametrize("number", [-1, True, 1.5, "3", 10**9])
    def test_what_is_no_number_of_failures(self, store, number):
        with pytest.raises(ConfigError, match=r"max_failures is .*; give a whole number"):
            DeadLetterBox(store).replay_later(all=True, max_failures=number)
        assert store.replay_runs() == []


class TestWhich:
    def test_a_group_and_no_other(self, make, store):
        world = make(4)
        other = bury(store, task("other"), note=NOTE._replace(fingerprint="f2"))
        world.numbers.add(other.original_task_id)
        replay = world.box.replay_later(fingerprint="f1")
        assert replay.total == 4
        world.finish(replay)
        assert [each.id for each in world.box.list()] == [other.id]

    def test_numbers(self, make):
        world = make(6)
        chosen = [each.id for each in world.box.list()][1:4]
        world.finish(world.box.replay_later(ids=tuple(chosen)))
        assert world.dead() == 3
        assert not {each.id for each in world.box.list()} & set(chosen)

    def test_the_newest_so_many(self, make):
        world = make(6)
        oldest = sorted(each.id for each in world.box.list())[:4]
        replay = world.box.replay_later(all=True, limit=2)
        assert replay.total == 2
        world.finish(replay)
        assert sorted(each.id for each in world.box.list()) == oldest

    def test_a_dry_run_counts_what_is_replayed_then(self, make, store):
        world = make(3)
        for _ in range(2):
            note = NOTE._replace(fingerprint="f2", error_category="api_permanent")
            world.numbers.add(bury(store, task("other"), note=note).original_task_id)
        found = world.box.dry_run(all=True)
        assert found == (5, {"f1": 3, "f2": 2}, {"scrape": 3, "other": 2}, {"network": 3, "api_permanent": 2})
        assert world.box.dry_run(task_type="other") == (2, {"f2": 2}, {"other": 2}, {"api_permanent": 2})
        assert world.box.dry_run(all=True, limit=3) == (
            3, {"f2": 2, "f1": 1}, {"other": 2, "scrape": 1}, {"api_permanent": 2, "network": 1},
        )  # fmt: skip
        assert world.box.dry_run(world.box.list()[0].id).total == 1
        assert world.box.dry_run(text="no such text") == (0, {}, {}, {})
        assert world.dead() == 5
        replay = world.box.replay_later(task_type="other")
        world.finish(replay)
        assert (replay.total, world.dead()) == (2, 3)

    def test_it_has_to_be_said(self, store):
        with pytest.raises(ValueError, match="give a filter for the dead letters"):
            DeadLetterBox(store).replay_later()
        with pytest.raises(ValueError, match="give a filter for the dead letters"):
            DeadLetterBox(store).dry_run()


class TestByHand:
    def test_stopped_nothing_more_is_queued(self, make):
        world = make(30)
        replay = world.box.replay_later(all=True)
        world.advance_replays()
        assert world.box.stop_replay(replay.id, who="ann", why="too early") is True
        world.work()
        world.advance_replays()
        assert (world.state(), world.queued(), world.dead()) == (CANCELLED, 0, 29)
        assert world.last().stopped_by == "too early"
        assert world.box.stop_replay(replay.id) is False
        world.box.resume_replay(replay.id)
        assert world.finish(replay) == [1, 10, 18]

    def test_only_what_was_stopped_goes_on(self, make):
        world = make(1)
        replay = world.box.replay_later(all=True)
        with pytest.raises(ConfigError, match=f"replay {replay.id} is running; only a stopped replay can be resumed"):
            world.box.resume_replay(replay.id)
        world.finish(replay)
        with pytest.raises(ConfigError, match="is done"):
            world.box.resume_replay(replay.id)
        with pytest.raises(LookupError, match="replay 999999 does not exist"):
            world.box.resume_replay(999_999)
        with pytest.raises(LookupError):
            world.box.stop_replay(999_999)

    def test_it_is_written_down_first(self, make):
        world = make(1)
        replay = world.box.replay_later(fingerprint="f1", rate=5, who="ann", why="fixed in 1.4")
        world.box.stop_replay(replay.id, who="bob")
        world.box.resume_replay(replay.id, who="cid", why="go")
        found = [(each.who, each.action, each.subject, each.reason) for each in reversed(world.store.audits())]
        assert found == [
            ("ann", "start_replay", "group:f1", "fixed in 1.4"),
            ("bob", "stop_replay", f"replay:{replay.id}", ""),
            ("cid", "resume_replay", f"replay:{replay.id}", "go"),
        ]
        assert world.store.audits()[-1].detail == {"fingerprint": "f1", "canary": True, "rate": 5.0}
        assert (replay.who, replay.reason) == ("ann", "fixed in 1.4")


class Fleet:
    """An app with workers that carry replays on quickly, in threads."""

    def __init__(self, store, **settings):
        self.app = outlast.App(store, policy=outlast.RetryPolicy(max_attempts=5, base_delay=0), **settings)
        self.error, self.calls = None, Counter()

        @self.app.task(resource="api.example.com")
        def fetch(n: int) -> None:
            self.calls[n] += 1
            if self.error is not None:
                raise self.error

        self.task = fetch

    def bury(self, count):
        self.error = PermanentError("no such thing")
        self.task.enqueue_many([{"n": n} for n in range(count)])
        self.app.worker(concurrency=2).drain()
        assert self.app.store.counts()["dead_letters"] == count
        self.error = None
        self.calls.clear()

    def until(self, replay, *states):
        worker = self.app.worker(concurrency=4)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            return until(lambda: self._over(replay, states), 30, lambda: str(self.app.store.replay_run(replay.id)))
        finally:
            worker.stop()
            thread.join(20)

    def _over(self, replay, states):
        found = self.app.store.replay_run(replay.id)
        return found if found.state in states else None


@pytest.fixture
def fleet(store, monkeypatch, tmp_path):
    monkeypatch.setattr(heartbeat, "REPLAY_EVERY", 0.02)
    monkeypatch.setattr(replaying, "REPLAY_LEASE", 0.3)  # a worker that ended holds it no longer
    return Fleet(store, spool=tmp_path / "spool")


class TestWithWorkers:
    def test_stops_after_one_and_after_the_fix_it_finishes(self, fleet):
        fleet.bury(30)
        box, fleet.error = fleet.app.dead_letters, PermanentError("no such thing")
        replay = fleet.until(box.replay_later(all=True, rate=500), STOPPED, DONE)
        assert (replay.state, replay.replayed, fleet.calls.total()) == (STOPPED, 1, 1)
        assert "no such thing" in replay.stopped_by
        fleet.error = None
        replay = fleet.until(box.resume_replay(replay.id), STOPPED, DONE)
        fleet.app.worker().drain()
        assert (replay.state, replay.replayed) == (DONE, 31)
        assert (box.count(), fleet.app.store.counts()["DONE"]) == (0, 30)

    @pytest.mark.parametrize(
        "error",
        [
            NetworkError("down"),
            RateLimitError("slow down", retry_after=3600),
            ConnectionRefusedError("nobody listens"),
            SystemExit(3),
        ],
        ids=["retry", "deferral", "another retry", "exit"],
    )
    def test_a_canary_gets_one_attempt_whatever_its_failure_is(self, fleet, error):
        fleet.bury(3)
        box, fleet.error = fleet.app.dead_letters, error
        replay = fleet.until(box.replay_later(all=True), STOPPED, DONE)
        assert (replay.state, fleet.calls.total()) == (STOPPED, 1)
        letter = box.list(reason="canary")[0]
        (attempt,) = [each for each in box.show(letter.id).attempts if each.attempt > 1]
        assert attempt.outcome == "fail"
        assert box.count() == 3
        cooling = [each.resource for each in fleet.app.tasks.cooldowns()]
        assert cooling == (["api.example.com"] if isinstance(error, RateLimitError) else []), "others wait all the same"

    def test_the_rest_have_all_their_attempts(self, fleet):
        fleet.bury(13)
        box = fleet.app.dead_letters
        passed = []

        def flaky():
            if fleet.calls.total() > 11 and len(passed) < 2:
                passed.append(1)
                raise NetworkError("down")

        fleet.task.function = lambda n: (fleet.calls.update([n]), flaky())[0]
        replay = fleet.until(box.replay_later(all=True), STOPPED, DONE)
        fleet.app.worker().drain()
        assert (replay.state, box.count(), fleet.calls.total()) == (DONE, 0, 15)

    def test_a_worker_that_stops_leaves_it_to_others(self, fleet):
        fleet.bury(40)
        replay = fleet.app.dead_letters.replay_later(all=True, rate=200)
        for _ in range(3):
            started = fleet.app.worker(concurrency=2)
            thread = threading.Thread(target=started.run)
            thread.start()
            before = fleet.app.store.replay_run(replay.id)
            until(lambda: fleet.app.store.replay_run(replay.id) != before, 20, "a step")  # noqa: B023  # called at once
            started.stop()
            thread.join(20)
        replay = fleet.until(replay, STOPPED, DONE)
        fleet.app.worker().drain()
        assert (replay.state, replay.replayed, fleet.app.store.counts()["DONE"]) == (DONE, 40, 40)
        assert set(fleet.calls.values()) == {1}
