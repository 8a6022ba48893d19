"""The text of a page; in a child process for pages that may need much time or memory."""

from typing import Any

from outlast.errors import ConfigError, ContentError
from outlast.patterns import word_set

_HIDDEN = word_set("script style noscript template")
# They do not separate words; every other element does.
_INLINE = word_set(
    "a abbr b bdi bdo big cite code data del dfn em font i ins kbd label mark q rb rp rt ruby s samp small span strike "
    "strong sub sup time tt u var wbr"
)
_TEXT = "-text"  # the parser's name for a piece of text


def page_text(html: str, selector: str | None) -> str:
    """Return the text of what a selector matches, one line for each match; without one, the text of the page.

    Raises:
        ConfigError: If selectolax is not installed, or the selector cannot be parsed.
        ContentError: If the selector matches nothing.
        MemoryError: If there is not enough memory.
    """
    try:
        from selectolax import lexbor  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise ConfigError("pages need one more package: pip install 'outlast[feeds]'") from error
    try:
        tree: Any = lexbor.LexborHTMLParser(html)
    except lexbor.SelectolaxError as error:
        raise MemoryError from error  # the only thing that it refuses
    if selector is None:
        return _element_text(tree.body or tree.root)
    try:
        found = tree.css(selector)
    except lexbor.SelectolaxError as error:
        raise ConfigError(f"selector {selector!r} is not valid") from error
    if not found:
        raise ContentError(f"selector {selector!r} matches nothing")
    return "\n".join(_element_text(node) for node in found)


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
