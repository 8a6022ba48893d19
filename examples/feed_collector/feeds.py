"""A dozen feeds on loopback: some are well, the others show what feeds do in the course of a few years."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from examples.scenery import Answer, Request, Site, in_turn, unless_known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Feed(NamedTuple):
    """A feed to collect.

    Attributes:
        story: What is the matter with it.
        url: Its address.
        site: Its server; None where there is none.
        enough: Requests after which its story is told.
    """

    name: str
    story: str
    url: str
    site: Site | None
    enough: int

    @property
    def hits(self) -> int:
        """Requests that it has had."""
        return 0 if self.site is None else self.site.hits

    @property
    def published(self) -> int:
        """Entries that it has shown; none of these feeds takes one back."""
        return 0 if self.site is None else len(re.findall("<item>|<entry>", self.site.shown))


class _Plan(NamedTuple):
    name: str
    story: str
    answer: Callable[[Request], Answer] | None
    enough: int = 3


def _rss(name: str, entries: int = 2) -> Answer:
    items = "".join(
        f"<item><guid>{name}-{number}</guid><title>{name} {number}</title></item>" for number in range(1, entries + 1)
    )
    body = f'<?xml version="1.0"?><rss version="2.0"><channel><title>{name}</title>{items}</channel></rss>'
    return Answer(body=body, headers={"Content-Type": "application/rss+xml"})


def _atom(name: str, title: str) -> Answer:
    entry = f"<entry><id>urn:{name}</id><title>{title}</title><updated>2024-05-01T12:00:00Z</updated></entry>"
    body = f'<feed xmlns="http://www.w3.org/2005/Atom"><title>{name}</title><id>urn:all</id>{entry}</feed>'
    return Answer(body=body, headers={"Content-Type": "application/atom+xml"})


_NO, _MISSING, _UNWELL = Answer(403, "not for robots"), Answer(404, "no such feed"), Answer(503, "not well")
_LATER = Answer(429, "not so fast", {"Retry-After": "2"})
_HANGS_UP = Answer(None)
_PLANS = [
    _Plan("news", "one more entry for each of its first six visitors", lambda r: _rss("news", min(r.number, 6)), 6),
    _Plan("weekly", "never changes, and says so: 304 Not Modified", unless_known(_rss("weekly"))),
    _Plan("plain", "never changes, and knows of no 304", in_turn(_rss("plain"))),
    _Plan("atom", "corrects the title of its only entry", in_turn(_atom("a", "Tpyo"), _atom("a", "Typo"))),
    _Plan("shielded", "403 twice, then fine: somebody's firewall", in_turn(_NO, _NO, _rss("shielded"))),
    _Plan("moody", "hangs up on its third visitor", in_turn(_rss("moody"), _rss("moody"), _HANGS_UP, _rss("moody")), 4),
    _Plan("crowded", "429 with Retry-After: 2, then fine", in_turn(_LATER, _rss("crowded"))),
    _Plan("unwell", "503 for ever", in_turn(_UNWELL), 6),
    _Plan("lost", "its name does not exist any more", None, 0),
    _Plan("forbidden", "403 for ever", in_turn(_NO), 20),
    _Plan("gone", "404 for ever", in_turn(_MISSING), 5),
    _Plan("moved", "404 five times, then it is back", in_turn(*[_MISSING] * 5, _rss("moved")), 7),
]


@contextmanager
def feeds() -> Iterator[list[Feed]]:
    """Serve the feeds for as long as the block runs."""
    with ExitStack() as stack:
        served: list[Feed] = []
        for name, story, answer, enough in _PLANS:
            site = None if answer is None else stack.enter_context(Site(answer).serving())
            url = "http://feed.invalid/" if site is None else site.url  # a name that nobody may have
            served.append(Feed(name, story, url, site, enough))
        yield served
