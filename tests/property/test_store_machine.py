"""Every store against a small model of the queue, in whatever order things happen.

What holds at every moment: each task that was enqueued is in one place, a dead letter is there exactly for what failed,
and nothing is in two hands. The books say the same as a count would, whatever was added up meanwhile.
"""

import os
from collections import Counter
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from conformance.acting import NOTE, register, turn
from conformance.places import PostgresPlace, SqlitePlace, need_postgres
from outlast import clock
from outlast.ports.read_rows import FlowEvent
from outlast.ports.rows import Claim, DeadLetterFilter, Kind, Reason, Settlement, TaskFilter
from outlast.ports.triage import NewReplay, ReplayState
from outlast.stores.rules import worker_lost_note
from outlast.testing import FakeClock
from property.queue_model import LATER, LIVE, LOST, Model, names, tasks

CRASH_LIMIT = 2
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


class StoreMachine(RuleBasedStateMachine):
    """Two workers, two queues, two resources. Where the store reads our clock, time passes only when told."""

    place = None  # a function that makes a place with an empty store
    own_clock = False  # PostgreSQL has its own, which nobody can turn

    @initialize(batch=st.lists(tasks, min_size=4, max_size=12))
    def begin(self, batch):
        self.before = clock.use(None)
        self.clock = FakeClock(1_700_000_000)
        if not self.own_clock:
            clock.use(self.clock)
        self.here = type(self).place()
        self.store = self.here.opened[0] if self.own_clock else self.here.open()
        self.store.create_schema()
        self.model = Model()
        self.model.now = self.clock.now()
        self.handles = []
        self.numbers = count(1)
        self.last = 0
        self.names = [self.newcomer(), self.newcomer()]
        self.add(batch)

    def teardown(self):
        if hasattr(self, "store"):
            clock.use(self.before)
            if not self.own_clock:
                self.here.close()

    def newcomer(self):
        name = f"w{next(self.numbers)}"
        register(self.store, name)
        self.model.workers.add(name)
        return name

    def tick(self):
        """A clock of its own moves by itself, if only a little."""
        if self.own_clock:
            self.model.now += 1e-3

    @rule(batch=st.lists(tasks, min_size=1, max_size=4))
    def enqueue(self, batch):
        self.add(batch)

    def add(self, batch):
        self.tick()
        last = self.last
        for new, answer in zip(batch, self.store.enqueue(batch), strict=True):
            taken = self.model.key_holder(new.task_type, new.unique_key)
            assert answer.created == (taken is None)
            if taken is None:
                assert answer.id > last
                last = self.last = answer.id
                self.model.add(answer.id, new)
            else:
                assert answer.id == taken

    @rule(
        worker=st.integers(0, 1), queues=names([("a", "b"), ("b", "a"), ("a",)]), limit=st.integers(1, 4),
        start=st.integers(0, 4), suspect=names([False, False, True]),
    )  # fmt: skip
    def claim(self, worker, queues, limit, start, suspect):
        self.take(worker, queues, limit, start, suspect)

    def take(self, worker, queues, limit, start, suspect):
        self.tick()
        if suspect:
            limit = start = 1
        expected = self.model.claimable(queues, limit, suspect)
        name = self.names[worker]
        claimed = turn(self.store, name, claim=Claim(queues, limit, start, suspect)).claimed
        assert [each.id for each in claimed] == expected
        for place, each in enumerate(claimed):
            task = self.model.tasks[each.id]
            assert (each.attempt, each.retry_count, each.started) == (task.attempt + 1, task.retries, place < start)
            assert (each.suspect, each.resource, each.task_type) == (suspect, task.resource, task.task_type)
            assert (each.canary, each.crash_count) == (task.canary, task.crashes if suspect else 0)
            self.model.take(each.id, each, name, started=place < start, suspect=suspect)
            self.handles.append(each)
        return claimed

    @rule(worker=st.integers(0, 1), kinds=st.lists(names(list(Kind)), min_size=1, max_size=4), suspect=st.booleans())
    def work(self, worker, kinds, suspect):
        for handle, kind in zip(self.take(worker, ("a", "b"), len(kinds), len(kinds), suspect), kinds, strict=False):
            self.end(handle, kind, 0.0, worker)

    @rule(worker=st.integers(0, 1), limit=st.integers(1, 4), start=st.integers(0, 4), suspect=st.booleans())
    def crash(self, worker, limit, start, suspect):
        self.take(worker, ("b", "a"), limit, start, suspect)
        self.a_lease_runs_out(worker)
        self.rescue()

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), kind=names(list(Kind)), delay=names([0.0, 0.0, LATER]), worker=st.integers(0, 1))
    def settle(self, data, kind, delay, worker):
        """By whoever: what counts is the epoch, which may be old."""
        handle = self.handles[-1 - data.draw(st.integers(0, min(len(self.handles) - 1, 12)))]
        self.end(handle, kind, delay, worker)

    def end(self, handle, kind, delay, worker):
        self.tick()
        reason = Reason.EXHAUSTED if kind is Kind.FAIL or (kind is Kind.CRASH and delay) else None
        note = NOTE if kind in {Kind.RETRY, Kind.FAIL, Kind.CRASH} or (kind is Kind.DEFER and delay) else None
        settlement = Settlement(handle.id, handle.epoch, kind, delay=delay, note=note, reason=reason)
        if kind is Kind.DONE:
            refused = turn(self.store, self.names[worker], done=[(handle.id, handle.epoch)]).refused
        else:
            refused = turn(self.store, self.names[worker], settlements=[settlement]).refused
        if self.model.accepts(handle.id, handle):
            assert refused == []
            self.model.settle(handle.id, kind, delay, note and note.fingerprint)
        else:
            assert refused == [handle.id]

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), wrong=names([0, 0, 0, 1000, -1]), worker=st.integers(0, 1))
    def start(self, data, wrong, worker):
        handle = self.handles[-1 - data.draw(st.integers(0, min(len(self.handles) - 1, 12)))]
        refused = turn(self.store, self.names[worker], start=[(handle.id, handle.epoch + wrong)]).refused
        if wrong == 0:
            mine = self.model.accepts(handle.id, handle)
            assert refused == ([] if mine else [handle.id])
            if mine:
                self.model.start(handle.id)
        else:
            assert refused == [handle.id]

    @rule(worker=st.integers(0, 1))
    def a_lease_runs_out(self, worker):
        self.store.heartbeat(self.names[worker], -1, "running")
        self.model.expired.add(self.names[worker])

    @rule(worker=st.integers(0, 1))
    def a_heartbeat(self, worker):
        self.store.heartbeat(self.names[worker], 1e6, "running")
        self.model.expired.discard(self.names[worker])

    @rule()
    def rescue(self):
        self.tick()
        rescued = self.store.rescue(CRASH_LIMIT)
        assert {each.task_id: each.outcome for each in rescued} == self.model.rescue(CRASH_LIMIT)
        assert len({each.task_id for each in rescued}) == len(rescued)
        self.names = [name if name in self.model.workers else self.newcomer() for name in self.names]

    @rule(worker=st.integers(0, 1))
    def leave(self, worker):
        name = self.names[worker]
        assert self.store.leave(name) == self.model.give_back(name)
        self.model.workers.discard(name)
        self.model.expired.discard(name)
        self.names[worker] = self.newcomer()

    @rule(worker=st.integers(0, 1), data=st.data())
    def reconcile(self, worker, data):
        name = self.names[worker]
        held = [number for number, _ in self.model.held_by(name)]
        kept = data.draw(st.lists(names(held), unique=True)) if held else []
        assert self.store.reconcile(name, kept) == self.model.give_back(name, kept)

    @precondition(lambda self: self.model.letters)
    @rule(data=st.data(), verb=names(["replay", "replay", "discard"]))
    def replay_or_discard(self, data, verb):
        self.see_to(data.draw(names(sorted(self.model.letters))), verb)

    @rule(
        worker=st.integers(0, 1),
        verbs=st.lists(names(["replay", "replay", "discard", "leave"]), min_size=1, max_size=3),
    )
    def bury(self, worker, verbs):
        """One task or a few end as dead letters, and somebody sees to them at once."""
        taken = self.take(worker, ("a", "b"), len(verbs), len(verbs), False)
        for handle, verb in zip(taken, verbs, strict=False):
            self.end(handle, Kind.FAIL, 0.0, worker)
            if verb != "leave":
                self.see_to(handle.id, verb)

    def see_to(self, number, verb):
        self.tick()
        (letter,) = [each for each in self.store.dead_letters(DeadLetterFilter()) if each.original_task_id == number]
        if verb == "discard":
            assert self.store.discard(letter.id) == "discarded"
            self.model.discard(number)
        else:
            assert self.store.replay(letter.id) == self.model.replay(number)
        if number not in self.model.letters:
            assert (self.store.replay(letter.id), self.store.discard(letter.id)) == ("gone", "gone")

    @rule(task_type=names([None, None, "x", "y"]), limit=names([None, None, 1, 2]))
    def begin_a_replay(self, task_type, limit):
        begun = self.store.add_replay(NewReplay(DeadLetterFilter(task_type=task_type, limit=limit)))
        assert begun.total == self.model.begin_replay(begun.id, task_type, limit).total

    @precondition(lambda self: self.model.replays)
    @rule(data=st.data(), owner=names(["me", "me", "you"]), limit=st.integers(0, 3), canary=st.booleans())
    def carry_a_replay_on(self, data, owner, limit, canary):
        """By whoever holds it, and in vain by who held it before."""
        self.tick()
        run = self.model.replays[-1 - data.draw(st.integers(0, min(len(self.model.replays) - 1, 2)))]
        before = self.store.replay_run(run.number)
        assert self.store.replay_step(run.number, before.epoch + 1, limit, stage=1, canary=canary) is None
        claimed = None
        for _ in self.model.replays:  # each claim gives another one, in turn: the lease of the last one is the longest
            claimed = self.store.claim_replay(owner, next(self.numbers) - 1e6)
            if claimed is None or claimed.id == run.number:
                break
        assert (claimed is not None and claimed.id == run.number) == (run.state == "running")
        epoch = before.epoch if claimed is None or claimed.id != run.number else claimed.epoch
        step = self.store.replay_step(run.number, epoch, limit, stage=1, canary=canary)
        if run.state != "running":
            assert step is None
            return
        assert (step.replayed, step.conflicts) == self.model.step(run, limit, canary=canary)
        assert step.more or not run.meant or not limit

    @precondition(lambda self: self.model.replays)
    @rule(data=st.data(), state=names([ReplayState.STOPPED, ReplayState.CANCELLED, ReplayState.DONE, None]))
    def end_or_resume_a_replay(self, data, state):
        run = self.model.replays[-1 - data.draw(st.integers(0, min(len(self.model.replays) - 1, 2)))]
        if state is not None:
            assert self.store.end_replay(run.number, state, "why") == (run.state == "running")
            run.state = str(state) if run.state == "running" else run.state
        else:
            resumed = self.store.resume_replay(run.number)
            assert (resumed is not None) == (run.state in {"stopped", "cancelled"})
            if resumed is not None:
                self.model.resume(run)

    @precondition(lambda self: self.model.tasks)
    @rule(data=st.data(), verb=names(["cancel", "run_now"]))
    def cancel_or_hurry(self, data, verb):
        self.tick()
        chosen = data.draw(st.lists(names(sorted(self.model.tasks)), unique=True, max_size=3))
        fitting = {"QUEUED", "PARKED"} if verb == "cancel" else {"QUEUED"}
        expected = [number for number in chosen if self.model.tasks[number].status in fitting]
        assert sorted(getattr(self.store, verb)(chosen)) == sorted(expected)
        for number in expected:
            if verb == "cancel":
                self.model.cancel(number)
            else:
                task = self.model.tasks[number]
                task.due = min(task.due, self.model.now)

    @rule()
    def prune(self):
        assert self.store.prune(done_before=-1e6) == self.model.prune()

    @rule(wait=names([0.0, 30.0, 30.0, LATER, 240 * LATER]))
    def roll_up(self, wait):
        if not self.own_clock:
            self.time_passes(wait)
        elif wait:
            self.here.age_deltas()
        assert self.store.roll_up() >= 0

    @rule(queue=names(["a", "b"]), verb=names(["pause", "resume", "resume"]))
    def pause_or_resume(self, queue, verb):
        getattr(self.store, verb)(queue)
        (self.model.paused.add if verb == "pause" else self.model.paused.discard)(queue)

    @rule(resource=names(["r1", "r2"]), seconds=names([LATER, 2 * LATER]))
    def start_cooldown(self, resource, seconds):
        self.tick()
        self.store.start_cooldown(resource, seconds, "busy")
        self.model.cooling[resource] = max(self.model.cooling.get(resource, 0), self.model.now + seconds)
        self.model.move_cooling()

    @rule(resource=names(["r1", "r2"]))
    def end_cooldown(self, resource):
        self.tick()
        self.store.end_cooldown(resource)
        self.model.end_cooldown(resource)

    @rule(task_type=names(["x", "y"]))
    def unpark(self, task_type):
        parked = [each for each in self.model.tasks.values() if (each.status, each.task_type) == ("PARKED", task_type)]
        assert self.store.unpark([task_type]) == len(parked)
        for task in parked:
            task.status = "QUEUED"

    @precondition(lambda self: not self.own_clock)
    @rule(seconds=names([1.0, LATER, 3 * LATER]))
    def some_time_passes(self, seconds):
        self.time_passes(seconds)

    def time_passes(self, seconds):
        for name in self.names:
            if name not in self.model.expired:
                self.store.heartbeat(name, 1e6, "running")
        self.clock.advance(seconds)
        self.model.now += seconds

    @invariant()
    def every_task_is_as_it_should_be(self):
        if not hasattr(self, "store"):
            return
        found = {task.id: task for task in self.store.find(TaskFilter(limit=10_000))}
        assert found.keys() == self.model.tasks.keys()
        for number, task in self.model.tasks.items():
            seen = found[number]
            numbers = (seen.attempt, seen.retry_count, seen.crash_count, seen.deferrals, seen.replays)
            assert numbers == (task.attempt, task.retries, task.crashes, task.deferrals, task.replays)
            assert seen.status == task.status
            assert seen.status not in LIVE or seen.suspect == task.suspect
            assert seen.status != "RUNNING" or seen.worker_id == task.worker

    @invariant()
    def everything_is_in_one_place(self):
        if not hasattr(self, "store"):
            return
        counts, statuses = self.store.counts(), [task.status for task in self.model.tasks.values()]
        assert {name: counts[name] for name in counts if name != "dead_letters"} == {
            name: statuses.count(name) for name in counts if name != "dead_letters"
        }
        live = sum(counts[name] for name in LIVE)
        ended = counts["DONE"] + counts["CANCELLED"] + counts["DISCARDED"]
        pruned = sum(number for name, number in self.model.books.items() if name.startswith("pruned_"))
        assert self.model.books["enqueued"] == live + ended + pruned + counts["dead_letters"]
        letters = [letter.original_task_id for letter in self.store.dead_letters(DeadLetterFilter())]
        assert sorted(letters) == sorted(self.model.letters)
        assert sorted(letters) == sorted(n for n, task in self.model.tasks.items() if task.status == "FAILED")

    @invariant()
    def every_replay_is_as_it_should_be(self):
        for run in self.model.replays[-3:] if hasattr(self, "model") else ():
            found = self.store.replay_run(run.number)
            assert (found.state, found.replayed, found.conflicts) == (run.state, run.replayed, run.conflicts)
            assert found.replayed + found.conflicts <= found.total == run.total
            assert self.store.canaries(run.number)[:3] == self.model.canaries(run)

    @invariant()
    def nothing_is_in_two_hands(self):
        if not hasattr(self, "store"):
            return
        workers = self.store.workers()
        assert {worker.id for worker in workers} == self.model.workers
        assert {worker.id: worker.tasks for worker in workers} == {
            name: len(self.model.held_by(name)) for name in self.model.workers
        }
        assert {worker.id for worker in workers if not worker.alive} == self.model.expired

    @invariant()
    def the_last_ones_have_their_history(self):
        for handle in getattr(self, "handles", ())[-3:]:
            history = [(each.attempt, each.outcome) for each in self.store.attempts(handle.id)]
            known = self.model.tasks.get(handle.id)
            assert history == (known.history if known else [])

    @invariant()
    def the_books_say_what_a_count_would(self):
        if not hasattr(self, "store"):
            return
        books = self.store.event_totals()
        assert books == {str(event): self.model.books[event] for event in FlowEvent}
        live = books["enqueued"] + books["replayed"] - books["done"] - books["failed"] - books["cancelled"]
        rows = Counter(str(task.status) for task in self.store.find(TaskFilter(limit=10_000)))
        letters = self.store.count_dead_letters(DeadLetterFilter())
        assert live == sum(rows[status] for status in LIVE)
        assert books["failed"] - books["replayed"] - books["discarded"] == letters
        counts = self.store.counts()
        assert (
            counts == {name: rows[name] for name in counts} | {"dead_letters": letters} == self.store.counter_check()[1]
        )

    @invariant()
    def the_groups_say_what_a_count_would(self):
        if not hasattr(self, "store"):
            return
        for cause, fingerprint in ((NOTE.fingerprint, NOTE.fingerprint), (LOST, worker_lost_note().fingerprint)):
            group = self.store.failure(fingerprint)
            expected = (self.model.failures[cause], self.model.dead_by(cause))
            assert ((0, 0) if group is None else (group.failures, group.dead)) == expected
        assert sum(self.store.dead_letter_counts().values()) == len(self.model.letters)


def run(make_place, examples, *, own_clock=False):
    machine = type("Machine", (StoreMachine,), {"place": staticmethod(make_place), "own_clock": own_clock})
    chosen = settings(
        max_examples=examples * (30 if SOAK else 1),
        stateful_step_count=60 if SOAK else 40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.timeout(3600 if SOAK else 120)
def test_sqlite(tmp_path):
    numbers = count(1)
    run(lambda: SqlitePlace(tmp_path / f"{next(numbers)}.db"), 80)


@pytest.mark.timeout(3600 if SOAK else 120)
def test_postgres(request):
    need_postgres()
    shared = PostgresPlace(request.getfixturevalue("postgres_server"), "outlast").blank()
    shared.open().create_schema()

    def place():
        shared.clear()
        return shared

    run(place, 15, own_clock=True)
    shared.close()
