"""``outlast move``: from a SQLite file to PostgreSQL, with everything."""

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from outlast.stores.moving.move import Moved, Names
    from outlast.stores.moving.source import Source
    from outlast.stores.moving.target import Target

__all__ = ["move"]


@click.command()
@click.argument("sqlite_url", metavar="SQLITE_URL")
@click.argument("postgres_url", metavar="POSTGRES_URL", required=False)
@click.option("--dry-run", is_flag=True, help="Say what would be moved, and what stands in the way; change nothing.")
@click.option("--cancel", is_flag=True, help="Give up a move that is not over, and use the file as before.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def move(sqlite_url: str, postgres_url: str | None, *, dry_run: bool, cancel: bool, as_json: bool) -> None:
    """Move all that is in a SQLite file to PostgreSQL.

    Tasks, their history and results, dead letters, replays, groups of failures, sources, runs of jobs, alerts, queues
    that are paused, the audit log and the books: under the same numbers, with the same times. Nothing runs twice for
    it, and nobody is told twice.

    Stop workers and monitors before. The file is frozen while it is copied: whoever still writes to it gets an error.
    The target has to be empty; its tables are created. At the end both sides are counted and their books compared, and
    the exit code is 1 if they differ. The file is never deleted; it stays as it was, and refuses to be written to.

    Interrupted, by whatever, the same command goes on where it was. Run once more after the end, it says so. A password
    need not be typed: PGPASSWORD and ~/.pgpass are read.

    \b
    Examples:
      outlast move sqlite:///outlast.db postgresql://shop@db/shop --dry-run
      outlast move sqlite:///outlast.db postgresql://shop@db/shop
      outlast move sqlite:///outlast.db postgresql://shop@db/shop --cancel
      outlast move sqlite:///outlast.db --cancel   # that database is gone
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.report.places import store_told  # noqa: PLC0415  # not for --help
    from outlast.stores.moving.move import Names  # noqa: PLC0415  # not for --help
    from outlast.stores.moving.sides import open_source, open_target  # noqa: PLC0415  # not for --help

    if dry_run and cancel:
        message = "give --dry-run or --cancel, not both"
        raise click.UsageError(message)
    if postgres_url is None and not cancel:
        message = "Missing argument 'POSTGRES_URL'"
        raise click.UsageError(message)
    with ExitStack() as stack:
        source = stack.enter_context(open_source(sqlite_url))
        target = None if postgres_url is None else stack.enter_context(open_target(postgres_url))
        names = Names(store_told(source.store), "" if target is None else store_told(target.store))
        if cancel:
            _cancel(source, target, names, as_json=as_json)
        elif target is not None and dry_run:
            _look(source, target, names, as_json=as_json)
        elif target is not None:
            _move(source, target, names, as_json=as_json)


def _cancel(source: "Source", target: "Target | None", names: "Names", *, as_json: bool) -> None:
    from outlast.cli.showing import print_json, say  # noqa: PLC0415  # not for --help
    from outlast.stores.moving.move import cancel as give_up  # noqa: PLC0415  # not for --help

    found = give_up(source, target, names)
    if as_json:
        print_json({"source": names.source, "cancelled": found})
    elif found:
        say(f"the move was given up; {names.source} is used as before", "green")
        if target is None:
            say("what was copied by then is where it was copied to, and lets nobody in; drop those tables")
    else:
        say("no move was begun; nothing to give up")


def _look(source: "Source", target: "Target", names: "Names", *, as_json: bool) -> None:
    from outlast.cli.showing import print_json, say  # noqa: PLC0415  # not for --help
    from outlast.stores.moving.move import look  # noqa: PLC0415  # not for --help

    tables = look(source, target, names)
    if as_json:
        print_json({**names._asdict(), "dry_run": True, "rows": sum(tables.values()), "tables": tables})
        return
    _show_tables(tables)
    say(
        f"{sum(tables.values()):,} rows would be moved from {names.source} to {names.target}; nothing stands in the way"
    )
    _say_strangers(source.strangers())


def _move(source: "Source", target: "Target", names: "Names", *, as_json: bool) -> None:
    from outlast.cli.move_progress import progress_of_a_move  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import print_json  # noqa: PLC0415  # not for --help
    from outlast.stores.moving.move import move as move_all  # noqa: PLC0415  # not for --help

    try:
        with progress_of_a_move() as progress:
            moved = move_all(source, target, names, progress=progress)
    except BaseException:
        mark = source.mark()
        if mark is not None and mark.ended_at is None:
            line = "the file stays frozen until the move is over: run it again to go on, or give it up by --cancel"
            click.secho(line, fg="yellow", err=True)
        raise
    if as_json:
        print_json({**names._asdict(), **moved._asdict(), "rows": sum(moved.tables.values())})
    else:
        _say_end(moved, names)


def _say_end(moved: "Moved", names: "Names") -> None:
    from outlast.cli.showing import counted, say  # noqa: PLC0415  # not for --help

    rows = sum(moved.tables.values())
    if moved.already:
        say(f"{names.source} was moved to {names.target} before; there is nothing left to do", "green")
        return
    _show_tables(moved.tables)
    again = f", {moved.copied:,} of them now" if moved.resumed else ""
    say(f"{rows:,} rows were moved to {names.target}{again}, in {moved.seconds:.1f} s; both sides agree", "green")
    if moved.rescued:
        say(f"given back by workers that had died: {counted(moved.rescued, 'task')}")
    _say_strangers(moved.strangers)
    say("next:")
    say("  1. give your App the new URL, and OUTLAST_URL and url in outlast.toml where they are set")
    say("  2. outlast doctor, with the new URL")
    say("  3. start workers and monitors")
    say(f"{names.source} stays as it is, and refuses to be written to; keep it for as long as you like", "dim")


def _say_strangers(tables: list[str]) -> None:
    from outlast.cli.showing import say  # noqa: PLC0415  # not for --help

    if tables:
        say(f"tables in the file that are not Outlast's stay where they are: {', '.join(tables)}", "yellow")


def _show_tables(tables: dict[str, int]) -> None:
    from outlast.cli.showing import screen, table  # noqa: PLC0415  # not for --help

    rows = [(name, count) for name, count in tables.items() if count]
    if rows:
        screen().print(table({"TABLE": None, "ROWS": None}, rows))
