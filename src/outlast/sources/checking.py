"""Whether sources can be polled at all: URLs, selectors and names, looked at before the first request is made."""

import ipaddress
import re
from collections.abc import Iterable, Iterator

from outlast.errors import ConfigError
from outlast.ports.source_rows import NewSource, Source
from outlast.redact import MASK, redact

__all__ = ["LONGEST_NAME", "LONGEST_URL", "check", "normal_url", "problems"]

LONGEST_URL = 2_048
"""Characters of a URL."""
LONGEST_NAME = 200
"""Characters of a source's name."""
_SHOWN = 200  # characters of a URL in a message
_LONGEST_HOST = 253
_LAST_PORT = 65_535
_DEFAULT_PORTS = {"http": "80", "https": "443"}

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)", re.DOTALL)
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(.*))?", re.DOTALL)
_PORT = re.compile(r"[0-9]{0,5}")
_PLAIN_HOST = re.compile(r"[A-Za-z0-9._-]+")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


def check(sources: Iterable[NewSource | Source]) -> None:
    """Refuse sources that could never be polled.

    Raises:
        ConfigError: If there are any; the message lists all that is wrong with all of them.
    """
    found = problems(sources)
    if found:
        count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
        lines = "\n".join(f"  {each}" for each in found)
        message = f"{count} with sources:\n{lines}"
        raise ConfigError(message)


def problems(sources: Iterable[NewSource | Source]) -> list[str]:
    """Return what is wrong with sources, one line each; credentials in URLs are not shown."""
    return [
        f"{_shown(source.url)}: {problem}"
        for source in sources
        for problem in (*_of_url(source.url), *_of_name(source.name), *_of_selector(source.selector))
    ]


def normal_url(url: str) -> str:
    """Return a URL in the form in which it is kept.

    Blanks around it are trimmed, scheme and host are in lower case, the default port and the fragment are left out.
    Nothing else is changed, and what is no URL is only trimmed.
    """
    url = url.strip()
    match = _URL.fullmatch(url)
    if match is None:
        return url
    scheme, rest = match[1].lower(), match[3].partition("#")[0]
    user, at, address = match[2].rpartition("@")
    place = _HOST_AND_PORT.fullmatch(address)
    if place is not None:
        port = place[2]
        address = place[1].lower() + ("" if port in {None, "", _DEFAULT_PORTS.get(scheme)} else f":{port}")
    return f"{scheme}://{user}{at}{address}{rest}".strip()


def _of_url(url: object) -> Iterator[str]:
    if not isinstance(url, str):
        yield "the URL is no text"
        return
    url = url.strip()
    if len(url) > LONGEST_URL:
        yield f"the URL has {len(url):,} characters; {LONGEST_URL:,} are the most"
        return
    if " " in url or not url.isprintable():
        yield "the URL has blanks or control characters in it"
        return
    match = _URL.fullmatch(url)
    if match is None or match[1].lower() not in _DEFAULT_PORTS:
        yield "the URL has to begin with http:// or https://"
        return
    place = _HOST_AND_PORT.fullmatch(match[2].rpartition("@")[2])
    if place is None or "\\" in match[2]:
        yield "the URL's host cannot be read"
        return
    yield from _of_host(place[1])
    port = place[2] or ""
    if not _PORT.fullmatch(port) or not 0 < int(port or 1) <= _LAST_PORT:
        yield f"the URL's port has to be a number from 1 to {_LAST_PORT}"


def _of_host(host: str) -> Iterator[str]:
    if not host:
        yield "the URL has no host"
    elif host.startswith("["):
        if not _is_address(host[1:-1], 6):
            yield "the URL's host is no IPv6 address"
    elif _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]):  # no top-level domain is a number
        if not _is_address(host, 4):
            yield "the URL's host is no IPv4 address"
    elif not _is_name(host):
        yield "the URL's host is no name that can be looked up"


def _is_address(text: str, version: int) -> bool:
    try:
        return "%" not in text and ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _is_name(host: str) -> bool:
    try:
        ascii_host = _idna(host)
        ascii_host.encode("idna")  # as the resolver does; labels that are empty or too long
    except (UnicodeError, ValueError):
        return False
    return _PLAIN_HOST.fullmatch(ascii_host) is not None and len(ascii_host.removesuffix(".")) <= _LONGEST_HOST


def _idna(host: str) -> str:
    """Return the form that is looked up, by the same rules as the HTTP client where it is installed."""
    host = host.lower()
    if host.isascii() and "xn--" not in host:
        return host
    try:
        import idna  # noqa: PLC0415  # comes with the HTTP client
    except ImportError:
        return host.encode("idna").decode("ascii")
    if host.isascii():
        idna.decode(host)  # the client shows it in its other form, and fails if there is none
        return host
    return idna.encode(host).decode("ascii")


def _of_name(name: object) -> Iterator[str]:
    if not isinstance(name, str):
        yield "the name is no text"
    elif len(name) > LONGEST_NAME:
        yield f"the name has {len(name):,} characters; {LONGEST_NAME} are the most"


def _of_selector(selector: object) -> Iterator[str]:
    if selector is None:
        return
    if not isinstance(selector, str) or not selector.strip() or "\0" in selector:
        yield f"selector {selector!r} is no CSS selector"
        return
    try:
        from selectolax import lexbor  # noqa: PLC0415  # an extra
    except ImportError:
        yield 'selectors need one more package: pip install ".[feeds]" in a clone of Outlast'
        return
    try:
        lexbor.LexborHTMLParser("").css(selector)
    except lexbor.SelectolaxError:
        yield f"selector {selector!r} cannot be parsed"


def _shown(url: object) -> str:
    """Return a URL for a message: short, and without credentials however the URL is broken."""
    if not isinstance(url, str):
        return repr(url)[:_SHOWN]
    text = url.strip()
    match = _URL.match(text)
    if "@" in text and (match is None or not text.isprintable() or " " in text or "\\" in text):
        text = f"{MASK}@{text.rpartition('@')[2]}"  # nobody can tell where the credentials end
    text = redact(text)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
