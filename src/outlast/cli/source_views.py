"""Sources and polls as they are shown: tables for people, JSON for programs, URLs without secrets."""

from typing import TYPE_CHECKING

from outlast.cli.app_options import next_command
from outlast.cli.formats import exact_time, now, relative_time
from outlast.cli.output import Cells, JsonObject, mask_secrets, print_facts, row_data, table
from outlast.report.sources import failure_text, next_poll
from outlast.report.text_format import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from outlast.decide.source_health import SourceState
    from outlast.ports.source_rows import Poll, Source


_MASKED = ("url", "name", "selector", "last_error", "last_failure", "pending", "etag", "last_modified", "memory")
_INTERNAL_FIELDS = ("epoch",)


def source_title(source: "Source") -> str:
    """Return the name of a source, or else its URL, without secrets."""
    return str(mask_secrets(source.name or source.url))


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
    for name in (*_INTERNAL_FIELDS, *(() if whole else ("memory",))):
        del data[name]
    data.update({name: mask_secrets(data[name]) for name in _MASKED if name in data})
    first = {name: data.pop(name) for name in ("id", "url", "profile", "name", "selector")}
    return {**first, **health, **data}


def poll_data(poll: "Poll") -> JsonObject:
    """Return a poll of a source's history as JSON data."""
    data = row_data(poll)
    del data["source_id"]
    data["error"] = mask_secrets(data["error"])
    return data


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
        source_title(source),
    )


def print_source(source: "Source") -> None:
    """Print the fields of a source, one per line."""
    health, (when, why) = source.health, _next_poll_text(source)
    print_facts(
        {
            "source": f"{source.id}, profile {source.profile}",
            "name": mask_secrets(source.name) or None,
            "url": mask_secrets(source.url),
            "selector": mask_secrets(source.selector),
            "state": _state_text(source),
            "failures": f"{health.consecutive_failures} in a row" if health.consecutive_failures else None,
            "failing": f"since {exact_time(health.failing_since)}" if health.failing_since else None,
            "last success": exact_time(health.last_success_at),
            "last failure": exact_time(health.last_failure_at),
            "why": mask_secrets(failure_text(source.last_failure) or source.last_error),
            "next poll": f"{when}{f': {why}' if why else ''}",
            "not before": exact_time(source.not_before),
            "last outcome": f"{source.outcome}, in cycle {source.cycle}" if source.outcome else None,
            "not counted yet": mask_secrets(failure_text(source.pending)),
            "etag": mask_secrets(source.etag),
            "last modified": mask_secrets(source.last_modified),
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
        " ".join(
            word for word in (f"[{poll.category}]" if poll.category else "", mask_secrets(poll.error) or "") if word
        ),
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
