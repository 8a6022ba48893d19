"""What is called in a forked child: functions, and methods for as long as their objects live."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os

from outlast.forks import after_fork, around_fork


class Thing:
    def __init__(self, name):
        self.name = name
        after_fork(self.note)

    def note(self):
        said.append(self.name)
        if self.name == "broken":
            raise RuntimeError("it does not work")


said = []
after_fork(lambda: said.append("function"))
around_fork(
    before=lambda: said.append("before"), in_parent=lambda: said.append("parent"), in_child=lambda: said.append("child")
)
broken, kept, lost = Thing("broken"), Thing("kept"), Thing("lost")
del lost
if pid := os.fork():
    os.waitpid(pid, 0)
    print("parent:", *said, flush=True)
else:
    print("child:", *sorted(said), flush=True)
    os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_what_is_called_at_a_fork():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    child, parent = done.stdout.splitlines()
    assert child == "child: before broken child function kept", "an object that is gone is not called"
    assert parent == "parent: before parent"
    assert done.stderr.count("RuntimeError: it does not work") == 1, "it is shown, and the others are called"
