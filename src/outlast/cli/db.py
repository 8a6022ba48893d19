"""``outlast db``: create, migrate and check the tables; ``outlast move``: from SQLite to PostgreSQL."""

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from outlast.cli.app_options import flag, json_option, with_app, with_configured_app
from outlast.cli.output import (
    make_console,
    make_table,
    print_json,
    print_text,
    progress_bar,
    status_counts_text,
    throttled,
)
from outlast.report.text_format import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from outlast.app import App
    from outlast.stores.move.move import MoveNames, MoveResult
    from outlast.stores.move.row_copy import MoveProgress
    from outlast.stores.move.source import SourceFile
    from outlast.stores.move.target import TargetDatabase


@click.group()
def db() -> None:
    """Create, migrate and check the tables.

    \b
    Examples:
      outlast db init --url postgresql://localhost/jobs
      outlast db check
    """  # noqa: D301  # click reads the control character, not a backslash


@db.command("init")
@with_configured_app(may_create=True)
def create(app: "App") -> None:
    """Create the tables. It is safe to run this repeatedly and in parallel.

    \b
    Example:
      outlast db init --url sqlite:///outlast.db
    """  # noqa: D301  # click reads the control character, not a backslash
    _migrate_tables(app)


@db.command("migrate")
@with_app
def migrate(app: "App") -> None:
    """Migrate the tables to this version. It is safe to run this repeatedly and in parallel.

    \b
    Example:
      outlast db migrate --url postgresql://localhost/jobs
    """  # noqa: D301  # click reads the control character, not a backslash
    _migrate_tables(app)


def _migrate_tables(app: "App") -> None:
    version = app.create_schema()
    print_text(f"{app.store.location}: the tables have version {version}", "green")


@db.command("check")
@json_option
@with_app
def check(app: "App", *, as_json: bool) -> None:
    """Check the tables, and that a dead letter can be written.

    \b
    Example:
      outlast db check --app jobs:app
    """  # noqa: D301  # click reads the control character, not a backslash
    version = app.store.check_schema()
    app.store.check_dead_letters()
    counts = app.tasks.counts()
    if as_json:
        print_json({"store": app.store.location, "version": version, "counts": counts})
        return
    print_text(f"{app.store.location}: ok; the tables have version {version}, dead letters can be written", "green")
    print_text(status_counts_text(counts))


_NEXT_STEPS = """\
next:
  1. use the new URL in your App, and in OUTLAST_URL and outlast.toml if you set it there
  2. run outlast doctor with the new URL
  3. start workers and monitors"""
_LINE_EVERY = 10.0  # seconds between two lines of progress, if there is no terminal


@contextmanager
def move_progress() -> "Iterator[Callable[[MoveProgress], object]]":
    """Yield a function that shows the progress of a move: a bar on a terminal, or else a line now and then."""
    console = make_console(stderr=True)
    if not console.is_terminal:
        yield throttled(
            lambda step: click.echo(f"{step.doing}: {step.rows:,} of {step.total:,} rows", err=True), _LINE_EVERY
        )
        return
    with progress_bar(console) as progress:
        bar = progress.add_task("reading", total=None)
        yield lambda step: progress.update(bar, description=step.doing, completed=step.rows, total=step.total or None)


@click.command()
@click.argument("sqlite_url", metavar="SQLITE_URL")
@click.argument("postgres_url", metavar="POSTGRES_URL", required=False)
@flag("--dry-run", "Show what would be moved and what prevents it; change nothing.")
@flag("--cancel", "Cancel an unfinished move and use the file as before.")
@json_option
def move(sqlite_url: str, postgres_url: str | None, *, dry_run: bool, cancel: bool, as_json: bool) -> None:
    """Move all data from a SQLite file to PostgreSQL.

    This moves tasks with their history and results, dead letters, replays, groups of failures, sources, job runs,
    alerts, paused queues, the audit log and the counters. Ids and times stay the same. No task runs twice and no alert
    is sent twice.

    Stop workers and monitors first. The file is frozen during the copy: writing to it fails. The target must be empty;
    its tables are created. At the end the rows and counters of both sides are compared; the exit code is 1 if they
    differ. The file is never deleted; it stays as it is and refuses writes.

    After an interruption, run the same command again to continue. Running it again after the end changes nothing. The
    password may come from PGPASSWORD or ~/.pgpass.

    \b
    Examples:
      outlast move sqlite:///outlast.db postgresql://shop@db/shop --dry-run
      outlast move sqlite:///outlast.db postgresql://shop@db/shop
      outlast move sqlite:///outlast.db postgresql://shop@db/shop --cancel
      outlast move sqlite:///outlast.db --cancel   # if the target is gone
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.stores.move.move import MoveNames, open_source, open_target  # noqa: PLC0415  # not for --help

    if dry_run and cancel:
        raise click.UsageError("give --dry-run or --cancel, not both")
    if postgres_url is None and not cancel:
        raise click.UsageError("Missing argument 'POSTGRES_URL'")
    with ExitStack() as stack:
        source = stack.enter_context(open_source(sqlite_url))
        target = None if postgres_url is None else stack.enter_context(open_target(postgres_url))
        names = MoveNames(source.store.location, "" if target is None else target.store.location)
        if cancel:
            _cancel(source, target, names, as_json=as_json)
        elif target is not None and dry_run:
            _print_dry_run(source, target, names, as_json=as_json)
        elif target is not None:
            _move(source, target, names, as_json=as_json)


def _cancel(source: "SourceFile", target: "TargetDatabase | None", names: "MoveNames", *, as_json: bool) -> None:
    from outlast.stores.move.move import cancel_move  # noqa: PLC0415  # not for --help

    cancelled = cancel_move(source, target, names)
    if as_json:
        print_json({"source": names.source, "cancelled": cancelled})
    elif cancelled:
        print_text(f"the move was cancelled; use {names.source} as before", "green")
        if target is None:
            print_text("the target database keeps the rows copied so far and refuses to be used; drop its tables")
    else:
        print_text("no move was started; there is nothing to cancel")


def _print_dry_run(source: "SourceFile", target: "TargetDatabase", names: "MoveNames", *, as_json: bool) -> None:
    from outlast.stores.move.move import preview  # noqa: PLC0415  # not for --help

    tables = preview(source, target, names)
    if as_json:
        print_json({**names._asdict(), "dry_run": True, "rows": sum(tables.values()), "tables": tables})
        return
    _print_tables(tables)
    print_text(
        f"{sum(tables.values()):,} rows would be moved from {names.source} to {names.target}; nothing prevents it"
    )
    _print_foreign_tables(source.foreign_tables())


def _move(source: "SourceFile", target: "TargetDatabase", names: "MoveNames", *, as_json: bool) -> None:
    from outlast.stores.move.move import move as move_all  # noqa: PLC0415  # not for --help

    try:
        with move_progress() as progress:
            moved = move_all(source, target, names, progress=progress)
    except BaseException:
        mark = source.mark()
        if mark is not None and mark.ended_at is None:
            line = "the file stays frozen until the move is finished: run it again to continue, or with --cancel"
            click.secho(line, fg="yellow", err=True)
        raise
    if as_json:
        print_json({**names._asdict(), **moved._asdict(), "rows": sum(moved.tables.values())})
    else:
        _print_result(moved, names)


def _print_result(moved: "MoveResult", names: "MoveNames") -> None:
    rows = sum(moved.tables.values())
    if moved.already:
        print_text(f"{names.source} was already moved to {names.target}; there is nothing to do", "green")
        return
    _print_tables(moved.tables)
    resumed = f", {moved.copied:,} of them now" if moved.resumed else ""
    print_text(
        f"{rows:,} rows were moved to {names.target}{resumed}, in {moved.seconds:.1f} s; both sides match", "green"
    )
    if moved.rescued:
        print_text(f"returned to the queue from dead workers: {counted(moved.rescued, 'task')}")
    _print_foreign_tables(moved.strangers)
    print_text(_NEXT_STEPS)
    print_text(f"{names.source} stays as it is and refuses writes; keep it as long as you like", "dim")


def _print_foreign_tables(tables: list[str]) -> None:
    if tables:
        print_text(f"other tables in the file are not moved: {', '.join(tables)}", "yellow")


def _print_tables(tables: dict[str, int]) -> None:
    rows = [(name, count) for name, count in tables.items() if count]
    if rows:
        make_console().print(make_table({"TABLE": None, "ROWS": None}, rows))
