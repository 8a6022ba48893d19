"""A test that hangs is ended by its timeout: in its call, in each of its teardowns, and at the end of the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import threading, time
import pytest

@pytest.fixture
def first():
    yield
    time.sleep(60)

@pytest.fixture
def second(first):
    yield
    threading.Event().wait(60)

def test_both(second):
    time.sleep(60)

def test_after_it():
    pass

def test_that_leaves_a_thread():
    threading.Thread(target=time.sleep, args=(60,), name="left").start()
"""


@pytest.mark.skipif(os.name != "posix", reason="the timeout needs signals")
def test_a_test_that_hangs_in_its_call_its_teardowns_and_at_exit_is_ended(tmp_path):
    (tmp_path / "test_hangs.py").write_text(TESTS)
    paths = [str(ROOT / "src"), str(ROOT / "tests")]
    program = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "conftest", "--timeout", "1"]
    done = subprocess.run(
        [*program, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert "1 failed, 2 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("Timeout (>1.0s) from pytest-timeout.") >= 3
    assert done.returncode == 1
    assert "Thread 0x" in done.stderr, "where the process hung at its end"
