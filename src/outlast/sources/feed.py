"""The fetcher for feeds (RSS, Atom and RDF by feedparser), which finds the new entries."""

import asyncio
import atexit
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from outlast.errors import ConfigError, ContentError
from outlast.forks import after_fork
from outlast.ports.source_rows import Source
from outlast.sources.feed_parser import MOST_MEMORY, OUT_OF_MEMORY, ParsedEntry, ParsedFeed, parse_feed
from outlast.sources.fetchers import Entry, Fetched, SourceResponse, download, run_in_own_thread, web_charset

_REMEMBERED = 1_000  # entries, including those that are no longer in the feed; of a longer feed, all entries
_DIGEST = 16  # hexadecimal digits stored for an entry
_XML_DECLARATION = re.compile(
    rb"^\s{0,100}<\?xml[^>]{0,200}?encoding\s{0,10}=\s{0,10}[\"']([^\"'>]{0,60})[\"'][^>]{0,100}\?>"
)
_PAGE = re.compile(rb"^\s{0,1000}<(?:!doctype\s{1,10})?html", re.IGNORECASE)

# A feed of up to 2 KiB costs the parser at most half a second, whatever is in it. Longer ones are parsed in child
# processes. To start one costs 0.1 s, so it waits a while for the next feed.
_SHORT = 2 * 1024
_LONG = 1024 * 1024
_CHILDREN, _SLOW_CHILDREN = max(8, os.cpu_count() or 1), 2  # at once; the latter for long feeds and failing sources
_CPU_SECONDS, _BYTES_PER_SECOND, _MOST_CPU_SECONDS = 2, 250_000, 20
_IDLE_SECONDS = 10.0
_FLOOD = 50_000  # entries
_FOREIGN_SIGNALS = frozenset({1, 2, 9, 15})  # SIGHUP, SIGINT, SIGKILL, SIGTERM come from outside
_slots: "WeakKeyDictionary[Any, tuple[asyncio.Semaphore, asyncio.Semaphore]]" = WeakKeyDictionary()  # by event loop


class Feed(NamedTuple):
    """A feed: the content that `fetch_feed` returns.

    Attributes:
        title: Title of the feed.
        link: URL of its web page.
        entries: All entries, in the order of the feed.
    """

    title: str
    link: str
    entries: tuple[Entry, ...]


async def fetch_feed(source: Source, client: Any) -> Fetched:
    """Fetch and parse a feed.

    The content is a `Feed`. `entries` are the new entries: all of them at the first poll. The hash covers only the
    entries, so a change of their order or of a date of the feed itself is not a change.

    Args:
        source: The source. Its `memory` holds the entries that were seen before.
        client: An httpx or httpx2 AsyncClient.

    Raises:
        ConfigError: If feedparser is not installed.
        ContentError: If the response is not a feed, or the parser needs too much CPU time or memory for it.
        Exception: Any error that `download` raises.
    """
    if find_spec("feedparser") is None:
        raise ConfigError("feeds need one more package: pip install 'outlast[feeds]'")
    answer = await download(client, source)
    if answer.not_modified:
        return Fetched(not_modified=True, http_status=answer.status)
    feed, digest = await asyncio.to_thread(_feed_of, await _parsed(source, answer), answer)
    seen = _seen_digests(source.memory)
    named = [(_short_digest(entry.id), entry) for entry in feed.entries]
    return Fetched(
        content=feed,
        hash=digest,
        etag=answer.etag,
        last_modified=answer.last_modified,
        entries=tuple(entry for name, entry in named if name not in seen),
        memory=_new_memory([name for name, _ in named], seen),
        http_status=answer.status,
    )


async def _parsed(source: Source, answer: SourceResponse) -> ParsedFeed:
    if not answer.body.strip():
        raise ContentError("the response is not a feed: it is empty")
    if answer.body.count(b"<item") + answer.body.count(b"<entry") > _FLOOD:
        raise ContentError(f"the feed has more than {_FLOOD:,} entries")
    body, content_type = await asyncio.to_thread(lambda: (_without_strange_charset(answer.body), _content_type(answer)))
    headers = {"content-location": answer.url, "content-type": content_type}
    if _is_short(body, content_type):
        return await asyncio.to_thread(parse_feed, body, headers)
    parsed = ParsedFeed(*await reply_of_child("feed", source, body, headers))
    return parsed._replace(entries=[ParsedEntry(*each) for each in parsed.entries])


def _is_short(body: bytes, content_type: str) -> bool:
    """Return whether the parser reads a short text: no entities that expand, and not in a charset that hides them."""
    is_utf_8 = content_type.endswith("charset=utf-8") and _is_utf_8(body)
    return len(body) <= _SHORT and is_utf_8 and b"<!ENTITY" not in body


class _ParserProcess:
    """A child process that parses one feed or page after another. It ends when this process does."""

    def __init__(self) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self._process = subprocess.Popen(  # noqa: S603  # our own program
            [sys.executable, "-P", "-m", "outlast.sources.feed_parser", str(_IDLE_SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, map(str, sys.path)))},
            start_new_session=True,  # Ctrl-C is for this process alone
        )
        self._idle_since = 0.0

    def reply_to(self, request: bytes) -> bytes:
        """Return the line that the process writes; nothing if it ended."""
        line = b""
        with suppress(BrokenPipeError):
            self._process.stdin.write(request)  # type: ignore[union-attr]  # there are pipes
            self._process.stdin.flush()  # type: ignore[union-attr]  # as above
            line = self._process.stdout.readline()  # type: ignore[union-attr]  # as above
        self._idle_since = time.monotonic()
        return line

    def is_ready(self) -> bool:
        """Return whether the process still waits for a feed, and does so for some time."""
        return time.monotonic() - self._idle_since < _IDLE_SECONDS / 2 and self._process.poll() is None

    def end(self, *, kill: bool = True) -> tuple[int, bytes]:
        """Wait for the process to end; return its exit code and what it wrote to stderr."""
        if kill:
            self._process.kill()
        code = self._process.wait()
        self._complaints.seek(0)
        complaint = self._complaints.read()
        for pipe in (self._process.stdin, self._process.stdout, self._complaints):
            with suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]  # as above
        return code, complaint


_idle_parsers: list[_ParserProcess] = []
_parsers_of_parent: list[_ParserProcess] = []  # referenced, as they must not be ended here


def _take_idle_parser() -> _ParserProcess | None:
    with suppress(IndexError):  # another thread may take the last one
        while _idle_parsers:
            parser = _idle_parsers.pop()
            if parser.is_ready():
                return parser
            parser.end()
    return None


@atexit.register
def _end_idle_parsers() -> None:
    while _idle_parsers:
        _idle_parsers.pop().end()


def _leave_parsers_to_parent() -> None:
    _parsers_of_parent.extend(_idle_parsers)
    _idle_parsers.clear()


after_fork(_leave_parsers_to_parent)


async def reply_of_child(what: str, source: Source, body: bytes, options: dict[str, Any]) -> list[Any]:
    """Parse a feed or a page in a child process, which is killed if this is cancelled.

    Args:
        what: ``feed`` or ``page``.
        source: Where it is from.
        body: What to parse.
        options: The headers of a feed; the selector of a page.

    Raises:
        ContentError: If it cannot be parsed, or not within the limits of CPU time and memory.
    """
    quick, slow = _slots.setdefault(
        asyncio.get_running_loop(), (asyncio.Semaphore(_CHILDREN), asyncio.Semaphore(_SLOW_CHILDREN))
    )
    async with slow if len(body) > _LONG or source.consecutive_failures else quick:
        seconds = min(_CPU_SECONDS + len(body) // _BYTES_PER_SECOND, _MOST_CPU_SECONDS)
        parser = _take_idle_parser() or _ParserProcess()
        try:
            head = json.dumps([what, seconds, len(body), options]).encode()
            written = await run_in_own_thread(parser.reply_to, head + b"\n" + body)
        except BaseException:
            parser.end()
            raise
        if not written.endswith(b"\n"):
            _check_exit(what, *parser.end(kill=False), seconds)
        elif len(body) <= _LONG:
            _idle_parsers.append(parser)
        else:
            parser.end()  # a long text leaves it with much memory
        reply: list[Any] | str = await asyncio.to_thread(json.loads, written)
    if isinstance(reply, str):
        raise ContentError(reply)
    return reply


class ParserEndedError(Exception):
    """The parser's process ended for a reason that is not in the feed."""

    outlast_category = "system"


def _check_exit(what: str, code: int, complaint: bytes, seconds: int) -> None:
    if code == OUT_OF_MEMORY:
        raise ContentError(f"the {what} needs more than {MOST_MEMORY // 1024**2} MiB of memory to parse")
    if sys.platform != "win32" and code == -signal.SIGPROF:
        raise ContentError(f"the {what} needs more than {seconds} s of CPU time to parse")
    if code >= 0 or -code in _FOREIGN_SIGNALS:
        last_line = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
        raise ParserEndedError(f"the process of the feed parser ended with exit code {code}: {last_line}".rstrip(": "))
    raise ContentError(f"the {what} made the parser crash (signal {-code})")


def _feed_of(parsed: ParsedFeed, answer: SourceResponse) -> tuple[Feed, str]:
    """Return the feed, and the hash of its entries."""
    _check(parsed, answer)
    entries = _distinct_entries([_entry(each) for each in parsed.entries])
    prints = sorted(_entry_digest(entry, each) for entry, each in zip(entries, parsed.entries, strict=True))
    whole = hashlib.sha256("".join(dict.fromkeys(prints)).encode()).hexdigest()
    unique = tuple({entry.id: entry for entry in reversed(entries)}.values())[::-1]
    return Feed(parsed.title, parsed.link, unique), whole


def _content_type(answer: SourceResponse) -> str:
    """Return a content type with the charset of the headers, unless that is wrong, such as the default of a server."""
    match = _XML_DECLARATION.match(answer.body)
    known = "utf-8" if match is None else web_charset(match[1].decode("latin-1"))
    name = "utf-8" if known == "utf-8" and _is_utf_8(answer.body) else answer.encoding
    return f"application/xml; charset={name}" if name else "application/xml"  # for others, the parser ignores it


def _is_utf_8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _without_strange_charset(body: bytes) -> bytes:
    """Remove a declaration with an unknown charset; some codecs of Python take hours."""
    match = _XML_DECLARATION.match(body)
    if match is None or web_charset(match[1].decode("latin-1")) is not None:
        return body
    return body[match.end() :]


def _check(parsed: ParsedFeed, answer: SourceResponse) -> None:
    """Raise if the response is not a feed. A malformed feed that has entries is accepted."""
    if not parsed.version and (not parsed.entries or _PAGE.match(answer.body)):
        kind = answer.headers.get("content-type", "").partition(";")[0][:60] or "no content type"
        page = "a web page" if _PAGE.match(answer.body) else "neither RSS nor Atom"
        raise ContentError(f"the response is not a feed: it is {page} ({kind})")
    if not parsed.entries and parsed.trouble is not None:
        raise ContentError(f"the feed is broken and has no readable entry: {parsed.trouble}")


def _entry(parsed: ParsedEntry) -> Entry:
    return Entry(
        id=parsed.id or parsed.link or parsed.title or _short_digest(parsed.dates + parsed.summary),
        title=parsed.title,
        link=parsed.link,
        published=parsed.published,
        summary=parsed.summary,
    )


def _distinct_entries(entries: list[Entry]) -> list[Entry]:
    """Give longer ids to entries that share one: some feeds use the same id for all entries."""
    times = Counter(entry.id for entry in entries)
    return [
        entry
        if times[entry.id] == 1
        else entry._replace(id=" ".join(dict.fromkeys(filter(None, (entry.id, entry.link, entry.title)))))
        for entry in entries
    ]


def _entry_digest(entry: Entry, parsed: ParsedEntry) -> str:
    text = json.dumps([entry.id, entry.title, entry.link, parsed.dates, entry.summary])
    return hashlib.sha256(text.encode()).hexdigest()


def _short_digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_DIGEST]


def _seen_digests(memory: str | None) -> dict[str, None]:
    """Return the stored digests, in order; none if another fetcher wrote the memory."""
    try:
        kept = json.loads(memory or "[]")
    except ValueError:
        return {}
    return dict.fromkeys(each for each in kept if isinstance(each, str)) if isinstance(kept, list) else {}


def _new_memory(names: list[str], seen: Iterable[str]) -> str:
    """Return the memory: all entries of the feed, then as many earlier ones as there is room for, newest first."""
    kept = list(dict.fromkeys([*names, *seen]))
    return json.dumps(kept[: max(_REMEMBERED, len(names))], separators=(",", ":"))
