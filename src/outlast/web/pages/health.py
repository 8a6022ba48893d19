"""The page of health checks: what they find now. A check that hangs is reported as such; the page never hangs."""

import platform
import sqlite3
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import outlast
from outlast.health import Finding, HealthChecker
from outlast.ports.store import Store
from outlast.queue.masking import masked_text
from outlast.report.text_format import counted
from outlast.units import span
from outlast.web.routing import PageData, PageRequest, PageRoute

_CHECKER_KEY = "health checker"
_LATE_SECONDS = 300.0  # an alert that waits longer is a problem
_MAX_ALERTS = 1000
_LIBRARIES = ("starlette", "jinja2", "uvicorn", "psycopg", "httpx", "httpx2")
_TITLES = {"oldest_ready": "Oldest ready task"}
_MEANINGS = {
    "database": "the store answers a query",
    "tables": "the schema has the version that this Outlast needs",
    "oldest_ready": "how long the oldest ready task has waited",
    "dead_letters": "how many tasks became dead letters in the last hour",
    "workers": "workers are alive, and none has gone silent",
    "alerts": "alerts reach their channels",
    "disk": "there is free space to write",
}


def _read_health(request: PageRequest) -> PageData:
    report = _checker(request).report()
    checks = [
        {
            "name": name,
            "title": _TITLES.get(name, name.replace("_", " ").capitalize()),
            "meaning": _MEANINGS.get(name, ""),
            "state": _state(found),
            "detail": masked_text(found.detail),
        }
        for name, found in report.checks.items()
    ]
    return {
        "state": report.status,
        "checks": checks,
        "store": request.app.store.location,
        "channels": [channel.name for channel in request.app.channels],
        "versions": _versions(),
    }


def _state(found: Finding) -> str:
    if not found.ok:
        return "unhealthy"
    return "degraded" if found.degraded else "ok"


def _checker(request: PageRequest) -> HealthChecker:
    """Return the checker of the site. All viewers share it, so that a check that hangs hangs only once."""
    if _CHECKER_KEY not in request.site_state:
        app, own = request.app, {"tables": _check_tables, "workers": _check_workers, "alerts": _check_alerts}
        made = HealthChecker.for_app(app, checks={name: partial(check, app.store) for name, check in own.items()})
        request.site_state.setdefault(_CHECKER_KEY, made)  # another request may have been quicker
    checker: HealthChecker = request.site_state[_CHECKER_KEY]
    return checker


def _check_tables(store: Store) -> Finding:
    return Finding(ok=True, detail=f"version {store.check_schema()}")


def _check_workers(store: Store) -> Finding:
    known = store.workers()
    alive = [each for each in known if each.alive]
    if not alive:
        waits = store.pulse(window=60.0, step=60.0).oldest_ready is not None
        return Finding(ok=True, detail=f"no worker is alive{', and tasks wait' if waits else ''}", degraded=waits)
    silent = len(known) - len(alive)
    held = sum(each.tasks for each in alive)
    detail = f"{counted(len(alive), 'worker')} alive"
    if held:
        detail += f", {counted(held, 'task')} claimed"
    return Finding(ok=True, detail=f"{detail}, {silent} silent" if silent else detail, degraded=silent > 0)


def _check_alerts(store: Store) -> Finding:
    waiting = store.alerts(waiting=True, limit=_MAX_ALERTS)
    if not waiting:
        return Finding(ok=True, detail="none waiting")
    oldest = (store.now() - waiting[-1].created_at).total_seconds()
    more = " or more" if len(waiting) == _MAX_ALERTS else ""
    detail = f"{counted(len(waiting), 'alert')}{more} not delivered yet, the oldest for {span(oldest)}"
    return Finding(ok=True, detail=detail, degraded=oldest > _LATE_SECONDS)


def _versions() -> dict[str, str]:
    found = {"outlast": outlast.__version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


_RETURNS = {"state": str, "checks": list[dict[str, str]], "store": str, "versions": dict[str, str]}
PAGES = (PageRoute("health", "/health-checks", "health.html", _read_health, returns=_RETURNS),)
