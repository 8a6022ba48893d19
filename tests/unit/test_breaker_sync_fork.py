"""A process that is forked while breakers are synced has nothing of it, and may have one of its own."""

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import os, signal, sys
from contextlib import ExitStack

import outlast
from outlast import breaker_sync
from outlast.errors import NetworkError
from outlast.run import resources
from outlast.stores.sqlite.memory import MemoryStore

breaker_sync.SYNC_EVERY = 600.0  # it looks once, and holds nothing of the store when the process is forked
store, guard = MemoryStore(), outlast.resource("api", breaker=outlast.BreakerSettings(consecutive=1))


def trips():
    try:
        with guard:
            raise NetworkError("down")
    except NetworkError:
        return guard.is_open


def begins():
    with breaker_sync.sync_breakers(store, lambda: "child", leased=False):
        return {row.process for row in store.breakers()} == {"parent", "child"}


def ends():
    block.close()
    return [row.process for row in store.breakers()] == ["parent"]


def registers():
    return outlast.resource("another", breaker=outlast.BreakerSettings()).breaker.closed


with ExitStack() as block:
    block.enter_context(breaker_sync.sync_breakers(store, lambda: "parent", leased=False))
    (sync,) = breaker_sync._running_syncs
    locks = sync._wake._cond, sync._stopped._cond, sync._start_lock, breaker_sync._running_lock, resources._registry_lock, guard._lock
    with ExitStack() as held:  # as threads of the parent may hold them at that moment
        for lock in locks:
            held.enter_context(lock)
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            os._exit(0 if globals()[sys.argv[1]]() else 1)
    assert os.waitpid(child, 0)[1] == 0, "the child did not go on"
    assert breaker_sync._running_syncs == [sync]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("what", ["trips", "begins", "ends", "registers"])
def test_a_child_of_a_process_that_syncs_breakers(what):
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, what], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
