"""``app.sources``: adds, imports, lists and controls sources, and checks their URLs, names and selectors."""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from outlast.classify import classify
from outlast.decide.source_health import PROFILES, Profile, SourceState
from outlast.errors import ConfigError
from outlast.ports.source_rows import (
    ChangeSource,
    Cycle,
    NewAlert,
    NewSource,
    Poll,
    Source,
    SourceAdded,
    SourceChange,
    SourceFilter,
    Transition,
)
from outlast.ports.store import Store
from outlast.redact import MASK, redact
from outlast.sources import outcomes
from outlast.sources.announcements import announce_transitions, log, redacted_source_url
from outlast.sources.fetchers import web_charset

MAX_URL = 2_048
"""Characters of a URL."""
MAX_NAME = 200
"""Characters of a source's name."""
_MAX_SHOWN_URL = 200  # characters of a URL in a message
_MAX_HOST = 253
_LAST_PORT = 65_535
_DEFAULT_PORTS = {"http": "80", "https": "443"}

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)", re.DOTALL)
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(.*))?", re.DOTALL)
_PORT = re.compile(r"[0-9]{0,5}")
_PLAIN_HOST = re.compile(r"[A-Za-z0-9._-]+")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


def check_sources(sources: Iterable[NewSource | Source]) -> None:
    """Check that sources can be polled.

    Raises:
        ConfigError: If some cannot; the message lists all problems of all sources.
    """
    found = source_problems(sources)
    if found:
        count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
        lines = "\n".join(f"  {each}" for each in found)
        raise ConfigError(f"{count} with sources:\n{lines}")


def source_problems(sources: Iterable[NewSource | Source]) -> list[str]:
    """Return the problems with sources, one line each; credentials in URLs are not shown."""
    return [
        f"{_short_url(source.url)}: {problem}"
        for source in sources
        for problem in (*_url_problem(source.url), *_name_problem(source.name), *_selector_problem(source.selector))
    ]


def normalize_url(url: str) -> str:
    """Return a URL in the form in which it is stored.

    Whitespace around it is removed, scheme and host are in lower case, the default port and the fragment are left out.
    Nothing else is changed. Text that is not a URL is only trimmed.
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


def _url_problem(url: object) -> Iterator[str]:
    if not isinstance(url, str):
        yield "the URL must be a text"
        return
    url = url.strip()
    if len(url) > MAX_URL:
        yield f"the URL has {len(url):,} characters; the limit is {MAX_URL:,}"
        return
    if " " in url or not url.isprintable():
        yield "the URL contains spaces or control characters"
        return
    match = _URL.fullmatch(url)
    if match is None or match[1].lower() not in _DEFAULT_PORTS:
        yield "the URL must start with http:// or https://"
        return
    place = _HOST_AND_PORT.fullmatch(match[2].rpartition("@")[2])
    if place is None or "\\" in match[2]:
        yield "the host of the URL is not valid"
        return
    yield from _host_problem(place[1])
    port = place[2] or ""
    if not _PORT.fullmatch(port) or not 0 < int(port or 1) <= _LAST_PORT:
        yield f"the port of the URL must be a number from 1 to {_LAST_PORT}"


def _host_problem(host: str) -> Iterator[str]:
    if not host:
        yield "the URL has no host"
    elif host.startswith("["):
        if not _is_address(host[1:-1], 6):
            yield "the host of the URL is not a valid IPv6 address"
    elif _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]):  # no top-level domain is a number
        if not _is_address(host, 4):
            yield "the host of the URL is not a valid IPv4 address"
    elif not _is_name(host):
        yield "the host of the URL is not a valid host name"


def _is_address(text: str, version: int) -> bool:
    try:
        return "%" not in text and ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _is_name(host: str) -> bool:
    try:
        ascii_host = _idna_host(host)
        ascii_host.encode("idna")  # as the resolver does; labels that are empty or too long
    except (UnicodeError, ValueError):
        return False
    return _PLAIN_HOST.fullmatch(ascii_host) is not None and len(ascii_host.removesuffix(".")) <= _MAX_HOST


def _idna_host(host: str) -> str:
    """Return the host name for DNS, by the rules of the HTTP client if it is installed."""
    host = host.lower()
    if host.isascii() and "xn--" not in host:
        return host
    try:
        import idna  # noqa: PLC0415  # comes with the HTTP client
    except ImportError:
        return host.encode("idna").decode("ascii")
    if host.isascii():
        idna.decode(host)  # the client decodes it, and fails if that is not possible
        return host
    return idna.encode(host).decode("ascii")


def _name_problem(name: object) -> Iterator[str]:
    if not isinstance(name, str):
        yield "the name must be a text"
    elif len(name) > MAX_NAME:
        yield f"the name has {len(name):,} characters; the limit is {MAX_NAME}"


def _selector_problem(selector: object) -> Iterator[str]:
    if selector is None:
        return
    if not isinstance(selector, str) or not selector.strip() or "\0" in selector:
        yield f"selector {selector!r} is not a valid CSS selector"
        return
    try:
        from selectolax import lexbor  # noqa: PLC0415  # an extra
    except ImportError:
        yield "selectors need one more package: pip install 'outlast[feeds]'"
        return
    try:
        lexbor.LexborHTMLParser("").css(selector)
    except lexbor.SelectolaxError:
        yield f"selector {selector!r} is not valid"


def _short_url(url: object) -> str:
    """Return a URL for a message: short, and without credentials however the URL is broken."""
    if not isinstance(url, str):
        return repr(url)[:_MAX_SHOWN_URL]
    text = url.strip()
    match = _URL.match(text)
    if "@" in text and (match is None or not text.isprintable() or " " in text or "\\" in text):
        text = f"{MASK}@{text.rpartition('@')[2]}"  # it is unclear where the credentials end
    text = redact(text)
    return repr(text if len(text) <= _MAX_SHOWN_URL else f"{text[:_MAX_SHOWN_URL]}…")


_XML_ENCODING = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")


def sources_from_opml(opml: str | bytes, profile: str) -> list[NewSource]:
    """Return the feeds of an OPML file, at any depth.

    URLs are not checked here; duplicates are left out.

    Args:
        opml: The content of the file.
        profile: Name of the profile of the sources.

    Raises:
        ConfigError: If it is not OPML, or defines entities; the message names the line.
    """
    text = (opml if isinstance(opml, str) else _decode_opml(opml)).removeprefix("\ufeff")
    start = text.lstrip()
    above = text[: len(text) - len(start)].count("\n")
    reading = _OpmlParser(above)
    try:
        reading.parser.Parse(start.encode("utf-8", "replace"), True)  # noqa: FBT003  # it takes no names
    except expat.ExpatError as error:
        raise ConfigError(f"this is not OPML: line {above + error.lineno}: {expat.ErrorString(error.code)}") from None
    return _distinct_sources(reading.found, profile)


def sources_from_list(text: str, profile: str) -> list[NewSource]:
    """Return the sources of a list: on each line a URL, optionally followed by a name.

    Blank lines and comments, which start with ``#``, are ignored. URLs are not checked here; duplicates are left out.

    Args:
        text: The list.
        profile: Name of the profile of the sources.
    """
    found = []
    for line in text.removeprefix("\ufeff").splitlines():
        url, _, name = line.strip().replace("\t", " ").partition(" ")
        if url and not url.startswith("#"):
            name = name.strip()
            found.append((url, "" if name.startswith("#") else name))
    return _distinct_sources(found, profile)


def _distinct_sources(found: list[tuple[str, str]], profile: str) -> list[NewSource]:
    sources: dict[str, NewSource] = {}
    for address, name in found:
        url = normalize_url(address)
        sources.setdefault(url, NewSource(url, profile, " ".join(name.split())[:MAX_NAME]))
    return list(sources.values())


def _decode_opml(opml: bytes) -> str:
    """Decode a file by its byte order mark or its declaration; the parser itself supports few charsets."""
    if opml.startswith((b"\xff\xfe", b"\xfe\xff")):
        declared = name = "utf-16"
    else:
        match = _XML_ENCODING.search(opml[:1000])
        declared = match[1].decode("ascii") if match else "utf-8"
        name = web_charset(declared) or ""  # Python has charsets that take hours for a megabyte
        if name.startswith("utf-16"):
            name = "utf-8"  # wrong: the declaration was found as ASCII
    try:
        return opml.decode(name)
    except (LookupError, UnicodeError) as error:
        raise ConfigError(f"this is not OPML: line 1: it cannot be read as {declared}") from error


class _OpmlParser:
    """Collects the URLs and names of the feeds in an OPML file."""

    def __init__(self, above: int) -> None:
        self.found: list[tuple[str, str]] = []
        self._above = above
        self._started = False
        self.parser = expat.ParserCreate("utf-8")
        self.parser.StartElementHandler = self._element
        # a few lines of entities can become gigabytes
        self.parser.EntityDeclHandler = lambda *_: self._refuse("it defines entities, which are not supported")
        self.parser.ExternalEntityRefHandler = lambda *_: self._refuse(
            "it refers to other files, which is not supported"
        )

    def _element(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._started:
            self._started = True
            if tag.lower() != "opml":
                self._refuse(f"it begins with <{tag[:40]}>")
        if tag.lower() != "outline":
            return
        values = {name.lower(): value.strip() for name, value in attributes.items()}
        if url := values.get("xmlurl"):
            self.found.append((url, values.get("title") or values.get("text") or ""))

    def _refuse(self, why: str) -> NoReturn:
        raise ConfigError(f"this is not OPML: line {self._above + self.parser.CurrentLineNumber}: {why}")


class SourceRegistry:
    """The sources of an app, as ``app.sources``.

    Args:
        store: The store with the sources.
        profiles: The profiles by name; further ones may be added later.
    """

    def __init__(self, store: Store, profiles: dict[str, Profile] | None = None) -> None:
        self._store = store
        self.profiles = dict(PROFILES) if profiles is None else profiles
        self.polled: set[str] = set()  # the profiles that have a monitor

    def add(self, url: str, *, profile: str = "feed", name: str = "", selector: str | None = None) -> Source:
        """Add a source, which is due at once. A source that exists in the profile is returned unchanged.

        Args:
            url: The URL to poll.
            profile: The name of its profile.
            name: A name for people.
            selector: A CSS selector for the part of a page to watch.

        Raises:
            ConfigError: If the URL or the selector is not valid.
        """
        added = self.add_many([NewSource(url, profile, name, selector)])
        return self.get(added[0].id)

    def add_many(self, sources: Iterable[NewSource]) -> list[SourceAdded]:
        """Add sources, all or none. Existing ones are returned with ``created=False``.

        Raises:
            ConfigError: If some are not valid. The message lists all of them.
        """
        given = [each._replace(url=normalize_url(each.url)) for each in sources]
        check_sources(given)
        for strange in {each.profile for each in given} - self.profiles.keys():
            known = ", ".join(sorted(self.profiles))
            log.warning("this app has no monitor for the profile %r yet; it has: %s", strange, known)
        return self._store.add_sources(given)

    def import_file(self, path: str | Path, *, profile: str = "feed") -> list[SourceAdded]:
        """Add the sources of an OPML file, or of a list with one URL on each line.

        Raises:
            ConfigError: If the file cannot be read, or some of its sources are not valid.
        """
        file = Path(path)
        try:
            content = file.read_bytes()
        except OSError as error:
            raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from error
        if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<", b"\xff\xfe", b"\xfe\xff")):  # also in UTF-16
            return self.add_many(sources_from_opml(content, profile))
        return self.add_many(sources_from_list(content.decode("utf-8", "replace"), profile))

    def get(self, source: int | str) -> Source:
        """Return a source by its number or its URL.

        Raises:
            ConfigError: If it does not exist, or several profiles have the URL.
        """
        found = self._find(source)
        if len(found) == 1:
            return found[0]
        if found:
            numbers = ", ".join(f"{each.id} ({each.profile})" for each in found)
            raise ConfigError(f"{len(found)} sources have that URL; choose one by its number: {numbers}")
        raise ConfigError(f"source {source} does not exist" if isinstance(source, int) else "no source has that URL")

    def _find(self, source: int | str) -> list[Source]:
        if isinstance(source, int):
            found = self._store.source(source)
            return [] if found is None else [found]
        return self._store.sources(SourceFilter(url=normalize_url(source)))

    def list(
        self,
        *,
        state: SourceState | str | None = None,
        profile: str | None = None,
        text: str | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> list[Source]:
        """Return sources by number.

        Args:
            state: Only those in this state.
            profile: Only those of this profile.
            text: Only those with this text in URL or name.
            after: Only those with larger numbers, for the next page.
            limit: The maximum number of sources.
        """
        chosen = None if state is None else SourceState(state)
        return self._store.sources(SourceFilter(profile, chosen, None, text, after, limit))

    def health(self, profile: str | None = None) -> dict[SourceState, int]:
        """Return the number of sources by state."""
        return self._store.source_counts(profile)

    def history(self, source: int | str, limit: int = 50) -> "Sequence[Poll]":
        """Return the history of a source, newest first."""
        return self._store.polls(self.get(source).id, limit)

    def cycles(self, profile: str | None = None, limit: int = 20) -> "Sequence[Cycle]":
        """Return the last cycles, newest first."""
        return self._store.cycles(profile, limit)

    def remove(self, source: int | str) -> None:
        """Remove a source and its history. An open alert about it is resolved."""
        found = self.get(source)
        settled = NewAlert(f"source:{found.id}", None, f"{found.name or redacted_source_url(found)}: removed")
        self._store.remove_sources([found.id], {found.id: settled})

    def enable(self, source: int | str) -> Transition | None:
        """Enable a source and reset its failures."""
        return self._change(self.get(source).id, outcomes.enable_change)

    def disable(self, source: int | str, reason: str = "") -> Transition | None:
        """Disable a source until `enable`."""
        return self._change(self.get(source).id, outcomes.disable_change(reason))

    def probe(self, source: int | str) -> bool:
        """Poll a source in the next cycle, even if a rule has disabled it.

        Returns:
            False if it was disabled by hand; it is not polled until it is enabled.
        """
        written: list[bool] = []

        def change(found: Source, now: object) -> SourceChange | None:
            result = outcomes.probe_change(found, now)  # type: ignore[arg-type]  # the store's clock
            written[:] = [result is not None]
            return result

        self._change(self.get(source).id, change)
        return written == [True]

    def record_success(self, source: int | str) -> Transition | None:
        """Record a success of a source, for programs that poll themselves. Returns the transition, if any."""
        found = self.get(source)
        return self._change(found.id, outcomes.reported_success_change(self._profile(found).rules))

    def record_failure(self, source: int | str, error: BaseException) -> Transition | None:
        """Record a failure of a source, for programs that poll themselves. It is counted at once.

        With concurrent reports, every failure is counted, and each transition is returned to one caller only.
        """
        found = self.get(source)
        return self._change(found.id, outcomes.reported_failure_change(self._profile(found).rules, classify(error)))

    def _profile(self, source: Source) -> Profile:
        try:
            return self.profiles[source.profile]
        except KeyError:
            raise ConfigError(
                f"source {source.id} has the profile {source.profile!r}, which this app does not have"
            ) from None

    def _change(self, source_id: int, change: ChangeSource) -> Transition | None:
        transitions = self._store.change_sources({source_id: (None, change)})
        announce_transitions(transitions)
        return transitions[0] if transitions else None
