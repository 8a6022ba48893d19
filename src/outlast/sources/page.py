"""The fetcher for pages: the text of the elements that a CSS selector matches, or all visible text."""

import asyncio
import codecs
import hashlib
import re
from contextlib import suppress
from typing import Any

from outlast.errors import ContentError
from outlast.ports.source_rows import Source
from outlast.sources.feed import reply_of_child
from outlast.sources.fetchers import Fetched, SourceResponse, download, web_charset
from outlast.sources.page_text import page_text

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_META_WITHIN = 4096  # bytes of a page that are searched for its charset
_META = re.compile(rb"<meta[^>]{1,300}?charset\s{0,10}=\s{0,10}[\"']?\s{0,10}([a-z0-9_:.-]{1,40})", re.IGNORECASE)

# The parser needs quadratic time in the depth, and opens elements such as <b> again in each one after them until they
# are closed. Up to these numbers that costs little; pages with more are parsed in a child process with limits.
_MOST_TAGS, _MOST_COPIES = 5_000, 250_000
_TAG = re.compile(r"<[a-z]", re.IGNORECASE)
_FORMATTING = re.compile(r"<(?:b|big|code|em|font|i|s|small|strike|strong|tt|u)[\s/>]", re.IGNORECASE)


async def fetch_page(source: Source, client: Any) -> Fetched:
    """Fetch a page.

    The content is the text of the elements that the source's selector matches, one line for each; without a selector
    it is the text of the page, without scripts and styles. Runs of whitespace become one space.

    Args:
        source: The source; its selector says what to watch.
        client: An httpx or httpx2 AsyncClient.

    Raises:
        ConfigError: If selectolax is not installed, or the selector cannot be parsed.
        ContentError: If the selector matches nothing, or the parser needs too much CPU time or memory.
        Exception: As for `download`.
    """
    with suppress(ContentError):  # reports a wrong selector and a missing package before the request
        page_text("", source.selector)
    answer = await download(client, source)
    if answer.not_modified:
        return Fetched(not_modified=True, http_status=answer.status)
    html = await asyncio.to_thread(_decode_page, answer)
    if await asyncio.to_thread(_is_harmless, html):
        text = await asyncio.to_thread(page_text, html, source.selector)
    else:
        (text,) = await reply_of_child("page", source, html.encode("utf-8", "replace"), {"selector": source.selector})
    return Fetched(
        content=text,
        hash=hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
        etag=answer.etag,
        last_modified=answer.last_modified,
        http_status=answer.status,
    )


def _decode_page(answer: SourceResponse) -> str:
    """Decode a page by its byte order mark, else its header, else its meta element, else as UTF-8."""
    for mark, name in _BOMS:
        if answer.body.startswith(mark):
            return answer.body.decode(name, "replace")
    stated = answer.encoding
    if stated is None and (match := _META.search(answer.body[:_META_WITHIN])):
        stated = web_charset(match[1].decode("ascii"))
        if stated is not None and stated.startswith("utf-16"):
            stated = None  # wrong: the element was found as ASCII
    return answer.body.decode(stated or "utf-8", "replace")


def _is_harmless(html: str) -> bool:
    tags = len(_TAG.findall(html))
    return tags <= _MOST_TAGS and tags * len(_FORMATTING.findall(html)) <= _MOST_COPIES
