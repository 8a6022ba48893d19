"""The page of cooldowns, breakers and limits."""

from collections import Counter
from datetime import datetime

from outlast.decide.breaker import BREAKER_OPEN
from outlast.http.settings import host_of
from outlast.operations import name_key
from outlast.ports.read_rows import MOST_COUNTED
from outlast.queue.masking import masked_row
from outlast.report.breakers import breakers_by_resource
from outlast.units import limit_text
from outlast.web.routing import PageData, PageRequest, PageRoute, page_parameter, paginate
from outlast.web.task_view import masked_line

# Rows: a page stays below 100 kB with all that it loads.
_COOLDOWNS = 20
_BREAKERS = 10
_PROCESSES = 3  # of one breaker
_LIMITS = 10
_MAX_SOURCES = 10_000  # counted; more are shown as "or more"


def _read_waits(request: PageRequest) -> PageData:
    store = request.app.store
    now = store.now()
    found = sorted(store.cooldowns(), key=lambda each: each.until)
    cooldowns, cooldown_part = paginate(found, request.values["cooldown_page"], _COOLDOWNS)
    breakers, breaker_part = paginate(
        breakers_by_resource(store.breakers(), now), request.values["breaker_page"], _BREAKERS
    )
    limits, limit_part = paginate(store.limits(), request.values["limit_page"], _LIMITS)
    waiting = store.waiting_sources(_MAX_SOURCES) if cooldowns else []
    waiting_by_host = Counter(host_of(url) for _, url in waiting)
    names = {worker.id: worker.name for worker in store.workers()}
    return {
        "at": now,
        "cooldowns": [
            {
                **masked_row(each, masked_line)._asdict(),
                "_key": name_key(each.resource),
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
                **{name: getattr(each, name) for name in ("state", "order", "told")},
                "processes": [
                    {
                        **{name: getattr(row, name) for name in ("state", "until", "updated_at")},
                        "process": names.get(row.process, row.process),
                        "reason": masked_line(row.reason),
                    }
                    for row in each.processes[:_PROCESSES]
                ],
                "more_processes": max(0, len(each.processes) - _PROCESSES),
            }
            for each in breakers
        ],
        "limits": [
            {
                **masked_row(row, masked_line)._asdict(),
                "tasks": store.waiting_for(row.resource),
                "_rate": limit_text(row.rate, row.burst),
                "_retries": limit_text(row.retries, row.retry_burst),
            }
            for row in limits
        ],
        "pages": {"cooldowns": cooldown_part, "breakers": breaker_part, "limits": limit_part},
        "all_sources_counted": len(waiting) < _MAX_SOURCES,
        "most_counted": MOST_COUNTED,
    }


_PARAMETERS = tuple(page_parameter(f"{name}_page") for name in ("cooldown", "breaker", "limit"))
_RETURNS = {"at": datetime, **dict.fromkeys(("cooldowns", "breakers", "limits"), list[PageData])}
PAGES = (PageRoute("waits", "/waits", "waits.html", _read_waits, _PARAMETERS, _RETURNS),)
