"""Jobs that a Dask cluster runs; its workers find them here by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import outlast
from outlast import errors

app = outlast.App("memory://")  # a test puts its own store in; workers need none
quick = outlast.RetryPolicy(max_attempts=2, base_delay=0, jitter="none")


@app.job("mixed", max_failure_rate=1, policy=quick)
def mixed(context, target):
    """Succeed, fail, be put off, left out or tried again, by number."""
    context.count("calls")
    match target % 10:
        case 1:
            raise errors.ResourceNotFoundError("gone")
        case 2:
            raise errors.QuotaExhaustedError("used up", retry_after=3600)
        case 3:
            raise errors.SkipTarget("not today")
        case 4 if context.attempt == 1:
            raise errors.NetworkError("again", retry_after=0)
        case 5:
            raise errors.TemporaryAPIError("for ever", retry_after=0)


@app.job("noted", max_failure_rate=1, policy=quick)
def noted(context, target):
    """Note each call in a file of its own; the first call of what is named a killer ends its worker as kill -9 does."""
    folder, number, killer = Path(target["folder"]), target["id"], target["killer"]
    calls = len(list(folder.glob(f"{number}-*")))
    (folder / f"{number}-{os.getpid()}-{time.monotonic_ns()}").touch()
    if killer == "always" or (killer == "once" and calls == 0):
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)  # the signal is on its way


@app.job("refused", max_failure_rate=1, policy=quick)
def refused(context, target):
    """Be refused at the 37th; those behind it take their time."""
    if target == 37:
        raise errors.AuthenticationError("401")
    if target > 37:
        time.sleep(0.02)


@app.job("slow", max_failure_rate=1, policy=quick)
def slow(context, target):
    """Take a while."""
    time.sleep(0.02)
