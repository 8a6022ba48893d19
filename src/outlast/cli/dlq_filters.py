"""Which dead letters are meant: the options that ``dlq list``, ``groups``, ``replay`` and ``discard`` share."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import click

from outlast.cli.completing import category_names, queue_names
from outlast.cli.moments import PAST

__all__ = ["FILTERS", "with_filters"]

P = ParamSpec("P")
R = TypeVar("R")

FILTERS = ("task_type", "queue", "category", "reason", "fingerprint", "since", "until", "text")
_OPTIONS = (
    click.option("--task", "task_type", metavar="NAME", help="Only those of a task."),
    click.option("--queue", metavar="NAME", shell_complete=queue_names, help="Only those of a queue."),
    click.option(
        "--category",
        metavar="NAME",
        shell_complete=category_names,
        help="Only those of a category of failure, such as network.",
    ),
    click.option(
        "--reason",
        type=click.Choice(["exhausted", "permanent", "crash", "undecodable", "expired", "canary"]),
        help="Only those that ended so.",
    ),
    click.option("--group", "fingerprint", metavar="FINGERPRINT", help="Only those of one cause; see dlq groups."),
    click.option("--since", type=PAST, metavar="TIME", help="Moved at this time or later: 2h, 3d, or an ISO time."),
    click.option("--until", type=PAST, metavar="TIME", help="Moved before this time: 2h, 3d, or an ISO time."),
    click.option("--text", metavar="TEXT", help="Only those whose error holds this text."),
)


def with_filters(command: Callable[P, R]) -> Callable[..., R]:
    """Give a command the options, and as ``which`` those that were given."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> R:
        given = {name: kwargs.pop(name) for name in FILTERS}
        if given["category"] is not None:
            given["category"] = _category(given["category"])
        which = {name: value for name, value in given.items() if value is not None}
        return command(*args, which=which, **kwargs)  # type: ignore[arg-type]  # click passes options by name

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


def _category(name: str) -> str:
    from outlast.failure import Category  # noqa: PLC0415  # not for --help

    return Category.parse(name).value
