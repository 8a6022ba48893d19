"""The page of cooldowns, breakers and limits, with the actions that start and end cooldowns and order breakers."""

import math
from collections import Counter
from datetime import datetime

from outlast.decide.breaker import BREAKER_OPEN
from outlast.http.settings import host_of
from outlast.ports.read_rows import MOST_COUNTED
from outlast.ports.source_rows import Source, SourceChange
from outlast.ports.store import Store
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
    PageData,
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


def _read_waits(request: PageRequest) -> PageData:
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
                "processes": [
                    {
                        "process": names.get(row.process, row.process),
                        "state": row.state,
                        "until": row.until,
                        "reason": masked_line(row.reason),
                        "updated_at": row.updated_at,
                    }
                    for row in each.processes[:_PROCESSES]
                ],
                "more_processes": max(0, len(each.processes) - _PROCESSES),
            }
            for each in breakers
        ],
        "limits": [
            {
                **row._asdict(),
                "resource": masked_line(row.resource),
                "tasks": store.waiting_for(row.resource),
                "_rate": _limit_rate_text(row.rate, row.burst),
                "_retries": _limit_rate_text(row.retries, row.retry_burst),
            }
            for row in limits
        ],
        "pages": {"cooldowns": cooldown_part, "breakers": breaker_part, "limits": limit_part},
        "all_sources_counted": len(waiting) < _MAX_SOURCES,
        "most_counted": MOST_COUNTED,
    }


def _limit_rate_text(rate: float | None, burst: int) -> str | None:
    return None if rate is None else f"{rate_text(rate)}{f', {burst} at once' if burst > 1 else ''}"


def _start_cooldown(request: PageRequest) -> ActionResult:
    resource, minutes = _resource_param(request), _minutes_param(request)
    reason = _form_line(request, "reason", _MAX_REASON_CHARS) or _BY_HAND
    request.app.store.start_cooldown(resource, minutes * 60.0, reason)
    name = masked_text(resource)
    message = f"{name} is in cooldown for at least {_minutes_text(minutes)}: {masked_text(reason)}."
    return ActionResult(message, "/waits", {"resource": name, "seconds": minutes * 60.0})


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
    resource, seconds, how_long = _resource_param(request), None, "until it is closed by hand"
    if request.field("minutes"):
        minutes = _minutes_param(request)
        seconds, how_long = minutes * 60.0, f"for {_minutes_text(minutes)}"
    return _order_breaker(
        request.app.store,
        resource,
        "open",
        seconds,
        f"The breaker of {{}} is open in all processes {how_long}; this takes up to two seconds.",
        f"No process has a breaker named {{}} yet, so its tasks continue. The order is kept {how_long}, for a process "
        "that has one. To stop the tasks now, start a cooldown.",
    )


def _close_breaker(request: PageRequest) -> ActionResult:
    return _order_breaker(
        request.app.store,
        _resource_param(request),
        "closed",
        None,
        "The breaker of {} is closed in all processes; this takes up to two seconds.",
        "No process has a breaker named {}; an order to open it is withdrawn.",
    )


def _order_breaker(
    store: Store, resource: str, state: str, seconds: float | None, message: str, unknown: str
) -> ActionResult:
    order = store.order_breaker(resource, state, seconds)
    name = masked_text(resource)
    known = any(row.process for row in store.breakers() if row.resource == resource)
    data = {"resource": name, "order": order.number, "known": known}
    return ActionResult((message if known else unknown).format(name), "/waits", data)


def _resource_param(request: PageRequest) -> str:
    """Return the requested resource, by its name or by the digest of its name."""
    name = request.field("resource")
    if not name or len(name) > MAX_NAME_CHARS:
        raise InvalidInputError(
            f"the name of a resource must have 1 to {MAX_NAME_CHARS} characters; by convention it is the host"
        )
    if not name.startswith(DIGEST_MARK):
        return name
    store = request.app.store
    known = {*(each.resource for each in store.cooldowns()), *(each.resource for each in store.breakers())}
    for resource in known:
        if name_key(resource) == name:
            return resource
    raise NotFoundError("this resource has no cooldown or breaker any more")


def _minutes_param(request: PageRequest) -> float:
    text = _form_line(request, "minutes", 20)
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes <= _MAX_MINUTES:
        raise InvalidInputError(f"minutes is {text!r}; it must be a number above 0 and at most {_MAX_MINUTES} (7 days)")
    return minutes


def _form_line(request: PageRequest, name: str, longest: int) -> str:
    text = " ".join(request.field(name).split())
    if len(text) > longest:
        raise InvalidInputError(f"{name} has {len(text)} characters; at most {longest} are allowed")
    return text


def _minutes_text(minutes: float) -> str:
    return f"{minutes:g} minutes" if minutes != 1 else "1 minute"


PAGES = (PageRoute("waits", "/waits", "waits.html", _read_waits),)
ACTIONS = (
    ActionRoute("begin_cooldown", "/waits/cool", _start_cooldown),
    ActionRoute("end_cooldown", "/waits/end-cooldown", _end_cooldown),
    ActionRoute("open_breaker", "/waits/open", _open_breaker),
    ActionRoute("close_breaker", "/waits/close", _close_breaker),
)
