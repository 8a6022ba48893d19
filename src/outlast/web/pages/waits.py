"""The page of cooldowns, breakers and limits, with the actions that start and end cooldowns and order breakers."""

import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from outlast.decide.breaker import BREAKER_OPEN
from outlast.http.settings import host_of
from outlast.ports.read_rows import MOST_COUNTED, BreakerRow
from outlast.ports.source_rows import Source, SourceChange
from outlast.ports.store import LimitRow, Store
from outlast.queue.masking import masked_text
from outlast.report.breakers import breakers_by_resource
from outlast.sources import outcomes
from outlast.units import rate_text
from outlast.web.filters import paginate
from outlast.web.routing import (
    DIGEST_MARK,
    MAX_NAME_CHARS,
    ActionResult,
    ActionRoute,
    InvalidInputError,
    NotFoundError,
    PageRequest,
    PageRoute,
    name_key,
)
from outlast.web.task_view import masked_line

# Rows: a page stays below 100 kB with all that it loads.
_COOLDOWNS = 20
_BREAKERS = 10
_PROCESSES = 3  # of one breaker
_LIMITS = 10
_MAX_SOURCES = 10_000  # counted; more are shown as "or more"
_ALL_SOURCES = 2**31 - 1
_SOURCES_PER_CHANGE = 1_000  # sources changed in one transaction
_MAX_REASON_CHARS = 300
_MAX_MINUTES = 7 * 24 * 60
_BY_HAND = "by hand"


def _read_waits(request: PageRequest) -> Mapping[str, Any]:
    store = request.app.store
    now = store.now()
    found = sorted(store.cooldowns(), key=lambda each: each.until)
    cooldowns, cooldown_part = paginate(found, request.query, "cooldown_page", _COOLDOWNS)
    breakers, breaker_part = paginate(
        breakers_by_resource(store.breakers(), now), request.query, "breaker_page", _BREAKERS
    )
    limits, limit_part = paginate(store.limits(), request.query, "limit_page", _LIMITS)
    waiting = store.waiting_sources(_MAX_SOURCES) if cooldowns else []
    waiting_by_host = Counter(host_of(url) for _, url in waiting)
    names = {worker.id: worker.name for worker in store.workers()}
    return {
        "at": now,
        "cooldowns": [
            {
                "resource": masked_line(each.resource),
                "_key": name_key(each.resource),
                "until": each.until,
                "reason": masked_line(each.reason),
                "capped": each.capped,
                "tasks": store.waiting_for(each.resource),
                "sources": waiting_by_host[each.resource],
                "by_breaker": each.reason == BREAKER_OPEN,
            }
            for each in cooldowns
        ],
        "breakers": [
            {
                "resource": masked_line(each.resource),
                "_key": name_key(each.resource),
                "state": each.state,
                "order": each.order,
                "told": each.told,
                "processes": [_process_line(row, names) for row in each.processes[:_PROCESSES]],
                "more_processes": max(0, len(each.processes) - _PROCESSES),
            }
            for each in breakers
        ],
        "limits": [_limit_line(each, store) for each in limits],
        "pages": {"cooldowns": cooldown_part, "breakers": breaker_part, "limits": limit_part},
        "all_sources_counted": len(waiting) < _MAX_SOURCES,
        "most_counted": MOST_COUNTED,
    }


def _process_line(row: BreakerRow, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "process": names.get(row.process, row.process),
        "state": row.state,
        "until": row.until,
        "reason": masked_line(row.reason),
        "updated_at": row.updated_at,
    }


def _limit_line(row: LimitRow, store: Store) -> dict[str, Any]:
    return {
        **row._asdict(),
        "resource": masked_line(row.resource),
        "tasks": store.waiting_for(row.resource),
        "_rate": _limit_rate_text(row.rate, row.burst),
        "_retries": _limit_rate_text(row.retries, row.retry_burst),
    }


def _limit_rate_text(rate: float | None, burst: int) -> str | None:
    return None if rate is None else f"{rate_text(rate)}{f', {burst} at once' if burst > 1 else ''}"


def _start_cooldown(request: PageRequest) -> ActionResult:
    resource, minutes = _resource_param(request), _minutes_param(request, needed=True)
    reason = _form_line(request, "reason", _MAX_REASON_CHARS) or _BY_HAND
    request.app.store.start_cooldown(resource, (minutes or 0.0) * 60.0, reason)
    message = f"{masked_text(resource)} is in cooldown for at least {_minutes_text(minutes)}: {masked_text(reason)}."
    return ActionResult(message, "/waits", {"resource": masked_text(resource), "seconds": (minutes or 0.0) * 60.0})


def _end_cooldown(request: PageRequest) -> ActionResult:
    resource = _resource_param(request)
    store = request.app.store
    if resource not in {each.resource for each in store.cooldowns()}:
        message = f"{masked_text(resource)} is not in cooldown."
        return ActionResult(message, "/waits", {"ended": False}, ok=False)
    waiting = [number for number, url in store.waiting_sources(_ALL_SOURCES) if host_of(url) == resource]
    # Sources come first: if this fails, the cooldown is still there and the action can be repeated.
    for begin in range(0, len(waiting), _SOURCES_PER_CHANGE):
        store.change_sources(dict.fromkeys(waiting[begin : begin + _SOURCES_PER_CHANGE], (None, _make_due)))
    request.app.tasks.end_cooldown(resource)
    more = f", and so are {len(waiting)} sources" if waiting else ""
    message = f"The cooldown of {masked_text(resource)} has ended: tasks that waited for it are due now{more}."
    return ActionResult(message, "/waits", {"ended": True, "sources": len(waiting)})


def _make_due(source: Source, now: datetime) -> SourceChange | None:
    return outcomes.probe_change(source, now) if source.outcome == "deferred" else None


def _open_breaker(request: PageRequest) -> ActionResult:
    resource, minutes = _resource_param(request), _minutes_param(request, needed=False)
    order = request.app.store.order_breaker(resource, "open", None if minutes is None else minutes * 60.0)
    how_long = "until it is closed by hand" if minutes is None else f"for {_minutes_text(minutes)}"
    name, known = masked_text(resource), _has_breaker(request.app.store, resource)
    message = f"The breaker of {name} is open in all processes {how_long}; this takes up to two seconds."
    if not known:
        message = (
            f"No process has a breaker named {name} yet, so its tasks continue. The order is kept {how_long}, for a "
            "process that has one. To stop the tasks now, start a cooldown."
        )
    return ActionResult(message, "/waits", {"resource": name, "order": order.number, "known": known})


def _has_breaker(store: Store, resource: str) -> bool:
    return any(row.process for row in store.breakers() if row.resource == resource)


def _close_breaker(request: PageRequest) -> ActionResult:
    resource = _resource_param(request)
    order = request.app.store.order_breaker(resource, "closed")
    name, known = masked_text(resource), _has_breaker(request.app.store, resource)
    message = f"The breaker of {name} is closed in all processes; this takes up to two seconds."
    if not known:
        message = f"No process has a breaker named {name}; an order to open it is withdrawn."
    return ActionResult(message, "/waits", {"resource": name, "order": order.number, "known": known})


def _resource_param(request: PageRequest) -> str:
    """Return the requested resource, by its name or by the digest of its name."""
    name = "".join(request.form.get("resource", [])[:1]).strip()
    if not name or len(name) > MAX_NAME_CHARS:
        message = f"the name of a resource must have 1 to {MAX_NAME_CHARS} characters; by convention it is the host"
        raise InvalidInputError(message)
    if not name.startswith(DIGEST_MARK):
        return name
    store = request.app.store
    known = {*(each.resource for each in store.cooldowns()), *(each.resource for each in store.breakers())}
    for resource in known:
        if name_key(resource) == name:
            return resource
    message = "this resource has no cooldown or breaker any more"
    raise NotFoundError(message)


def _minutes_param(request: PageRequest, *, needed: bool) -> float | None:
    text = _form_line(request, "minutes", 20)
    if not text and not needed:
        return None
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes <= _MAX_MINUTES:
        message = f"minutes is {text!r}; it must be a number above 0 and at most {_MAX_MINUTES} (7 days)"
        raise InvalidInputError(message)
    return minutes


def _form_line(request: PageRequest, name: str, longest: int) -> str:
    text = " ".join("".join(request.form.get(name, [])[:1]).split())
    if len(text) > longest:
        message = f"{name} has {len(text)} characters; at most {longest} are allowed"
        raise InvalidInputError(message)
    return text


def _minutes_text(minutes: float | None) -> str:
    return f"{minutes:g} minutes" if minutes != 1 else "1 minute"


PAGES = (PageRoute("waits", "/waits", "waits.html", _read_waits),)
ACTIONS = (
    ActionRoute("begin_cooldown", "/waits/cool", _start_cooldown),
    ActionRoute("end_cooldown", "/waits/end-cooldown", _end_cooldown),
    ActionRoute("open_breaker", "/waits/open", _open_breaker),
    ActionRoute("close_breaker", "/waits/close", _close_breaker),
)
