"""Cooldowns in one process and between processes (C7, pitfalls 24 and 25): what is kept, shared, forgotten, probed."""

import logging
import threading
import time
from datetime import UTC, datetime

import pytest

from outlast.record.bus import subscribe
from outlast.run import cooldowns as module
from outlast.run.cooldowns import CooldownTracker, KnownCooldown
from outlast.stores.sqlite.memory import MemoryStore
from outlast.stores.sqlite.store import SqliteStore
from outlast.testing import fake_clock


@pytest.fixture
def clock():
    with fake_clock() as clock:
        yield clock


def soon(condition):
    limit = time.monotonic() + 10
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    return condition()


def written(cooling):
    """Wait until the store knows it all."""
    return soon(lambda: not cooling._writes)


def test_nothing_cools_at_first():
    cooling = CooldownTracker()
    assert (cooling.left("a"), cooling.admit("a"), cooling.waits()) == (0, 0, {})


def test_a_scope_is_left_alone_until_its_time_is_over(clock):
    cooling = CooldownTracker()
    cooling.start_cooldown("a", 10, "busy")
    clock.advance(4)
    assert (cooling.left("a"), cooling.admit("a"), cooling.left("b")) == (6, 6, 0)
    assert cooling.waits() == {"a": 6}
    clock.advance(6)
    assert (cooling.left("a"), cooling.waits(), cooling._known) == (0, {}, {})


def test_a_longer_cooldown_stays(clock):
    cooling = CooldownTracker()
    cooling.start_cooldown("a", 10, "busy")
    cooling.start_cooldown("a", 3, "busy")
    assert cooling.left("a") == 10
    cooling.start_cooldown("a", 20, "busier")
    assert cooling.left("a") == 20


def test_a_longer_cooldown_that_was_capped_stays_too(clock):
    cooling = CooldownTracker()
    cooling.start_cooldown("a", 3600, "busy", capped=True)
    cooling.start_cooldown("a", 3, "of a request that was under way")
    assert cooling.left("a") == 3600


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_no_time_is_no_cooldown(seconds):
    cooling = CooldownTracker()
    assert cooling.start_cooldown("a", seconds, "busy") == 0
    assert cooling.left("a") == 0


def test_c7_after_a_capped_cooldown_one_caller_tries(clock):
    cooling = CooldownTracker()
    cooling.start_cooldown("a", 3600, "busy", capped=True)
    assert cooling.admit("a") == 3600
    clock.advance(3600)
    assert cooling.left("a") == 0, "to look is not to try"
    assert [cooling.admit("a") for _ in range(3)] == [0, 60, 60]
    cooling.answered("a")
    assert [cooling.admit("a") for _ in range(3)] == [0, 0, 0]


def test_c7_of_many_threads_one_tries(clock):
    cooling, given = CooldownTracker(), []
    cooling.start_cooldown("a", 3600, "busy", capped=True)
    clock.advance(3600)
    gate = threading.Barrier(20)

    def ask():
        gate.wait()
        given.append(cooling.admit("a"))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(given) == [0] + [60] * 19


def test_a_probe_that_never_answers_holds_nobody_for_ever(clock):
    cooling = CooldownTracker()
    cooling.start_cooldown("a", 3600, "busy", capped=True)
    clock.advance(3600)
    assert cooling.admit("a") == 0
    clock.advance(60)
    assert [cooling.admit("a"), cooling.admit("a")] == [0, 60]


def test_a_probe_that_is_answered_with_a_wait_starts_that_wait(clock):
    cooling = CooldownTracker()
    cooling.start_cooldown("a", 3600, "busy", capped=True)
    clock.advance(3600)
    cooling.admit("a")
    cooling.start_cooldown("a", 5, "still busy")
    assert cooling.left("a") == 5
    clock.advance(5)
    assert [cooling.admit("a"), cooling.admit("a")] == [0, 0]


def test_c7_the_second_capped_answer_in_a_row_is_told(clock, caplog):
    cooling = CooldownTracker()
    assert cooling.start_cooldown("a", 3600, "busy", capped=True) == 1
    assert cooling.start_cooldown("a", 3600, "busy", capped=True) == 1, "a request that was under way"
    assert not caplog.records
    clock.advance(3600)
    cooling.admit("a")
    assert cooling.start_cooldown("a", 3600, "busy", capped=True) == 2
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_an_answer_without_a_probe_ends_nothing(clock):
    cooling = CooldownTracker()
    cooling.start_cooldown("a", 10, "busy")
    cooling.answered("a")
    assert cooling.left("a") == 10
    cooling.end_cooldown("a")
    assert cooling.left("a") == 0


def test_pitfall_7_a_jump_of_the_wall_clock_changes_nothing(clock):
    cooling = CooldownTracker()
    cooling.start_cooldown("a", 10, "busy")
    clock.jump(3600)
    assert cooling.left("a") == 10
    clock.jump(-7200)
    assert cooling.left("a") == 10


def test_what_is_over_is_forgotten_though_nobody_asks(clock):
    cooling = CooldownTracker()
    for number in range(50_000):
        cooling.start_cooldown(f"host/{number}", 10, "busy", capped=number % 10 == 0)
        clock.advance(1)
    assert len(cooling._known) < 3000


def test_it_is_told_to_subscribers(clock):
    told = []
    end = subscribe(told.append)
    try:
        CooldownTracker().start_cooldown("a", 10, "busy", capped=True)
    finally:
        end()
    (event,) = told
    assert (event.resource, event.seconds, event.reason, event.capped) == ("a", 10, "busy", True)


class Store:
    """A store that can be taken down."""

    def __init__(self):
        self.down = self.slow = False
        self.gate = threading.Event()
        self.cooled, self.calls = [], 0

    def _asked(self):
        self.calls += 1
        if self.slow:
            self.gate.wait(20)
        if self.down:
            raise OSError("the database is away")

    def now(self):
        return datetime.now(UTC)

    def cooldowns(self):
        self._asked()
        return []

    def start_cooldown(self, resource, seconds, reason, *, capped=False):
        self._asked()
        self.cooled.append((resource, reason, capped))
        self.seconds = seconds
        return int(capped)

    def probe(self, resource, hold):
        self._asked()
        return True

    def end_cooldown(self, resource):
        self._asked()


@pytest.fixture
def store():
    store = Store()
    yield store
    store.gate.set()


@pytest.fixture
def cooling_of(request):
    opened = []

    def make(store):
        opened.append(CooldownTracker(store))
        return opened[-1]

    yield make
    for cooling in opened:
        cooling.close()


def test_pitfall_25_with_the_store_down_the_local_limit_holds_and_one_warning_says_so(store, cooling_of, caplog):
    store.down = True
    cooling = cooling_of(store)
    assert cooling.left("a") == 0
    for _ in range(20):
        cooling.start_cooldown("a", 100, "busy", capped=True)
        assert 99 < cooling.left("a") <= 100
        assert cooling.admit("a") > 99
    cooling.end_cooldown("a")
    assert cooling.left("a") == 0
    warnings = [record for record in caplog.records if "could not read cooldowns" in record.message]
    assert len(warnings) == 1


def test_a_store_that_is_down_is_not_asked_by_every_request(store, cooling_of):
    store.down = True
    cooling = cooling_of(store)
    cooling.left("a")
    before = store.calls
    for number in range(100):
        cooling.start_cooldown(f"host-{number}", 100, "busy")
    assert store.calls - before < 20


def test_what_was_learnt_while_the_store_was_down_is_shared_when_it_is_back(store, cooling_of):
    store.down = True
    cooling = cooling_of(store)
    cooling.left("a")
    cooling.start_cooldown("a", 100, "busy", capped=True)
    assert store.cooled == []
    store.down = False
    assert soon(lambda: store.cooled == [("a", "busy", True)])
    assert 50 < store.seconds < 100, "what is left of it"
    cooling.start_cooldown("b", 50, "busy")
    assert written(cooling)
    assert store.cooled[-1] == ("b", "busy", False)
    assert 40 < store.seconds <= 50


def test_a_store_that_hangs_is_waited_for_once(store, cooling_of, monkeypatch):
    monkeypatch.setattr(module, "FIRST_LOOK", 0.05)
    store.slow = True
    cooling = cooling_of(store)
    assert not cooling.is_quick("a")
    assert cooling.left("a") == 0
    assert cooling.is_quick("a")
    waited = []
    monkeypatch.setattr(cooling._looked, "wait", waited.append)
    assert [cooling.left("a") for _ in range(100)] == [0] * 100
    assert waited == []


def test_a_thread_that_went_to_rest_is_started_again_outside_of_the_event_loop(store, cooling_of, monkeypatch):
    monkeypatch.setattr(module, "_IDLE_AFTER", 0.0)
    monkeypatch.setattr(module, "EVERY", 0.01)
    cooling = cooling_of(store)
    cooling.left("a")
    assert soon(lambda: cooling._thread is None)
    assert not cooling.is_quick("a"), "it has to look again first"
    monkeypatch.setattr(module, "_IDLE_AFTER", 30.0)
    assert cooling.left("a") == 0
    assert cooling.is_quick("a")


def test_a_closed_one_answers_from_what_it_knows(store, cooling_of):
    cooling = cooling_of(store)
    cooling.start_cooldown("a", 100, "busy")
    thread = cooling._thread
    cooling.close()
    thread.join(10)
    began = threading.active_count()
    assert cooling.left("a") > 99
    assert cooling.is_quick("a")
    assert [cooling.left("b") for _ in range(50)] == [0] * 50
    assert threading.active_count() <= began


@pytest.fixture
def two(tmp_path, cooling_of):
    """Two processes' views of one real store."""
    stores = [SqliteStore(tmp_path / "a.db") for _ in range(2)]
    yield [cooling_of(store) for store in stores]
    for store in stores:
        store.close()


def test_pitfall_25_a_cooldown_of_one_process_is_every_ones(two):
    here, there = two
    assert there.left("a") == 0
    here.start_cooldown("a", 100, "busy")
    assert here.left("a") > 99
    assert soon(lambda: there.left("a") > 90)
    assert there.left("b") == 0, "other hosts are untouched"


def test_a_process_that_begins_later_knows_before_its_first_request(two):
    here, there = two
    here.start_cooldown("a", 100, "busy")
    assert written(here)
    assert there.left("a") > 90


def test_a_cooldown_that_is_ended_by_hand_ends_everywhere(two):
    here, there = two
    here.start_cooldown("a", 100, "busy")
    assert soon(lambda: there.left("a") > 90)
    here.end_cooldown("a")
    assert soon(lambda: there.left("a") == 0)
    there.start_cooldown("b", 100, "busy")
    assert soon(lambda: here.left("b") > 90)
    here._store.end_cooldown("b")
    assert soon(lambda: here.left("b") == there.left("b") == 0)


def over(cooling):
    """Wait until the store has known it, and says so too: its clock begins a moment later."""
    return written(cooling) and soon(lambda: not cooling._store.cooldowns())


def test_c7_of_two_processes_one_tries(two):
    here, there = two
    here.start_cooldown("a", 0.3, "busy", capped=True)
    assert over(here)
    assert soon(lambda: here.left("a") == 0 and there.left("a") == 0)
    there._known.update(here._known)  # it has seen it running
    first, second = here.admit("a"), there.admit("a")
    assert (first, second > 0) == (0, True)
    assert soon(lambda: there.left("a") > 30), "it waits for the other's probe"
    time.sleep(2 * module.EVERY)  # the first looks at its own hold in the store meanwhile
    here.answered("a")
    assert soon(lambda: there.admit("a") == 0)


def test_c7_capped_answers_of_two_processes_are_counted_together(two):
    here, there = two
    assert here.start_cooldown("a", 0.3, "busy", capped=True) == 1
    assert over(here)
    assert there.start_cooldown("a", 100, "busy", capped=True) == 1, "as far as it knows"
    assert written(there)
    (row,) = there._store.cooldowns()
    assert row.capped == there._known["a"].capped == 2


def test_a_look_that_was_under_way_brings_nothing_back_that_was_ended(cooling_of):
    looking, go, seen = threading.Event(), threading.Event(), []

    class Slow(MemoryStore):
        def cooldowns(self):
            rows = super().cooldowns()
            looking.set()
            assert go.wait(10)
            seen.append(dict(cooling._known))
            return rows

    store = Slow()
    store.start_cooldown("a.example", 60, "busy")
    cooling = cooling_of(store)
    cooling._known["a.example"] = KnownCooldown(time.monotonic() + 60, 0, shared=True)
    cooling._keep_up(patient=False)
    assert looking.wait(10)
    cooling.end_cooldown("a.example")
    go.set()
    assert soon(lambda: len(seen) > 1)
    assert seen[1] == {}
    assert cooling.waits() == {}
