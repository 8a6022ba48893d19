"""Cooldowns on their way to the store: in their order, never waited for, and told again when it was away."""

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from outlast.run import cooldowns as module
from outlast.run.cooldowns import CooldownTracker
from outlast.sources.monitor import SharedCooldownTracker
from outlast.stores.sqlite.memory import MemoryStore
from outlast.stores.sqlite.store import SqliteStore
from outlast.testing import fake_clock


class Row(NamedTuple):
    """A cooldown as a store tells it."""

    resource: str
    until: datetime
    capped: int


def soon(condition):
    limit = time.monotonic() + 10
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    return condition()


class Store:
    """A store in memory that can be slow, or away."""

    def __init__(self):
        self.inner = MemoryStore()
        self.away, self.asked, self.gates = False, [], {}

    def __getattr__(self, name):
        call = getattr(self.inner, name)

        def asked(*args, **given):
            self.asked.append((name, *args[:1]))
            if name in self.gates:
                assert self.gates[name].wait(20)
            if self.away:
                raise OSError("the database is away")
            return call(*args, **given)

        return asked


@pytest.fixture
def store():
    store = Store()
    yield store
    for gate in store.gates.values():
        gate.set()


@pytest.fixture
def made():
    opened = []

    def make(kind, *args):
        opened.append(kind(*args))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def written(cooling):
    return soon(lambda: not cooling._writes)


def probing(cooling, scope="a"):
    """Have a cooldown end that was capped, and be the one who tries."""
    cooling.start_cooldown(scope, 0.2, "busy", capped=True)
    assert written(cooling)
    assert soon(lambda: cooling.left(scope) == 0 and not cooling._store.cooldowns())
    assert cooling.admit(scope) == 0
    assert cooling.is_probing(scope)


def test_an_answer_that_asks_to_wait_is_not_undone_by_the_success_before_it(store, made):
    cooling = made(CooldownTracker, store)
    probing(cooling)
    store.gates["end_cooldown"] = threading.Event()
    cooling.answered("a")
    assert soon(lambda: ("end_cooldown", "a") in store.asked)
    assert cooling.admit("a") == 0
    cooling.start_cooldown("a", 100, "429 of the next request")
    store.gates["end_cooldown"].set()
    assert written(cooling)
    (row,) = store.inner.cooldowns()
    assert (row.reason, row.capped) == ("429 of the next request", 0)
    assert soon(lambda: store.asked.count(("cooldowns",)) > 3)
    assert cooling.left("a") > 90


def test_pitfall_25_a_store_that_hangs_is_not_waited_for(store, made):
    store.gates["start_cooldown"] = threading.Event()
    cooling = made(CooldownTracker, store)
    assert cooling.start_cooldown("a", 100, "busy", capped=True) == 1
    assert soon(lambda: ("start_cooldown", "a") in store.asked)
    for number in range(50):
        cooling.start_cooldown(f"host-{number}", 100, "busy")
    assert len(cooling.waits()) == 51
    assert store.inner.cooldowns() == []
    store.gates["start_cooldown"].set()
    assert soon(lambda: len(store.inner.cooldowns()) == 51)


def test_what_is_written_is_what_is_left_of_it(store, made):
    cooling = made(CooldownTracker, store)
    cooling.left("a")
    store.away = True
    cooling.start_cooldown("over", 0.05, "busy")
    cooling.start_cooldown("long", 100, "busy")
    assert soon(lambda: cooling.left("over") == 0 and ("start_cooldown", "long") in store.asked)
    store.asked.clear()
    store.away = False
    assert written(cooling)
    assert ("start_cooldown", "over") not in store.asked
    assert [row.resource for row in store.inner.cooldowns()] == ["long"]


def test_one_that_the_store_refuses_keeps_no_other_back(store, made):
    cool = store.inner.start_cooldown

    def refusing(resource, *args, **given):
        if resource == "bad":
            raise ValueError("no such text")
        return cool(resource, *args, **given)

    store.inner.start_cooldown = refusing
    cooling = made(CooldownTracker, store)
    for scope in ("bad", "a", "b"):
        cooling.start_cooldown(scope, 100, "busy")
    assert soon(lambda: [row.resource for row in store.inner.cooldowns()] == ["a", "b"])


def test_of_two_that_are_not_written_yet_the_longer_one_is(store, made):
    store.away = True
    cooling = made(CooldownTracker, store)
    for seconds in (10, 100, 5):
        cooling.start_cooldown("a", seconds, f"{seconds} s")
    store.away = False
    assert written(cooling)
    (row,) = store.inner.cooldowns()
    assert row.reason == "100 s"


def test_closing_writes_what_is_not_written(store):
    store.gates["cooldowns"] = threading.Event()
    cooling = CooldownTracker(store)
    cooling.start_cooldown("first", 100, "busy")
    assert soon(lambda: ("cooldowns",) in store.asked)
    cooling.start_cooldown("a", 100, "busy")
    assert [row.resource for row in store.inner.cooldowns()] == ["first"]
    threading.Timer(0.1, store.gates["cooldowns"].set).start()
    cooling.close()
    assert [row.resource for row in store.inner.cooldowns()] == ["a", "first"]
    cooling.start_cooldown("b", 100, "busy")
    assert (cooling.left("b") > 90, bool(cooling._writes)) == (True, False)


def test_a_process_that_ends_at_once_has_written_it(tmp_path):
    program = (
        "import sys; from outlast.run.cooldowns import CooldownTracker; from outlast.stores.sqlite.store import SqliteStore; "
        "CooldownTracker(SqliteStore(sys.argv[1])).start_cooldown('a', 100, 'busy')"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "a.db")], check=True, timeout=60)
    store = SqliteStore(tmp_path / "a.db")
    try:
        assert [row.resource for row in store.cooldowns()] == ["a"]
    finally:
        store.close()


def test_without_a_store_nothing_is_kept_of_what_is_over():
    cooling = CooldownTracker()
    for number in range(100):
        cooling.start_cooldown(f"host-{number}", 10, "busy")
        cooling.end_cooldown(f"host-{number}")
    assert (cooling._known, bool(cooling._writes), cooling._thread) == ({}, False, None)


def states(store):
    return [alert.state for alert in sorted(store.inner.alerts(), key=lambda alert: alert.id)]


def test_c7_the_second_capped_answer_is_told_when_the_store_is_back(store, made, caplog):
    cooling = made(SharedCooldownTracker, store)
    probing(cooling)
    store.away = True
    assert cooling.start_cooldown("a", 3600, "busy", capped=True) == 2
    assert soon(lambda: store.asked[-1:] == [("cooldowns",)])
    assert states(store) == []
    store.away = False
    assert soon(lambda: states(store) == ["capped"])
    assert written(cooling)
    assert [record.message for record in caplog.records if "2 times in a row" in record.message]


def test_an_alert_that_could_not_be_raised_is_raised_later(store, made):
    cooling = made(SharedCooldownTracker, store)
    probing(cooling)
    raising = store.inner.raise_alerts

    def failing(_alerts):
        raise OSError("the database is away")

    store.inner.raise_alerts = failing
    cooling.start_cooldown("a", 3600, "busy", capped=True)
    assert soon(lambda: store.asked.count(("start_cooldown", "a")) > 2)
    store.inner.raise_alerts = raising
    assert soon(lambda: states(store) == ["capped"])
    assert [row.capped for row in store.inner.cooldowns()] == [2], "counted once"


@pytest.mark.parametrize("how", ["answers", "asks for less"])
def test_an_alert_is_over_when_a_scope_answers_or_asks_for_less(how, store, made):
    cooling = made(SharedCooldownTracker, store)
    probing(cooling)
    cooling.start_cooldown("a", 3600, "busy", capped=True)
    assert soon(lambda: states(store) == ["capped"])
    if how == "answers":
        cooling.end_cooldown("a")
    else:
        cooling.start_cooldown("a", 5, "busy")
    assert soon(lambda: states(store) == ["capped", None])


def test_a_probe_that_is_given_back_is_the_next_ones():
    with fake_clock() as clock:
        cooling = CooldownTracker()
        cooling.start_cooldown("a", 3600, "busy", capped=True)
        clock.advance(3600)
        assert [cooling.admit("a"), cooling.admit("a")] == [0, 60]
        cooling.withdrawn("a")
        assert [cooling.admit("a"), cooling.admit("a")] == [0, 60]
        cooling.answered("a")
        cooling.withdrawn("a")
        assert cooling.admit("a") == 0


def test_a_probe_that_is_given_back_is_any_processes(tmp_path, made):
    stores = [SqliteStore(tmp_path / "a.db") for _ in range(2)]
    here, there = (made(CooldownTracker, store) for store in stores)
    there.left("a")
    probing(here)
    assert soon(lambda: there.left("a") > 30)
    here.withdrawn("a")
    assert soon(lambda: there.is_probing("a") or there.admit("a") == 0)
    assert there.is_probing("a"), "and it is still one who tries"
    assert here.admit("a") > 0
    here.close()
    there.close()
    for store in stores:
        store.close()


def test_a_probe_that_is_taken_again_is_not_given_back(store, made):
    cooling = made(CooldownTracker, store)
    probing(cooling)
    store.gates["cooldowns"] = threading.Event()
    assert soon(lambda: store.asked[-1] == ("cooldowns",))
    cooling.withdrawn("a")
    with cooling._lock:
        cooling._known["a"] = cooling._known["a"]._replace(probing=True)
    store.asked.clear()
    store.gates["cooldowns"].set()
    assert written(cooling)
    assert ("end_cooldown", "a") not in store.asked


def test_without_another_thread_what_is_known_holds(store, made, monkeypatch):
    cooling = made(CooldownTracker, store)

    def failing(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", failing)
        assert cooling.left("a") == 0
        assert cooling.start_cooldown("a", 100, "busy", capped=True) == 1
        assert cooling.left("a") > 90
        cooling.start_cooldown("b", 100, "busy", capped=True)
        cooling._known["b"] = cooling._known["b"]._replace(probing=True)
        cooling.answered("b")
        assert cooling.left("b") == 0
    assert cooling.left("a") > 90
    assert soon(lambda: [row.resource for row in store.inner.cooldowns()] == ["a"]), "told as soon as there is one"


class Passing:
    """A store in which others' cooldowns come and go."""

    looks = 0

    def now(self):
        return datetime.now(UTC)

    def cooldowns(self):
        self.looks += 1
        until = datetime.now(UTC) + timedelta(seconds=0.02)
        return [Row(f"host-{self.looks}-{number}", until, 0) for number in range(100)]


def test_what_others_have_told_is_forgotten_when_it_is_over(made, monkeypatch):
    monkeypatch.setattr(module, "EVERY", 0.03)
    cooling = made(CooldownTracker, Passing())
    cooling.left("other")
    assert soon(lambda: cooling._store.looks > 10)
    assert len(cooling._known) <= 200


def test_c7_a_capped_cooldown_is_remembered_for_an_hour_after_its_end():
    with fake_clock() as clock:
        cooling = CooldownTracker()
        cooling.start_cooldown("a", 3600, "busy", capped=True)
        clock.advance(3600 + 3599)
        cooling._many = 0
        cooling.start_cooldown("other", 1, "busy")
        assert [cooling.admit("a"), cooling.admit("a")] == [0, 60], "one tries"
        clock.advance(3600 + 60)
        cooling._many = 0
        cooling.start_cooldown("other", 1, "busy")
        assert "a" not in cooling._known


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_a_fork_has_locks_and_threads_of_its_own(store, made):
    store.gates["start_cooldown"] = threading.Event()
    cooling = made(CooldownTracker, store)
    cooling.left("a")
    cooling.start_cooldown("parents", 100, "busy")
    with cooling._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # what hangs is ended
            well = not cooling._writes and cooling._thread is None
            store.gates.clear()
            cooling.start_cooldown("a", 100, "busy")
            well = well and written(cooling) and [row.resource for row in store.inner.cooldowns()] == ["a"]
            os._exit(0 if well else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_copy_shares_them_and_another_process_has_its_own(store):
    cooling = CooldownTracker()
    cooling.start_cooldown("a", 100, "busy")
    assert copy.deepcopy(cooling) is cooling
    assert pickle.loads(pickle.dumps(cooling)).waits() == {}
    with pytest.raises(TypeError, match="store"):
        pickle.dumps(CooldownTracker(store))
