"""``outlast dlq replay`` and ``outlast dlq discard``: many dead letters, one transaction each."""

from collections import Counter
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlast.cli.choosing import with_app
from outlast.cli.dlq_filters import with_filters
from outlast.cli.failing import FAILED
from outlast.cli.numbers import LIMIT, NUMBER
from outlast.cli.rates import RATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from outlast.app import App
    from outlast.ports.triage_rows import Replay
    from outlast.queue.dead_letters import Handled
    from outlast.queue.triage import DryRun

__all__ = ["discard", "replay"]

_A_FEW = 5
_MOST_SHOWN = 10  # groups, tasks and categories of a dry run


class _Meant(NamedTuple):
    """Which dead letters a command is about.

    Attributes:
        ids: Their numbers, if they were named.
        which: What narrows.
        limit: How many at most.
    """

    ids: tuple[int, ...]
    which: dict[str, Any]
    limit: int | None

    @property
    def named(self) -> bool:
        """Whether they are named one by one, so that one that is gone is worth telling."""
        return bool(self.ids) and not self.which

    def count(self, app: "App") -> int:
        """Return how many there are."""
        found = app.dead_letters.count(**self._narrowing())
        return found if self.limit is None else min(found, self.limit)

    def dry_run(self, app: "App") -> "DryRun":
        """Count them by group, task and category."""
        return app.dead_letters.dry_run(**(self._narrowing() or {"all": True}), limit=self.limit)

    def later(self, app: "App", *, canary: bool, rate: float | None, why: str) -> "Replay":
        """Begin a replay of them that workers carry on."""
        narrowing = {**(self._narrowing() or {"all": True}), "limit": self.limit}
        return app.dead_letters.replay_later(canary=canary, rate=rate, why=why, **narrowing)

    def handled(self, act: "Callable[..., Iterator[Handled]]") -> "Iterator[Handled]":
        """Do it, one by one, as the result is read."""
        if self.named:
            each = chain.from_iterable(act(number) for number in self.ids)
        else:
            each = chain.from_iterable([act(**(self._narrowing() or {"all": True}))])
        return islice(each, self.limit)

    def _narrowing(self) -> dict[str, Any]:
        return {**self.which, "ids": self.ids} if self.ids else self.which


def _meant(ids: tuple[int, ...], which: dict[str, Any], limit: int | None, *, everything: bool) -> _Meant:
    if everything and (ids or which):
        message = "--all goes with neither ids nor filters"
        raise click.UsageError(message)
    if not (everything or ids or which):
        message = "say which dead letters are meant: ids, filters such as --group or --since, or --all"
        raise click.UsageError(message)
    return _Meant(tuple(dict.fromkeys(ids)), which, limit)


@click.command()
@click.argument("ids", type=NUMBER, nargs=-1, metavar="[ID]...")
@with_filters
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--limit", type=LIMIT, metavar="N", help="How many at most, the newest first.")
@click.option("--canary", is_flag=True, help="One first, then ten, then the rest; any failure stops it.")
@click.option("--rate", type=RATE, metavar="RATE", help="How fast at most: 10/s, 30/min. Workers keep to it.")
@click.option("--wait/--no-wait", default=True, help="With --canary or --rate: whether to stay until it is over.")
@click.option("--why", metavar="TEXT", default="", help="Why, for those who look at it later.")
@click.option("--dry-run", is_flag=True, help="Count them only, by group, task and category.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as a JSON object.")
@with_app()
def replay(  # noqa: PLR0913  # its options
    app: "App",
    ids: tuple[int, ...],
    *,
    which: dict[str, Any],
    everything: bool,
    limit: int | None,
    canary: bool,
    rate: float | None,
    wait: bool,
    why: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Queue dead letters again, with their history.

    Each is a transaction of its own: stopped halfway, every task is in exactly one place. One whose unique key is taken
    by a live task stays a dead letter and counts as a conflict; the exit code is 1 then.

    With --canary or --rate the workers do it, and go on if this command ends. A canary gets one attempt; any failure
    of a task that was replayed stops the replay, and the exit code is 1. See outlast dlq replays.

    \b
    Examples:
      outlast dlq replay 7 8
      outlast dlq replay --group 5d41402abc4b2a76 --canary --rate 10/s
      outlast dlq replay --category network --since 2h --dry-run
    """  # noqa: D301  # click reads the control character, not a backslash
    meant = _meant(ids, which, limit, everything=everything)
    if dry_run:
        _say_dry_run(meant.dry_run(app), "would be replayed", as_json=as_json)
    elif canary or rate is not None:
        from outlast.cli.dlq_progress import follow  # noqa: PLC0415  # not for --help

        follow(app, meant.later(app, canary=canary, rate=rate, why=why), wait=wait, as_json=as_json)
    else:
        act = partial(app.dead_letters.replaying, why=why)
        _handle(meant, meant.count(app), act, "replayed", as_json=as_json)


@click.command()
@click.argument("ids", type=NUMBER, nargs=-1, metavar="[ID]...")
@with_filters
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--limit", type=LIMIT, metavar="N", help="How many at most, the newest first.")
@click.option("--why", metavar="TEXT", default="", help="Why, for those who look at it later.")
@click.option("--dry-run", is_flag=True, help="Count them only, by group, task and category.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as a JSON object.")
@with_app()
def discard(  # noqa: PLR0913  # its options
    app: "App",
    ids: tuple[int, ...],
    *,
    which: dict[str, Any],
    everything: bool,
    limit: int | None,
    why: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove dead letters for good.

    \b
    Examples:
      outlast dlq discard 7
      outlast dlq discard --category not_found --until 30d --why 'gone' --yes
    """  # noqa: D301  # click reads the control character, not a backslash
    meant = _meant(ids, which, limit, everything=everything)
    if dry_run:
        _say_dry_run(meant.dry_run(app), "would be discarded", as_json=as_json)
        return
    count = meant.count(app)
    if count and not yes:
        click.confirm(f"Discard {_letters(count)} for good?", abort=True, err=True)
    _handle(meant, count, partial(app.dead_letters.discarding, why=why), "discarded", as_json=as_json)


def _handle(meant: _Meant, total: int, act: "Callable[..., Iterator[Handled]]", word: str, *, as_json: bool) -> None:
    """Do it with a bar, and say at the end what became of how many, also when it was stopped."""
    counts: Counter[str] = Counter()
    over = False
    try:
        for handled in _with_bar(meant.handled(act), total, word):
            counts[handled.outcome] += 1
            if handled.outcome == "conflict" or (handled.outcome == "gone" and meant.named):
                click.secho(f"dead letter {handled.id}: {_WHY[handled.outcome]}", fg="red", err=True)
        over = True
    finally:
        if over or counts:
            _say_outcomes(counts, word, as_json=as_json)
    if counts["conflict"] or (counts["gone"] and meant.named):
        click.get_current_context().exit(FAILED)


_WHY = {"conflict": "a live task has its unique key; it stays", "gone": "there is none (any more)"}


def _with_bar(handled: "Iterator[Handled]", total: int, word: str) -> "Iterator[Handled]":
    from rich.progress import track  # noqa: PLC0415  # not for --help

    from outlast.cli.showing import screen  # noqa: PLC0415  # not for --help

    console = screen(stderr=True)
    if total <= _A_FEW or not console.is_terminal:
        return handled
    return iter(track(handled, description=word, total=total, console=console, transient=True))


def _say_outcomes(counts: Counter[str], word: str, *, as_json: bool) -> None:
    from outlast.cli.showing import print_json, say  # noqa: PLC0415  # not for --help

    if as_json:
        print_json({word: 0, **counts})
    else:
        said = [f"{count} {outcome}" for outcome, count in counts.items()]
        say(", ".join(said) or "no dead letter is meant by that")


def _say_dry_run(found: "DryRun", words: str, *, as_json: bool) -> None:
    from outlast.cli.showing import one_line, print_json, say  # noqa: PLC0415  # not for --help

    if as_json:
        print_json({"count": found.total, **found._asdict()})
        return
    say(f"{_letters(found.total)} {words}")
    for word, counts in (("group", found.groups), ("task", found.tasks), ("category", found.categories)):
        for name, count in islice(counts.items(), _MOST_SHOWN):
            say(f"  {word} {one_line(name) or '-'}: {count}")
        if len(counts) > _MOST_SHOWN:
            say(f"  … and {len(counts) - _MOST_SHOWN} more", "dim")


def _letters(count: int) -> str:
    return f"{count} dead {'letter' if count == 1 else 'letters'}"
