"""``outlast db``: the tables."""

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from outlast import clock
from outlast.cli.app_options import store_label, with_app
from outlast.cli.output import make_console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from outlast.app import App
    from outlast.stores.move.move import MoveNames, MoveResult
    from outlast.stores.move.row_copy import MoveProgress
    from outlast.stores.move.source import SourceFile
    from outlast.stores.move.target import TargetDatabase


@click.group()
def db() -> None:
    """Create the tables, bring them up to date, check them.

    \b
    Examples:
      outlast db init --url postgresql://localhost/jobs
      outlast db check
    """  # noqa: D301  # click reads the control character, not a backslash


@db.command("init")
@with_app(may_create=True)
def create(app: "App") -> None:
    """Create the tables. Safe to run twice, and by two at once.

    \b
    Example:
      outlast db init --url sqlite:///outlast.db
    """  # noqa: D301  # click reads the control character, not a backslash
    _migrate_tables(app)


@db.command("migrate")
@with_app()
def migrate(app: "App") -> None:
    """Bring the tables up to date. Safe to run twice, and by two at once.

    \b
    Example:
      outlast db migrate --url postgresql://localhost/jobs
    """  # noqa: D301  # click reads the control character, not a backslash
    _migrate_tables(app)


def _migrate_tables(app: "App") -> None:
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    version = app.create_schema()
    print_text(f"{store_label(app)}: the tables have version {version}", "green")


@db.command("check")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def check(app: "App", *, as_json: bool) -> None:
    """See that the tables fit, and that a dead letter can be written.

    \b
    Example:
      outlast db check --app jobs:app
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_json, print_text, status_counts_text  # noqa: PLC0415  # not for --help

    app.store.check_schema()
    app.store.check_dead_letters()
    version = app.create_schema()  # nothing is left to do: the version alone is wanted
    counts = app.tasks.counts()
    if as_json:
        print_json({"store": store_label(app), "version": version, "counts": counts})
        return
    print_text(f"{store_label(app)}: fine; the tables have version {version}, dead letters can be written", "green")
    print_text(status_counts_text(counts))


# How far a move is: a bar at a terminal, elsewhere a line every ten seconds.

_LINE_EVERY = 10.0  # seconds


@contextmanager
def move_progress() -> "Iterator[Callable[[MoveProgress], object]]":
    """Within the block, show the steps that the yielded function is given."""
    console = make_console(stderr=True)
    if not console.is_terminal:
        yield _print_progress_lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415  # at a terminal alone

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("looking", total=None)
        yield lambda step: progress.update(bar, description=step.doing, completed=step.rows, total=step.total or None)


def _print_progress_lines() -> "Callable[[MoveProgress], object]":
    said_at = clock.monotonic()

    def show(step: "MoveProgress") -> None:
        nonlocal said_at
        if clock.monotonic() - said_at >= _LINE_EVERY:
            said_at = clock.monotonic()
            click.echo(f"{step.doing}: {step.rows:,} of {step.total:,} rows", err=True)

    return show


# ``outlast move``: from a SQLite file to PostgreSQL, with everything.


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
    from outlast.report.text_format import store_location  # noqa: PLC0415  # not for --help
    from outlast.stores.move.move import (  # noqa: PLC0415  # not for --help
        MoveNames,  # not for --help
        open_source,
        open_target,
    )

    if dry_run and cancel:
        message = "give --dry-run or --cancel, not both"
        raise click.UsageError(message)
    if postgres_url is None and not cancel:
        message = "Missing argument 'POSTGRES_URL'"
        raise click.UsageError(message)
    with ExitStack() as stack:
        source = stack.enter_context(open_source(sqlite_url))
        target = None if postgres_url is None else stack.enter_context(open_target(postgres_url))
        names = MoveNames(store_location(source.store), "" if target is None else store_location(target.store))
        if cancel:
            _cancel(source, target, names, as_json=as_json)
        elif target is not None and dry_run:
            _print_dry_run(source, target, names, as_json=as_json)
        elif target is not None:
            _move(source, target, names, as_json=as_json)


def _cancel(source: "SourceFile", target: "TargetDatabase | None", names: "MoveNames", *, as_json: bool) -> None:
    from outlast.cli.output import print_json, print_text  # noqa: PLC0415  # not for --help
    from outlast.stores.move.move import cancel_move as give_up  # noqa: PLC0415  # not for --help

    found = give_up(source, target, names)
    if as_json:
        print_json({"source": names.source, "cancelled": found})
    elif found:
        print_text(f"the move was given up; {names.source} is used as before", "green")
        if target is None:
            print_text("what was copied by then is where it was copied to, and lets nobody in; drop those tables")
    else:
        print_text("no move was begun; nothing to give up")


def _print_dry_run(source: "SourceFile", target: "TargetDatabase", names: "MoveNames", *, as_json: bool) -> None:
    from outlast.cli.output import print_json, print_text  # noqa: PLC0415  # not for --help
    from outlast.stores.move.move import preview  # noqa: PLC0415  # not for --help

    tables = preview(source, target, names)
    if as_json:
        print_json({**names._asdict(), "dry_run": True, "rows": sum(tables.values()), "tables": tables})
        return
    _print_tables(tables)
    print_text(
        f"{sum(tables.values()):,} rows would be moved from {names.source} to {names.target}; nothing stands in the way"
    )
    _print_foreign_tables(source.foreign_tables())


def _move(source: "SourceFile", target: "TargetDatabase", names: "MoveNames", *, as_json: bool) -> None:
    from outlast.cli.output import print_json  # noqa: PLC0415  # not for --help
    from outlast.stores.move.move import move as move_all  # noqa: PLC0415  # not for --help

    try:
        with move_progress() as progress:
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
        _print_result(moved, names)


def _print_result(moved: "MoveResult", names: "MoveNames") -> None:
    from outlast.cli.output import count_text, print_text  # noqa: PLC0415  # not for --help

    rows = sum(moved.tables.values())
    if moved.already:
        print_text(f"{names.source} was moved to {names.target} before; there is nothing left to do", "green")
        return
    _print_tables(moved.tables)
    again = f", {moved.copied:,} of them now" if moved.resumed else ""
    print_text(
        f"{rows:,} rows were moved to {names.target}{again}, in {moved.seconds:.1f} s; both sides agree", "green"
    )
    if moved.rescued:
        print_text(f"given back by workers that had died: {count_text(moved.rescued, 'task')}")
    _print_foreign_tables(moved.strangers)
    print_text("next:")
    print_text("  1. give your App the new URL, and OUTLAST_URL and url in outlast.toml where they are set")
    print_text("  2. outlast doctor, with the new URL")
    print_text("  3. start workers and monitors")
    print_text(f"{names.source} stays as it is, and refuses to be written to; keep it for as long as you like", "dim")


def _print_foreign_tables(tables: list[str]) -> None:
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    if tables:
        print_text(f"tables in the file that are not Outlast's stay where they are: {', '.join(tables)}", "yellow")


def _print_tables(tables: dict[str, int]) -> None:
    from outlast.cli.output import make_console, make_table  # noqa: PLC0415  # not for --help

    rows = [(name, count) for name, count in tables.items() if count]
    if rows:
        make_console().print(make_table({"TABLE": None, "ROWS": None}, rows))
