"""Run the tour: ``make run``, or ``make run ARGS="--for 20s"``."""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import holdfast as hf
from examples.scenery import seconds
from examples.tour.batch import batched
from examples.tour.faults import faults
from examples.tour.flaky import flaky_server
from examples.tour.monitor import monitored
from examples.tour.queue import worked
from examples.tour.retries import guarded, retried

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> int:
    """Show each failure once, then retries, a breaker, a worker, a job and a monitor; then, if asked, chaos."""
    parser = argparse.ArgumentParser(prog="make run", description="Real failures, and what Holdfast makes of them.")
    parser.add_argument(
        "--for",
        dest="length",
        type=seconds,
        default=0.0,
        metavar="TIME",
        help="go on for so long, for instance 20s or 2m",
    )
    parser.add_argument("--seed", type=int, default=7, help="makes the random part repeatable (default 7)")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, format="    %(levelname)s %(name)s: %(message)s")
    try:
        with flaky_server() as server:
            things = faults(server)
            explained(things)
            retried(server)
            guarded(server)
            worked(server)
            batched(server)
            monitored()
            if options.length:
                endless(things, time.monotonic() + options.length, random.Random(options.seed))
    except KeyboardInterrupt:
        print("\nstopped")
    return 0


def explained(things: dict[str, Callable[[], object]]) -> None:
    """Explain every failure once."""
    print("Every error below really happened just now, on this machine. One judgement decides what comes of it.\n")
    for number, (title, provoke) in enumerate(things.items(), 1):
        try:
            provoke()
        except Exception as error:
            print(f"{number:2}. {title}\n{hf.explain(error)}\n")


def endless(things: dict[str, Callable[[], object]], end: float, chance: random.Random) -> None:
    """Let failures come at random until the time is over, then count them."""
    print("And now at random, as in life:\n")
    categories: Counter[str] = Counter()
    groups: dict[str, str] = {}
    while time.monotonic() < end:
        try:
            things[chance.choice(list(things))]()
        except Exception as error:
            failure = hf.classify(error)
            categories[failure.category] += 1
            groups[failure.fingerprint] = str(failure)
            if sys.stdout.isatty():
                print(
                    f"\r  {sum(categories.values())} failures, {end - time.monotonic():4.0f} s left", end="", flush=True
                )
        time.sleep(0.02)
    print(f"\r  {sum(categories.values())} failures of {len(groups)} kinds, in these categories:        \n")
    for category, count in categories.most_common():
        then = "retry" if hf.Category(category).retryable else "give up"
        print(f"  {count:5}  {category:20} {then}")


if __name__ == "__main__":
    sys.exit(main())
