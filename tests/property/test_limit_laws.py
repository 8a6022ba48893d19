"""Laws of limits: no window sees more than it may, who waits gets a place of its own, nobody is turned away."""

import heapq
import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.decide.limits import (
    FARTHEST_PLACE,
    PLACE_SPACING,
    SLOT_HORIZON,
    Candidate,
    LimitState,
    ResourceLimit,
    admit_candidates,
    retry_places,
)

EPOCH = 1.7e9
NEAR = 1e-4  # seconds; sums of times that far from 1970 are no more exact
rates = st.floats(0.01, 2000)
bursts = st.integers(1, 20)
gaps = st.lists(st.tuples(st.floats(0, 5) | st.just(0.0), st.integers(1, 8)), min_size=1, max_size=40)
"""Asks: seconds since the one before, and how many tasks ask."""


def tasks(count, first=0, *, retry=False):
    return [Candidate(first + number, 1, retry) for number in range(count)]


def played(limit, asks, *, retry=False, busy=0):
    """Let tasks ask one after the other; return when each was let through, and what was told the others."""
    now, known, starts, waits = EPOCH, None, [], []
    for gap, count in asks:
        now += gap
        weighed = admit_candidates(
            limit, known, tasks(count, retry=retry), busy=busy, mean=None, now=now, chance=lambda: 0.5
        )  # fmt: skip
        known = weighed.standing
        starts += [now] * len(weighed.admitted)
        waits += [(now, wait) for wait in weighed.waits.values()]
        assert len(weighed.admitted) + len(weighed.waits) == count
    return starts, waits


def came_back(limit, known, due, *, batch, retry=False):
    """Let tasks ask when they are due, and again when they were told to; return when each started, and all asks."""
    line = [(at, number, 1 + retry) for number, at in enumerate(due)]
    heapq.heapify(line)
    starts, asks = {}, 0
    while line:
        now, asking = line[0][0], {}
        while line and line[0][0] <= now and len(asking) < batch:
            _, number, epoch = heapq.heappop(line)
            asking[number] = Candidate(number, epoch, retry)
        weighed = admit_candidates(
            limit, known, list(asking.values()), busy=0, mean=None, now=now, chance=random.random
        )
        asks, known = asks + len(asking), weighed.standing
        starts |= {each.task_id: now for each in weighed.admitted}
        for number, wait in weighed.waits.items():
            heapq.heappush(line, (now + wait, number, asking[number].epoch + 1))
    return starts, asks


def most_over(times, rate, burst):
    """Return by how much the window that is worst sees more than it may."""
    worst = -1.0
    for first in range(len(times)):
        for last in range(first, len(times)):
            worst = max(worst, last - first + 1 - burst - rate * (times[last] - times[first] + NEAR))
    return worst


@given(rates, bursts, gaps)
def test_no_window_sees_more_starts_than_the_rate_allows(rate, burst, asks):
    starts, waits = played(ResourceLimit("r", rate, burst), asks)
    assert most_over(starts, rate, burst) <= 0
    assert all(0 < wait <= FARTHEST_PLACE for _, wait in waits)
    assert len(starts) >= 1, "the first one starts"


@given(rates, bursts, gaps)
def test_nor_more_retries(rate, burst, asks):
    limit = ResourceLimit("r", retries=rate, retry_burst=burst)
    starts, waits = played(limit, asks, retry=True)
    assert most_over(starts, rate, burst) <= 0
    assert all(wait > 0 for _, wait in waits)
    first, refused = played(limit, asks)
    assert len(first) == sum(count for _, count in asks), "what has not failed is no retry"
    assert refused == []


@given(st.integers(1, 20), st.integers(0, 30), st.integers(1, 30), st.floats(0.001, 100))
def test_never_more_run_at_once_than_may(most, busy, asking, mean):
    weighed = admit_candidates(
        ResourceLimit("r", concurrency=most), None, tasks(asking), busy=busy, mean=mean, now=EPOCH, chance=lambda: 0.5
    )
    assert len(weighed.admitted) == min(asking, max(0, most - busy))
    assert [each.task_id for each in weighed.admitted] == list(range(len(weighed.admitted))), "the first ones"


@given(rates, bursts, st.integers(1, 3000), st.integers(1, 50))
def test_who_waits_comes_back_one_by_one(rate, burst, count, batch):
    """All ask at one moment, in batches."""
    limit, known, waits = ResourceLimit("r", rate, burst), None, []
    for first in range(0, count, batch):
        asking = tasks(min(batch, count - first), first)
        weighed = admit_candidates(limit, known, asking, busy=0, mean=None, now=EPOCH, chance=lambda: 0.999)
        known = weighed.standing
        waits += weighed.waits.values()
    assert len(waits) == max(0, count - burst)
    assert all(later - earlier >= min(PLACE_SPACING / rate, 0.001) - NEAR for earlier, later in pairwise(waits))
    if waits:
        assert min(waits) >= 1 / rate - NEAR or burst > 1, "not before there is room"


@given(rates, st.integers(1, 400))
def test_who_comes_back_at_its_place_finds_room(rate, count):
    limit = ResourceLimit("r", rate)
    weighed = admit_candidates(limit, None, tasks(count), busy=0, mean=None, now=EPOCH, chance=lambda: 0.5)
    known = weighed.standing
    for number, wait in sorted(weighed.waits.items(), key=lambda item: item[1]):
        again = admit_candidates(
            limit, known, [Candidate(number, 2)], busy=0, mean=None, now=EPOCH + wait + NEAR, chance=lambda: 0.5
        )
        assert again.waits == {}
        known = again.standing


@given(rates, bursts, st.lists(st.tuples(st.floats(0, 5), st.integers(1, 300)), min_size=1, max_size=10))
def test_retries_get_places_within_the_budget_and_all_get_one(rate, burst, calls):
    limit, known, now, times = ResourceLimit("r", retries=rate, retry_burst=burst), None, EPOCH, []
    for gap, count in calls:
        now += gap
        waits, known = retry_places(limit, known, count, now)
        assert len(waits) == count
        assert waits == sorted(waits)
        times += [now + wait for wait in waits]
    window = times[:150]
    assert window == sorted(window), "who failed first goes first"
    assert most_over(window, rate, burst) <= 0


@given(rates, bursts, st.floats(0, 1e7))
def test_a_clock_that_was_put_back_holds_nobody_up_for_long(rate, burst, back):
    limit = ResourceLimit("r", rate, burst, retries=rate)
    known = admit_candidates(
        limit, None, tasks(50, retry=True), busy=0, mean=None, now=EPOCH, chance=lambda: 0.5
    ).standing
    now = EPOCH - back
    if back > 10:
        assert retry_places(limit, known, 1, now)[0] == [0.0]
    known = admit_candidates(limit, known, tasks(1), busy=0, mean=None, now=now, chance=lambda: 0.5).standing
    now += burst / rate + NEAR
    assert admit_candidates(limit, known, tasks(1), busy=0, mean=None, now=now, chance=lambda: 0.5).waits == {}


def test_a_budget_that_was_raised_begins_anew_and_one_that_was_lowered_goes_on():
    _, known = retry_places(ResourceLimit("r", retries=0.001), None, 5000, EPOCH)
    assert retry_places(ResourceLimit("r", retries=0.001), known, 1, EPOCH)[0][0] > 1e6
    assert retry_places(ResourceLimit("r", retries=0.0005), known, 1, EPOCH)[0][0] > 1e6
    assert retry_places(ResourceLimit("r", retries=50), known, 1, EPOCH)[0] == [0.0]


def test_so_do_the_places_of_a_rate():
    def wait(rate, known):
        return admit_candidates(
            ResourceLimit("r", rate), known, tasks(1), busy=0, mean=None, now=EPOCH, chance=lambda: 0.5
        ).waits[0]

    known = admit_candidates(
        ResourceLimit("r", 1), None, tasks(1000), busy=0, mean=None, now=EPOCH, chance=lambda: 0.5
    ).standing
    assert wait(1, known) > 1000
    assert wait(0.5, known) > 1000, "those that wait come before"
    assert wait(2, known) < 1, "there is room between those that wait"


def test_who_has_no_rate_leaves_the_places_alone():
    """Two apps may name one resource, and only one of them a rate."""
    limit = ResourceLimit("r", 1, retries=1)
    known = admit_candidates(limit, None, tasks(1000), busy=0, mean=None, now=EPOCH, chance=lambda: 0.5).standing
    _, known = retry_places(limit, known, 1000, EPOCH)
    other = ResourceLimit("r", concurrency=5)
    known = admit_candidates(other, known, tasks(9), busy=0, mean=None, now=EPOCH, chance=lambda: 0.5).standing
    (wait,), known = retry_places(limit, known, 1, EPOCH)
    assert wait > 1000
    assert admit_candidates(limit, known, tasks(1), busy=0, mean=None, now=EPOCH, chance=lambda: 0.5).waits[0] > 1000


@pytest.mark.parametrize(("rate", "batch"), [(1, 10), (1, 1), (20, 50)])
def test_however_many_wait_for_a_rate_each_asks_about_twice(rate, batch):
    starts, asks = came_back(ResourceLimit("r", rate), None, [EPOCH] * 2000, batch=batch)
    assert len(starts) == 2000
    assert asks <= 2.2 * 2000
    assert max(starts.values()) - EPOCH <= 2000 * PLACE_SPACING / rate + 1, "and nothing of the rate is lost"


def test_a_year_is_the_farthest_place():
    """A date that no calendar has could not be kept."""
    limit = ResourceLimit("r", 1e-6, retries=1e-6)
    weighed = admit_candidates(limit, None, tasks(100), busy=0, mean=None, now=EPOCH, chance=lambda: 0.5)
    assert max(weighed.waits.values()) == FARTHEST_PLACE
    assert max(retry_places(limit, weighed.standing, 100, EPOCH)[0]) == FARTHEST_PLACE


@pytest.mark.parametrize("batch", [1, 7])
def test_those_far_behind_for_a_slot_do_not_come_in_waves(batch):
    chance, known, times = random.Random(1).random, None, []
    for ask in range(2000 // batch):
        now = EPOCH + ask * 0.001
        weighed = admit_candidates(
            ResourceLimit("r", concurrency=1), known, tasks(batch), busy=1, mean=1.0, now=now, chance=chance
        )
        known = weighed.standing
        times += [now + wait - EPOCH for wait in weighed.waits.values()]
    assert max(times) <= SLOT_HORIZON + 2
    assert Counter(round(each) for each in times).most_common(1)[0][1] < 40, "of two thousand within five minutes"


def test_nor_do_those_who_ask_one_by_one_shortly_before_there_is_room():
    limit, known, times = ResourceLimit("r", 1 / 3600), None, []
    for ask in range(50):
        now = EPOCH + 1800 + ask * 30 if ask else EPOCH
        weighed = admit_candidates(limit, known, tasks(1), busy=0, mean=None, now=now, chance=lambda: 0.5)
        known = weighed.standing
        times += [now + wait for wait in weighed.waits.values()]
    assert len(times) == 49
    assert all(later - earlier >= 3600 for earlier, later in pairwise(times))


def test_a_retry_that_comes_too_early_does_not_begin_anew_at_the_end_of_the_line():
    """What a policy adds by chance brings some together; they wait for seconds, not for all that have failed."""
    limit, chance = ResourceLimit("r", retries=5, retry_burst=5), random.Random(7)
    places, known = retry_places(limit, None, 1000, EPOCH)
    due = [EPOCH + place + chance.uniform(0, 30) for place in places]
    starts, asks = came_back(limit, known, due, batch=1, retry=True)
    assert max(starts[number] - at for number, at in enumerate(due)) < 30
    assert asks < 2 * 1000


def test_one_that_is_a_little_early_waits_for_that_little():
    limit = ResourceLimit("r", 10.0)
    known = LimitState(tat=EPOCH + 0.02, spread=EPOCH + 200)
    back = [Candidate(number, 2) for number in range(2)]
    first, second = admit_candidates(
        limit, known, back, busy=0, mean=None, now=EPOCH, chance=lambda: 0.5
    ).waits.values()
    assert abs(first - 0.02) < NEAR
    assert abs(second - 200) < NEAR, "the others take a place at the end"


def test_places_of_what_waits_for_a_slot_follow_the_mean():
    limit = ResourceLimit("r", concurrency=4)
    waits = admit_candidates(limit, None, tasks(4), busy=4, mean=2.0, now=EPOCH, chance=lambda: 0.5).waits
    step = PLACE_SPACING * 2.0 / 4
    assert [round(wait / step, 3) for wait in waits.values()] == [1, 2, 3, 4]
