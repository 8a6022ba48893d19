"""Sources as they are shown: to people in lines and tables, to programs as JSON; their URLs without secrets."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from outlast import clock
from outlast.cli.choosing import command
from outlast.cli.moments import exact, relative
from outlast.cli.showing import as_data, counted, facts, masked, table
from outlast.report.sources import failure_told, next_poll

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from outlast.decide.health import SourceState
    from outlast.ports.source_rows import Poll, Source

__all__ = ["counts_told", "history_table", "poll_data", "source_data", "source_facts", "source_table", "title_of"]

_MASKED = ("url", "name", "selector", "last_error", "last_failure", "pending", "etag", "last_modified", "memory")
_OURS = ("epoch",)


def title_of(source: "Source") -> str:
    """Return what a source is called: its name, else its URL without secrets."""
    return str(masked(source.name or source.url))


def counts_told(counts: "Mapping[SourceState, int]") -> str:
    """Return how many sources there are of each state, in one line."""
    told = [f"{state} {count}" for state, count in counts.items() if count]
    number = sum(counts.values())
    return f"{counted(number, 'source')}: {', '.join(told)}" if told else "no sources"


def source_data(source: "Source", *, whole: bool = False) -> dict[str, Any]:
    """Return a source as JSON has it, its health among its fields.

    Args:
        source: The row.
        whole: With what its fetcher remembers, which may be much.
    """
    data = as_data(source)
    health = as_data(data.pop("health"))
    for name in (*_OURS, *(() if whole else ("memory",))):
        del data[name]
    data.update({name: masked(data[name]) for name in _MASKED if name in data})
    first = {name: data.pop(name) for name in ("id", "url", "profile", "name", "selector")}
    return {**first, **health, **data}


def poll_data(poll: "Poll") -> dict[str, Any]:
    """Return a line of a source's history as JSON has it."""
    data = as_data(poll)
    del data["source_id"]
    data["error"] = masked(data["error"])
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
            relative(source.health.last_success_at),
            relative(source.health.last_failure_at),
            _next(source)[0],
            title_of(source),
        )
        for source in found
    )
    return table(columns, rows)


def source_facts(source: "Source") -> "Table":
    """Return all that is known of a source, one thing on a line."""
    health, (when, why) = source.health, _next(source)
    return facts(
        [
            ("source", f"{source.id}, profile {source.profile}"),
            ("name", masked(source.name) or None),
            ("url", masked(source.url)),
            ("selector", masked(source.selector)),
            ("state", _state(source)),
            ("failures", f"{health.consecutive_failures} in a row" if health.consecutive_failures else None),
            ("failing", _since(health.failing_since)),
            ("last success", exact(health.last_success_at)),
            ("last failure", exact(health.last_failure_at)),
            ("why", _failure(source)),
            ("next poll", f"{when}{f': {why}' if why else ''}"),
            ("not before", exact(source.not_before)),
            ("last outcome", f"{source.outcome}, in cycle {source.cycle}" if source.outcome else None),
            ("not counted yet", _kept(source.pending)),
            ("etag", masked(source.etag)),
            ("last modified", masked(source.last_modified)),
            ("content", source.content_hash),
            ("added", exact(source.created_at)),
        ]
    )


def history_table(polls: "Sequence[Poll]") -> "Table":
    """Return the table of what happened to a source."""
    columns = {"WHEN": None, "OUTCOME": None, "TRIES": None, "HTTP": None, "STATE": None, "ERROR": None}
    rows = (
        (
            relative(poll.at),
            poll.outcome,
            poll.attempts or None,
            poll.http_status,
            f"{poll.before} > {poll.after}" if poll.after is not None else None,
            " ".join(
                word for word in (f"[{poll.category}]" if poll.category else "", masked(poll.error) or "") if word
            ),
        )
        for poll in polls
    )
    return table(columns, rows)


def _state(source: "Source") -> str:
    health = source.health
    if health.disabled_by is None or source.is_active:
        return str(source.state)
    by = (
        "by hand" if health.disabled_by == "hand" else f"by its profile, {counted(health.probes, 'probe')} failed since"
    )
    return f"{source.state} {relative(health.disabled_at)}, {by}"


def _next(source: "Source") -> tuple[str, str]:
    """Return when a source is polled next, and why then."""
    how, at = next_poll(source, datetime.fromtimestamp(clock.now(), UTC))
    when = relative(at) if at is not None else "due"
    match how:
        case "never":
            return how, f"it was disabled by hand; {command('sources', 'enable', source.id)}"
        case "now":
            return how, "a monitor has it in its hands"
        case "probe":
            return when, f"it is probed then; sooner: {command('sources', 'probe', source.id)}"
        case "held":
            return when, "its host asked to be left alone until then"
        case _:
            return when, ""


def _failure(source: "Source") -> str | None:
    return _kept(source.last_failure) or masked(source.last_error)


def _kept(failure: "Mapping[str, Any] | None") -> str | None:
    """Return a failure as it was stored, in one line."""
    told = failure_told(failure)
    return None if told is None else str(masked(told))


def _since(moment: datetime | None) -> str | None:
    return None if moment is None else f"since {exact(moment)}"
