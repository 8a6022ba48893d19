"""The fetcher for feeds (RSS, Atom and RDF by feedparser), which finds the new entries."""

import asyncio
import calendar
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple
from xml.sax import SAXException

from outlast.errors import ConfigError, ContentError
from outlast.ports.source_rows import Source
from outlast.sources.fetchers import Entry, Fetched, SourceResponse, download, web_charset

__all__ = ["Feed", "fetch_feed"]

_REMEMBERED = 1_000  # entries, including those that are no longer in the feed; of a longer feed, all entries
_MOST_ENTRIES = 10_000  # entries of one feed; the rest is ignored
_DIGEST = 16  # hexadecimal digits stored for an entry
_XML_DECLARATION = re.compile(
    rb"^\s{0,100}<\?xml[^>]{0,200}?encoding\s{0,10}=\s{0,10}[\"']([^\"'>]{0,60})[\"'][^>]{0,100}\?>"
)
_PAGE = re.compile(rb"^\s{0,1000}<(?:!doctype\s{1,10})?html", re.IGNORECASE)


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
        ContentError: If the response is not a feed.
        Exception: Any error that `read` raises.
    """
    parser = _feedparser()
    answer = await download(client, source)
    if answer.not_modified:
        return Fetched(not_modified=True, http_status=answer.status)
    feed, digest = await asyncio.to_thread(_parse_feed, parser, answer)
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


def _feedparser() -> Any:
    try:
        import feedparser  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise ConfigError("feeds need one more package: pip install 'outlast[feeds]'") from error
    return feedparser


def _parse_feed(parser: Any, answer: SourceResponse) -> tuple[Feed, str]:
    """Return the feed, and the hash of its entries."""
    if not answer.body.strip():
        raise ContentError("the response is not a feed: it is empty")
    headers = {"content-location": answer.url, "content-type": _content_type(answer)}
    try:
        # A stream, because the parser would open text as a URL or a file name.
        parsed = parser.parse(
            io.BytesIO(_without_strange_charset(answer.body)),
            response_headers=headers,
            sanitize_html=True,
            resolve_relative_uris=True,
        )
    except Exception as error:  # any error of the parser
        raise ContentError(f"the response is not a readable feed: {type(error).__name__}") from error
    _check(parsed, answer)
    raw = parsed.entries[:_MOST_ENTRIES]
    entries = _distinct_entries([_entry(each) for each in raw])
    prints = sorted(_entry_digest(entry, each) for entry, each in zip(entries, raw, strict=True))
    whole = hashlib.sha256("".join(dict.fromkeys(prints)).encode()).hexdigest()
    unique = tuple({entry.id: entry for entry in reversed(entries)}.values())[::-1]
    return Feed(_text(parsed.feed, "title"), _text(parsed.feed, "link"), unique), whole


def _content_type(answer: SourceResponse) -> str:
    """Return the content type of the headers, without a charset that is wrong, such as the default of a server."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip() or "application/xml"
    match = _XML_DECLARATION.match(answer.body)
    known = "utf-8" if match is None else web_charset(match[1].decode("latin-1"))
    name = "utf-8" if known == "utf-8" and _is_utf_8(answer.body) else answer.encoding
    return f"{kind}; charset={name}" if name else kind


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


def _check(parsed: Any, answer: SourceResponse) -> None:
    """Raise if the response is not a feed. A malformed feed that has entries is accepted."""
    version, trouble = parsed.get("version", ""), parsed.get("bozo_exception")
    if not version and (not parsed.entries or _PAGE.match(answer.body)):
        kind = answer.headers.get("content-type", "").partition(";")[0][:60] or "no content type"
        page = "a web page" if _PAGE.match(answer.body) else "neither RSS nor Atom"
        raise ContentError(f"the response is not a feed: it is {page} ({kind})")
    if not parsed.entries and isinstance(trouble, SAXException):
        raise ContentError(f"the feed is broken and has no readable entry: {trouble.getMessage()}")


def _entry(raw: Any) -> Entry:
    title, link, summary = _text(raw, "title"), _text(raw, "link"), _summary(raw)
    name = _text(raw, "id") or link or title
    return Entry(
        id=name or _short_digest(_dates(raw) + summary),
        title=title,
        link=link,
        published=_published(raw),
        summary=summary,
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


def _text(raw: Any, name: str) -> str:
    value = dict.get(raw, name)  # the parser's own lookup tries other names too
    return value.strip() if isinstance(value, str) else ""


def _summary(raw: Any) -> str:
    if summary := _text(raw, "summary"):
        return summary
    return next((text for each in raw.get("content", ()) if (text := _text(each, "value"))), "")


def _dates(raw: Any) -> str:
    return f"{_text(raw, 'published')} {_text(raw, 'updated')}"


def _published(raw: Any) -> str | None:
    for name in ("published", "updated"):
        if text := _text(raw, name):
            parsed: Any = dict.get(raw, f"{name}_parsed")
            try:
                return datetime.fromtimestamp(calendar.timegm(parsed), UTC).isoformat()
            except (TypeError, ValueError, OverflowError, OSError):  # not a valid date
                return text
    return None


def _entry_digest(entry: Entry, raw: Any) -> str:
    text = json.dumps([entry.id, entry.title, entry.link, _dates(raw), entry.summary])
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
