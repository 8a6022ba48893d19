"""Run the benchmarks, print the ratios, and write them to RESULTS.md.

Usage: python -m benchmarks [--growth] [--only] [section ...]; exits with 1 if a promised ratio is missed. With --growth the
sections that take minutes are run too.
"""

from __future__ import annotations

import importlib
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.measure import Result

SECTIONS = {
    "imports": "Importing",
    "classifying": "Judging an error",
    "retrying": "Retrying",
    "http": "HTTP",
    "sources": "Sources",
    "queues": "Queues",
    "resources": "Tasks of many resources",
    "workers": "Workers on one PostgreSQL",
    "costs": "What a task costs",
    "jobs": "Jobs",
    "simulations": "Simulating",
    "pages": "Pages that look at much",
}
LONG = {"queues_growth": "Queues that have grown"}
PEERS = (
    "tenacity", "stamina", "backoff", "opnieuw", "redress", "httpx", "httpx2", "httpx-retries", "requests", "urllib3",
    "huey", "pgqueuer", "procrastinate",
)  # fmt: skip


def main(chosen: list[str]) -> int:
    """Run the chosen sections, or all."""
    known = SECTIONS | LONG
    chosen = [name for name in chosen if name != "--only"]
    unknown = [name for name in chosen if name not in known and name != "--growth"]
    if unknown:
        print(f"no section {', '.join(unknown)}; choose from: {', '.join(known)}")
        return 2
    long = list(LONG) if "--growth" in chosen else []
    chosen = [name for name in chosen if name != "--growth"]
    lines = ["# Measured", "", f"Python {platform.python_version()}, {', '.join(f'{peer} {version(peer)}' for peer in PEERS)}.",
             "Medians of per-round ratios in one interleaved run; written by `make bench`."]  # fmt: skip
    missed = 0
    for name in dict.fromkeys([*(chosen or SECTIONS), *long]):
        print(f"{known[name]} …", flush=True)
        results = importlib.import_module(f"benchmarks.{name}").run()
        lines += [
            "",
            f"## {known[name]}",
            "",
            "| what | time | ratio | against | bound | |",
            "|---|---|---|---|---|---|",
        ]
        for result in results:
            missed += not result.holds
            shown, bound = _shown(result)
            verdict = "" if result.bound is None else ("holds" if result.holds else "**missed**")
            row = f"| {result.what} | {_time(result.seconds)} | {shown} | {result.against} | {bound} | {verdict} |"
            lines.append(row)
            print(
                f"  {result.what:48} {_time(result.seconds):>10} {shown:>10} {result.against:20} {bound:>12} {verdict}"
            )
    if not chosen:
        Path(__file__).with_name("RESULTS.md").write_text("\n".join(lines) + "\n", "utf-8")
    return 1 if missed else 0


def _shown(result: Result) -> tuple[str, str]:
    """Return a result's ratio and its bound, for people."""
    places = {"bytes": 0, "connections": 0, "×": 2}.get(result.unit, 1)
    shown = f"{result.ratio:.{places}f} {result.unit}"
    if result.bound is None:
        return shown, "–"
    return shown, f"{'≥' if result.at_least else '≤'} {result.bound:g} {result.unit}"


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.2f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


sys.exit(main(sys.argv[1:]))
