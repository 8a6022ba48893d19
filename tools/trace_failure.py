"""Counts how many Python files of the package one failure crosses: a dead-lettered task, and a retried call.

The worker's leg runs from the first claim of a task that fails twice to its dead letter. The retry leg is a call of a
function with ``@outlast.retry`` that fails twice and then succeeds. Imports and enqueueing are not counted. The
periodic duties of the heartbeat thread, such as replays and alerts, do not concern the task and run at any time; the
files that only they cross are printed as a second figure.
"""

import argparse
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "outlast"
sys.path.insert(0, str(ROOT / "src"))
MOST_WORKER_FILES = 45
MOST_RETRY_FILES = 12
DUTY_THREADS = frozenset({"outlast-heartbeat", "outlast-beat"})


@dataclass
class Crossed:
    """The files that a failure crosses, and those that only the duties of a heartbeat thread cross."""

    files: set[str] = field(default_factory=set)
    duties: set[str] = field(default_factory=set)


@contextmanager
def files_crossed() -> Iterator[Crossed]:
    """Collect the files of the package whose functions run in the block, in any thread; imports are not counted."""
    codes: set[tuple[CodeType, bool]] = set()

    def on_call(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call":
            codes.add((frame.f_code, threading.current_thread().name in DUTY_THREADS))

    found = Crossed()
    threading.setprofile(on_call)
    sys.setprofile(on_call)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    for code, is_duty in codes.copy():  # a thread that is about to end may add to it
        path = Path(code.co_filename)
        if code.co_name != "<module>" and path.is_relative_to(PACKAGE) and not _is_class_body(code):
            (found.duties if is_duty else found.files).add(path.relative_to(PACKAGE).as_posix())
    found.duties -= found.files


def _is_class_body(code: CodeType) -> bool:
    return "__module__" in code.co_names and "__qualname__" in code.co_names


def trace_worker() -> Crossed:
    """Return the files that a worker crosses for one task that fails twice and is dead-lettered."""
    import outlast  # noqa: PLC0415  # after the path is set
    from outlast.ports.rows import Kind  # noqa: PLC0415  # the same

    app = outlast.App("memory://")

    @app.task(policy=outlast.RetryPolicy(max_attempts=2, base_delay=0.001))
    def ship_order(number: int) -> None:
        message = f"order {number} is delayed"
        raise ConnectionError(message)

    ship_order.enqueue(number=7)
    worker = app.worker(concurrency=1)
    with files_crossed() as found:
        while not worker.outcomes[Kind.FAIL]:
            worker.drain()
    app.close()
    return found


def trace_retry() -> Crossed:
    """Return the files that a call with ``@outlast.retry`` crosses: it fails twice and then succeeds."""
    import outlast  # noqa: PLC0415  # after the path is set

    left = [ConnectionError("first"), ConnectionError("second")]

    @outlast.retry(base_delay=0.001)
    def ship_order() -> str:
        if left:
            raise left.pop()
        return "shipped"

    with files_crossed() as found:
        ship_order()
    return found


def main() -> int:
    """Print the counts; return 1 if one is above its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the names of the files")
    options = parser.parse_args()
    logging.getLogger("outlast").addHandler(logging.NullHandler())
    logging.getLogger("outlast").propagate = False
    worse = 0
    for name, trace, most in (("worker", trace_worker, MOST_WORKER_FILES), ("retry", trace_retry, MOST_RETRY_FILES)):
        trace()  # imports what is imported on demand
        found = trace()
        worse += len(found.files) > most
        duties = f"; {len(found.duties)} more for periodic duties" if found.duties else ""
        print(f"{name:8} {len(found.files):3} files (at most {most}){duties}")
        if options.list:
            print("".join(f"  {each}\n" for each in sorted(found.files)), end="")
            print("".join(f"  {each} (duty)\n" for each in sorted(found.duties)), end="")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
