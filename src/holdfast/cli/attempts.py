"""The failed attempts of a task, as ``tasks show`` and ``dlq show`` print them."""

from collections.abc import Sequence

from holdfast.cli.moments import relative
from holdfast.cli.showing import line, one_line, screen, shown
from holdfast.ports.rows import Attempt

__all__ = ["print_attempts", "print_traceback"]

_LONG = 10.0  # seconds from which tenths do not matter


def print_attempts(attempts: Sequence[Attempt]) -> None:
    """Print what happened, oldest first."""
    if not attempts:
        return
    console = screen()
    console.print(line(f"\n{len(attempts)} failed {'attempt' if len(attempts) == 1 else 'attempts'}", "bold"))
    for each in attempts:
        console.print(
            line(
                f"  {each.attempt}. {each.finished_at.isoformat(timespec='seconds')} ({relative(each.finished_at)}), "
                f"{each.error_category}{_next(each)}"
            ),
            soft_wrap=True,
        )
        console.print(line(f"     {each.error_type}: {one_line(each.error_message)}"), soft_wrap=True)
    if attempts[-1].traceback:
        print_traceback(attempts[-1].traceback)


def _next(attempt: Attempt) -> str:
    if attempt.outcome == "lost":
        return ": the worker died"
    if attempt.delay is None:
        return ": the last one" if attempt.outcome == "fail" else ""
    return f": again in {attempt.delay:.{0 if attempt.delay >= _LONG else 1}f} s"


def print_traceback(text: str) -> None:
    """Print a traceback, indented."""
    console = screen()
    console.print(line("\ntraceback", "bold"))
    for each in shown(text).splitlines():
        console.print(line(f"  {each}", "dim"), soft_wrap=True)
