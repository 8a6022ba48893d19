"""Sources from what other programs export: OPML, and a plain list of URLs."""

import re
from typing import NoReturn
from xml.parsers import expat

from outlast.errors import ConfigError
from outlast.ports.source_rows import NewSource
from outlast.sources.checking import LONGEST_NAME, normal_url
from outlast.sources.reading import charset

__all__ = ["from_list", "from_opml"]

_DECLARED = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")


def from_opml(opml: str | bytes, profile: str) -> list[NewSource]:
    """Read the feeds of an OPML file, at whatever depth they stand.

    Addresses are not checked here; one that occurs twice is taken once.

    Args:
        opml: The file.
        profile: Name of the profile under which they are polled.

    Raises:
        ConfigError: If it is not OPML, or defines entities; the message names the line.
    """
    text = (opml if isinstance(opml, str) else _decoded(opml)).removeprefix("\ufeff")
    start = text.lstrip()
    above = text[: len(text) - len(start)].count("\n")
    reading = _Reading(above)
    try:
        reading.parser.Parse(start.encode("utf-8", "replace"), True)  # noqa: FBT003  # it takes no names
    except expat.ExpatError as error:
        message = f"this is not OPML: line {above + error.lineno}: {expat.ErrorString(error.code)}"
        raise ConfigError(message) from None
    return _distinct(reading.found, profile)


def from_list(text: str, profile: str) -> list[NewSource]:
    """Read a list: one URL in a line, and a name behind it if there is one.

    Blank lines do not count, nor does what begins with ``#``. Addresses are not checked here; one that occurs twice is
    taken once.

    Args:
        text: The list.
        profile: Name of the profile under which they are polled.
    """
    found = []
    for line in text.removeprefix("\ufeff").splitlines():
        url, _, name = line.strip().replace("\t", " ").partition(" ")
        if url and not url.startswith("#"):
            name = name.strip()
            found.append((url, "" if name.startswith("#") else name))
    return _distinct(found, profile)


def _distinct(found: list[tuple[str, str]], profile: str) -> list[NewSource]:
    sources: dict[str, NewSource] = {}
    for address, name in found:
        url = normal_url(address)
        sources.setdefault(url, NewSource(url, profile, " ".join(name.split())[:LONGEST_NAME]))
    return list(sources.values())


def _decoded(opml: bytes) -> str:
    """Read the bytes by their mark or by what they declare; the parser itself knows few charsets."""
    if opml.startswith((b"\xff\xfe", b"\xfe\xff")):
        said = name = "utf-16"
    else:
        match = _DECLARED.search(opml[:1000])
        said = match[1].decode("ascii") if match else "utf-8"
        name = charset(said) or ""  # Python has charsets that take hours for a megabyte
        if name.startswith("utf-16"):
            name = "utf-8"  # it could not have been found
    try:
        return opml.decode(name)
    except (LookupError, UnicodeError) as error:
        message = f"this is not OPML: line 1: it cannot be read as {said}"
        raise ConfigError(message) from error


class _Reading:
    """Goes through the elements and collects what is an address."""

    def __init__(self, above: int) -> None:
        self.found: list[tuple[str, str]] = []
        self._above = above
        self._begun = False
        self.parser = expat.ParserCreate("utf-8")
        self.parser.StartElementHandler = self._element
        self.parser.EntityDeclHandler = self._entity
        self.parser.ExternalEntityRefHandler = self._outside

    def _element(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._begun:
            self._begun = True
            if tag.lower() != "opml":
                self._refuse(f"it begins with <{tag[:40]}>")
        if tag.lower() != "outline":
            return
        values = {name.lower(): value.strip() for name, value in attributes.items()}
        if url := values.get("xmlurl"):
            self.found.append((url, values.get("title") or values.get("text") or ""))

    def _entity(self, *_: object) -> None:
        self._refuse("it defines entities, which are not read")  # a few lines of them can become gigabytes

    def _outside(self, *_: object) -> int:
        self._refuse("it refers to other files, which are not read")

    def _refuse(self, why: str) -> NoReturn:
        message = f"this is not OPML: line {self._above + self.parser.CurrentLineNumber}: {why}"
        raise ConfigError(message)
