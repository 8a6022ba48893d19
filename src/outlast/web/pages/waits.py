"""Cooldowns, breakers and limits: what is left alone, until when, what waits for it, and what is done by hand."""

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
_MAX_SOURCES = 10_000  # that are counted
_ALL_SOURCES = 2**31 - 1
_SOURCES_PER_CHANGE = 1_000  # sources that are changed in one transaction
_MAX_REASON_CHARS = 300  # characters
_MAX_MINUTES = 7 * 24 * 60
_BY_HAND = "by hand"


def _read_waits(asked: PageRequest) -> Mapping[str, Any]:
    store = asked.app.store
    now = store.now()
    found = sorted(store.cooldowns(), key=lambda each: each.until)
    cooldowns, cooldown_part = paginate(found, asked.query, "cooldown_page", _COOLDOWNS)
    breakers, breaker_part = paginate(
        breakers_by_resource(store.breakers(), now), asked.query, "breaker_page", _BREAKERS
    )
    limits, limit_part = paginate(store.limits(), asked.query, "limit_page", _LIMITS)
    waiting = store.waiting_sources(_MAX_SOURCES) if cooldowns else []
    put_off = Counter(host_of(url) for _, url in waiting)
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
                "sources": put_off[each.resource],
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
    more = {"resource": masked_line(row.resource), "tasks": store.waiting_for(row.resource)}
    return {
        **row._asdict(),
        **more,
        "_rate": _limit_rate_text(row.rate, row.burst),
        "_retries": _limit_rate_text(row.retries, row.retry_burst),
    }


def _limit_rate_text(rate: float | None, burst: int) -> str | None:
    return None if rate is None else f"{rate_text(rate)}{f', {burst} at once' if burst > 1 else ''}"


def _start_cooldown(asked: PageRequest) -> ActionResult:
    resource, minutes = _resource_param(asked), _minutes_param(asked, needed=True)
    reason = _form_line(asked, "reason", _MAX_REASON_CHARS) or _BY_HAND
    asked.app.store.start_cooldown(resource, (minutes or 0.0) * 60.0, reason)
    said = f"{masked_text(resource)} is left alone for {_minutes_text(minutes)} at least: {masked_text(reason)}."
    return ActionResult(said, "/waits", {"resource": masked_text(resource), "seconds": (minutes or 0.0) * 60.0})


def _end_cooldown(asked: PageRequest) -> ActionResult:
    resource = _resource_param(asked)
    store = asked.app.store
    if resource not in {each.resource for each in store.cooldowns()}:
        return ActionResult(
            f"{masked_text(resource)} does not cool down (any more).", "/waits", {"ended": False}, ok=False
        )
    waiting = [number for number, url in store.waiting_sources(_ALL_SOURCES) if host_of(url) == resource]
    for begin in range(
        0, len(waiting), _SOURCES_PER_CHANGE
    ):  # before the cooldown ends: if this fails, it can be done again
        store.change_sources(dict.fromkeys(waiting[begin : begin + _SOURCES_PER_CHANGE], (None, _make_due)))
    asked.app.tasks.end_cooldown(resource)
    more = f", and so are {len(waiting)} sources" if waiting else ""
    said = f"The cooldown of {masked_text(resource)} is ended: tasks that waited for it are due now{more}."
    return ActionResult(said, "/waits", {"ended": True, "sources": len(waiting)})


def _make_due(source: Source, now: datetime) -> SourceChange | None:
    return outcomes.probe_change(source, now) if source.outcome == "deferred" else None


def _open_breaker(asked: PageRequest) -> ActionResult:
    resource, minutes = _resource_param(asked), _minutes_param(asked, needed=False)
    order = asked.app.store.order_breaker(resource, "open", None if minutes is None else minutes * 60.0)
    how = "until it is closed by hand" if minutes is None else f"for {_minutes_text(minutes)}"
    name, known = masked_text(resource), _has_breaker(asked.app.store, resource)
    said = f"All processes leave {name} alone {how}; they take it up within two seconds."
    if not known:
        said = (
            f"No process has a breaker named {name} yet, so its tasks run on. The order stands {how}, for a process "
            "that has one. To hold the tasks back now, begin a cooldown."
        )
    return ActionResult(said, "/waits", {"resource": name, "order": order.number, "known": known})


def _has_breaker(store: Store, resource: str) -> bool:
    told = breakers_by_resource([row for row in store.breakers() if row.resource == resource], store.now())
    return any(each.processes for each in told)


def _close_breaker(asked: PageRequest) -> ActionResult:
    resource = _resource_param(asked)
    order = asked.app.store.order_breaker(resource, "closed")
    name, known = masked_text(resource), _has_breaker(asked.app.store, resource)
    said = f"All processes call {name} again; they take it up within two seconds."
    if not known:
        said = f"No process has a breaker named {name}; if it was opened by hand, that order is taken back."
    return ActionResult(said, "/waits", {"resource": name, "order": order.number, "known": known})


def _resource_param(asked: PageRequest) -> str:
    """Return the resource that is meant: by its name, or by the digest that stands for one."""
    name = "".join(asked.form.get("resource", [])[:1]).strip()
    if not name or len(name) > MAX_NAME_CHARS:
        message = f"name the resource, in {MAX_NAME_CHARS} characters at most: by custom it is the host"
        raise InvalidInputError(message)
    if not name.startswith(DIGEST_MARK):
        return name
    store = asked.app.store
    known = {*(each.resource for each in store.cooldowns()), *(each.resource for each in store.breakers())}
    for resource in known:
        if name_key(resource) == name:
            return resource
    message = "there is no such resource (any more)"
    raise NotFoundError(message)


def _minutes_param(asked: PageRequest, *, needed: bool) -> float | None:
    text = _form_line(asked, "minutes", 20)
    if not text and not needed:
        return None
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes <= _MAX_MINUTES:
        message = f"minutes is {text!r}; give a number above 0, {_MAX_MINUTES} (7 days) at most"
        raise InvalidInputError(message)
    return minutes


def _form_line(asked: PageRequest, name: str, longest: int) -> str:
    text = " ".join("".join(asked.form.get(name, [])[:1]).split())
    if len(text) > longest:
        message = f"{name} has {len(text)} characters; {longest} are enough"
        raise InvalidInputError(message)
    return text


def _minutes_text(minutes: float | None) -> str:
    return f"{minutes:g} minutes" if minutes != 1 else "1 minute"


PAGES = (PageRoute("waits", "/waits", "waits.html", _read_waits),)
ACTIONS = (
    ActionRoute("begin_cooldown", "/waits/cool", _start_cooldown),
    ActionRoute("end_cooldown", "/waits/warm", _end_cooldown),
    ActionRoute("open_breaker", "/waits/open", _open_breaker),
    ActionRoute("close_breaker", "/waits/close", _close_breaker),
)
