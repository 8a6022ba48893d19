"""The pages of sources: the list and one source."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from outlast.decide.source_health import SourceState
from outlast.operations import NAME, ROW, Parameter, choice_kind, text_kind
from outlast.ports.source_rows import Poll, Source, SourceFilter
from outlast.queue.masking import masked_row, masked_text
from outlast.report.sources import (
    OUTCOME_KINDS,
    cycle_text,
    failure_text,
    history_cell,
    history_summary,
    next_poll,
    uncounted_failures_text,
)
from outlast.report.text_format import shortened
from outlast.web.routing import PageData, PagePosition, PageRequest, PageRoute, page_parameter, paginate, require
from outlast.web.task_view import mask_optional, masked_line

_ROWS = 25
_STRIP = 40  # history entries in a strip
_HISTORY = 30  # history entries on a page
_MAX_HISTORY = 100  # history entries that every store keeps
_MAX_CELL_CHARS = 60  # of an error in a strip, which contains it twice
_CYCLES = 5
_SHOWN = ("next_poll_at", "not_before", "outcome", "cycle", "content_hash", "created_at")
_STRIP_TOPS = {
    "bad": 0,
    "info": 5,
    "warn": 5,
    "ok": 9,
    "mute": 14,
}  # heights differ, so that a strip reads without colour


def _read_sources(request: PageRequest) -> PageData:
    store = request.app.store
    profile, text, state, after = (request.values[name] for name in ("profile", "text", "state", "after"))
    criteria = SourceFilter(profile, None if state is None else SourceState(state), None, text, after, _ROWS + 1)
    found = store.sources(criteria)
    rows, more = found[:_ROWS], len(found) > _ROWS
    polls = store.recent_polls([each.id for each in rows], _STRIP)
    counts, now = store.source_counts(profile), store.now()
    cycles = store.cycles(profile, _CYCLES)
    return {
        "counts": {str(each): count for each, count in counts.items()},
        "total": sum(counts.values()),
        "rows": [_source_line(each, polls[each.id], now) for each in rows],
        "_drawn": {
            each.id: strip_paths(tuple(history_cell(poll).kind for poll in reversed(polls[each.id]))) for each in rows
        },
        "next": str(rows[-1].id) if more else None,
        "state": state,
        "profile": profile,
        "text": text,
        "profiles": sorted(
            {*request.app.sources.profiles, *(each.profile for each in rows), *([profile] if profile else [])}
        ),
        "states": [str(each) for each in SourceState],
        "cycles": [{**each._asdict(), "told": cycle_text(each)} for each in cycles],
    }


def _read_source(request: PageRequest) -> PageData:
    store, source_id = request.app.store, request.values["source_id"]
    source = require(store.source(source_id), f"source {source_id} does not exist")
    polls, now = store.polls(source.id, _MAX_HISTORY), store.now()
    history, part = paginate(polls, request.values["history_page"], _HISTORY)
    return {
        "source": {
            **_source_line(source, polls[:_STRIP], now),
            "name": masked_text(source.name),
            "selector": mask_optional(source.selector),
            **{name: getattr(source.health, name) for name in ("failing_since", "disabled_at", "probes")},
            **{name: getattr(source, name) for name in _SHOWN},
        },
        "failure": _failure_view(source.last_failure),
        "pending": mask_optional(failure_text(source.pending)),
        "polls": [masked_row(each, masked_line) for each in history],
        "pages": {"polls": part},
        "_kinds": OUTCOME_KINDS,
        "_cells": [
            history_cell(each._replace(error=shortened(masked_line(each.error), _MAX_CELL_CHARS)))
            for each in reversed(polls[:_STRIP])
        ],
    }


def _source_line(source: Source, polls: Sequence[Poll], now: datetime) -> PageData:
    """Return a source as the list shows it, masked."""
    url = masked_text(source.url)
    return {
        "id": source.id,
        "title": masked_text(source.name) or url,
        "url": url,
        "profile": source.profile,
        "state": source.state,
        "consecutive_failures": source.consecutive_failures,
        "disabled_by": None if source.is_active else source.health.disabled_by,
        "last_success_at": source.health.last_success_at,
        "last_failure_at": source.health.last_failure_at,
        "last_error": mask_optional(source.last_error),
        "next": next_poll(source, now),
        "strip": tuple(history_cell(each).kind for each in reversed(polls)),
        "strip_told": history_summary(polls),
        "doubt": uncounted_failures_text(source, polls),
    }


def strip_paths(kinds: Sequence[str]) -> dict[str, str]:
    """Return the SVG path of each kind of cell: one element per poll would make a list of many strips too large.

    Args:
        kinds: Kinds of cells, oldest first.
    """
    paths: dict[str, str] = {}
    begin = _STRIP - len(kinds)  # the newest is at the right end
    for place, kind in enumerate(kinds, start=begin):
        paths[kind] = f"{paths.get(kind, '')}M{place * 8 + 4} {_STRIP_TOPS[kind]}V20"
    return paths


def _failure_view(failure: PageData | None) -> PageData | None:
    """Return the last failure as a page shows it, masked; values of an unexpected type become None."""
    if not failure:
        return None
    texts = ("category", "exception_name", "message", "rule", "origin")
    shown: dict[str, Any] = {
        name: mask_optional(each) if isinstance(each := failure.get(name), str) else None for name in texts
    }
    status = failure.get("http_status")
    return {**shown, "http_status": status if type(status) is int else None}


_FILTERS = (
    Parameter("state", choice_kind(SourceState), "Only sources in this state."),
    Parameter("profile", NAME, "Only sources with this profile."),
    Parameter("text", text_kind(200), "Only sources whose URL or name contains this text."),
    Parameter("after", ROW, "Only sources with larger ids: `next` of the previous page."),
)
_PARAMETERS = (Parameter("source_id", ROW, "The id of the source.", required=True), page_parameter("history_page"))
_LIST = {"counts": dict[str, int], "rows": list[PageData], "next": str | None, "cycles": list[PageData]}
_ONE = {"source": PageData, "polls": list[Poll], "pages": dict[str, PagePosition]}
PAGES = (
    PageRoute("sources", "/sources", "sources.html", _read_sources, _FILTERS, _LIST),
    PageRoute("source", "/sources/{source_id}", "source.html", _read_source, _PARAMETERS, _ONE),
)
