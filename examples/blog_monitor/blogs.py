"""The blogs, each a small server on loopback with a trouble of its own, and a Slack channel."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from examples.scenery import Answer, Request, Site, in_turn, unless_known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Blog(NamedTuple):
    """A blog to watch.

    Attributes:
        selector: Part of the page that is watched; None for all its text.
    """

    name: str
    site: Site
    selector: str | None = None


def _page(title: str, extra: str = "") -> Answer:
    return Answer(body=f"<html><body><h1>{title}</h1><footer>{extra}</footer></body></html>")


def _daily(request: Request) -> Answer:
    return _page(f"Post number {1 + (request.number - 1) // 3}")


def _clock(request: Request) -> Answer:
    return _page("The tower stands", extra=f"you are visitor {request.number}")


_DOWN, _MISSING = Answer(503, "back in a moment"), Answer(404, "no such page")
_BUSY = Answer(429, "not so fast", {"Retry-After": "2"})
_SCRIPTS: dict[str, tuple[Callable[[Request], Answer], str | None]] = {
    "Daily News": (_daily, None),
    "Quiet Garden": (unless_known(_page("Nothing grows in winter")), None),
    "Clock Tower": (_clock, "h1"),
    "Flaky Diary": (in_turn(_DOWN, _DOWN, _page("Dear diary")), None),
    "Busy Shop": (in_turn(_BUSY, _page("Everything must go")), None),
    "Moving House": (in_turn(_MISSING, _MISSING, _MISSING, _MISSING, _page("We have moved in")), None),
    "Gone Fishing": (in_turn(_MISSING), None),
}


@contextmanager
def blogs() -> Iterator[list[Blog]]:
    """Serve the blogs for as long as the block runs."""
    with ExitStack() as stack:
        yield [
            Blog(name, stack.enter_context(Site(script).serving()), selector)
            for name, (script, selector) in _SCRIPTS.items()
        ]


@contextmanager
def slack() -> Iterator[str]:
    """Serve what a Slack channel's incoming webhook does, and print what arrives; gives its address."""

    def arrived(request: Request) -> Answer:
        first, *more = json.loads(request.body)["text"].splitlines()
        print("\n".join([f"    SLACK    {first}", *(f"             {line}" for line in more)]))
        return Answer(body="ok")

    with Site(arrived).serving() as site:
        yield f"{site.url}services/T000/B000/XXXX"
