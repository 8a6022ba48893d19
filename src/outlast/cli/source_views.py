"""Sources and polls as they are shown: tables for people, JSON for programs, URLs without secrets."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from outlast import clock
from outlast.cli.app_options import next_command
from outlast.cli.formats import exact_time, relative_time
from outlast.cli.output import count_text, facts_table, make_table, mask_secrets, row_data
from outlast.report.sources import failure_text, next_poll

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

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
    return f"{count_text(sum(counts.values()), 'source')}: {', '.join(parts)}" if parts else "no sources"


def source_data(source: "Source", *, whole: bool = False) -> dict[str, Any]:
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


def poll_data(poll: "Poll") -> dict[str, Any]:
    """Return a poll of a source's history as JSON data."""
    data = row_data(poll)
    del data["source_id"]
    data["error"] = mask_secrets(data["error"])
    return data


def source_table(found: "Sequence[Source]") -> "Table":
    """Return the table of sources."""
    columns = {
        "ID": None, "STATE": None, "FAILURES": None, "SUCCESS": None, "FAILURE": None, "NEXT": None, "SOURCE": None,
    }  # fmt: skip
    rows = (
        (
            source.id,
            str(source.state),
            source.consecutive_failures,
            relative_time(source.health.last_success_at),
            relative_time(source.health.last_failure_at),
            _next_poll_text(source)[0],
            source_title(source),
        )
        for source in found
    )
    return make_table(columns, rows)


def source_facts(source: "Source") -> "Table":
    """Return a table with the fields of a source, one per line."""
    health, (when, why) = source.health, _next_poll_text(source)
    return facts_table(
        [
            ("source", f"{source.id}, profile {source.profile}"),
            ("name", mask_secrets(source.name) or None),
            ("url", mask_secrets(source.url)),
            ("selector", mask_secrets(source.selector)),
            ("state", _state_text(source)),
            ("failures", f"{health.consecutive_failures} in a row" if health.consecutive_failures else None),
            ("failing", _since_text(health.failing_since)),
            ("last success", exact_time(health.last_success_at)),
            ("last failure", exact_time(health.last_failure_at)),
            ("why", _last_failure_text(source)),
            ("next poll", f"{when}{f': {why}' if why else ''}"),
            ("not before", exact_time(source.not_before)),
            ("last outcome", f"{source.outcome}, in cycle {source.cycle}" if source.outcome else None),
            ("not counted yet", _stored_failure_text(source.pending)),
            ("etag", mask_secrets(source.etag)),
            ("last modified", mask_secrets(source.last_modified)),
            ("content", source.content_hash),
            ("added", exact_time(source.created_at)),
        ]
    )


def history_table(polls: "Sequence[Poll]") -> "Table":
    """Return the table of a source's polls."""
    columns = {"WHEN": None, "OUTCOME": None, "TRIES": None, "HTTP": None, "STATE": None, "ERROR": None}
    rows = (
        (
            relative_time(poll.at),
            poll.outcome,
            poll.attempts or None,
            poll.http_status,
            f"{poll.before} > {poll.after}" if poll.after is not None else None,
            " ".join(
                word for word in (f"[{poll.category}]" if poll.category else "", mask_secrets(poll.error) or "") if word
            ),
        )
        for poll in polls
    )
    return make_table(columns, rows)


def _state_text(source: "Source") -> str:
    health = source.health
    if health.disabled_by is None or source.is_active:
        return str(source.state)
    by = "by hand"
    if health.disabled_by != "hand":
        by = f"by its profile, {count_text(health.probes, 'probe')} failed since"
    return f"{source.state} {relative_time(health.disabled_at)}, {by}"


def _next_poll_text(source: "Source") -> tuple[str, str]:
    """Return when a source is polled next, and why."""
    kind, at = next_poll(source, datetime.fromtimestamp(clock.now(), UTC))
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


def _last_failure_text(source: "Source") -> str | None:
    return _stored_failure_text(source.last_failure) or mask_secrets(source.last_error)


def _stored_failure_text(failure: "Mapping[str, Any] | None") -> str | None:
    """Return a stored failure in one line, without secrets."""
    text = failure_text(failure)
    return None if text is None else str(mask_secrets(text))


def _since_text(moment: datetime | None) -> str | None:
    return None if moment is None else f"since {exact_time(moment)}"
