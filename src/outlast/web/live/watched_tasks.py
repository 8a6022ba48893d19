"""Tasks whose pages are open: each is looked at from time to time, and its page is told when it moved on."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.ports.rows import Task

__all__ = ["GONE", "mark_of", "task_part", "watched"]

GONE = "gone"
"""Mark of a task that is not there any more."""
_VIEW = re.compile(r"task-([1-9]\d{0,18})", re.ASCII)
_MOST = 2**63 - 1  # what both databases hold


def watched(views: Iterable[str]) -> list[int]:
    """Return the numbers of the tasks whose pages are among these, the lowest first."""
    numbers = {int(found[1]) for view in views if (found := _VIEW.fullmatch(view))}
    return sorted(number for number in numbers if number <= _MOST)


def mark_of(task: "Task | None") -> str:
    """Return a word that is another one as soon as the page of a task would show something else."""
    if task is None:
        return GONE
    moments = f"{task.updated_at.timestamp():.3f}-{task.next_run_after.timestamp():.3f}"
    return f"{task.status}-{task.lease_epoch}-{task.attempt}-{moments}"


def task_part(view: str, marks: Mapping[int, str]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the template that tells the page of a task how it stands, and what it shows; None where that is not known.

    Args:
        view: The page.
        marks: By the number of the task.
    """
    number = next(iter(watched([view])), 0)
    return ("task_mark.html", {"mark": marks[number]}) if number in marks else None
