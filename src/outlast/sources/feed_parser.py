"""Parses feeds with feedparser; as a program, feeds and large pages one after another in a child process with limits.

feedparser needs quadratic time for many inputs: attributes, styles, authors, tags, spaces, entities. So a long feed is
parsed in a child process, which the system ends if the feed reaches its limit of CPU time. The imports are few, because
they are most of the time that such a process needs to start.
"""

import calendar
import io
import json
import os
import select
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple
from xml.sax import SAXException

from outlast.errors import ContentError
from outlast.sources.page_text import page_text

MOST_MEMORY = 512 * 1024 * 1024
"""Bytes that a child process may use (Linux)."""
OUT_OF_MEMORY = 3
"""Exit code of a child process that reached this limit."""
_MOST_ENTRIES = 10_000  # entries of one feed; the rest is ignored
_MOST_TEXT = 40 * 1024**2  # characters of a parsed feed as JSON


class ParsedEntry(NamedTuple):
    """An entry as the parser found it; what is missing is empty."""

    id: str
    title: str
    link: str
    summary: str
    dates: str
    published: str | None


class ParsedFeed(NamedTuple):
    """A feed as the parser found it.

    Attributes:
        version: The kind of the feed; empty if it is not a feed.
        trouble: The first error in the XML, or None.
        title: Title of the feed.
        link: URL of its web page.
        entries: Its entries.
    """

    version: str
    trouble: str | None
    title: str
    link: str
    entries: list[ParsedEntry]


def parse_feed(body: bytes, headers: dict[str, str]) -> ParsedFeed:
    """Parse a feed.

    Args:
        body: The feed, in the charset of the headers or of its declaration.
        headers: ``content-type``, and ``content-location`` to resolve relative URLs.

    Raises:
        ContentError: If the parser fails.
        MemoryError: If there is not enough memory.
    """
    import feedparser  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415  # an extra

    try:
        # A stream, because the parser would open text as a URL or a file name.
        parsed = feedparser.parse(
            io.BytesIO(body), response_headers=headers, sanitize_html=True, resolve_relative_uris=True
        )
    except MemoryError:
        raise
    except Exception as error:  # any error of the parser
        raise ContentError(f"the response is not a readable feed: {type(error).__name__}") from error
    trouble = parsed.get("bozo_exception")
    return ParsedFeed(
        version=parsed.get("version") or "",
        trouble=trouble.getMessage() if isinstance(trouble, SAXException) else None,
        title=_text(parsed.feed, "title"),
        link=_text(parsed.feed, "link"),
        entries=[_entry(each) for each in parsed.entries[:_MOST_ENTRIES]],
    )


def _entry(raw: Any) -> ParsedEntry:
    return ParsedEntry(
        id=_text(raw, "id"),
        title=_text(raw, "title"),
        link=_text(raw, "link"),
        summary=_summary(raw),
        dates=f"{_text(raw, 'published')} {_text(raw, 'updated')}",
        published=_published(raw),
    )


def _text(raw: Any, name: str) -> str:
    value = dict.get(raw, name)  # the parser's own lookup tries other names too
    return value.strip() if isinstance(value, str) else ""


def _summary(raw: Any) -> str:
    if summary := _text(raw, "summary"):
        return summary
    return next((text for each in raw.get("content", ()) if (text := _text(each, "value"))), "")


def _published(raw: Any) -> str | None:
    for name in ("published", "updated"):
        if text := _text(raw, name):
            parsed: Any = dict.get(raw, f"{name}_parsed")
            try:
                return datetime.fromtimestamp(calendar.timegm(parsed), UTC).isoformat()
            except (TypeError, ValueError, OverflowError, OSError):  # not a valid date
                return text
    return None


def _limit_memory() -> None:
    """Limit the memory of this process; not on Windows."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415  # Windows has none

    for kind, limit in {resource.RLIMIT_DATA: MOST_MEMORY, resource.RLIMIT_CORE: 0}.items():
        hard = resource.getrlimit(kind)[1]
        with suppress(OSError, ValueError):  # a system that does not know this limit
            resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _end_after(seconds: float) -> None:
    """Have the system end this process after so many seconds of CPU time, 0 for never; not on Windows."""
    if sys.platform != "win32":
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # the parent may ignore it, and its children would too
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _next_head(seconds: float) -> bytes:
    """Return the line before the next feed; nothing if none comes in time, or if the parent has ended."""
    if sys.platform != "win32" and not select.select([sys.stdin.buffer], [], [], seconds)[0]:
        return b""
    return sys.stdin.buffer.readline()


def main() -> None:
    """Read feeds and pages from stdin until it ends; write each to stdout as a line of JSON, or text that says why not.

    Before each is a line of JSON: whether it is a feed or a page, its limit in seconds of CPU time, its length in
    bytes, and the headers of a feed or the selector of a page. The first argument is how many seconds this process
    waits for the next one.
    """
    _limit_memory()
    while head := _next_head(float(sys.argv[1])):
        reply: Any
        try:
            what, seconds, length, options = json.loads(head)
            body = sys.stdin.buffer.read(length)
            _end_after(seconds)
            try:
                reply = parse_feed(body, options) if what == "feed" else [page_text(body.decode(), options["selector"])]
            except ContentError as error:
                reply = str(error)
            line = json.dumps(reply)
            if len(line) > _MOST_TEXT:  # links grow with a long base address
                line = json.dumps(f"the parsed {what} has more than {_MOST_TEXT // 1024**2} MiB")
            sys.stdout.write(line + "\n")
            _end_after(0)
            sys.stdout.flush()
        except MemoryError:
            os._exit(OUT_OF_MEMORY)  # at once: there is no memory for anything else


if __name__ == "__main__":
    main()
