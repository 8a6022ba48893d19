"""Cooldowns, breakers and limits: what is left alone, until when, what waits for it, and what is done by hand."""

import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from outlast.decide.breaker import BREAKER_OPEN
from outlast.http.scopes import host_of
from outlast.ports.limits import LimitRow
from outlast.ports.read_rows import MOST_COUNTED, BreakerRow
from outlast.ports.source_rows import Source, SourceChange
from outlast.ports.store import Store
from outlast.queue.masking import masked_text
from outlast.report.breakers import by_resource
from outlast.sources import outcomes
from outlast.units import rate_text
from outlast.web.digests import DIGEST, LONGEST_NAME, key_of
from outlast.web.paging import part_of
from outlast.web.routing import Action, Asked, Done, NotThereError, Page, RefusedError
from outlast.web.task_view import masked_line

__all__ = ["ACTIONS", "PAGES"]

# Rows: a page stays below 100 kB with all that it loads.
_COOLDOWNS = 20
_BREAKERS = 10
_PROCESSES = 3  # of one breaker
_LIMITS = 10
_MOST_SOURCES = 10_000  # that are counted
_ALL_SOURCES = 2**31 - 1
_AT_ONCE = 1_000  # sources that are changed in one transaction
_LONGEST_REASON = 300  # characters
_MOST_MINUTES = 7 * 24 * 60
_BY_HAND = "by hand"


def _waits(asked: Asked) -> Mapping[str, Any]:
    store = asked.app.store
    now = store.now()
    found = sorted(store.cooldowns(), key=lambda each: each.until)
    cooldowns, cooldown_part = part_of(found, asked.query, "cooldown_page", _COOLDOWNS)
    breakers, breaker_part = part_of(by_resource(store.breakers(), now), asked.query, "breaker_page", _BREAKERS)
    limits, limit_part = part_of(store.limits(), asked.query, "limit_page", _LIMITS)
    waiting = store.waiting_sources(_MOST_SOURCES) if cooldowns else []
    put_off = Counter(host_of(url) for _, url in waiting)
    names = {worker.id: worker.name for worker in store.workers()}
    return {
        "at": now,
        "cooldowns": [
            {
                "resource": masked_line(each.resource),
                "_key": key_of(each.resource),
                "until": each.until,
                "reason": masked_line(each.reason),
                "capped": each.capped,
                "tasks": store.waiting_for(each.resource),
                "sources": put_off[each.resource],
                "by_breaker": each.reason == BREAKER_OPEN,
            }
            for each in cooldowns
        ],
        "breakers": [
            {
                "resource": masked_line(each.resource),
                "_key": key_of(each.resource),
                "state": each.state,
                "order": each.order,
                "told": each.told,
                "processes": [_process(row, names) for row in each.processes[:_PROCESSES]],
                "more_processes": max(0, len(each.processes) - _PROCESSES),
            }
            for each in breakers
        ],
        "limits": [_limit(each, store) for each in limits],
        "pages": {"cooldowns": cooldown_part, "breakers": breaker_part, "limits": limit_part},
        "all_sources_counted": len(waiting) < _MOST_SOURCES,
        "most_counted": MOST_COUNTED,
    }


def _process(row: BreakerRow, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "process": names.get(row.process, row.process),
        "state": row.state,
        "until": row.until,
        "reason": masked_line(row.reason),
        "updated_at": row.updated_at,
    }


def _limit(row: LimitRow, store: Store) -> dict[str, Any]:
    more = {"resource": masked_line(row.resource), "tasks": store.waiting_for(row.resource)}
    return {
        **row._asdict(),
        **more,
        "_rate": _told(row.rate, row.burst),
        "_retries": _told(row.retries, row.retry_burst),
    }


def _told(rate: float | None, burst: int) -> str | None:
    return None if rate is None else f"{rate_text(rate)}{f', {burst} at once' if burst > 1 else ''}"


def _cool(asked: Asked) -> Done:
    resource, minutes = _resource(asked), _minutes(asked, needed=True)
    reason = _field(asked, "reason", _LONGEST_REASON) or _BY_HAND
    asked.app.store.cool(resource, (minutes or 0.0) * 60.0, reason)
    said = f"{masked_text(resource)} is left alone for {_span(minutes)} at least: {masked_text(reason)}."
    return Done(said, "/waits", {"resource": masked_text(resource), "seconds": (minutes or 0.0) * 60.0})


def _warm(asked: Asked) -> Done:
    resource = _resource(asked)
    store = asked.app.store
    if resource not in {each.resource for each in store.cooldowns()}:
        return Done(f"{masked_text(resource)} does not cool down (any more).", "/waits", {"ended": False}, ok=False)
    waiting = [number for number, url in store.waiting_sources(_ALL_SOURCES) if host_of(url) == resource]
    for begin in range(0, len(waiting), _AT_ONCE):  # before the cooldown ends: if this fails, it can be done again
        store.change_sources(dict.fromkeys(waiting[begin : begin + _AT_ONCE], (None, _due)))
    asked.app.tasks.warm(resource)
    more = f", and so are {len(waiting)} sources" if waiting else ""
    said = f"The cooldown of {masked_text(resource)} is ended: tasks that waited for it are due now{more}."
    return Done(said, "/waits", {"ended": True, "sources": len(waiting)})


def _due(source: Source, now: datetime) -> SourceChange | None:
    return outcomes.probed(source, now) if source.outcome == "deferred" else None


def _open(asked: Asked) -> Done:
    resource, minutes = _resource(asked), _minutes(asked, needed=False)
    order = asked.app.store.order_breaker(resource, "open", None if minutes is None else minutes * 60.0)
    how = "until it is closed by hand" if minutes is None else f"for {_span(minutes)}"
    name, known = masked_text(resource), _has_breaker(asked.app.store, resource)
    said = f"All processes leave {name} alone {how}; they take it up within two seconds."
    if not known:
        said = (
            f"No process has a breaker named {name} yet, so its tasks run on. The order stands {how}, for a process "
            "that has one. To hold the tasks back now, begin a cooldown."
        )
    return Done(said, "/waits", {"resource": name, "order": order.number, "known": known})


def _has_breaker(store: Store, resource: str) -> bool:
    told = by_resource([row for row in store.breakers() if row.resource == resource], store.now())
    return any(each.processes for each in told)


def _close(asked: Asked) -> Done:
    resource = _resource(asked)
    order = asked.app.store.order_breaker(resource, "closed")
    name, known = masked_text(resource), _has_breaker(asked.app.store, resource)
    said = f"All processes call {name} again; they take it up within two seconds."
    if not known:
        said = f"No process has a breaker named {name}; if it was opened by hand, that order is taken back."
    return Done(said, "/waits", {"resource": name, "order": order.number, "known": known})


def _resource(asked: Asked) -> str:
    """Return the resource that is meant: by its name, or by the digest that stands for one."""
    name = "".join(asked.form.get("resource", [])[:1]).strip()
    if not name or len(name) > LONGEST_NAME:
        message = f"name the resource, in {LONGEST_NAME} characters at most: by custom it is the host"
        raise RefusedError(message)
    if not name.startswith(DIGEST):
        return name
    store = asked.app.store
    known = {*(each.resource for each in store.cooldowns()), *(each.resource for each in store.breakers())}
    for resource in known:
        if key_of(resource) == name:
            return resource
    message = "there is no such resource (any more)"
    raise NotThereError(message)


def _minutes(asked: Asked, *, needed: bool) -> float | None:
    text = _field(asked, "minutes", 20)
    if not text and not needed:
        return None
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes <= _MOST_MINUTES:
        message = f"minutes is {text!r}; give a number above 0, {_MOST_MINUTES} (7 days) at most"
        raise RefusedError(message)
    return minutes


def _field(asked: Asked, name: str, longest: int) -> str:
    text = " ".join("".join(asked.form.get(name, [])[:1]).split())
    if len(text) > longest:
        message = f"{name} has {len(text)} characters; {longest} are enough"
        raise RefusedError(message)
    return text


def _span(minutes: float | None) -> str:
    return f"{minutes:g} minutes" if minutes != 1 else "1 minute"


PAGES = (Page("waits", "/waits", "waits.html", _waits),)
ACTIONS = (
    Action("begin_cooldown", "/waits/cool", _cool),
    Action("end_cooldown", "/waits/warm", _warm),
    Action("open_breaker", "/waits/open", _open),
    Action("close_breaker", "/waits/close", _close),
)
