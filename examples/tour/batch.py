"""A batch job over two hundred pages: most are well, some are not, and a second run does only what failed."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import outlast
from examples.tour.faults import get

POLICY = outlast.preset("etl").replace(max_attempts=3, base_delay=0.02)
PAGES = {
    **{f"page {number:03}": "/fine" for number in range(1, 197)},
    "unwell for a moment": "/harbour",
    "unwell for longer": "/depot",
    "broken for good": "/broken",
    "gone for good": "/gone",
}
"""Two hundred targets: what they are called, and where they are."""


def batched(server: str) -> None:
    """Run a job over the pages, then once more over what failed."""
    print("A batch job: 200 pages, three attempts each, of which 1 % may fail. What fails, fails alone.\n")
    told = logging.getLogger("outlast")
    level = told.level
    told.setLevel(logging.CRITICAL)  # the summary below says the same
    with tempfile.TemporaryDirectory() as folder:
        app = outlast.App(f"sqlite:///{Path(folder) / 'jobs.db'}")

        @app.job("pages", max_failure_rate=0.01, policy=POLICY)
        def load(context: outlast.JobContext, page: str) -> None:
            context.count("bytes", len(get(f"{server}{PAGES[page]}")))

        try:
            first = load.run(PAGES)
            _show(first)
            print("    Later, and only what failed:\n")
            _show(load.run(only_failed=first.run_id))
        finally:
            app.close()
            told.setLevel(level)


def _show(summary: outlast.Summary) -> None:
    """Print a summary; the exit code is what a scheduler would look at."""
    print("\n".join(f"    {line}" for line in str(summary).splitlines()))
    for group in summary.groups:
        print(f"      {group['size']} x {group['category']}: {group['error']} ({group['source_id']})")
    if summary.compared is not None:
        print(f"      since then: {summary.compared['fixed']} fixed, {summary.compared['still']} still failing")
    print(f"      {summary.attempts} attempts, {summary.figures.get('bytes', 0)} bytes\n")
    if summary.state == "stopped":  # Ctrl-C: a job lets what it holds finish, and ends
        raise KeyboardInterrupt
