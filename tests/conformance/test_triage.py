"""Replays in steps, edits, groups as people deal with them, the audit log, and counts that check the books."""

import threading
import time
from datetime import timedelta

import pytest

from conformance.acting import NOTE, add, bury, claim, fail, live_counts, register, settle, task, turn
from outlast.ports.read_rows import FailureFilter
from outlast.ports.rows import DeadLetterFilter, Kind, Reason, Status, TaskFilter
from outlast.ports.source_rows import NewAlert
from outlast.ports.triage import Canaries, NewReplay, ReplayState, ReplayStep

ALL = DeadLetterFilter()
OTHER = NOTE._replace(error_type="KeyError", error_message="'id'", error_category="schema", fingerprint="f2")


def begin(store, which=ALL, owner="me", **more):
    """Begin a replay and take it."""
    begun = store.add_replay(NewReplay(which, **more))
    taken = store.claim_replay(owner, 60)
    assert taken.id == begun.id
    return taken


def step(store, replay, limit, stage=2, *, canary=False):
    return store.replay_step(replay.id, replay.epoch, limit, stage=stage, canary=canary)


def check_books(store):
    """See that each task is in one place, by the books and by a count."""
    assert store.counter_check()[1] == store.counts()
    letters = {letter.original_task_id for letter in store.dead_letters(ALL)}
    assert letters == {each.id for each in store.find(TaskFilter(status=Status.FAILED, limit=1000))}


class TestReplays:
    def test_there_are_none_at_first(self, store):
        assert store.replay_runs() == []
        assert store.replay_run(4242) is None
        assert store.claim_replay("me", 60) is None
        assert store.replay_step(4242, 0, 1, stage=0, canary=True) is None
        assert store.canaries(4242) == Canaries(0, 0, None, "")
        assert not store.end_replay(4242, ReplayState.DONE)
        assert store.resume_replay(4242) is None

    def test_beginning_one_counts_and_does_nothing_else(self, store):
        letters = [bury(store) for _ in range(3)]
        which = DeadLetterFilter(task_type="scrape", since=letters[0].moved_to_dlq_at, text="OUT")
        begun = store.add_replay(NewReplay(which, canary=False, rate=2.5, who="ann", reason="日本語 it's"))
        assert (begun.filters, begun.canary, begun.rate) == (which, False, 2.5)
        assert (begun.state, begun.stage, begun.total, begun.newest) == (ReplayState.RUNNING, 0, 3, letters[2].id)
        assert begun.cursor < letters[0].id
        assert (begun.replayed, begun.conflicts, begun.conflict_ids, begun.stopped_by) == (0, 0, (), "")
        assert (begun.who, begun.reason, begun.ended_at) == ("ann", "日本語 it's", None)
        assert store.replay_run(begun.id) == begun
        assert store.dead_letters(ALL) == letters[::-1]

    def test_lists_the_newest_first(self, store):
        first, second, third = [store.add_replay(NewReplay(ALL)) for _ in range(3)]
        store.end_replay(second.id, ReplayState.CANCELLED)
        assert [each.id for each in store.replay_runs()] == [third.id, second.id, first.id]
        assert [each.id for each in store.replay_runs(running=True)] == [third.id, first.id]
        assert [each.id for each in store.replay_runs(limit=2)] == [third.id, second.id]

    def test_one_of_nothing_is_over_at_once(self, store):
        bury(store)
        replay = begin(store, DeadLetterFilter(task_type="nobody"))
        assert (replay.total, replay.newest, replay.cursor) == (0, 0, 0)
        assert step(store, replay, 10) == ReplayStep(0, 0, more=False)
        assert live_counts(store) == {"FAILED": 1, "dead_letters": 1}

    def test_goes_step_by_step_from_the_oldest(self, store):
        letters = [bury(store, task(priority=n)) for n in range(5)]
        replay = begin(store)
        assert step(store, replay, 1, 0, canary=True) == ReplayStep(1, 0, more=True)
        assert [each.id for each in store.dead_letters(ALL)] == [each.id for each in letters[:0:-1]]
        found = store.get(letters[0].original_task_id)
        assert (found.status, found.retry_count, found.replays) == (Status.QUEUED, 0, 1)
        assert len(store.attempts(found.id)) == 1
        assert step(store, replay, 2, 1, canary=True) == ReplayStep(2, 0, more=True)
        assert step(store, replay, 100) == ReplayStep(2, 0, more=False)
        now = store.replay_run(replay.id)
        assert (now.replayed, now.stage, now.cursor, now.newest) == (5, 2, letters[4].id, letters[4].id)
        assert now.state is ReplayState.RUNNING, "who carries it on ends it"
        assert store.event_totals()["replayed"] == 5
        assert store.failure("f1").dead == 0
        check_books(store)

    def test_a_step_of_nothing_writes_the_stage_alone(self, store):
        bury(store)
        replay = begin(store)
        assert step(store, replay, 0, 1) == ReplayStep(0, 0, more=True)
        assert store.replay_run(replay.id).stage == 1
        assert step(store, replay, 1) == ReplayStep(1, 0, more=False)

    def test_what_fails_again_is_not_taken_twice(self, store):
        bury(store)
        bury(store)
        replay = begin(store)
        assert step(store, replay, 1).replayed == 1
        register(store)
        fail(store, claim(store)[0])
        assert step(store, replay, 10) == ReplayStep(1, 0, more=False)
        assert step(store, replay, 10) == ReplayStep(0, 0, more=False)
        assert store.count_dead_letters(ALL) == 1

    @pytest.mark.parametrize(
        ("which", "expected"),
        [
            ({}, [0, 1, 2, 3]),
            ({"task_type": "a"}, [0, 2]),
            ({"queue": "q1"}, [0, 1]),
            ({"category": "schema"}, [1]),
            ({"reason": "permanent"}, [2, 3]),
            ({"fingerprint": "f1"}, [0, 2, 3]),
            ({"fingerprint": "f1", "queue": "q2"}, [2, 3]),
            ({"text": "TIMED"}, [0, 2, 3]),
            ({"text": "keyerror"}, [1]),
            ({"text": "%"}, []),
            ({"task_type": "a", "text": "timed"}, [0, 2]),
            ({"limit": 2}, [2, 3]),
            ({"limit": 1, "task_type": "a"}, [2]),
            ({"limit": 0}, []),
            ({"limit": 9}, [0, 1, 2, 3]),
            ({"ids": (0, 3)}, [0, 3]),
            ({"ids": ()}, []),
            ({"before": 2}, [0, 1]),
            ({"before": 3, "limit": 1}, [2]),
            ({"since": 1}, [1, 2, 3]),
            ({"until": 2}, [0, 1]),
            ({"since": 1, "until": 3, "task_type": "a"}, [2]),
            ({"since": 9}, []),
        ],
        ids=str,
    )
    def test_takes_what_the_filter_means(self, store, which, expected):
        letters = []
        for name, queue, note, reason in (
            ("a", "q1", NOTE, Reason.EXHAUSTED),
            ("b", "q1", OTHER, Reason.EXHAUSTED),
            ("a", "q2", NOTE, Reason.PERMANENT),
            ("b", "q2", NOTE, Reason.PERMANENT),
        ):
            letters.append(bury(store, task(name, queue=queue), note, reason))
            time.sleep(0.002)
        which = dict(which)
        for name in ("since", "until"):
            if name in which:
                later = timedelta(seconds=which[name] // 9)
                which[name] = letters[min(which[name], 3)].moved_to_dlq_at + later
        if "ids" in which:
            which["ids"] = (*(letters[n].id for n in which["ids"]), 4242)
        if "before" in which:
            which["before"] = letters[which["before"]].id
        which = DeadLetterFilter(**which)
        meant = {letters[n].original_task_id for n in expected}
        if which.limit != 0:
            assert {each.original_task_id for each in store.dead_letters(which)} == meant
            assert {line.original_task_id for line in store.dead_letter_lines(which).rows} == meant
        if which.limit is None:
            assert store.count_dead_letters(which) == sum(group.size for group in store.groups(which)) == len(meant)
        replay = begin(store, which)
        assert replay.total == len(meant)
        while step(store, replay, 1).more:
            pass
        queued = {each.id for each in store.find(TaskFilter(status=Status.QUEUED))}
        assert queued == meant
        assert store.replay_run(replay.id).replayed == len(meant)
        check_books(store)

    def test_a_conflict_stays_and_is_told(self, store):
        first, second = bury(store, task(unique_key="k")), bury(store, task(unique_key="k"))
        third = bury(store)
        replay = begin(store)
        assert step(store, replay, 10) == ReplayStep(2, 1, more=False)
        now = store.replay_run(replay.id)
        assert (now.replayed, now.conflicts, now.conflict_ids) == (2, 1, (second.id,))
        assert store.dead_letters(ALL) == [second]
        assert store.get(first.original_task_id).status is store.get(third.original_task_id).status is Status.QUEUED
        check_books(store)

    def test_no_more_than_a_hundred_conflicts_are_named(self, store):
        add(store, *(task(unique_key=f"k{n}") for n in range(120)))
        register(store)
        failed = [(each, NOTE) for each in claim(store, limit=120)]
        for each, note in failed:
            fail(store, each, note=note)
        add(store, *(task(unique_key=f"k{n}") for n in range(120)))
        letters = sorted(each.id for each in store.dead_letters(ALL))
        replay = begin(store)
        assert step(store, replay, 70) == ReplayStep(0, 70, more=True)
        assert step(store, replay, 70) == ReplayStep(0, 50, more=False)
        now = store.replay_run(replay.id)
        assert (now.conflicts, now.conflict_ids) == (120, tuple(letters[:100]))

    def test_what_is_gone_meanwhile_is_passed_over(self, store):
        letters = [bury(store) for _ in range(3)]
        replay = begin(store)
        store.discard(letters[0].id)
        store.replay(letters[1].id)
        assert step(store, replay, 10) == ReplayStep(1, 0, more=False)
        check_books(store)


class TestHolding:
    def test_one_holds_it_and_others_do_not(self, store, another):
        bury(store)
        replay = begin(store)
        assert replay.epoch == 1
        assert another.claim_replay("you", 60) is None
        assert store.claim_replay("me", 60).epoch == 1, "it has not changed hands"

    def test_it_changes_hands_when_the_lease_is_over(self, store, another):
        bury(store)
        replay = begin(store)
        assert store.claim_replay("me", -1).epoch == 1
        taken = another.claim_replay("you", 60)
        assert (taken.id, taken.epoch) == (replay.id, 2)
        assert step(store, replay, 10) is None, "whoever had it is refused"
        assert not store.end_replay(replay.id, ReplayState.DONE, epoch=1)
        assert store.dead_letters(ALL) != []
        assert step(another, taken, 10).replayed == 1
        assert another.end_replay(replay.id, ReplayState.DONE, epoch=2)

    def test_the_one_that_waits_longest_goes_first(self, store):
        first, second = store.add_replay(NewReplay(ALL)), store.add_replay(NewReplay(ALL))
        taken = []
        for _ in range(4):
            taken.append(store.claim_replay("me", 60).id)
            time.sleep(0.003)
        assert taken == [first.id, second.id, first.id, second.id]
        store.end_replay(first.id, ReplayState.DONE)
        assert store.claim_replay("me", 60).id == second.id

    def test_many_who_ask_at_once_do_not_share_one(self, place):
        stores = [place.open() for _ in range(4)]
        stores[0].add_replay(NewReplay(ALL))
        taken, gate = [], threading.Barrier(len(stores))

        def ask(number, store):
            gate.wait(10)
            taken.append(store.claim_replay(f"w{number}", 60))

        threads = [threading.Thread(target=ask, args=each) for each in enumerate(stores)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(taken) == 4
        assert len([each for each in taken if each is not None]) == 1


class TestEnding:
    def test_it_is_ended_once(self, store):
        bury(store)
        replay = begin(store)
        assert not store.end_replay(replay.id, ReplayState.STOPPED, "bad", epoch=replay.epoch + 1)
        assert store.end_replay(replay.id, ReplayState.STOPPED, "task 1: it's 日本語", epoch=replay.epoch)
        assert not store.end_replay(replay.id, ReplayState.DONE)
        now = store.replay_run(replay.id)
        assert (now.state, now.stopped_by) == (ReplayState.STOPPED, "task 1: it's 日本語")
        assert now.ended_at >= now.created_at
        assert step(store, replay, 10) is None
        assert store.claim_replay("me", 60) is None
        assert store.count_dead_letters(ALL) == 1

    @pytest.mark.parametrize("state", list(ReplayState))
    def test_what_can_be_resumed(self, store, state):
        bury(store)
        replay = begin(store)
        step(store, replay, 0, 1)
        if state is not ReplayState.RUNNING:
            assert store.end_replay(replay.id, state, "why")
        resumed = store.resume_replay(replay.id)
        if state in {ReplayState.RUNNING, ReplayState.DONE}:
            assert resumed is None
            assert store.replay_run(replay.id).state is state
            return
        assert (resumed.state, resumed.stage, resumed.stopped_by) == (ReplayState.RUNNING, 0, "")
        assert (resumed.ended_at, resumed.cursor) == (None, replay.cursor)
        assert resumed == store.replay_run(replay.id)
        assert step(store, replay, 10) is None, "it was ours before"
        taken = store.claim_replay("me", 60)
        assert taken.epoch > replay.epoch
        assert step(store, taken, 10).replayed == 1


class TestCanaries:
    def test_a_claim_tells_them_apart(self, store):
        add(store)
        for _ in range(2):
            bury(store, task(priority=0))
        replay = begin(store)
        step(store, replay, 1, 0, canary=True)
        step(store, replay, 1, 2)
        register(store)
        assert [each.canary for each in claim(store)] == [True, False, False]

    def test_how_they_fare(self, store):
        letters = [bury(store) for _ in range(4)]
        replay = begin(store)
        step(store, replay, 3, 1, canary=True)
        step(store, replay, 10)
        assert store.canaries(replay.id) == Canaries(3, 0, None, "")
        register(store)
        first, second, third, last = claim(store)
        assert [each.canary for each in (first, second, third, last)] == [True, True, True, False]
        turn(store, done=[(first.id, first.epoch)])
        settle(store, last, Kind.DONE)
        assert store.canaries(replay.id) == Canaries(2, 1, None, ""), "those that are no canaries do not count"
        settle(store, second, Kind.PARK)
        assert store.canaries(replay.id).live == 2
        fail(store, third, note=OTHER, reason=Reason.CANARY)
        assert store.canaries(replay.id) == Canaries(1, 1, letters[2].original_task_id, "'id'", 1)
        assert store.dead_letters(ALL)[0].reason is Reason.CANARY
        assert store.canaries(replay.id + 1) == Canaries(0, 0, None, "")

    def test_a_task_that_is_no_canary_stops_it_by_its_dead_letter(self, store):
        bury(store)
        replay = begin(store)
        step(store, replay, 10)
        register(store)
        (claimed,) = claim(store)
        fail(store, claimed)
        assert store.canaries(replay.id) == Canaries(0, 0, claimed.id, NOTE.error_message, 1)

    def test_one_that_a_lost_worker_had_counts_when_it_is_dead(self, store):
        bury(store)
        replay = begin(store)
        step(store, replay, 1, 0, canary=True)
        register(store)
        (claimed,) = claim(store)
        store.heartbeat("w1", -1, "running")
        assert [each.outcome for each in store.rescue(1)] == ["suspect"]
        assert store.canaries(replay.id).live == 1
        register(store, "w2")
        (claimed,) = claim(store, "w2", 1, suspect=True)
        assert (claimed.canary, claimed.suspect) == (True, True)
        store.heartbeat("w2", -1, "running")
        assert [each.outcome for each in store.rescue(1)] == ["dead"]
        assert store.canaries(replay.id).dead == claimed.id

    @pytest.mark.parametrize("verb", ["cancelled", "discarded"])
    def test_one_that_somebody_ends(self, store, verb):
        bury(store)
        replay = begin(store)
        step(store, replay, 1, 0, canary=True)
        register(store)
        (task_id,) = [each.id for each in store.find(TaskFilter(status=Status.QUEUED))]
        if verb == "cancelled":
            store.cancel([task_id])
        else:
            fail(store, claim(store)[0])
            store.discard(store.dead_letters(ALL)[0].id)
        assert store.canaries(replay.id) == Canaries(0, 0, task_id, f"it was {verb}")

    def test_a_plain_replay_takes_it_out(self, store):
        bury(store)
        replay = begin(store)
        step(store, replay, 1, 0, canary=True)
        register(store)
        fail(store, claim(store)[0])
        assert store.canaries(replay.id).dead is not None
        store.replay(store.dead_letters(ALL)[0].id)
        assert store.canaries(replay.id) == Canaries(0, 0, None, "")
        (claimed,) = claim(store)
        assert not claimed.canary
        fail(store, claimed)
        assert store.canaries(replay.id).dead is None

    def test_what_failed_before_does_not_stop_one_that_is_resumed(self, store):
        for _ in range(4):
            bury(store)
        replay = begin(store)
        step(store, replay, 3, 1, canary=True)
        register(store)
        first, second, third = claim(store)
        turn(store, done=[(first.id, first.epoch)])
        fail(store, second)
        store.end_replay(replay.id, ReplayState.STOPPED, "bad")
        store.resume_replay(replay.id)
        assert store.canaries(replay.id) == Canaries(1, 0, None, ""), "one of them runs yet"
        fail(store, third)
        assert store.canaries(replay.id) == Canaries(0, 0, third.id, NOTE.error_message, 1), "that is news"
        store.end_replay(replay.id, ReplayState.STOPPED, "bad")
        store.resume_replay(replay.id)
        taken = store.claim_replay("me", 60)
        assert step(store, taken, 1, 0, canary=True) == ReplayStep(1, 0, more=True)
        assert store.canaries(replay.id) == Canaries(1, 0, None, "")

    @pytest.mark.parametrize("which", [ALL, DeadLetterFilter(reason="exhausted"), DeadLetterFilter(limit=3)], ids=str)
    def test_one_that_is_resumed_takes_its_own_failures_again_at_the_end(self, store, which):
        for _ in range(3):
            bury(store)
        replay = begin(store, which)
        step(store, replay, 1, 0, canary=True)
        register(store)
        (first,) = claim(store)
        fail(store, first, note=OTHER, reason=Reason.CANARY)
        store.end_replay(replay.id, ReplayState.STOPPED, "bad")
        stranger = bury(store)
        resumed = store.resume_replay(replay.id)
        assert (resumed.total, resumed.cursor) == (4, store.replay_run(replay.id).cursor)
        assert resumed.newest == stranger.id - 1
        taken = store.claim_replay("me", 60)
        assert step(store, taken, 1, 0, canary=True) == ReplayStep(1, 0, more=True)
        (second,) = claim(store)
        assert second.id != first.id
        fail(store, second, reason=Reason.CANARY)
        store.end_replay(replay.id, ReplayState.STOPPED, "bad again")
        assert store.resume_replay(replay.id).total == 5
        taken = store.claim_replay("me", 60)
        assert step(store, taken, 2, 1, canary=True) == ReplayStep(2, 0, more=True)
        left = {letter.original_task_id for letter in store.dead_letters(ALL)}
        assert left == {second.id, stranger.original_task_id}, "what is left of the beginning goes first"
        assert step(store, taken, 10, 2) == ReplayStep(1, 0, more=False)
        assert store.dead_letters(ALL) == [stranger], "what came since is not taken"
        now = store.replay_run(replay.id)
        assert (now.replayed, now.total, now.cursor) == (5, 5, now.newest)
        check_books(store)


class TestEdits:
    def test_letter_and_task_change_together_and_the_past_is_kept(self, store):
        letter = bury(store, task(parameters='{"a": 1}'))
        assert store.edits(letter.original_task_id) == []
        assert store.edit_payload(letter.id, '{"a": 1}', '{"a": "日本語"}', "[1]", "ann", "it's wrong") == "edited"
        assert store.edit_payload(letter.id, '{"a": "日本語"}', '{"a": 9007199254740993}', "[2]", "bob", "") == "edited"
        assert store.dead_letter(letter.id).parameters == '{"a": 9007199254740993}'
        assert store.get(letter.original_task_id).parameters == '{"a": 9007199254740993}'
        first, second = store.edits(letter.original_task_id)
        assert first[1:7] == (letter.original_task_id, '{"a": 1}', '{"a": "日本語"}', "[1]", "ann", "it's wrong")
        assert (second.before, second.after, second.who) == (first.after, '{"a": 9007199254740993}', "bob")
        assert first.id < second.id
        assert letter.moved_to_dlq_at <= first.at <= second.at
        store.replay(letter.id)
        register(store)
        assert claim(store)[0].parameters == '{"a": 9007199254740993}'
        assert len(store.edits(letter.original_task_id)) == 2

    def test_somebody_was_faster(self, store):
        letter = bury(store)
        assert store.edit_payload(letter.id, '{"x": 1}', '{"x": 2}', "[]", "ann", "") == "changed"
        assert store.dead_letter(letter.id).parameters == "{}"
        assert store.edits(letter.original_task_id) == []

    def test_it_is_gone(self, store):
        letter = bury(store)
        store.replay(letter.id)
        assert store.edit_payload(letter.id, "{}", '{"x": 2}', "[]", "ann", "") == "gone"
        assert store.edit_payload(4242, "{}", '{"x": 2}', "[]", "ann", "") == "gone"
        assert store.get(letter.original_task_id).parameters == "{}"

    def test_they_go_with_their_task(self, store):
        letter, other = bury(store), bury(store)
        for each in (letter, other):
            store.edit_payload(each.id, "{}", '{"x": 2}', "[]", "ann", "")
        store.discard(letter.id)
        assert store.prune(done_before=-1) == 1
        assert store.edits(letter.original_task_id) == []
        assert len(store.edits(other.original_task_id)) == 1


class TestGroups:
    def test_what_people_say_of_one(self, store):
        assert store.mark_group("f1", note="x") is None
        bury(store)
        group = store.failure("f1")
        assert (group.note, group.acknowledged_at, group.acknowledged_by, group.snoozed_until) == ("", None, "", None)
        assert store.mark_group("f1") == group, "nothing given, nothing changed"
        noted = store.mark_group("f1", note="ask Ann 日本語", who="bob")
        assert noted == group._replace(note="ask Ann 日本語")
        taken = store.mark_group("f1", acknowledged=True, who="ann")
        assert (taken.note, taken.acknowledged_by) == ("ask Ann 日本語", "ann")
        assert taken.acknowledged_at >= group.last_seen
        assert taken.standing(taken.acknowledged_at) == "acknowledged"
        asleep = store.mark_group("f1", snooze=60)
        assert asleep.standing(taken.acknowledged_at) == "snoozed"
        assert asleep.acknowledged_at == taken.acknowledged_at
        assert store.failure("f1") == asleep
        assert store.failures(FailureFilter()).rows == [asleep]
        awake = store.mark_group("f1", snooze=0, acknowledged=False, note="")
        assert awake == group

    def test_one_that_fails_again_is_open_again_by_itself(self, store):
        bury(store)
        taken = store.mark_group("f1", acknowledged=True)
        time.sleep(0.003)
        bury(store)
        group = store.failure("f1")
        assert group.standing(group.last_seen) == "open"
        assert group.acknowledged_at == taken.acknowledged_at
        store.roll_up()
        assert store.failure("f1").standing(group.last_seen) == "open"

    def test_filters(self, store):
        seen = []
        for name in "abcd":
            seen.append(bury(store, note=NOTE._replace(fingerprint=name)).moved_to_dlq_at)
            time.sleep(0.003)
        store.mark_group("a", acknowledged=True)
        store.mark_group("b", snooze=60)
        store.mark_group("c", acknowledged=True)
        store.mark_group("d", snooze=60)
        store.mark_group("d", snooze=0)
        time.sleep(0.003)
        bury(store, note=NOTE._replace(fingerprint="c"))

        def names(**which):
            return sorted(group.fingerprint for group in store.failures(FailureFilter(**which)).rows)

        for _ in range(2):
            assert names(standing="acknowledged") == ["a"]
            assert names(standing="snoozed") == ["b"]
            assert names(standing="open") == ["c", "d"]
            assert names(standing="open", largest=True) == ["c", "d"]
            assert names(since=seen[1]) == ["b", "c", "d"]
            assert names(since=seen[3]) == ["c", "d"]
            assert names(until=seen[2]) == ["a", "b"]
            assert names(since=seen[1], until=seen[3], standing="open") == ["c"]
            assert names(until=seen[0]) == []
            store.roll_up()

    def test_those_that_nobody_was_told_of(self, store):
        assert store.unannounced_groups() == []
        for name in ("it's", "b", "c", "d"):
            bury(store, note=NOTE._replace(fingerprint=name))
            time.sleep(0.003)
        bury(store, note=NOTE._replace(fingerprint=""))
        assert [each.fingerprint for each in store.unannounced_groups()] == ["it's", "b", "c", "d"]
        assert [each.fingerprint for each in store.unannounced_groups(2)] == ["it's", "b"]
        store.raise_alerts([NewAlert("group:it's", "new", "title", "text"), NewAlert("growth:b", "10", "t", "t")])
        for _ in range(2):
            assert [each.fingerprint for each in store.unannounced_groups()] == ["b", "c", "d"]
        store.mark_group("b", acknowledged=True)
        store.mark_group("c", snooze=60)
        assert [each.fingerprint for each in store.unannounced_groups(1)] == ["d"], "the others are seen to"
        time.sleep(0.003)
        bury(store, note=NOTE._replace(fingerprint="b"))
        store.mark_group("c", snooze=0)
        found = store.unannounced_groups()
        assert [each.fingerprint for each in found] == ["b", "c", "d"]
        assert found[0] == store.failure("b")

    def test_the_oldest_dead_letter_of_an_open_group(self, store):
        assert store.oldest_dead_letter() is None
        bury(store, note=NOTE._replace(fingerprint=""))
        assert store.oldest_dead_letter() is None, "it has no group"
        bury(store)
        time.sleep(0.05)
        bury(store)
        newest = bury(store, note=OTHER)
        assert store.oldest_dead_letter() >= 0.05
        store.mark_group("f1", acknowledged=True)
        assert 0 <= store.oldest_dead_letter() < 30
        store.discard(newest.id)
        assert store.oldest_dead_letter() is None
        store.mark_group("f1", acknowledged=False, snooze=60)
        assert store.oldest_dead_letter() is None
        store.mark_group("f1", snooze=0)
        assert store.oldest_dead_letter() >= 0.05


class TestObserved:
    def test_it_is_in_the_books_and_in_its_group_and_nowhere_else(self, store):
        store.record_observed([])
        decisions = ("retry", "defer", "fail", "abort", "skip", "disable")
        rows = [("fetch", each, "network", "w1", "TimeoutError", "it's late") for each in decisions]
        store.record_observed([*rows, rows[0], ("fetch", "fail", "unknown", "", "E", "no cause")])
        for _ in range(2):
            counted = {name: number for name, number in store.event_totals().items() if number}
            expected = {f"would_{each}": 1 for each in decisions} | {"would_retry": 2, "would_fail": 2}
            assert counted == expected
            group = store.failure("w1")
            assert (group.failures, group.dead, group.task_type) == (7, 0, "fetch")
            assert (group.error_type, group.error_category, group.error_message) == (
                "TimeoutError",
                "network",
                "it's late",
            )
            assert group.last_seen >= group.first_seen
            assert set(store.counts().values()) == {0}
            assert store.counter_check()[1] == store.counts()
            points = store.failure_flow(["w1"], window=3600, step=60)["w1"]
            assert sum(point.count for point in points) == 7
            assert [each.fingerprint for each in store.unannounced_groups()] == ["w1"]
            store.roll_up()
        assert sum(store.pulse().last_hour.values()) == 8

    def test_what_cannot_be_decided_is_refused(self, store):
        with pytest.raises(ValueError, match="would_dance"):
            store.record_observed([("fetch", "dance", "network", "w1", "E", "m")])
        assert store.failure("w1") is None


class TestAudit:
    def test_what_was_asked_for_is_kept(self, store):
        assert store.audits() == []
        before = store.now()
        first = store.audit("ann", "replay", "group:f1", {"count": 3, "names": ["日本語"], "none": None}, "it's fixed")
        second = store.audit("bob", "pause", "queue:mail")
        third = store.audit("ann", "discard", "group:f1", reason="'); DROP TABLE audit_log; --")
        assert first < second < third
        entries = store.audits()
        assert [each.id for each in entries] == [third, second, first]
        oldest = entries[-1]
        assert oldest[2:] == (
            "ann",
            "replay",
            "group:f1",
            {"count": 3, "names": ["日本語"], "none": None},
            "it's fixed",
        )
        assert before - timedelta(seconds=1) <= oldest.at <= store.now() + timedelta(seconds=1)
        assert (entries[1].detail, entries[1].reason) == ({}, "")

    def test_filters(self, store):
        numbers = [store.audit("ann", action, subject) for action in ("replay", "edit") for subject in ("x", "y", "x")]

        def found(**which):
            return [numbers.index(each.id) for each in store.audits(**which)]

        assert found(subject="x") == [5, 3, 2, 0]
        assert found(action="edit") == [5, 4, 3]
        assert found(action="edit", subject="x") == [5, 3]
        assert found(limit=2) == [5, 4]
        assert found(before=numbers[4], limit=2) == [3, 2]
        assert found(before=numbers[3], subject="x") == [2, 0]
        assert found(subject="%") == []


def test_rows_are_counted_as_they_are(store):
    assert set(store.counter_check()[1].values()) == {0}
    assert store.counter_check()[1].keys() == store.counts().keys()
    register(store)
    add(store, *(task(queue="x") for _ in range(3)), *(task() for _ in range(6)))
    first, second, third, fourth, *_ = claim(store)
    turn(store, done=[(first.id, first.epoch)])
    settle(store, second, Kind.PARK)
    fail(store, third)
    fail(store, fourth)
    store.discard(store.dead_letters(ALL)[0].id)
    store.cancel([each.id for each in store.find(TaskFilter(status=Status.QUEUED, limit=1))])
    expected = {
        "QUEUED": 2, "RUNNING": 2, "PARKED": 1, "DONE": 1, "FAILED": 1, "CANCELLED": 1, "DISCARDED": 1, "dead_letters": 1
    }  # fmt: skip
    assert store.counter_check()[1] == store.counts() == expected


def test_a_count_sees_what_the_books_cannot_know(store, database):
    bury(store)
    add(store)
    with database.connect() as connection:
        connection.execute("UPDATE task_queue SET status = 'DONE'")
        connection.execute("DELETE FROM dead_letter_queue")
        connection.commit()
    connection.close()
    counted = {name: number for name, number in store.counter_check()[1].items() if number}
    assert counted == {"DONE": 2}
