"""How far a move is: a bar at a terminal, elsewhere a line every ten seconds."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from outlast import clock
from outlast.cli.showing import screen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from outlast.stores.moving.copying import Step

__all__ = ["progress_of_a_move"]

_LINE_EVERY = 10.0  # seconds


@contextmanager
def progress_of_a_move() -> "Iterator[Callable[[Step], object]]":
    """Within the block, show the steps that the yielded function is given."""
    console = screen(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415  # at a terminal alone

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("looking", total=None)
        yield lambda step: progress.update(bar, description=step.doing, completed=step.rows, total=step.total or None)


def _lines() -> "Callable[[Step], object]":
    said_at = clock.monotonic()

    def show(step: "Step") -> None:
        nonlocal said_at
        if clock.monotonic() - said_at >= _LINE_EVERY:
            said_at = clock.monotonic()
            click.echo(f"{step.doing}: {step.rows:,} of {step.total:,} rows", err=True)

    return show
