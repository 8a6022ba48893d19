"""``outlast sources``: look at what is polled; adding and changing sources have files of their own."""

from typing import TYPE_CHECKING

import click

from outlast.cli.choosing import command, with_app
from outlast.cli.completing import profile_names
from outlast.cli.cycles import cycles
from outlast.cli.numbers import LIMIT
from outlast.cli.sources_adding import add, import_sources
from outlast.cli.sources_handling import disable, enable, found_source, probe, remove

if TYPE_CHECKING:
    from outlast.app import App

__all__ = ["sources"]

_STATES = ("healthy", "warning", "error", "disabled", "probation")
_LINES = 20  # of a source's history


@click.group()
def sources() -> None:
    """Look at what is polled, add sources, enable and disable them.

    A source is a feed or a page that outlast monitor polls. It is healthy; in warning after a failure that counts; in
    error, or disabled where its profile says so, after several in a row; on probation when it answers again.

    \b
    Examples:
      outlast sources add https://example.com/feed.xml
      outlast sources import feeds.opml
      outlast sources list --state disabled
    """  # noqa: D301  # click reads the control character, not a backslash


@sources.command("list")
@click.option("--state", type=click.Choice(_STATES, case_sensitive=False), help="Only those that stand so.")
@click.option("--profile", metavar="NAME", shell_complete=profile_names, help="Only those of a profile.")
@click.option("--text", metavar="TEXT", help="Only those with this text in URL or name.")
@click.option("--after", type=LIMIT, metavar="ID", help="Only those with larger numbers: the next page.")
@click.option("--limit", type=LIMIT, metavar="N", default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def list_sources(
    app: "App",
    *,
    state: str | None,
    profile: str | None,
    text: str | None,
    after: int | None,
    limit: int,
    as_json: bool,
) -> None:
    """List sources by number, with how many there are of each state.

    \b
    Examples:
      outlast sources list --state error
      outlast sources list --text example.com --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import found_none, print_json, say, screen  # noqa: PLC0415  # not for --help
    from outlast.cli.sources_showing import counts_told, source_data, source_table  # noqa: PLC0415  # not for --help

    found = app.sources.list(state=state, profile=profile, text=text, after=after, limit=limit)
    if as_json:
        print_json([source_data(source) for source in found])
        return
    counts = app.sources.health(profile)
    of = f" of the profile {profile}" if profile else ""
    if not sum(counts.values()):
        adding = f"{command('sources', 'add')} https://…, or {command('sources', 'import', 'feeds.opml')}"
        found_none(f"no sources{of}", f"add some: {adding}")
        return
    say(f"{counts_told(counts)}{f' ({profile})' if profile else ''}", "bold")
    if found:
        screen().print(source_table(found))
    else:
        found_none("none of them is like that", f"{command('sources', 'list')} shows all")
    if len(found) == limit:
        say(f"there may be more: --after {found[-1].id}", "dim")


@sources.command("show")
@click.argument("word", metavar="ID_OR_URL")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def show_source(app: "App", word: str, *, as_json: bool) -> None:
    """Show a source: its health, when it is polled next and why then, its history.

    \b
    Examples:
      outlast sources show 12
      outlast sources show https://example.com/feed.xml --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import found_none, line, print_json, screen  # noqa: PLC0415  # not for --help
    from outlast.cli.sources_showing import (  # noqa: PLC0415  # not for --help
        history_table,
        poll_data,
        source_data,
        source_facts,
    )

    source = found_source(app, word)
    polls = app.sources.history(source.id, _LINES)
    if as_json:
        print_json({**source_data(source, whole=True), "history": [poll_data(poll) for poll in polls]})
        return
    screen().print(source_facts(source))
    if polls:
        screen().print(line(""), history_table(polls))
    else:
        found_none("it was not polled yet", "outlast monitor MODULE:APP polls it")


for _command in (add, import_sources, enable, disable, probe, remove, cycles):
    sources.add_command(_command)
