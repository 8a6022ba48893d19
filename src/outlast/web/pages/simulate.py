"""The page that simulates a policy in an outage: a form, the figures and the chart. One simulation runs at a time."""

from threading import Lock
from typing import Any

from markupsafe import Markup

from outlast.decide.presets import PRESETS
from outlast.errors import ConfigError
from outlast.operations import NAME, Parameter
from outlast.simulate.result import FIGURES, simulate
from outlast.simulate.scenario import ARRIVALS, PLACES, Phase, Scenario
from outlast.web.routing import PageData, PageRequest, PageRoute

MAX_EVENTS = 100_000
"""Events of a simulation on the page, about a second of work; larger ones are for the command line."""
MAX_CHARS = 40
"""Longest text of a field."""
_LOCK = Lock()
DEFAULTS = {
    "policy": "worker",
    "place": "task",
    "rate": "5/s",
    "duration": "10m",
    "arrivals": "poisson",
    "processes": "1",
    "latency": "0.1",
    "errors": "0%",
    "capacity": "",
    "limit": "",
    "down_at": "2m",
    "down_for": "3m",
    "breaker": "",
}
"""The fields of the form, and what they contain at first."""


def _read_simulation(request: PageRequest) -> PageData:
    given = {name: request.values[name] or "" for name in DEFAULTS}
    data: dict[str, Any] = {
        "policies": list(PRESETS),
        "places": [str(each) for each in PLACES],
        "arrivals": ARRIVALS,
        "values": given if given["policy"] else dict(DEFAULTS),
        "problem": "",
        "figures": [],
        "cut_off": False,
        "_chart": "",
    }
    if not given["policy"]:
        return data
    if not _LOCK.acquire(blocking=False):
        return data | {"problem": "another simulation is running on this dashboard; try again in a moment"}
    try:
        done = simulate(given["policy"], _scenario(given), runs=1, most_events=MAX_EVENTS)
    except ConfigError as error:
        return data | {"problem": str(error)}
    finally:
        _LOCK.release()
    figures = [{"name": name, "meaning": meaning, "value": done.shown(name)} for name, meaning in FIGURES.items()]
    return data | {"figures": figures, "cut_off": done.cut_off, "_chart": Markup(done.svg(ink="currentColor"))}  # noqa: S704  # drawn from numbers, texts escaped


def _scenario(given: dict[str, str]) -> Scenario:
    for name, text in given.items():
        if len(text) > MAX_CHARS:
            raise ConfigError(f"{name} has {len(text)} characters; at most {MAX_CHARS} are allowed")
    side: dict[str, Any] = {name: given[name] for name in ("latency", "errors", "capacity", "limit") if given[name]}
    if given["down_for"]:
        side["phases"] = [Phase(start=given["down_at"] or "0", length=given["down_for"], down=True)]  # type: ignore[arg-type]  # texts are converted
    names = ("place", "rate", "duration", "arrivals", "processes")
    settings: dict[str, Any] = {name: given[name] for name in names if given[name]}
    if given["breaker"]:
        settings["breaker"] = {}
    return Scenario.from_settings({**settings, "other_side": side})


_PARAMETERS = tuple(
    Parameter(name, NAME, f"A field of the form, at first {text or 'empty'}.") for name, text in DEFAULTS.items()
)
_RETURNS = {"values": dict[str, str], "problem": str, "figures": list[PageData], "cut_off": bool}
PAGES = (PageRoute("simulate", "/simulate", "simulate.html", _read_simulation, _PARAMETERS, _RETURNS),)
