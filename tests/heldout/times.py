"""How long the verdicts on both corpora take: `PYTHONPATH=tests python -m tests.heldout.times`.

All errors are classified one after the other. Then each is classified as if it were the first one of a process, with
every pattern and every library file to be loaded, and once more; of three tries the fastest counts. The times are those of
the processor, so that other programs on the machine change nothing.
"""
# ruff: noqa: T201 (it prints its report)

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import corpus
from corpus.case import World
from outlast import Classifier, patterns
from outlast.classify import libraries

from .measure import cases
from .rebuild import rebuild

if TYPE_CHECKING:
    from collections.abc import Iterator

TRIES = 3
BOUNDS_MS = (1.0, 3.0)


def _errors(folder: Path) -> Iterator[tuple[str, BaseException]]:
    for case in cases():
        yield f"heldout {case['id']}", rebuild(case["error"])
    world = World(folder)
    for module in pkgutil.iter_modules(corpus.__path__):
        if module.name.startswith("cases_"):
            for each in importlib.import_module(f"corpus.{module.name}").CASES:
                if each.needs != "redis":
                    yield f"corpus {each.id}", each.produce(world)
    world.close()


def _forget_everything() -> None:
    re.purge()
    patterns.compiled.cache_clear()
    libraries.load.cache_clear()
    libraries._entries.cache_clear()
    for name in [name for name in sys.modules if name.startswith(f"{libraries.__name__}.")]:
        if not name.endswith((".standard", ".library")):
            del sys.modules[name]


def _time(classifier: Classifier, error: BaseException) -> float:
    start = time.thread_time()
    classifier.classify(error).settled()
    return (time.thread_time() - start) * 1000


def _first_and_later(error: BaseException) -> tuple[float, float]:
    """Return the milliseconds of a verdict with nothing loaded, and with everything loaded."""
    _forget_everything()
    classifier = Classifier()
    return _time(classifier, error), _time(classifier, error)


def _show(name: str, times: dict[str, float]) -> None:
    ordered = sorted(times.values())
    print(f"{name}: {len(times)} verdicts, median {ordered[len(ordered) // 2]:.3f} ms, longest {ordered[-1]:.2f} ms")
    for bound in BOUNDS_MS:
        print(f"  under {bound:g} ms: {100 * sum(each < bound for each in ordered) / len(ordered):.2f} %")
    for case in sorted(times, key=lambda case: -times[case])[:8]:
        print(f"  {times[case]:6.2f} ms  {case}")


def main() -> None:
    first: dict[str, float] = {}
    later: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        errors = dict(_errors(Path(folder)))
        _forget_everything()
        classifier = Classifier()
        in_order = {name: _time(classifier, error) for name, error in errors.items()}
        for name, error in errors.items():
            runs = [_first_and_later(error) for _ in range(TRIES)]
            first[name], later[name] = (min(column) for column in zip(*runs, strict=True))
    _show("one after the other in one process", in_order)
    _show("each as the first of a process", first)
    _show("each once more", later)


if __name__ == "__main__":
    main()
