"""The fetcher for pages: the text of the elements that a CSS selector matches, or all visible text."""

import asyncio
import codecs
import hashlib
import re
from typing import Any

from outlast.errors import ConfigError, ContentError
from outlast.ports.source_rows import Source
from outlast.sources.fetchers import Fetched, SourceResponse, download, web_charset

_HIDDEN = frozenset({"script", "style", "noscript", "template"})
# Words go on across them; every other element ends one.
_INLINE = frozenset({
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins",
    "kbd", "label", "mark", "q", "rb", "rp", "rt", "ruby", "s", "samp", "small", "span", "strike", "strong",
    "sub", "sup", "time", "tt", "u", "var", "wbr",
})  # fmt: skip
_TEXT = "-text"  # the parser's name for a piece of text
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_META_WITHIN = 4096  # bytes of a page in which it says its charset
_META = re.compile(rb"<meta[^>]{1,300}?charset\s{0,10}=\s{0,10}[\"']?\s{0,10}([a-z0-9_:.-]{1,40})", re.IGNORECASE)

# The parser's time grows with the square of the depth: a megabyte of nothing but <div> would keep it busy for minutes.
_FEW_TAGS = 10_000
_DEEPEST = 5_000
_TAG = re.compile(r"<(/?)([a-z][a-z0-9-]{0,30})", re.IGNORECASE)
# Have no end, or are ended by the next of their kind.
_FLAT = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr", "p", "li", "dt", "dd", "tr", "td", "th", "option",
})  # fmt: skip


async def fetch_page(source: Source, client: Any) -> Fetched:
    """Fetch a page.

    The content is the text of the elements that the source's selector matches, one line for each; without a selector
    it is the text of the page, without scripts and styles. Whitespace counts as one blank.

    Args:
        source: Its selector tells what is watched.
        client: An httpx or httpx2 AsyncClient.

    Raises:
        ConfigError: If selectolax is not installed, or the selector cannot be parsed.
        ContentError: If the selector matches nothing.
        Exception: As for `read`.
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
        message = "pages need one more package: pip install 'outlast[feeds]'"
        raise ConfigError(message) from error
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
        message = f"selector {selector!r} is not valid"
        raise ConfigError(message) from error
    if not found:
        message = f"selector {selector!r} matches nothing"
        raise ContentError(message)
    return "\n".join(_element_text(node) for node in found)


def _decode_page(answer: SourceResponse) -> str:
    """Read the bytes by their mark, else by the header, else by what the page says, else as UTF-8."""
    for mark, name in _BOMS:
        if answer.body.startswith(mark):
            return answer.body.decode(name, "replace")
    stated = answer.encoding
    if stated is None and (match := _META.search(answer.body[:_META_WITHIN])):
        stated = web_charset(match[1].decode("ascii"))
        if stated is not None and stated.startswith("utf-16"):
            stated = None  # it could not have been found
    return answer.body.decode(stated or "utf-8", "replace")


def _check_depth(html: str) -> None:
    if html.count("<") <= _FEW_TAGS:
        return
    depth = 0
    opened: dict[str, int] = {}
    for end, tag in _TAG.findall(html):
        name = tag.lower()
        if name in _FLAT:
            continue
        if not end:
            opened[name] = opened.get(name, 0) + 1
            depth += 1
        elif opened.get(name):
            opened[name] -= 1
            depth -= 1
        if depth > _DEEPEST:
            message = f"the page is nested more than {_DEEPEST:,} elements deep"
            raise ContentError(message)


def _element_text(node: Any) -> str:
    """Return the text of an element. The tree is walked and left as it is: other matches may lie within."""
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
