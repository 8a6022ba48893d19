"""The history of a task, failed attempts and lost workers, as ``tasks show`` and ``dlq show`` print them."""

from collections.abc import Sequence

from outlast.cli.moments import relative
from outlast.cli.showing import counted, line, masked, one_line, screen, shown
from outlast.ports.rows import Attempt

__all__ = ["crashes_apart", "lost_workers", "print_attempts", "print_traceback"]

_LOST = "lost"
_WORKER = "WorkerLost"
_LONG = 10.0  # seconds from which tenths do not matter


def print_attempts(attempts: Sequence[Attempt]) -> None:
    """Print what happened, oldest first."""
    if not attempts:
        return
    console = screen()
    console.print(line(f"\nhistory: {_summary(attempts)}", "bold"))
    for each in attempts:
        console.print(
            line(
                f"  {each.attempt}. {each.finished_at.isoformat(timespec='seconds')} ({relative(each.finished_at)}), "
                f"{_became(each)}"
            ),
            soft_wrap=True,
        )
        if each.outcome != _LOST:
            told = f"     {each.error_type}: {one_line(masked(each.error_message))}"
            console.print(line(told), soft_wrap=True)
    if attempts[-1].traceback:
        print_traceback(attempts[-1].traceback)


def _summary(attempts: Sequence[Attempt]) -> str:
    lost, crashed = lost_workers(attempts), crashes_apart(attempts)
    failed = len(attempts) - lost - crashed
    said = [counted(failed, "failed attempt")] * bool(failed) + [counted(lost, "lost worker")] * bool(lost)
    if crashed:
        said.append(f"{crashed} {'crash' if crashed == 1 else 'crashes'} apart")
    return ", ".join(said)


def lost_workers(attempts: Sequence[Attempt]) -> int:
    """Return how many of them ended with their worker; those count as no failure of the task."""
    return sum(each.outcome == _LOST and each.error_type == _WORKER for each in attempts)


def crashes_apart(attempts: Sequence[Attempt]) -> int:
    """Return how many of them took down the process apart in which suspects run; those count as no failure either."""
    return sum(each.outcome == _LOST and each.error_type != _WORKER for each in attempts)


def _became(attempt: Attempt) -> str:
    if attempt.outcome == _LOST:
        return f"lost: {one_line(masked(attempt.error_message).removeprefix('worker lost: '))}"
    category = attempt.error_category
    if attempt.delay is None:
        return f"failed, {category}: the last one" if attempt.outcome == "fail" else f"failed, {category}"
    return f"failed, {category}: again in {attempt.delay:.{0 if attempt.delay >= _LONG else 1}f} s"


def print_traceback(text: str) -> None:
    """Print a traceback, indented."""
    console = screen()
    console.print(line("\ntraceback", "bold"))
    for each in shown(masked(text)).splitlines():
        console.print(line(f"  {each}", "dim"), soft_wrap=True)
