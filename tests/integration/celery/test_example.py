"""The example that runs on Celery, started as its reader would."""

import os
import subprocess
import sys
from pathlib import Path

from integration.celery.scene import LONG

ROOT = Path(__file__).parents[3]


def test_it_tells_what_became_of_three_tasks(broker):
    done = subprocess.run(
        [sys.executable, "-m", "examples.celery_app"],
        cwd=ROOT,
        env=os.environ | {"SHOP_BROKER": f"redis://:{broker.password}@{broker.host}:{broker.port}/15"},
        capture_output=True,
        text=True,
        timeout=3 * LONG,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(
        [
            "reserve    DONE     failed attempts: 2",
            "invoice    FAILED   failed attempts: 1",
            "dead letter: ValueError: no template for order 7",
            "replayed: DONE",
        ]
    )
