"""What importing costs, in fresh processes with warm byte code."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import outlast
from benchmarks.measure import Result, interleaved, ratio

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 25
NOTHING = "pass"
TENACITY = "import tenacity"
BARE = "import outlast"
USUAL = "from outlast import retry, classify, RetryPolicy"


def run() -> list[Result]:
    """Return the results."""
    compileall.compile_dir(str(Path(outlast.__file__).parent), quiet=2)
    times = interleaved({code: _process(code) for code in (NOTHING, TENACITY, BARE, USUAL)}, ROUNDS)
    return [ratio(times, BARE, TENACITY, 0.5, NOTHING), ratio(times, USUAL, TENACITY, 1.0, NOTHING)]


def _process(code: str) -> Callable[[], float]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run_once() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        return time.perf_counter() - start

    return run_once
