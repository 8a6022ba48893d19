"""``outlast sources add`` and ``outlast sources import``."""

from typing import TYPE_CHECKING

import click

from outlast.cli.auditing import write_down
from outlast.cli.choosing import with_app

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.app import App
    from outlast.ports.source_rows import Source

__all__ = ["add", "import_sources"]

_MOST_NAMED = 20


@click.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--profile", metavar="NAME", default="feed", show_default=True, help="Who judges them: blog, feed or your own."
)
@click.option("--name", metavar="TEXT", default="", help="What people call it; for one URL.")
@click.option("--selector", metavar="CSS", help="The part of a page that is watched.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app(adds=True)
def add(app: "App", urls: tuple[str, ...], *, profile: str, name: str, selector: str | None, as_json: bool) -> None:
    """Add sources, due at once. All or none: if a URL or the selector is none, all mistakes are told.

    One that is known already stays as it is.

    \b
    Examples:
      outlast sources add https://example.com/feed.xml
      outlast sources add https://example.com/ --profile blog --selector main
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import masked, print_json, say  # noqa: PLC0415  # not for --help
    from outlast.ports.source_rows import NewSource  # noqa: PLC0415  # not for --help

    if name and len(urls) > 1:
        message = "--name is for one URL; add the others on their own"
        raise click.UsageError(message)
    write_down(app, "add_sources", "sources", profile=profile, urls=list(urls))
    added = app.sources.add_many([NewSource(url, profile, name, selector) for url in urls])
    rows = [(app.sources.get(each.id), each.created) for each in added]
    if as_json:
        print_json([{"id": row.id, "created": created, "url": masked(row.url)} for row, created in rows])
    else:
        for row, created in rows:
            became = "added, due at once" if created else f"known already, {row.state}"
            say(f"source {row.id}: {became}: {masked(row.url)}", "green" if created else "")
    _warn(app, profile)


@click.command("import")
@click.argument("file", type=click.Path(), metavar="FILE")
@click.option(
    "--profile", metavar="NAME", default="feed", show_default=True, help="Who judges them: blog, feed or your own."
)
@click.option("--dry-run", is_flag=True, help="Say what would be added, and add nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as a JSON object.")
@with_app(adds=True)
def import_sources(app: "App", file: str, *, profile: str, dry_run: bool, as_json: bool) -> None:
    """Add the sources of an OPML file, or of a text file with one URL on each line.

    Those that are known already stay as they are, so that the same file can be imported again.

    \b
    Examples:
      outlast sources import feeds.opml --dry-run
      outlast sources import urls.txt --profile blog
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import masked, print_json, say  # noqa: PLC0415  # not for --help

    if dry_run:
        fresh, known = _compared(app, file, profile)
        new = len(fresh)
    else:
        write_down(app, "import_sources", "sources", profile=profile, file=file)
        fresh, added = [], {each.id: each.created for each in app.sources.import_file(file, profile=profile)}
        new = sum(added.values())
        known = len(added) - new
    if as_json:
        print_json({"new": new, "known": known, "dry_run": dry_run})
    else:
        say(f"{new} {'would be added' if dry_run else 'new'}, {known} known already", "green" if new else "")
        for source in fresh[:_MOST_NAMED]:
            say(f"  {masked(source.url)}")
        if len(fresh) > _MOST_NAMED:
            say(f"  … and {len(fresh) - _MOST_NAMED} more")
    _warn(app, profile)


def _compared(app: "App", file: str, profile: str) -> "tuple[Sequence[Source], int]":
    """Import a file into a store that is forgotten; return what would be new, and how many are known."""
    from outlast.sources.book import SourceBook  # noqa: PLC0415  # not for --help
    from outlast.stores.sqlite.memory import MemoryStore  # noqa: PLC0415  # not for --help

    trial = SourceBook(MemoryStore(), app.sources.profiles)
    trial.import_file(file, profile=profile)
    found = trial.list()
    known = {(source.profile, source.url) for source in app.sources.list(profile=profile)}
    fresh = [source for source in found if (source.profile, source.url) not in known]
    return fresh, len(found) - len(fresh)


def _warn(app: "App", profile: str) -> None:
    """Warn of a profile that nobody may know: its sources would never be polled."""
    if profile not in app.sources.profiles:
        known = ", ".join(app.sources.profiles)
        text = f"{profile!r} is none of the profiles {known}: a monitor of that name has to poll it; is it right?"
        click.secho(text, fg="yellow", err=True)
