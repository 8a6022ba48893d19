"""A process that is forked while checks run asks its own, instead of waiting for threads that are in its parent."""

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import os, signal, sys, threading
from outlast.health import HealthChecker

parent, hold = os.getpid(), threading.Event()
checker = HealthChecker(checks={"a": lambda: os.getpid() != parent or hold.wait(60)}, timeout=60)
future = checker.begin()
if sys.argv[1] == "locked":
    checker._lock.acquire()
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if checker.check().checks == {"a": True} else 1)
assert os.waitpid(child, 0)[1] == 0, "the child did not answer"
if sys.argv[1] == "locked":
    checker._lock.release()
assert checker.begin() is future, "the parent goes on with what it has begun"
hold.set()
assert checker.check().checks == {"a": True}
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("moment", ["asking", "locked"])
def test_a_child_forked_during_a_check_answers(moment):
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, moment], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
