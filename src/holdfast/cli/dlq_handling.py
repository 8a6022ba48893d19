"""``holdfast dlq replay`` and ``holdfast dlq discard``: many dead letters, one transaction each."""

from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.cli.choosing import with_app
from holdfast.cli.dlq_filters import with_filters
from holdfast.cli.failing import FAILED
from holdfast.cli.numbers import LIMIT, NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.app import App
    from holdfast.queue.dead_letters import Handled

__all__ = ["discard", "replay"]

_A_FEW = 5


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
@click.option("--dry-run", is_flag=True, help="Count them only.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as a JSON object.")
@with_app()
def replay(
    app: "App",
    ids: tuple[int, ...],
    *,
    which: dict[str, Any],
    everything: bool,
    limit: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Queue dead letters again, with their history.

    Each is a transaction of its own: stopped halfway, every task is in exactly one place. One whose unique key is taken
    by a live task stays a dead letter and counts as a conflict; the exit code is 1 then.

    \b
    Examples:
      holdfast dlq replay 7 8
      holdfast dlq replay --group 5d41402abc4b2a76 --limit 1
      holdfast dlq replay --category network --since 2h --dry-run
    """  # noqa: D301  # click reads the control character, not a backslash
    meant = _meant(ids, which, limit, everything=everything)
    if dry_run:
        _say_count(meant.count(app), "would be replayed", as_json=as_json)
    else:
        _handle(meant, meant.count(app), app.dead_letters.replaying, "replayed", as_json=as_json)


@click.command()
@click.argument("ids", type=NUMBER, nargs=-1, metavar="[ID]...")
@with_filters
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--limit", type=LIMIT, metavar="N", help="How many at most, the newest first.")
@click.option("--dry-run", is_flag=True, help="Count them only.")
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
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove dead letters for good.

    \b
    Examples:
      holdfast dlq discard 7
      holdfast dlq discard --category not_found --until 30d --yes
    """  # noqa: D301  # click reads the control character, not a backslash
    meant = _meant(ids, which, limit, everything=everything)
    count = meant.count(app)
    if dry_run:
        _say_count(count, "would be discarded", as_json=as_json)
        return
    if count and not yes:
        click.confirm(f"Discard {_letters(count)} for good?", abort=True, err=True)
    _handle(meant, count, app.dead_letters.discarding, "discarded", as_json=as_json)


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

    from holdfast.cli.showing import screen  # noqa: PLC0415  # not for --help

    console = screen(stderr=True)
    if total <= _A_FEW or not console.is_terminal:
        return handled
    return iter(track(handled, description=word, total=total, console=console, transient=True))


def _say_outcomes(counts: Counter[str], word: str, *, as_json: bool) -> None:
    from holdfast.cli.showing import print_json, say  # noqa: PLC0415  # not for --help

    if as_json:
        print_json({word: 0, **counts})
    else:
        said = [f"{count} {outcome}" for outcome, count in counts.items()]
        say(", ".join(said) or "no dead letter is meant by that")


def _say_count(count: int, words: str, *, as_json: bool) -> None:
    from holdfast.cli.showing import print_json, say  # noqa: PLC0415  # not for --help

    if as_json:
        print_json({"count": count})
    else:
        say(f"{_letters(count)} {words}")


def _letters(count: int) -> str:
    return f"{count} dead {'letter' if count == 1 else 'letters'}"
