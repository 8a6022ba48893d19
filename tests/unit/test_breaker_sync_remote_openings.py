"""A breaker that another process has opened by its own judgement is open here too, for as long; each opening once."""

import itertools
import threading

import pytest

import outlast
from outlast import BreakerSettings, breaker_sync
from outlast.breaker_sync import BreakerSync, sync_breakers
from outlast.decide.breaker import OPENED_BY_HAND, OPENED_ELSEWHERE
from outlast.errors import BreakerOpenError, NetworkError
from outlast.record.bus import subscribe
from outlast.record.events import BreakerOpened
from outlast.stores.sqlite.memory import MemoryStore
from outlast.testing import fake_clock

_names = (f"taken-{number}" for number in itertools.count())
IN_A_ROW, PROBE = "5 failures in a row", "a probe failed (failures)"


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Other tests have breakers too, in this process."""
    monkeypatch.setattr("outlast.run.resources._resources", {})


@pytest.fixture
def clock():
    with fake_clock() as clock:
        yield clock


@pytest.fixture
def store(clock):
    store = MemoryStore()
    yield store
    store.close()


@pytest.fixture
def guard(clock):
    return outlast.resource(next(_names), breaker=BreakerSettings(consecutive=2, open_for=10, probes=1))


@pytest.fixture
def here(store, guard):
    sync = BreakerSync(store, lambda: "here:1")
    sync.sync()
    return sync


def tell(store, guard, seconds=30.0, reason=IN_A_ROW, state="open", process="there:1"):
    store.report_breakers(process, [(guard.name, state, seconds, reason)])


def refused(guard):
    try:
        guard.withdrawn(guard.enter())
    except BreakerOpenError:
        return True
    return False


def call(guard, error=None):
    try:
        with guard:
            if error is not None:
                raise error
    except NetworkError:
        pass


def own(store, process="here:1"):
    return [(row.state, row.reason) for row in store.breakers() if row.process == process]


def test_open_for_as_long_and_then_tried_by_a_probe_of_its_own(store, guard, here, clock):
    tell(store, guard, 30.0)
    here.sync()
    assert refused(guard)
    clock.advance(29)
    assert refused(guard)
    clock.advance(1.5)
    assert not refused(guard)
    call(guard)
    assert guard.breaker.closed
    here.sync()
    assert own(store) == [("closed", "")]


def test_what_was_taken_over_is_shown_and_not_told_as_its_own(store, guard, here, clock):
    tell(store, guard)
    here.sync()
    here.sync()
    assert own(store) == [("open", OPENED_ELSEWHERE + IN_A_ROW)]
    assert [each.process for each in store.opened_breakers("third:1", [guard.name])] == ["there:1"]
    store.forget_breakers("there:1")
    assert store.opened_breakers("third:1", [guard.name]) == [], "nobody hands it on"


def test_a_failed_probe_of_its_own_is_its_own_judgement(store, guard, here, clock):
    tell(store, guard, 5.0)
    here.sync()
    clock.advance(5.5)
    call(guard, NetworkError("still down"))
    here.sync()
    assert own(store) == [("open", PROBE)]
    assert [each.process for each in store.opened_breakers("there:1", [guard.name])] == ["here:1"]


def test_each_opening_is_taken_over_once(store, guard, here, clock):
    """A program that closes it knows better, until somebody finds another reason."""
    tell(store, guard, 30.0)
    here.sync()
    guard.close()
    clock.advance(3)
    tell(store, guard, 27.0)  # told again, as processes without a lease do
    here.sync()
    assert not refused(guard)
    tell(store, guard, 0, state="closed")
    clock.advance(5)
    tell(store, guard, 30.0)
    here.sync()
    assert refused(guard)


def test_where_it_has_answered_a_failed_probe_elsewhere_changes_nothing(store, guard, here, clock):
    """One machine with a broken line stops the others once, and not again and again."""
    tell(store, guard, 5.0)
    here.sync()
    clock.advance(5.5)
    call(guard)
    for _ in range(3):
        tell(store, guard, 5.0, PROBE)
        here.sync()
        assert not refused(guard)
        clock.advance(6)
    tell(store, guard, 5.0, IN_A_ROW)
    here.sync()
    assert refused(guard), "another judgement"


def test_whoever_was_stopped_once_goes_by_its_own_probes_though_it_calls_seldom(store, guard, here, clock):
    """Its breaker is open with its time over until somebody calls, and others may have probed in vain by then."""
    tell(store, guard, 5.0)
    here.sync()
    for _ in range(3):
        clock.advance(5.5)
        tell(store, guard, 5.0, PROBE)
        here.sync()
        assert not guard.is_open
    call(guard)
    assert guard.breaker.closed


def test_whoever_begins_takes_a_failed_probe_over(store, guard, here, clock):
    late = outlast.resource(next(_names), breaker=BreakerSettings(consecutive=2))
    tell(store, late, 5.0, PROBE)
    here.sync()
    assert refused(late), "one that has just begun knows nothing better"


def test_what_is_open_here_stays_as_it_is(store, guard, here, clock):
    for _ in range(2):
        call(guard, NetworkError("down"))
    tell(store, guard, 300.0)
    here.sync()
    assert own(store) == [("open", "2 failures in a row")]
    assert guard.breaker.until - clock.monotonic() == 10
    clock.advance(10)
    here.sync()
    assert refused(guard), "its own time is over, and the other's is not"
    assert guard.breaker.until - clock.monotonic() == 290


def test_a_probe_that_is_on_its_way_decides(store, guard, here, clock):
    tell(store, guard, 5.0)
    here.sync()
    clock.advance(5.5)
    permit = guard.enter()
    tell(store, guard, 30.0, IN_A_ROW, process="third:1")
    here.sync()
    assert guard.breaker.state == "half_open"
    guard.succeeded(permit)
    here.sync()
    assert not refused(guard)


def test_orders_go_first(store, guard, here, clock):
    tell(store, guard, 300.0)
    here.sync()
    store.order_breaker(guard.name, "closed")
    here.sync()
    assert not refused(guard)
    assert store.opened_breakers("third:1", [guard.name]) == [], "who begins now does not take it over"
    clock.advance(1)
    store.order_breaker(guard.name, "open")
    tell(store, guard, 30.0, IN_A_ROW)
    here.sync()
    assert own(store) == [("open", OPENED_BY_HAND)]
    clock.advance(60)
    assert refused(guard)


def test_what_was_opened_by_hand_in_one_process_is_its_own_affair(store, guard, here, clock):
    tell(store, guard, 30.0, OPENED_BY_HAND)
    here.sync()
    assert not refused(guard)


def test_nothing_is_written_while_nothing_changes(store, guard, here, clock, monkeypatch):
    tell(store, guard)
    here.sync()
    here.sync()
    monkeypatch.setattr(store, "report_breakers", lambda *_, **__: pytest.fail("written"))
    for _ in range(20):
        clock.advance(1)
        here.sync()


def test_an_event_tells_of_it(store, guard, here, clock):
    events = []
    subscribe(events.append)
    tell(store, guard, 30.0)
    here.sync()
    assert events == [BreakerOpened(guard.name, OPENED_ELSEWHERE + IN_A_ROW, 30.0)]


def test_who_opens_tells_at_once(store, monkeypatch):
    """Others look every second; so much, and no more, it takes."""
    monkeypatch.setattr(breaker_sync, "SYNC_EVERY", 600.0)
    told, tell_all = threading.Event(), store.report_breakers

    def telling(process, rows, **more):
        tell_all(process, rows, **more)
        if any(state == "open" for _, state, _, _ in rows):
            told.set()

    monkeypatch.setattr(store, "report_breakers", telling)
    one = outlast.resource(next(_names), breaker=BreakerSettings(consecutive=1))
    with sync_breakers(store, lambda: "here:1", leased=False):
        call(one, NetworkError("down"))
        assert told.wait(30)
