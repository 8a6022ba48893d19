"""The fetcher for pages: the text of the elements that a CSS selector matches, or all visible text."""

import asyncio
import codecs
import hashlib
import re
from typing import Any

from outlast.errors import ConfigError, ContentError
from outlast.patterns import word_set
from outlast.ports.source_rows import Source
from outlast.sources.fetchers import Fetched, SourceResponse, download, web_charset

_HIDDEN = word_set("script style noscript template")
# They do not separate words; every other element does.
_INLINE = word_set(
    "a abbr b bdi bdo big cite code data del dfn em font i ins kbd label mark q rb rp rt ruby s samp small span strike "
    "strong sub sup time tt u var wbr"
)
_TEXT = "-text"  # the parser's name for a piece of text
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_META_WITHIN = 4096  # bytes of a page that are searched for its charset
_META = re.compile(rb"<meta[^>]{1,300}?charset\s{0,10}=\s{0,10}[\"']?\s{0,10}([a-z0-9_:.-]{1,40})", re.IGNORECASE)

# The parser needs quadratic time in the depth: a megabyte of <div> would take minutes.
_DEEPEST = 5_000
# The parser opens elements such as <b> again in each element after them, until they are closed.
_MOST_COPIES = 5_000_000
_FORMATTING = word_set("b big code em font i s small strike strong tt u")
_TAG = re.compile(r"<(/?)([a-z][a-z0-9-]{0,30})", re.IGNORECASE)
# They have no end tag, or end where the next one of their kind starts.
_FLAT = word_set("area base br col embed hr img input link meta param source track wbr p li dt dd tr td th option")


async def fetch_page(source: Source, client: Any) -> Fetched:
    """Fetch a page.

    The content is the text of the elements that the source's selector matches, one line for each; without a selector
    it is the text of the page, without scripts and styles. Runs of whitespace become one space.

    Args:
        source: The source; its selector says what to watch.
        client: An httpx or httpx2 AsyncClient.

    Raises:
        ConfigError: If selectolax is not installed, or the selector cannot be parsed.
        ContentError: If the selector matches nothing.
        Exception: As for `download`.
    """
    parser = _selectolax()
    answer = await download(client, source)
    if answer.not_modified:
        return Fetched(not_modified=True, http_status=answer.status)
    text = await asyncio.to_thread(_watched_text, parser, answer, source.selector)
    return Fetched(
        content=text,
        hash=hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
        etag=answer.etag,
        last_modified=answer.last_modified,
        http_status=answer.status,
    )


def _selectolax() -> Any:
    try:
        from selectolax import lexbor  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise ConfigError("pages need one more package: pip install 'outlast[feeds]'") from error
    return lexbor


def _watched_text(parser: Any, answer: SourceResponse, selector: str | None) -> str:
    html = _decode_page(answer)
    _check_depth(html)
    tree = parser.LexborHTMLParser(html)
    if selector is None:
        return _element_text(tree.body or tree.root)
    try:
        found = tree.css(selector)
    except parser.SelectolaxError as error:
        raise ConfigError(f"selector {selector!r} is not valid") from error
    if not found:
        raise ContentError(f"selector {selector!r} matches nothing")
    return "\n".join(_element_text(node) for node in found)


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


def _check_depth(html: str) -> None:
    depth = formatting = copies = 0
    opened: dict[str, int] = {}
    for end, tag in _TAG.findall(html):
        name = tag.lower()
        copies += 0 if end else formatting
        if copies > _MOST_COPIES:
            raise ContentError("the page has too many elements such as <b> that are not closed")
        if name in _FLAT:
            continue
        if not end:
            opened[name] = opened.get(name, 0) + 1
            depth += 1
            formatting += name in _FORMATTING
        elif opened.get(name):
            opened[name] -= 1
            depth -= 1
            formatting -= name in _FORMATTING
        if depth > _DEEPEST:
            raise ContentError(f"the page is nested more than {_DEEPEST:,} elements deep")


def _element_text(node: Any) -> str:
    """Return the text of an element. The tree is not changed, because other matches may be inside."""
    parts: list[str] = []
    waiting: list[Any] = [*node.iter(include_text=True)][::-1]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            parts.append(each)
        elif each.tag == _TEXT:
            parts.append(each.text(deep=False))
        elif each.tag not in _HIDDEN:
            inside = [*each.iter(include_text=True)]
            waiting.extend(inside[::-1] if each.tag in _INLINE else [" ", *inside[::-1], " "])
    return " ".join("".join(parts).split())
