"""A breaker that opens in one process is open in the others that have that resource, and closes in each by itself."""

import time

import pytest

from crash.processes import until
from fleet.program import API, BREAKER

pytestmark = pytest.mark.xdist_group("fleet")


def begin(scene, api, queue):
    """Have a process call the API again and again; return it once it does."""
    child = scene.start(breaker=True, worker={"queues": [queue], "concurrency": 1})
    scene.add("keep_calling", name=f"caller-{queue}", gate=str(scene.folder / "gate"), options={"queue": queue})
    until(lambda: api.asked(pid=child.pid), 30, scene.said)
    return child


def told(scene, child):
    """Return what a process tells of its breaker: the state and the reason."""
    number = next((each.id for each in scene.store.workers() if each.pid == child.pid), None)
    rows = [row for row in scene.store.breakers() if row.process == number]
    return (rows[0].state, rows[0].reason) if rows else ("", "")


def test_what_one_has_opened_is_open_in_the_other(scene, api):
    """Only one is answered badly, as if its line were broken; the other has to be careful once."""
    one, two = begin(scene, api, "one"), begin(scene, api, "two")
    until(lambda: told(scene, one) == told(scene, two) == ("closed", ""), 20, scene.said)
    api.down.add(one.pid)
    until(lambda: told(scene, one)[0] == "open", 20, scene.said)
    assert told(scene, one) == ("open", "3 failures in a row")
    until(lambda: told(scene, two) == ("open", "elsewhere: 3 failures in a row"), 20, scene.said)
    taken = time.monotonic()
    until(lambda: len(api.asked(pid=one.pid, status=503)) > 3, 30, scene.said)  # its probe, when the time is over
    *_, third, probe = (each.at for each in api.asked(pid=one.pid, status=503)[:4])
    assert probe - third >= BREAKER.open_for
    while_open = [each for each in api.asked(pid=two.pid) if taken < each.at < third + BREAKER.open_for]
    assert len(while_open) <= 1, "but for one that may have been on its way"
    until(lambda: told(scene, two) == ("closed", ""), 20, scene.said)
    until(lambda: told(scene, one) == ("open", "a probe failed (failures)"), 20, scene.said)

    begun = len(api.asked(pid=two.pid))
    until(lambda: len(api.asked(pid=two.pid)) > begun + 30, 30, scene.said)
    assert told(scene, two) == ("closed", ""), "it was answered; what the other finds once more is the other's"
    api.down.clear()
    scene.store.order_breaker(API, "closed")  # else it would be tried when its time is over
    until(lambda: told(scene, one) == ("closed", ""), 30, scene.said)
    (scene.folder / "gate").touch()
    for child in (one, two):
        child.stop()
    assert not [each for each in scene.store.cooldowns() if each.resource == API], "no task depends on it"
