"""The tour without a browser: each failure once, then retries, a breaker, a worker, a job and a monitor, scene by scene."""

from __future__ import annotations

import logging
import random
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import outlast
from examples.tour.batch import batched
from examples.tour.faults import faults
from examples.tour.flaky import flaky_server
from examples.tour.monitor import monitored
from examples.tour.queue import worked
from examples.tour.retries import guarded, retried

if TYPE_CHECKING:
    from collections.abc import Callable


def told(length: float | None, seed: int) -> None:
    """Play all scenes; then, if asked, chaos.

    Args:
        length: Seconds of failures at random behind the scenes.
        seed: Makes the random part repeatable.
    """
    logging.basicConfig(stream=sys.stdout, format="    %(levelname)s %(name)s: %(message)s")
    with flaky_server() as server:
        things = faults(server)
        explained(things)
        retried(server)
        guarded(server)
        worked(server)
        batched(server)
        monitored()
        if length:
            endless(things, time.monotonic() + length, random.Random(seed))


def explained(things: dict[str, Callable[[], object]]) -> None:
    """Explain every failure once."""
    print("Every error below really happened just now, on this machine. One judgement decides what comes of it.\n")
    for number, (title, provoke) in enumerate(things.items(), 1):
        try:
            provoke()
        except Exception as error:
            print(f"{number:2}. {title}\n{outlast.explain(error)}\n")


def endless(things: dict[str, Callable[[], object]], end: float, chance: random.Random) -> None:
    """Let failures come at random until the time is over, then count them."""
    print("And now at random, as in life:\n")
    categories: Counter[str] = Counter()
    groups: dict[str, str] = {}
    while time.monotonic() < end:
        try:
            things[chance.choice(list(things))]()
        except Exception as error:
            failure = outlast.classify(error)
            categories[failure.category] += 1
            groups[failure.fingerprint] = str(failure)
            if sys.stdout.isatty():
                print(
                    f"\r  {sum(categories.values())} failures, {end - time.monotonic():4.0f} s left", end="", flush=True
                )
        time.sleep(0.02)
    print(f"\r  {sum(categories.values())} failures of {len(groups)} kinds, in these categories:        \n")
    for category, count in categories.most_common():
        then = "retry" if outlast.Category(category).retryable else "give up"
        print(f"  {count:5}  {category:20} {then}")
