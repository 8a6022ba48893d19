"""``outlast sources``: list, add, enable, disable, probe and remove sources; list their cycles."""

from typing import TYPE_CHECKING, Any

import click

from outlast.cli.app_options import flag, json_option, list_options, next_command, option, with_app, with_configured_app
from outlast.cli.completion import profile_names
from outlast.cli.formats import ROW_LIMIT, duration_text, exact_time, now, relative_time
from outlast.cli.operations import add_operations
from outlast.cli.output import (
    Cells,
    JsonObject,
    make_console,
    print_empty,
    print_facts,
    print_json,
    print_list,
    print_text,
    row_data,
    row_facts,
    styled_text,
    table,
)
from outlast.decide.source_health import SourceState
from outlast.operations import SOURCE, Parameter, parse_values
from outlast.ports.source_rows import NewSource
from outlast.queue.audit import write_audit
from outlast.queue.masking import masked_texts
from outlast.report.sources import failure_text, next_poll
from outlast.report.text_format import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from outlast.app import App
    from outlast.ports.source_rows import Cycle, Poll, Source
    from outlast.sources.announcements import CycleSummary


def state_counts_text(counts: "Mapping[SourceState, int]") -> str:
    """Return the number of sources of each state, in one line."""
    parts = [f"{state} {count}" for state, count in counts.items() if count]
    return f"{counted(sum(counts.values()), 'source')}: {', '.join(parts)}" if parts else "no sources"


def source_data(source: "Source", *, whole: bool = False) -> JsonObject:
    """Return a source as JSON data, including the fields of its health.

    Args:
        source: The row.
        whole: Whether to include the memory of its fetcher, which may be large.
    """
    data = row_data(source)
    health = row_data(data.pop("health"))
    if not whole:
        del data["memory"]
    first = {name: data.pop(name) for name in ("id", "url", "profile", "name", "selector")}
    return {**first, **health, **data}


@table("ID, STATE, FAILURES, SUCCESS, FAILURE, NEXT, SOURCE")
def source_table(source: "Source") -> Cells:
    """Return the table of sources."""
    return (
        source.id,
        str(source.state),
        source.consecutive_failures,
        relative_time(source.health.last_success_at),
        relative_time(source.health.last_failure_at),
        _next_poll_text(source)[0],
        masked_texts(source.name or source.url),
    )


def print_source(source: "Source") -> None:
    """Print the fields of a source, one per line."""
    health, (when, why) = source.health, _next_poll_text(source)
    print_facts(
        {
            "source": f"{source.id}, profile {source.profile}",
            **row_facts(source, "name", "url", "selector"),
            "state": _state_text(source),
            "failures": f"{health.consecutive_failures} in a row" if health.consecutive_failures else None,
            "failing": f"since {exact_time(health.failing_since)}" if health.failing_since else None,
            **row_facts(health, "last_success_at", "last_failure_at"),
            "why": masked_texts(failure_text(source.last_failure) or source.last_error),
            "next poll": f"{when}{f': {why}' if why else ''}",
            "not before": exact_time(source.not_before),
            "last outcome": f"{source.outcome}, in cycle {source.cycle}" if source.outcome else None,
            "not counted yet": masked_texts(failure_text(source.pending)),
            **row_facts(source, "etag", "last_modified"),
            "content": source.content_hash,
            "added": exact_time(source.created_at),
        }
    )


@table("WHEN, OUTCOME, TRIES, HTTP, STATE, ERROR")
def history_table(poll: "Poll") -> Cells:
    """Return the table of a source's polls."""
    return (
        relative_time(poll.at),
        poll.outcome,
        poll.attempts or None,
        poll.http_status,
        f"{poll.before} > {poll.after}" if poll.after is not None else None,
        " ".join(filter(None, (poll.category and f"[{poll.category}]", masked_texts(poll.error)))),
    )


def _state_text(source: "Source") -> str:
    health = source.health
    if health.disabled_by is None or source.is_active:
        return str(source.state)
    by = "by hand"
    if health.disabled_by != "hand":
        by = f"by its profile, {counted(health.probes, 'probe')} failed since"
    return f"{source.state} {relative_time(health.disabled_at)}, {by}"


def _next_poll_text(source: "Source") -> tuple[str, str]:
    """Return when a source is polled next, and why."""
    kind, at = next_poll(source, now())
    when = relative_time(at) if at is not None else "due"
    match kind:
        case "never":
            return kind, f"it was disabled by hand; {next_command('sources', 'enable', source.id)}"
        case "now":
            return kind, "a monitor is polling it"
        case "probe":
            return when, f"as a probe; to probe it sooner: {next_command('sources', 'probe', source.id)}"
        case "held":
            return when, "its host asked for no requests until then"
        case _:
            return when, ""


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


@sources.command()
@option("--profile", "NAME", "Only cycles of this profile.", shell_complete=profile_names)
@list_options("Cycles", 20)
@with_app
def cycles(app: "App", *, profile: str | None, limit: int, as_json: bool) -> None:
    """List the last cycles, newest first. A cycle polls all sources of a profile that are due.

    \b
    Examples:
      outlast sources cycles
      outlast sources cycles --profile feed --limit 100 --json
    """  # noqa: D301  # click reads the control character, not a backslash
    hint = "outlast monitor MODULE:APP starts one"
    print_list(app.sources.cycles(profile, limit), _cycles_table, "cycles", hint, as_json=as_json)


_CYCLE_FIGURES = ("sources", "polled", "changed", "failed", "deferred")


@table("CYCLE, STARTED, TOOK, SOURCES, POLLED, CHANGED, FAILED, DEFERRED, PROFILE")
def _cycles_table(cycle: "Cycle") -> Cells:
    took = "running" if cycle.ended_at is None else duration_text((cycle.ended_at - cycle.started_at).total_seconds())
    return (
        cycle.id,
        relative_time(cycle.started_at),
        took,
        *(getattr(cycle, name) for name in _CYCLE_FIGURES),
        f"{cycle.profile}{', outage' if cycle.outage_since is not None else ''}",
    )


def cycle_summary_data(profile: str, summary: "CycleSummary | None", *, stopped: bool) -> JsonObject:
    """Return the result of a cycle as JSON data; ``cycle`` is None if no source was due, or it was stopped."""
    if summary is None:
        return {"cycle": None, "profile": profile, "stopped": stopped}

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
    if summary is None:
        kept = "stopped before the end of the cycle; finished polls are kept, the rest is polled next time"
        none = f"no source of the profile {profile} can be polled now: it has none, or all are deferred or disabled"
        print_text(kept if stopped else none, "yellow" if stopped else "")
        return
    cycle = summary.cycle
    print_facts(
        {
            "cycle": f"{cycle.id} of {cycle.profile}, {summary.seconds:.1f} s",
            **{name: getattr(cycle, name) for name in _CYCLE_FIGURES},
            "changed state": summary.transitions,
            "on_change failed": summary.broken_callbacks or None,
        }
    )
    if cycle.outage_since is not None:
        print_text(
            "outage: many sources failed together, so their failures do not count; outlast sources show ID shows why",
            "red",
        )


_MAX_LISTED = 20
_profile_option = option(
    "--profile", "NAME", "Their profile: blog, feed or your own. Default: that of the app's only monitor, else feed."
)


@sources.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@_profile_option
@option("--name", "TEXT", "A name for the source; for one URL.", default="")
@option("--selector", "CSS", "The part of a page to watch.")
@json_option
@with_configured_app(creates_file=True)
def add(
    app: "App", urls: tuple[str, ...], *, profile: str | None, name: str, selector: str | None, as_json: bool
) -> None:
    """Add sources, due at once. If a URL or the selector is not valid, nothing is added and all mistakes are listed.

    Sources that already exist stay as they are.

    \b
    Examples:
      outlast sources add https://example.com/feed.xml
      outlast sources add https://example.com/ --profile blog --selector main
    """  # noqa: D301  # click reads the control character, not a backslash
    if name and len(urls) > 1:
        raise click.UsageError("--name needs exactly one URL; add the others separately")
    profile = profile or _default_profile(app)
    write_audit(app.store, "add_sources", "sources", {"profile": profile, "urls": list(urls)})
    added = app.sources.add_many([NewSource(url, profile, name, selector) for url in urls])
    rows = [(app.sources.get(each.id), each.created) for each in added]
    if as_json:
        print_json([{"source_id": row.id, "created": created, "url": masked_texts(row.url)} for row, created in rows])
    else:
        for row, created in rows:
            result = "added, due at once" if created else f"already exists, {row.state}"
            print_text(f"source {row.id}: {result}: {masked_texts(row.url)}", "green" if created else "")
    _warn_unpolled_profile(app, profile)


@sources.command("import")
@click.argument("file", type=click.Path(), metavar="FILE")
@_profile_option
@flag("--dry-run", "Show what would be added; add nothing.")
@json_option
@with_configured_app(creates_file=True)
def import_sources(app: "App", file: str, *, profile: str | None, dry_run: bool, as_json: bool) -> None:
    """Add the sources of an OPML file or of a list of URLs.

    A list has one URL per line. Sources that already exist stay as they are, so you can import the same file again.

    \b
    Examples:
      outlast sources import feeds.opml --dry-run
      outlast sources import urls.txt --profile blog
    """  # noqa: D301  # click reads the control character, not a backslash
    profile = profile or _default_profile(app)
    if dry_run:
        new_sources, known = _compare_import(app, file, profile)
        new = len(new_sources)
    else:
        write_audit(app.store, "import_sources", "sources", {"profile": profile, "file": file})
        new_sources, added = [], {each.id: each.created for each in app.sources.import_file(file, profile=profile)}
        new = sum(added.values())
        known = len(added) - new
    if as_json:
        print_json({"new": new, "known": known, "dry_run": dry_run})
    else:
        verb = "would be added" if dry_run else "added"
        print_text(f"{new} {verb}, {known} already {'exists' if known == 1 else 'exist'}", "green" if new else "")
        for source in new_sources[:_MAX_LISTED]:
            print_text(f"  {masked_texts(source.url)}")
        if len(new_sources) > _MAX_LISTED:
            print_text(f"  … and {len(new_sources) - _MAX_LISTED} more")
    _warn_unpolled_profile(app, profile)


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


def _default_profile(app: "App") -> str:
    return min(app.sources.polled) if len(app.sources.polled) == 1 else "feed"


def _warn_unpolled_profile(app: "App", profile: str) -> None:
    """Warn about a profile whose sources may never be polled."""
    known = app.sources.polled or app.sources.profiles.keys()
    if profile in known:
        return
    names = ", ".join(sorted(known))
    text = f"{profile!r} is not one of the profiles {names}; its sources are polled only by a monitor with it"
    if app.sources.polled:
        reference = click.get_current_context().params["reference"]
        text = f"no monitor of {reference} polls profile {profile}; it has: {names}"
    click.secho(text, fg="yellow", err=True)


_HISTORY_ROWS = 20
_SOURCE = Parameter("source_id", SOURCE, "The id or the URL of the source.", required=True)


@sources.command("list")
@click.option(
    "--state", type=click.Choice(list(map(str, SourceState)), case_sensitive=False), help="Only sources in this state."
)
@option("--profile", "NAME", "Only sources of this profile.", shell_complete=profile_names)
@option("--text", "TEXT", "Only sources with this text in URL or name.")
@option("--after", "ID", "Only sources with larger ids: the next page.", type=ROW_LIMIT)
@list_options("Sources", 50)
@with_app
def list_sources(app: "App", /, *, profile: str | None, limit: int, as_json: bool, **filters: Any) -> None:
    """List sources by id, with the number of sources in each state.

    \b
    Examples:
      outlast sources list --state error
      outlast sources list --text example.com --json
    """  # noqa: D301  # click reads the control character, not a backslash
    found = app.sources.list(profile=profile, limit=limit, **filters)
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
    print_list(found, source_table, "sources", "", as_json=False, next_page="--after")


@sources.command("show")
@click.argument("word", metavar="ID_OR_URL")
@list_options()
@with_app
def show_source(app: "App", word: str, *, as_json: bool) -> None:
    """Show a source: its health, its next poll and its history.

    \b
    Examples:
      outlast sources show 12
      outlast sources show https://example.com/feed.xml --json
    """  # noqa: D301  # click reads the control character, not a backslash
    source = app.sources.get(parse_values(app, [_SOURCE], {_SOURCE.name: [word]})[_SOURCE.name])
    polls = app.sources.history(source.id, _HISTORY_ROWS)
    if as_json:
        print_json({**source_data(source, whole=True), "history": [row_data(poll) for poll in polls]})
        return
    print_source(source)
    if polls:
        make_console().print(styled_text(""), history_table(polls))
    else:
        print_empty("it has not been polled yet", "outlast monitor MODULE:APP polls it")


add_operations(sources, "sources")
