"""What is said of dead letters and tasks, in one line each."""

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import NamedTuple

from outlast.ports.rows import QueueRow, Reason, Status, Task, Worker
from outlast.report.words import counted

__all__ = ["REASONS", "STANDS", "Facet", "command", "facets", "handled_text", "held_up", "numbers_text"]

REASONS: dict[str, str] = {
    Reason.EXHAUSTED: "it used up the attempts that its policy allows",
    Reason.PERMANENT: "trying again would not help",
    Reason.CRASH: "workers died while it ran alone",
    Reason.UNDECODABLE: "its arguments cannot be read",
    Reason.CANARY: "it was tried first for a replay, and failed again",
    Reason.EXPIRED: "it could not be done within its time",
}
"""Why a task became a dead letter."""

STANDS: dict[str, str] = {
    Status.QUEUED: "it waits for its time or for a worker",
    Status.RUNNING: "a worker has it",
    Status.PARKED: "no worker knows a task of its name; it waits for one that does",
    Status.DONE: "it succeeded",
    Status.FAILED: "it is a dead letter",
    Status.CANCELLED: "somebody cancelled it",
    Status.DISCARDED: "it was a dead letter, and somebody discarded it",
}
"""What the status of a task means."""

_MOST_NAMED = 10
_OPTIONS = ("task", "queue", "category", "reason", "group", "since", "until", "text")


class Facet(NamedTuple):
    """A value that narrows a list, and how many there are of it; None where that is not known."""

    name: str
    size: int | None


def facets(
    counts: Mapping[tuple[str, str], int], *, task: str | None, category: str | None
) -> tuple[list[Facet], list[Facet], int]:
    """Return how many dead letters there are of each task and of each category, the largest first, and in all.

    Args:
        counts: By task and category.
        task: Narrows the categories, and the whole.
        category: Narrows the tasks, and the whole.
    """
    tasks: dict[str, int] = {}
    categories: dict[str, int] = {}
    whole = 0
    for (name, kind), count in counts.items():
        if count <= 0:
            continue
        if category in {None, kind}:
            tasks[name] = tasks.get(name, 0) + count
        if task in {None, name}:
            categories[kind] = categories.get(kind, 0) + count
        if category in {None, kind} and task in {None, name}:
            whole += count
    return _ordered(tasks), _ordered(categories), whole


def _ordered(counts: Mapping[str, int]) -> list[Facet]:
    return [Facet(name, count) for name, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))]


def held_up(task: Task, queues: Sequence[QueueRow], workers: Sequence[Worker]) -> str:
    """Return why nobody takes up a task that is ready, where that can be seen; otherwise an empty text.

    Args:
        task: It waits, and its time has come.
        queues: All that exist.
        workers: All that are known.
    """
    if any(queue.paused for queue in queues if queue.name == task.queue):
        return f"its queue, {task.queue}, is paused"
    alive = [worker for worker in workers if worker.alive]
    if not alive:
        return "no worker is alive"
    if all(task.queue not in worker.queues for worker in alive):
        return f"no worker that is alive looks into its queue, {task.queue}"
    return ""


def handled_text(word: str, handled: Sequence[tuple[int, str]]) -> str:
    """Return what became of many dead letters, such as ``12 replayed, 2 stayed: …``.

    Args:
        word: What was asked for: ``replayed`` or ``discarded``.
        handled: Numbers and outcomes: the word, ``conflict`` or ``gone``.
    """
    by_outcome: dict[str, list[int]] = {}
    for number, outcome in handled:
        by_outcome.setdefault(outcome, []).append(number)
    said = [f"{len(by_outcome.get(word, []))} {word}"]
    if stayed := by_outcome.get("conflict"):
        one = len(stayed) == 1
        whose = "its unique key is" if one else "their unique keys are"
        said.append(f"{len(stayed)} stayed: {whose} taken by another live task ({numbers_text(stayed)})")
    if gone := by_outcome.get("gone"):
        was = "was" if len(gone) == 1 else "were"
        said.append(f"{len(gone)} {was} not there any more ({numbers_text(gone)})")
    return ", ".join(said)


def numbers_text(numbers: Sequence[int]) -> str:
    """Return numbers in one line, the first ones of many."""
    named = ", ".join(str(number) for number in numbers[:_MOST_NAMED])
    more = len(numbers) - _MOST_NAMED
    return f"{named} and {counted(more, 'other')}" if more > 0 else named


def command(verb: str, given: Mapping[str, str], reference: str = "MODULE:APP") -> str:
    """Return the command that does something to all dead letters of a filter, to be pasted into a shell.

    Args:
        verb: ``replay`` or ``discard``.
        given: What narrows, by the names that page and command share.
        reference: Where the app is.
    """
    options = [f"--{name} {quote(given[name])}" for name in _OPTIONS if given.get(name)]
    return " ".join(["outlast dlq", verb, *(options or ["--all"]), "--app", quote(reference)])
