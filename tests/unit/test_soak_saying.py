"""What the long run says: right plurals, a reason for what waits, and what it does, to whoever asks for help."""

import subprocess
import sys
from pathlib import Path

import pytest
from tools.soak.saying import counted, left_told

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("number", "said"), [(1, "1 minute"), (1.0, "1 minute"), (2, "2 minutes"), (0, "0 minutes"), (0.5, "0.5 minutes")]
)
def test_plurals(number, said):
    assert counted(number, "minute") == said


def test_large_numbers_are_written_out():
    assert counted(1_234_567, "task") == "1,234,567 tasks"


def test_why_something_is_left():
    told = left_told([("poison", "QUEUED", 1), ("note", "RUNNING", 3), ("replay", "running", 1)])

    assert told.startswith("1 poison queued (its process died, so it runs again alone after 1 s, then 10, then 60")
    assert "; 3 note running (they run, or the lease " in told
    assert told.endswith("; 1 replay running (it goes on when its canary has succeeded)")


def test_a_state_that_has_no_reason_is_told_all_the_same():
    assert left_told([("note", "ODD", 2)]) == "2 note odd"


def test_help_opens_with_what_it_does():
    command = [sys.executable, "-m", "tools.soak", "-h"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)

    opening = done.stdout.partition("\n\n")[2]
    assert opening.startswith("The long run: ")
