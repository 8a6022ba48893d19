"""How far a run is: a bar at a terminal, elsewhere a line in the log every ten seconds."""

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from outlast import clock

if TYPE_CHECKING:
    from rich.console import Console

    from outlast.jobs.tally import Tally

__all__ = ["Figures", "Pace", "progress_of"]

_LINE_EVERY = 10.0  # seconds
_BAR_EVERY = 0.05
_SAMPLES = 30  # a second apart, at the least
_BAR_WIDTH = 20
log = logging.getLogger("outlast.jobs")


class Figures(NamedTuple):
    """How far a run is.

    Attributes:
        done: Targets that came to an end.
        total: All of them, where that is known.
        failed: Those that failed.
        deferred: Those that were put off.
        rate: Targets per second, of late.
        seconds_left: Until the end, if it goes on so; None where nobody knows.
    """

    done: int
    total: int | None
    failed: int
    deferred: int
    rate: float
    seconds_left: float | None

    def __str__(self) -> str:
        """Return them in one line."""
        rate = f"{self.rate:.0f}/s" if self.rate >= 100 else f"{self.rate:.1f}/s"  # noqa: PLR2004  # three digits do
        told = [
            f"{self.done}/{self.total}" if self.total is not None else f"{self.done} done",
            rate,
            f"failed {self.failed}",
            f"put off {self.deferred}",
        ]
        if self.seconds_left is not None:
            told.append(f"{_clock(self.seconds_left)} left")
        return "  ".join(told)


class Pace:
    """How fast a run is of late."""

    def __init__(self) -> None:
        """Begin now, with nothing done."""
        self._samples: deque[tuple[float, int]] = deque([(clock.monotonic(), 0)], _SAMPLES)

    def figures(self, tally: "Tally") -> Figures:
        """Return how far the run is."""
        counts, total, now = tally.counts(), tally.total, clock.monotonic()
        done = counts.total
        since, before = self._samples[0]
        rate = (done - before) / (now - since) if now > since else 0.0
        if now - self._samples[-1][0] >= 1:
            self._samples.append((now, done))
        left = max(0, total - done) / rate if total is not None and rate > 0 else None
        return Figures(done, total, counts.failed, counts.deferred, rate, left)


@contextmanager
def progress_of(name: str, *, plain: bool) -> "Iterator[Callable[[Tally], None]]":
    """Within the block, show how far a run is.

    Args:
        name: Of the job.
        plain: Lines also at a terminal, for who logs JSON.
    """
    console = None if plain else _terminal()
    if console is None:
        yield _lines(name)
        return
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415  # only at a terminal

    from outlast.cli.showing import one_line  # noqa: PLC0415  # it needs rich

    bar = Progress(
        TextColumn(one_line(name, 30).replace("{", "{{").replace("}", "}}"), markup=False),
        BarColumn(_BAR_WIDTH),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,  # the summary says more
        redirect_stdout=sys.stdout.isatty(),  # what goes to a file is to arrive there
    )
    with bar:
        task = bar.add_task("", total=None)

        def show(figures: Figures) -> None:
            bar.update(task, description=str(figures), completed=figures.done, total=figures.total)

        yield _now_and_then(show, _BAR_EVERY, at_once=True)


def _now_and_then(show: Callable[[Figures], None], every: float, *, at_once: bool) -> "Callable[[Tally], None]":
    pace, shown_at = Pace(), clock.monotonic() - (every if at_once else 0)

    def progress(tally: "Tally") -> None:
        nonlocal shown_at
        if clock.monotonic() - shown_at >= every:
            shown_at = clock.monotonic()
            show(pace.figures(tally))

    return progress


def _lines(name: str) -> "Callable[[Tally], None]":
    def show(figures: Figures) -> None:
        log.info("%s: %s", name, figures, extra={"job_id": name, **figures._asdict()})

    return _now_and_then(show, _LINE_EVERY, at_once=False)


def _terminal() -> "Console | None":
    """Return the console on which logs appear too, so that they stand above the bar; None where there is none."""
    if not sys.stderr.isatty():
        return None
    from rich.logging import RichHandler  # noqa: PLC0415  # only at a terminal

    from outlast.cli.showing import screen  # noqa: PLC0415  # it needs rich

    handlers = [each for each in logging.getLogger().handlers if isinstance(each, RichHandler)]
    console = handlers[0].console if handlers else screen(stderr=True)
    return None if console.is_dumb_terminal else console


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(min(seconds, 359_999)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
