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
        story: What is the matter with it.
        selector: Part of the page that is watched; None for all its text.
    """

    name: str
    story: str
    site: Site
    selector: str | None


def _page(title: str, below: str = "") -> Answer:
    return Answer(body=f"<html><body><h1>{title}</h1><footer>{below}</footer></body></html>")


def _daily(request: Request) -> Answer:
    return _page(f"Post number {1 + (request.number - 1) // 3}")


def _clock(request: Request) -> Answer:
    return _page("The tower stands", below=f"you are visitor {request.number}")


_QUIET = unless_known(_page("Nothing grows in winter"))
_DOWN, _MISSING = Answer(503, "back in a moment"), Answer(404, "no such page")
_BUSY = Answer(429, "not so fast", {"Retry-After": "2"})
_FLAKY = in_turn(_DOWN, _DOWN, _page("Dear diary"))
_SHOP = in_turn(_BUSY, _page("Everything must go"))
_HOUSE = in_turn(_MISSING, _MISSING, _MISSING, _MISSING, _page("We have moved in"))

_BLOGS: list[tuple[str, str, Callable[[Request], Answer], str | None]] = [
    ("Daily News", "has something new for every third visitor", _daily, None),
    ("Quiet Garden", "never changes, and says so: 304 Not Modified", _QUIET, None),
    ("Clock Tower", "counts its visitors; only its h1 is watched", _clock, "h1"),
    ("Flaky Diary", "answers 503 twice, then it is fine", _FLAKY, None),
    ("Busy Shop", "answers 429 with Retry-After: 2, then it is fine", _SHOP, None),
    ("Moving House", "answers 404 four times while it is being moved", _HOUSE, None),
    ("Gone Fishing", "answers 404 for ever", in_turn(_MISSING), None),
]


@contextmanager
def blogs() -> Iterator[list[Blog]]:
    """Serve the blogs for as long as the block runs."""
    with ExitStack() as stack:
        yield [
            Blog(name, story, stack.enter_context(Site(answer).serving()), selector)
            for name, story, answer, selector in _BLOGS
        ]


@contextmanager
def slack() -> Iterator[str]:
    """Serve what a Slack channel's incoming webhook does, and print what arrives; gives its address."""

    def arrived(request: Request) -> Answer:
        first, *more = json.loads(request.body)["text"].splitlines()
        print("\n".join([f"    SLACK       {first}", *(f"                {line}" for line in more)]))
        return Answer(body="ok")

    with Site(arrived).serving() as site:
        yield f"{site.url}services/T000/B000/XXXX"
