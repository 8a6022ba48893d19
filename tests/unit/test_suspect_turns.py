"""The turns of suspects and of all other tasks."""

from outlast.queue.suspects import SuspectTurns


def test_the_wait_gets_longer_when_it_was_too_short():
    alone = SuspectTurns()
    told = [alone.waits(now, due=True) for now in (0, 9, 11, 39, 41, 60, 62, 91, 92, 131)]
    assert told == [True, True, False, False, True, True, False, False, True, True]


def test_after_a_suspect_others_have_as_long_as_that_took():
    alone = SuspectTurns()
    assert alone.waits(0, due=True)
    alone.ended(3600)
    assert [alone.waits(now, due=True) for now in (3600, 7199, 7200)] == [False, False, True]
    alone.ended(7200.2)
    assert [alone.waits(now, due=True) for now in (7200.9, 7201.3)] == [False, True]


def test_where_nobody_else_waits_the_next_one_begins_at_once():
    alone = SuspectTurns()
    assert alone.waits(0, due=True)
    alone.ended(3600)
    alone.end_rest()
    assert alone.waits(3600, due=True)


def test_a_wait_that_came_to_nothing_is_not_counted_later():
    alone = SuspectTurns()
    assert [alone.waits(now, due=due) for now, due in ((0, True), (1, False), (500, True))] == [True, False, True]
