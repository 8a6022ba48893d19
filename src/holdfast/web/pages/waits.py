"""Cooldowns and breakers: what is left alone, until when, what waits for it, and how that is ended or begun by hand."""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from holdfast.http.scopes import host_of
from holdfast.ports.read_rows import MOST_COUNTED, BreakerRow
from holdfast.ports.source_rows import Source, SourceChange
from holdfast.queue.executing import BREAKER_OPEN
from holdfast.queue.masking import masked_text
from holdfast.report.breakers import by_resource
from holdfast.sources import outcomes
from holdfast.web.routing import Action, Asked, Done, NotThereError, Page, RefusedError

__all__ = ["ACTIONS", "PAGES"]

_MOST_COOLDOWNS = 100  # of which it is counted what waits for them
_MOST_SOURCES = 10_000
_LONGEST_NAME = 500  # characters
_LONGEST_REASON = 300
_MOST_MINUTES = 7 * 24 * 60
_BY_HAND = "by hand"
_DIGEST = "#"


def _waits(asked: Asked) -> Mapping[str, Any]:
    store = asked.app.store
    now = store.now()
    cooldowns = sorted(store.cooldowns(), key=lambda each: each.until)
    put_off = Counter(host_of(url) for _, url in store.waiting_sources(_MOST_SOURCES))
    names = {worker.id: worker.name for worker in store.workers()}
    return {
        "at": now,
        "cooldowns": [
            {
                "resource": masked_text(each.resource),
                "_key": _key(each.resource),
                "until": each.until,
                "reason": masked_text(each.reason),
                "capped": each.capped,
                "tasks": store.waiting_for(each.resource) if place < _MOST_COOLDOWNS else None,
                "sources": put_off[each.resource],
                "by_breaker": each.reason == BREAKER_OPEN,
            }
            for place, each in enumerate(cooldowns)
        ],
        "breakers": [
            {
                "resource": masked_text(each.resource),
                "_key": _key(each.resource),
                "state": each.state,
                "order": each.order,
                "told": each.told,
                "processes": [_process(row, names) for row in each.processes],
            }
            for each in by_resource(store.breakers(), now)
        ],
        "most_counted": MOST_COUNTED,
    }


def _process(row: BreakerRow, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "process": names.get(row.process, row.process),
        "state": row.state,
        "until": row.until,
        "reason": masked_text(row.reason),
        "updated_at": row.updated_at,
    }


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
    asked.app.tasks.warm(resource)
    waiting = [number for number, url in store.waiting_sources(_MOST_SOURCES) if host_of(url) == resource]
    if waiting:
        store.change_sources(dict.fromkeys(waiting, (None, _due)))
    more = f", and so are {len(waiting)} sources" if waiting else ""
    said = f"The cooldown of {masked_text(resource)} is ended: tasks that waited for it are due now{more}."
    return Done(said, "/waits", {"ended": True, "sources": len(waiting)})


def _due(source: Source, now: datetime) -> SourceChange | None:
    return outcomes.probed(source, now) if source.outcome == "deferred" else None


def _open(asked: Asked) -> Done:
    resource, minutes = _resource(asked), _minutes(asked, needed=False)
    order = asked.app.store.order_breaker(resource, "open", None if minutes is None else minutes * 60.0)
    how = "until it is closed by hand" if minutes is None else f"for {_span(minutes)}"
    said = f"All processes leave {masked_text(resource)} alone {how}; they take it up within two seconds."
    return Done(said, "/waits", {"resource": masked_text(resource), "order": order.number})


def _close(asked: Asked) -> Done:
    resource = _resource(asked)
    order = asked.app.store.order_breaker(resource, "closed")
    said = f"All processes call {masked_text(resource)} again; they take it up within two seconds."
    return Done(said, "/waits", {"resource": masked_text(resource), "order": order.number})


def _resource(asked: Asked) -> str:
    """Return the resource that is meant: by its name, or by the digest that stands for one."""
    name = "".join(asked.form.get("resource", [])[:1]).strip()
    if not name or len(name) > _LONGEST_NAME:
        message = f"name the resource, in {_LONGEST_NAME} characters at most: by custom it is the host"
        raise RefusedError(message)
    if not name.startswith(_DIGEST):
        return name
    store = asked.app.store
    known = {*(each.resource for each in store.cooldowns()), *(each.resource for each in store.breakers())}
    for resource in known:
        if _key(resource) == name:
            return resource
    message = "there is no such resource (any more)"
    raise NotThereError(message)


def _key(resource: str) -> str:
    """Return what stands for a resource in a form: its name, or a digest of one that holds a secret."""
    plain = resource.isprintable() and resource == resource.strip() and not resource.startswith(_DIGEST)
    if plain and len(resource) <= _LONGEST_NAME and masked_text(resource) == resource:
        return resource
    return _DIGEST + hashlib.sha256(resource.encode("utf-8", "surrogatepass")).hexdigest()[:32]


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
