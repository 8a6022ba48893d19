"""A monitor over a dozen feeds: some are well, some are not, and once the cable is pulled."""

from __future__ import annotations

import logging
import tempfile
import threading
import urllib.request
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import outlast
from examples.scenery import Answer, Request, Site, in_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.observe.messages import Message

# Five failures in a row disable a feed, and a 403 is asked again after 1, 2 and 4 s; a tour has less time than that.
PROFILE = outlast.profile("feed").replace(threshold=3, policy=outlast.preset("feed").replace(base_delay=0.02))
OUTCOMES = ("changed", "unchanged", "failed", "withdrawn", "deferred")
_WHY = 40  # characters of the last column

_NO, _GONE, _MISSING, _UNWELL = Answer(403), Answer(410), Answer(404), Answer(503)
_QUIET = in_turn(Answer(body="the same as ever"))
FEEDS: dict[str, Callable[[Request], Answer]] = {
    "news": lambda request: Answer(body=f"edition {request.number}"),
    **dict.fromkeys(("garden", "harbour", "library", "museum", "station"), _QUIET),
    "shielded": in_turn(_NO, _NO, Answer(body="oh, it is you")),
    "crowded": in_turn(Answer(429, headers={"Retry-After": "60"})),
    "unwell": in_turn(_UNWELL),
    "forbidden": in_turn(_NO),
    "gone": in_turn(_GONE),
    "moved": in_turn(_MISSING, _MISSING, _MISSING, _MISSING, Answer(body="here we are")),
}
"""What each feed answers, by its name."""


def fetch(source: outlast.Source) -> bytes:
    """Fetch a feed with what the standard library has.

    Any function of a source will do: what it returns is compared with the last time, what it raises is judged. The
    fetchers 'feed' and 'page', which read entries and selectors, come with the extra ``feeds``.
    """
    with urllib.request.urlopen(source.url, timeout=10) as response:
        body: bytes = response.read()
        return body


def monitored() -> None:
    """Poll the feeds in a few quick cycles, and tell of every transition and alert."""
    print("A monitor: a dozen feeds, each on a server of its own. Three failures in a row disable a feed here.\n")
    cable = threading.Event()
    cable.set()
    told = logging.getLogger("outlast")
    level = told.level
    told.setLevel(logging.CRITICAL)  # the events below say the same
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        app = outlast.App(f"sqlite:///{folder}/feeds.db", notify=_print_alert)
        stack.callback(app.close)
        stack.callback(told.setLevel, level)
        stack.callback(outlast.subscribe(_print_transition, outlast.events.SourceChanged))
        for name, answer in FEEDS.items():
            site = stack.enter_context(Site(_behind(cable, answer)).serving())
            app.sources.add(site.url, name=name)
        monitor = app.monitor(PROFILE, fetch=fetch)  # .run() would poll every 15 minutes; here we turn the crank
        _turn(monitor)
        _turn(monitor)
        cable.clear()
        _turn(monitor, "the cable is pulled")
        cable.set()
        _turn(monitor, "the cable is back")
        _probe(app, "moved")
        _turn(monitor, "somebody has the feed 'moved' probed")
        _turn(monitor)
        _show(app)


def _behind(cable: threading.Event, answer: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    return lambda request: answer(request) if cable.is_set() else Answer(None)


def _turn(monitor: outlast.Monitor, what: str = "") -> None:
    if what:
        print(f"    ({what})")
    summary = monitor.cycle()
    if summary is None:  # Ctrl-C: a monitor lets go of what it holds, and ends
        raise KeyboardInterrupt
    print(f"    {summary}\n")


def _probe(app: outlast.App, name: str) -> None:
    (source,) = app.sources.list(text=name)
    app.sources.probe(source.id)


def _print_transition(event: outlast.events.SourceChanged) -> None:
    print(f"      source {event.source_id:2}: {event.before} → {event.after}: {_cut(event.reason)}")


def _print_alert(message: Message) -> None:
    lines = [line for line in message.text.splitlines() if len(message.kinds) > 1]  # a digest has one for each alert
    print("\n".join([f"      ALERT {message.title}", *(f"            {line}" for line in lines)]))


def _show(app: outlast.App) -> None:
    """Print a line for each feed: how it is, and how its polls ended."""
    head = f"{'changed':>8} +{'same':>5} +{'failed':>7} +{'withdrawn':>10} +{'deferred':>9}"
    print(f"       # {'feed':11}{'state':10}{'failures':>8}{'requests':>9}{'polls':>6} ={head}  last error")
    together: Counter[str] = Counter()
    for source in app.sources.list():
        history = app.sources.history(source.id)
        counts = Counter(dict.fromkeys(OUTCOMES, 0))
        counts.update(poll.outcome for poll in history if poll.outcome in OUTCOMES)  # other lines tell a new state
        counts["failed"] -= counts["withdrawn"]  # which is a second line for a poll that failed
        together += counts
        requests = sum(poll.attempts for poll in history)
        health = f"{source.state:10}{source.consecutive_failures:8}{requests:9}"
        print(f"    {source.id:4} {source.name:11}{health}{_row(counts)}  {_cut(source.last_error or '')}".rstrip())
    print(f"    {'':4} {'together':11}{'':27}{_row(together)}\n")
    print("    failures: in a row, and only of a kind that counts; 503 is the host's trouble and never does")
    print("    withdrawn: so many failed together that it cannot be their fault")
    print("    deferred: the server named a time, and is not polled before it\n")


def _row(counts: Counter[str]) -> str:
    widths = (8, 5, 7, 10, 9)
    return f"{counts.total():6} =" + " +".join(
        f"{counts[each]:{width}}" for each, width in zip(OUTCOMES, widths, strict=True)
    )


def _cut(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _WHY else f"{line[: _WHY - 1].rstrip()}…"
