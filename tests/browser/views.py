"""Every page of the table of routes, at addresses where it has something to show, and where it has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from browser import texts
from outlast.ports.read_rows import FailureFilter
from outlast.web.site import PAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from browser.stage import Stage


class View(NamedTuple):
    """A page to look at.

    Attributes:
        page: Its name in the table of routes; empty for what is in no table.
        title: What it shows, for people.
        path: Where it is, when the stage is known.
    """

    page: str
    title: str
    path: Callable[[Stage], str]

    def __str__(self) -> str:
        return f"{self.page}-{self.title}" if self.title else self.page


PATHS = {page.name: page.path for page in PAGES}


def path_to(name: str, query: dict[str, object] | None = None, **parts: object) -> str:
    """Return the path of a page."""
    path = PATHS[name]
    for key, value in parts.items():
        path = path.replace(f"{{{key}}}", quote(str(value), safe=""))
    assert "{" not in path, path
    return f"{path}?{urlencode(query)}" if query else path


def group_of(stage: Stage, **which: object) -> str:
    """Return the fingerprint of a group of failures."""
    return stage.app.store.failures(FailureFilter(**which)).rows[0].fingerprint


def _stopped_replay(stage: Stage) -> int:
    """Return the number of a replay that nobody carries on."""
    box = stage.app.dead_letters
    found = box.replays(limit=1)
    number = found[0].id if found else box.replay_later(text=texts.NASTY, who=texts.NASTY, why=texts.NASTY).id
    if not found:
        box.stop_replay(number, why=texts.ERROR_WITH_SECRET)
    return number


def _plain(name: str) -> View:
    return View(name, "", lambda _: path_to(name))


def _asked(name: str, title: str, **query: object) -> View:
    return View(name, title, lambda _: path_to(name, query))


_NOTHING = "nothing has this text"
_KNOWN: dict[str, list[View]] = {
    "failures": [
        _plain("failures"),
        _asked("failures", "filtered", category="api_temporary"),
        _asked("failures", "dead", dead=1, order="largest"),
        _asked("failures", "nothing", text=_NOTHING),
    ],
    "failure": [
        View("failure", title, lambda stage, which=which: path_to("failure", fingerprint=group_of(stage, **which)))
        for title, which in {
            "temporary": {"category": "api_temporary", "task_type": "fetch_page"},
            "hostile": {"text": "window.pwned"},
            "long": {"text": "WWWW"},
        }.items()
    ],
    "simulate": [
        _asked("simulate", "result", policy="worker", rate="5/s", duration="4m", down_at="1m", down_for="1m"),
        _plain("simulate"),
        _asked("simulate", "mistake", policy="worker", rate="often"),
    ],
    "dead_letters": [
        _plain("dead_letters"),
        _asked("dead_letters", "filtered", category="not_found", task="fetch_page"),
        _asked("dead_letters", "nothing", text=_NOTHING),
    ],
    "dead_letter": [
        View(
            "dead_letter",
            title,
            lambda stage, title=title: path_to("dead_letter", dead_letter_id=stage.letter_of(stage.task[title])),
        )
        for title in ("hostile", "nasty", "japanese", "bug")
    ],
    "dead_letter_arguments": [
        View(
            "dead_letter_arguments",
            title,
            lambda stage, title=title: path_to(
                "dead_letter_arguments", dead_letter_id=stage.letter_of(stage.task[title])
            ),
        )
        for title in ("hostile", "bug")
    ],
    "replays": [View("replays", "", lambda stage: path_to("replays") if _stopped_replay(stage) else "")],
    "replay": [View("replay", "", lambda stage: path_to("replay", replay_id=_stopped_replay(stage)))],
    "tasks": [
        _plain("tasks"),
        _asked("tasks", "filtered", status="DONE"),
        _asked("tasks", "nothing", task="no_such_task"),
        _asked("tasks", "searched", text="shop.test/ready"),
    ],
    "performance": [
        _asked("performance", "day"),
        _asked("performance", "task", task="fetch_page", range="1h"),
        _asked("performance", "nothing", task="no_such_task"),
    ],
    "task": [
        View("task", title, lambda stage, title=title: path_to("task", task_id=stage.task[title]))
        for title in ("history", "hostile", "nasty", "long", "waiting", "running", "done", "cancelled", "parked")
    ],
    "sources": [
        _plain("sources"),
        _asked("sources", "filtered", state="disabled"),
        _asked("sources", "nothing", text=_NOTHING),
    ],
    "source": [
        View("source", title, lambda stage, title=title: path_to("source", source_id=stage.source[title]))
        for title in ("healthy", "warning", "error", "disabled", "probation", "off", "hostile")
    ],
    "run": [
        View("run", title, lambda stage, title=title: path_to("run", run_id=stage.run[title]))
        for title in ("passed", "failed", "rest", "aborted", "hostile", "running")
    ],
}
VIEWS = [view for page in PAGES for view in _KNOWN.get(page.name, [] if "{" in page.path else [_plain(page.name)])]
"""All of them; a page with a part of its path that varies has to be known above."""
MISSING = [
    View("", "no such page", lambda _: "/no/such/page"),
    View("", "no such task", lambda _: path_to("task", task_id=1 << 60)),
    View("", "hostile path", lambda _: f"/{quote(texts.NASTY, safe='')}"),
]
"""What is not there: pages all the same."""
