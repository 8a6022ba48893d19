"""``outlast sources``: list, add, enable, disable, probe and remove sources; list their cycles."""

from typing import TYPE_CHECKING, Any

import click

from outlast.cli.app_options import next_command, with_app
from outlast.cli.audit import write_audit_entry
from outlast.cli.completion import profile_names
from outlast.cli.errors import EXIT_FAILED, CommandError
from outlast.cli.formats import ROW_LIMIT, duration_text, relative_time
from outlast.cli.logs import set_up_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from outlast.app import App
    from outlast.ports.source_rows import Cycle, Source
    from outlast.sources.announcements import CycleSummary


@click.command()
@click.option("--profile", metavar="NAME", shell_complete=profile_names, help="Only cycles of this profile.")
@click.option("--limit", type=ROW_LIMIT, metavar="N", default=20, show_default=True, help="Cycles at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def cycles(app: "App", *, profile: str | None, limit: int, as_json: bool) -> None:
    """List the last cycles, newest first. A cycle polls all sources of a profile that are due.

    \b
    Examples:
      outlast sources cycles
      outlast sources cycles --profile feed --limit 100 --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import make_console, make_table, print_empty, print_json, row_data  # noqa: PLC0415  # not for --help

    found = app.sources.cycles(profile, limit)
    if as_json:
        print_json([row_data(cycle) for cycle in found])
        return
    if not found:
        print_empty("no cycle yet", "outlast monitor MODULE:APP starts one")
        return
    columns = {
        "CYCLE": None, "STARTED": None, "TOOK": None, "SOURCES": None, "POLLED": None, "CHANGED": None, "FAILED": None,
        "DEFERRED": None, "PROFILE": None,
    }  # fmt: skip
    rows = (
        (
            cycle.id,
            relative_time(cycle.started_at),
            _cycle_duration(cycle),
            cycle.sources,
            cycle.polled,
            cycle.changed,
            cycle.failed,
            cycle.deferred,
            f"{cycle.profile}{', outage' if cycle.outage_since is not None else ''}",
        )
        for cycle in found
    )
    make_console().print(make_table(columns, rows))


def _cycle_duration(cycle: "Cycle") -> str | None:
    return "running" if cycle.ended_at is None else duration_text((cycle.ended_at - cycle.started_at).total_seconds())


def cycle_summary_data(profile: str, summary: "CycleSummary | None", *, stopped: bool) -> dict[str, Any]:
    """Return the result of a cycle as JSON data; ``cycle`` is None if no source was due, or it was stopped."""
    if summary is None:
        return {"cycle": None, "profile": profile, "stopped": stopped}
    from outlast.cli.output import row_data  # noqa: PLC0415  # not for --help

    figures = row_data(summary.cycle)
    return {
        "cycle": figures.pop("id"),
        **figures,
        "outage": summary.cycle.outage_since is not None,
        "transitions": summary.transitions,
        "broken_callbacks": summary.broken_callbacks,
        "seconds": round(summary.seconds, 3),
        "stopped": stopped,
    }


def print_cycle_summary(profile: str, summary: "CycleSummary | None", *, stopped: bool) -> None:
    """Print the result of a cycle."""
    from outlast.cli.output import facts_table, make_console, print_text  # noqa: PLC0415  # not for --help

    if summary is None:
        if stopped:
            print_text(
                "stopped before the end of the cycle; finished polls are kept, the rest is polled next time", "yellow"
            )
        else:
            print_text(
                f"no source of the profile {profile} can be polled now: it has none, or all are deferred or disabled"
            )
        return
    cycle = summary.cycle
    make_console().print(
        facts_table(
            [
                ("cycle", f"{cycle.id} of {cycle.profile}, {summary.seconds:.1f} s"),
                ("sources", cycle.sources),
                ("polled", cycle.polled),
                ("changed", cycle.changed),
                ("failed", cycle.failed),
                ("deferred", cycle.deferred),
                ("changed state", summary.transitions),
                ("on_change failed", summary.broken_callbacks or None),
            ]
        )
    )
    if cycle.outage_since is not None:
        print_text(
            "outage: many sources failed together, so their failures do not count; outlast sources show ID shows why",
            "red",
        )


_MAX_LISTED = 20


@click.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--profile", metavar="NAME", default="feed", show_default=True, help="Their profile: blog, feed or your own."
)
@click.option("--name", metavar="TEXT", default="", help="A name for the source; for one URL.")
@click.option("--selector", metavar="CSS", help="The part of a page to watch.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app(creates_file=True)
def add(app: "App", urls: tuple[str, ...], *, profile: str, name: str, selector: str | None, as_json: bool) -> None:
    """Add sources, due at once. If a URL or the selector is not valid, nothing is added and all mistakes are listed.

    Sources that already exist stay as they are.

    \b
    Examples:
      outlast sources add https://example.com/feed.xml
      outlast sources add https://example.com/ --profile blog --selector main
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import mask_secrets, print_json, print_text  # noqa: PLC0415  # not for --help
    from outlast.ports.source_rows import NewSource  # noqa: PLC0415  # not for --help

    if name and len(urls) > 1:
        message = "--name needs exactly one URL; add the others separately"
        raise click.UsageError(message)
    write_audit_entry(app, "add_sources", "sources", profile=profile, urls=list(urls))
    added = app.sources.add_many([NewSource(url, profile, name, selector) for url in urls])
    rows = [(app.sources.get(each.id), each.created) for each in added]
    if as_json:
        print_json([{"id": row.id, "created": created, "url": mask_secrets(row.url)} for row, created in rows])
    else:
        for row, created in rows:
            result = "added, due at once" if created else f"already exists, {row.state}"
            print_text(f"source {row.id}: {result}: {mask_secrets(row.url)}", "green" if created else "")
    _warn_unknown_profile(app, profile)


@click.command("import")
@click.argument("file", type=click.Path(), metavar="FILE")
@click.option(
    "--profile", metavar="NAME", default="feed", show_default=True, help="Their profile: blog, feed or your own."
)
@click.option("--dry-run", is_flag=True, help="Show what would be added; add nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as a JSON object.")
@with_app(creates_file=True)
def import_sources(app: "App", file: str, *, profile: str, dry_run: bool, as_json: bool) -> None:
    """Add the sources of an OPML file, or of a text file with one URL per line.

    Sources that already exist stay as they are, so you can import the same file again.

    \b
    Examples:
      outlast sources import feeds.opml --dry-run
      outlast sources import urls.txt --profile blog
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import mask_secrets, print_json, print_text  # noqa: PLC0415  # not for --help

    if dry_run:
        new_sources, known = _compare_import(app, file, profile)
        new = len(new_sources)
    else:
        write_audit_entry(app, "import_sources", "sources", profile=profile, file=file)
        new_sources, added = [], {each.id: each.created for each in app.sources.import_file(file, profile=profile)}
        new = sum(added.values())
        known = len(added) - new
    if as_json:
        print_json({"new": new, "known": known, "dry_run": dry_run})
    else:
        verb = "would be added" if dry_run else "added"
        print_text(f"{new} {verb}, {known} already {'exists' if known == 1 else 'exist'}", "green" if new else "")
        for source in new_sources[:_MAX_LISTED]:
            print_text(f"  {mask_secrets(source.url)}")
        if len(new_sources) > _MAX_LISTED:
            print_text(f"  … and {len(new_sources) - _MAX_LISTED} more")
    _warn_unknown_profile(app, profile)


def _compare_import(app: "App", file: str, profile: str) -> "tuple[Sequence[Source], int]":
    """Import a file into a temporary store; return the sources that would be new, and how many already exist."""
    from outlast.sources.registry import SourceRegistry  # noqa: PLC0415  # not for --help
    from outlast.stores.sqlite.memory import MemoryStore  # noqa: PLC0415  # not for --help

    trial = SourceRegistry(MemoryStore(), app.sources.profiles)
    trial.import_file(file, profile=profile)
    found = trial.list()
    known = {(source.profile, source.url) for source in app.sources.list(profile=profile)}
    new_sources = [source for source in found if (source.profile, source.url) not in known]
    return new_sources, len(found) - len(new_sources)


def _warn_unknown_profile(app: "App", profile: str) -> None:
    """Warn about an unknown profile, because its sources may never be polled."""
    if profile not in app.sources.profiles:
        known = ", ".join(app.sources.profiles)
        text = f"{profile!r} is not one of the profiles {known}; its sources are polled only by a monitor with it"
        click.secho(text, fg="yellow", err=True)


_MAX_ID = 2**63 - 1
_MAX_ID_DIGITS = 19
_MAX_NAMED = 5


def find_source(app: "App", word: str) -> "Source":
    """Return the source with an id or a URL.

    Raises:
        CommandError: If it does not exist, or several have the URL.
    """
    from outlast.errors import ConfigError  # noqa: PLC0415  # not for --help

    is_id = word.isascii() and word.isdecimal()
    try:
        if is_id:
            number = int(word) if len(word) <= _MAX_ID_DIGITS else 0
            return app.sources.get(number if number <= _MAX_ID else 0)
        return app.sources.get(word)
    except ConfigError as error:
        problem = f"source {word} does not exist" if is_id else f"{word}: {error}"
        message = f"{problem}; {next_command('sources', 'list')} shows the sources"
        raise CommandError(message) from None


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="ID_OR_URL...")
@with_app()
def enable(app: "App", words: tuple[str, ...]) -> None:
    """Enable sources: reset their failures and poll them at once. Exit code 1 if a source does not exist.

    \b
    Example:
      outlast sources enable 12
    """  # noqa: D301  # click reads the control character, not a backslash

    def act(source: "Source") -> str:
        write_audit_entry(app, "enable_source", f"source:{source.id}")
        transition = app.sources.enable(source.id)
        was = f", was {transition.before}" if transition is not None else " already"
        return f"healthy{was}; its failures are reset and it is due now"

    _apply_to_each(app, words, act)


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="ID_OR_URL...")
@click.option("--reason", metavar="TEXT", default="", help="The reason, for its history.")
@with_app()
def disable(app: "App", words: tuple[str, ...], *, reason: str) -> None:
    """Disable sources: do not poll or probe them until you enable them. Exit code 1 if a source does not exist.

    \b
    Example:
      outlast sources disable 12 --reason 'moved to another site'
    """  # noqa: D301  # click reads the control character, not a backslash

    def act(source: "Source") -> str:
        was = source.state
        write_audit_entry(app, "disable_source", f"source:{source.id}", reason)
        app.sources.disable(source.id, reason)
        return f"disabled, was {was}; to enable it: {next_command('sources', 'enable', source.id)}"

    _apply_to_each(app, words, act)


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="ID_OR_URL...")
@with_app()
def probe(app: "App", words: tuple[str, ...]) -> None:
    """Poll sources in the next cycle, even if their profile has disabled them.

    Needs a running monitor, or outlast monitor --once. Exit code 1 if a source does not exist or was disabled by hand.

    \b
    Example:
      outlast sources probe 12
    """  # noqa: D301  # click reads the control character, not a backslash

    def act(source: "Source") -> str:
        write_audit_entry(app, "probe_source", f"source:{source.id}")
        if app.sources.probe(source.id):
            return "will be polled in the next cycle"
        message = f"was disabled by hand; to enable it: {next_command('sources', 'enable', source.id)}"
        raise CommandError(message)

    _apply_to_each(app, words, act)


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="ID_OR_URL...")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@with_app()
def remove(app: "App", words: tuple[str, ...], *, yes: bool) -> None:
    """Remove sources and their history. If one does not exist, none is removed and the exit code is 1.

    \b
    Example:
      outlast sources remove 12 13 --yes
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    selected = list({source.id: source for source in (find_source(app, word) for word in words)}.values())
    if not yes:
        click.confirm(f"Remove {_source_names(selected)} for good?", abort=True, err=True)
    for source in selected:
        write_audit_entry(app, "remove_source", f"source:{source.id}", profile=source.profile, url=source.url)
        app.sources.remove(source.id)
        print_text(f"source {source.id}: removed", "green")


def _source_names(selected: "Sequence[Source]") -> str:
    from outlast.cli.output import count_text, printable_line  # noqa: PLC0415  # not for --help
    from outlast.cli.source_views import source_title  # noqa: PLC0415  # not for --help

    if len(selected) > _MAX_NAMED:
        return f"{count_text(len(selected), 'source')} and their history"
    names = ", ".join(f"source {source.id} ({printable_line(source_title(source))})" for source in selected)
    return f"{names} and {'its' if len(selected) == 1 else 'their'} history"


def _apply_to_each(app: "App", words: "Sequence[str]", act: "Callable[[Source], str]") -> None:
    """Apply an action to sources one by one; a failure does not stop the others. Exit code 1 if one fails."""
    from outlast.cli.output import mask_secrets, print_text  # noqa: PLC0415  # not for --help

    set_up_logs("error", as_json=False)  # what the registry logs is printed here
    failed = False
    for word in words:
        try:
            source = find_source(app, word)
            line = f"source {source.id}: {act(source)}"
        except CommandError as error:
            failed = True
            line = (
                error.message
                if error.message.startswith((word, f"source {word} "))
                else f"source {word}: {error.message}"
            )
            print_text(mask_secrets(line), "red")
        else:
            print_text(line, "green")
    if failed:
        click.get_current_context().exit(EXIT_FAILED)


_STATES = ("healthy", "warning", "error", "disabled", "probation")
_HISTORY_ROWS = 20


@click.group()
def sources() -> None:
    """List, add, enable and disable the sources that are polled.

    A source is a feed or a page that outlast monitor polls. Its state is healthy; warning after a failure that counts;
    error or, depending on its profile, disabled after several failures in a row; probation when it answers again.

    \b
    Examples:
      outlast sources add https://example.com/feed.xml
      outlast sources import feeds.opml
      outlast sources list --state disabled
    """  # noqa: D301  # click reads the control character, not a backslash


@sources.command("list")
@click.option("--state", type=click.Choice(_STATES, case_sensitive=False), help="Only sources in this state.")
@click.option("--profile", metavar="NAME", shell_complete=profile_names, help="Only sources of this profile.")
@click.option("--text", metavar="TEXT", help="Only sources with this text in URL or name.")
@click.option("--after", type=ROW_LIMIT, metavar="ID", help="Only sources with larger ids: the next page.")
@click.option("--limit", type=ROW_LIMIT, metavar="N", default=50, show_default=True, help="Sources at most.")
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
    """List sources by id, with the number of sources in each state.

    \b
    Examples:
      outlast sources list --state error
      outlast sources list --text example.com --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import make_console, print_empty, print_json, print_text  # noqa: PLC0415  # not for --help
    from outlast.cli.source_views import source_data, source_table, state_counts_text  # noqa: PLC0415  # not for --help

    found = app.sources.list(state=state, profile=profile, text=text, after=after, limit=limit)
    if as_json:
        print_json([source_data(source) for source in found])
        return
    counts = app.sources.health(profile)
    of = f" of the profile {profile}" if profile else ""
    if not sum(counts.values()):
        commands = f"{next_command('sources', 'add')} https://…, or {next_command('sources', 'import', 'feeds.opml')}"
        print_empty(f"no sources{of}", f"add some: {commands}")
        return
    print_text(f"{state_counts_text(counts)}{f' ({profile})' if profile else ''}", "bold")
    if found:
        make_console().print(source_table(found))
    else:
        print_empty("no sources match", f"{next_command('sources', 'list')} shows all")
    if len(found) == limit:
        print_text(f"there may be more: --after {found[-1].id}", "dim")


@sources.command("show")
@click.argument("word", metavar="ID_OR_URL")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def show_source(app: "App", word: str, *, as_json: bool) -> None:
    """Show a source: its health, when and why it is polled next, and its history.

    \b
    Examples:
      outlast sources show 12
      outlast sources show https://example.com/feed.xml --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import make_console, print_empty, print_json, styled_text  # noqa: PLC0415  # not for --help
    from outlast.cli.source_views import history_table, poll_data, source_data, source_facts  # noqa: PLC0415  # not for --help

    source = find_source(app, word)
    polls = app.sources.history(source.id, _HISTORY_ROWS)
    if as_json:
        print_json({**source_data(source, whole=True), "history": [poll_data(poll) for poll in polls]})
        return
    make_console().print(source_facts(source))
    if polls:
        make_console().print(styled_text(""), history_table(polls))
    else:
        print_empty("it has not been polled yet", "outlast monitor MODULE:APP polls it")


for _command in (add, import_sources, enable, disable, probe, remove, cycles):
    sources.add_command(_command)
