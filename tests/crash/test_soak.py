"""The long run, for a few seconds: so that it works on the day when somebody needs it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_few_seconds_of_the_long_run():
    words = ["--on", "sqlite", "--minutes", "0.08", "--seed", "7", "--rate", "60", "--workers", "2"]
    command = [sys.executable, "-m", "tools.soak", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert "the books balance to the last task" in done.stdout
    assert "ledger: " in done.stdout
