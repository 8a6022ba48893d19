"""One 429 stops all processes of a fleet, whatever time they think it is. Pitfalls 25 and 45."""

import time

import pytest

from crash.processes import until

pytestmark = [pytest.mark.xdist_group("fleet"), pytest.mark.needs("faketime")]
WAIT = 4
"""Seconds for which the API asks to be left alone."""
SKEWS = {"right": None, "ahead": "+3h", "behind": "-3h"}
"""The queue of each worker, and how wrong its clock is."""
WARM, CALLS, AT_ONCE = 6, 80, 2
HELD = 4 * AT_ONCE
"""Calls at most that a worker of this pace has in its hands when the cooldown is stored, and still makes."""


def test_a_429_to_one_process_stops_all_of_them(scene, api):
    workers = [
        scene.start(skew=skew, worker={"concurrency": AT_ONCE, "queues": [queue]}) for queue, skew in SKEWS.items()
    ]
    scene.begun(3)
    for queue in SKEWS:
        scene.add("call", WARM, name="calls", options={"queue": queue})
    until(lambda: all(len(api.asked(pid=each.pid)) == WARM for each in workers), 30, scene.said)
    api.takes = 0.05
    api.limit(WAIT)
    for queue in SKEWS:
        scene.add("call", CALLS, name="calls", options={"queue": queue})
    until(scene.store.cooldowns, 20, scene.said)
    stored = time.monotonic()
    ((refused, _, _),) = api.asked(status=429)
    until(lambda: api.asked()[-1].at > refused + WAIT, 30, scene.said)
    late = [each for each in api.asked() if stored < each.at < refused + WAIT]
    assert len(late) <= 3 * HELD, "none is taken up any more"
    for each in workers:
        until(lambda each=each: api.asked(pid=each.pid)[-1].at > refused + WAIT, 30, scene.said)
    scene.settled()
    for each in workers:
        each.stop()
    scene.balanced()
    assert len(scene.ran("calls")) == 3 * (WARM + CALLS), "the one that was refused is done later"
    assert scene.store.counts()["DONE"] == 3 * (WARM + CALLS)
