"""``outlast db``: the tables."""

from typing import TYPE_CHECKING

import click

from outlast.cli.choosing import store_shown, with_app

if TYPE_CHECKING:
    from outlast.app import App

__all__ = ["db"]


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
    _bring_up_to_date(app)


@db.command("migrate")
@with_app()
def migrate(app: "App") -> None:
    """Bring the tables up to date. Safe to run twice, and by two at once.

    \b
    Example:
      outlast db migrate --url postgresql://localhost/jobs
    """  # noqa: D301  # click reads the control character, not a backslash
    _bring_up_to_date(app)


def _bring_up_to_date(app: "App") -> None:
    from outlast.cli.showing import say  # noqa: PLC0415  # not for --help

    version = app.create_schema()
    say(f"{store_shown(app)}: the tables have version {version}", "green")


@db.command("check")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def check(app: "App", *, as_json: bool) -> None:
    """See that the tables fit, and that a dead letter can be written.

    \b
    Example:
      outlast db check --app jobs:app
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import counts_told, print_json, say  # noqa: PLC0415  # not for --help

    app.store.check_schema()
    app.store.check_dead_letters()
    version = app.create_schema()  # nothing is left to do: the version alone is wanted
    counts = app.tasks.counts()
    if as_json:
        print_json({"store": store_shown(app), "version": version, "counts": counts})
        return
    say(f"{store_shown(app)}: fine; the tables have version {version}, dead letters can be written", "green")
    say(counts_told(counts))
