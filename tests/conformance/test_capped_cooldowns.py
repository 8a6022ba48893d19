"""A host that asks for longer than the cap: one probe at the end, and a count of such answers in a row (C7)."""

import time

from conformance.acting import LATER, add, claim, ids, register, task
from conformance.polling import at_once, opened

SHORT = 0.05


def wait_for_end(store, resource="a"):
    limit = time.monotonic() + 10
    while resource in counts(store) and time.monotonic() < limit:
        time.sleep(0.01)
    assert resource not in counts(store)


def cool_and_wait(store, resource="a", **more):
    count = store.start_cooldown(resource, SHORT, "busy", **more)
    wait_for_end(store, resource)
    return count


def counts(store):
    return {each.resource: each.capped for each in store.cooldowns()}


def test_what_is_not_capped_counts_nothing(store):
    assert store.start_cooldown("a", LATER, "busy") == 0
    assert store.start_cooldown("a", 2 * LATER, "busy") == 0
    assert counts(store) == {"a": 0}


def test_answers_while_it_runs_count_as_one(store):
    assert store.start_cooldown("a", LATER, "busy", capped=True) == 1
    assert store.start_cooldown("a", LATER, "busy", capped=True) == 1
    assert store.start_cooldown("a", 2 * LATER, "busier", capped=True) == 1
    assert store.start_cooldown("b", LATER, "busy", capped=True) == 1
    assert counts(store) == {"a": 1, "b": 1}
    (first, _) = store.cooldowns()
    assert first.reason == "busier"
    assert (first.until - store.now()).total_seconds() > 1.5 * LATER


def test_one_after_its_end_is_the_second(store):
    assert cool_and_wait(store, capped=True) == 1
    assert cool_and_wait(store, capped=True) == 2
    assert store.start_cooldown("a", LATER, "busy", capped=True) == 3
    assert counts(store) == {"a": 3}


def test_a_probes_answer_is_the_second(store):
    assert cool_and_wait(store, capped=True) == 1
    assert store.probe("a", 60)
    assert counts(store) == {"a": 1}, "the others wait for the probe"
    assert store.start_cooldown("a", LATER, "busy", capped=True) == 2
    assert store.start_cooldown("a", LATER, "busy", capped=True) == 2, "the probe has answered"
    (cooldown,) = store.cooldowns()
    assert (cooldown.until - store.now()).total_seconds() > LATER / 2


def test_one_that_is_not_capped_ends_the_row(store):
    assert store.start_cooldown("a", LATER, "long", capped=True) == 1
    before = store.cooldowns()
    assert store.start_cooldown("a", 1, "short") == 0
    assert store.cooldowns() == [before[0]._replace(capped=0)], "the longer one stays"
    assert store.start_cooldown("a", LATER, "busy", capped=True) == 1
    assert cool_and_wait(store, "b", capped=True) == 1
    assert cool_and_wait(store, "b") == 0
    assert store.start_cooldown("b", LATER, "busy", capped=True) == 1


def test_whoever_asks_may_try_where_nothing_cools(store):
    assert store.probe("a", 60)
    assert store.probe("a", 60), "nothing was held"
    assert store.cooldowns() == []
    cool_and_wait(store)
    assert store.probe("a", 60)
    assert store.probe("a", 60), "a plain cooldown ends for all"
    assert store.cooldowns() == []


def test_nobody_may_try_while_it_cools(store):
    store.start_cooldown("a", LATER, "busy", capped=True)
    store.start_cooldown("b", LATER, "busy")
    before = store.cooldowns()
    assert not store.probe("a", 60)
    assert not store.probe("b", 60)
    assert store.cooldowns() == before


def test_one_may_try_after_a_capped_one(store, another):
    cool_and_wait(store, capped=True)
    assert another.probe("a", 60)
    assert not store.probe("a", 60)
    assert not another.probe("a", 60)
    (cooldown,) = store.cooldowns()
    assert (cooldown.resource, cooldown.capped) == ("a", 1)
    assert 30 < (cooldown.until - store.now()).total_seconds() <= 60
    store.end_cooldown("a")
    assert store.cooldowns() == []
    assert store.probe("a", 60)
    assert store.probe("a", 60), "it answers again"


def test_one_of_many_may_try(store, place):
    cool_and_wait(store, capped=True)
    given = at_once(lambda mine: mine.probe("a", 60), opened(place, 8))
    assert sorted(given) == [False] * 7 + [True]


def test_a_probe_that_never_answers_holds_nobody_for_ever(store):
    cool_and_wait(store, capped=True)
    assert store.probe("a", SHORT)
    wait_for_end(store)
    assert store.probe("a", 60)
    assert not store.probe("a", 60)
    assert store.start_cooldown("a", LATER, "busy", capped=True) == 2


def test_many_answers_to_one_wait_count_once(store, place):
    cool_and_wait(store, capped=True)
    given = at_once(lambda mine: mine.start_cooldown("a", LATER, "busy", capped=True), opened(place, 8))
    assert given == [2] * 8


def test_tasks_wait_for_a_capped_one_and_for_its_probe(store):
    register(store)
    (number,) = add(store, task(resource="a"))
    cool_and_wait(store, capped=True)
    assert store.probe("a", LATER)
    assert claim(store) == []
    (other,) = add(store, task(resource="b"))
    assert ids(claim(store)) == [other]
    store.end_cooldown("a")
    assert ids(claim(store)) == [number]


def test_warming_forgets_the_row(store):
    assert store.start_cooldown("a", LATER, "busy", capped=True) == 1
    store.end_cooldown("a")
    assert store.start_cooldown("a", LATER, "busy", capped=True) == 1
