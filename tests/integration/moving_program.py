"""A move that kills itself: ``python moving_program.py SOURCE TARGET POINT`` with a point of `Step.doing` and its count.

``task_queue:2`` is after the second batch of that table, ``note:3`` within the third transaction, before its end.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter

from outlast.stores.move.move import MoveNames, move, open_source, open_target
from outlast.stores.move.target import TargetDatabase

BATCH = 5


def main(source_url, target_url, point):
    name, _, number = point.partition(":")
    passed = Counter()

    def at(place):
        passed[place] += 1
        if place == name and passed[place] == int(number or 1):
            os.kill(os.getpid(), signal.SIGKILL)

    write_down = TargetDatabase.save_progress
    TargetDatabase.save_progress = lambda self, progress: (at("note"), write_down(self, progress))
    with open_source(source_url) as source, open_target(target_url) as target:
        move(
            source,
            target,
            MoveNames("sqlite:///here", "postgresql://there"),
            batch=BATCH,
            progress=lambda step: at(step.doing),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
