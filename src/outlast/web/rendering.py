"""Render templates to HTML, with their filters and static files. Everything is escaped; undefined names are errors."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, NamedTuple
from unicodedata import category

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from outlast.operations.table import Operation
from outlast.report.text_format import ago, category_look, count, counted
from outlast.units import rate_words, span
from outlast.web.routing import PageData, PageRoute, build_url

_UNREFERABLE_CHARS = frozenset(map(chr, range(0x80, 0xA0)))  # browsers read references to them as other characters
_ALLOWED_INVISIBLE = {"\n", "\t", "\u200c", "\u200d"}  # white space, and joiners that some scripts and emoji need


def _iso(at: datetime) -> str:
    """Return a time for the ``datetime`` attribute of a ``<time>`` element."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _stamp(at: datetime) -> str:
    """Return date and time in UTC, as shown to people."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def escape_invisible(value: Any) -> Any:
    """Return the value of a template expression, with invisible characters shown as escape sequences.

    Some of them reverse or hide the text that follows; a page must show that a name contains them.
    """
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(char if _is_visible(char) else _escape_char(char) for char in value.replace("\r\n", "\n"))


def _is_visible(char: str) -> bool:
    return char.isprintable() or char in _ALLOWED_INVISIBLE or category(char) == "Zs"


def _escape_char(char: str) -> str:
    number = ord(char)
    if number < 0x100:  # noqa: PLR2004  # as Python writes them
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"  # noqa: PLR2004  # as Python writes them


def _exact_form_value(value: Any) -> Markup:
    """Return a value that a form sends back unchanged; invisible characters become character references."""
    text = str(escape(value))
    return Markup(  # noqa: S704  # escaped above
        "".join(char if _is_visible(char) or char in _UNREFERABLE_CHARS else f"&#{ord(char)};" for char in text)
    )


TEMPLATE_FILTERS: "dict[str, Callable[..., Any]]" = {
    "ago": ago,
    "category_look": category_look,
    "count": count,
    "counted": counted,
    "exact": _exact_form_value,
    "iso": _iso,
    "rate_words": rate_words,
    "span": span,
    "stamp": _stamp,
}
"""Filters by the name that templates use: ``{{ row.at | ago(now) }}``."""


_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    """A static file.

    Attributes:
        kind: Value of the header ``Content-Type``.
        body: Its content.
    """

    kind: str
    body: bytes


class Assets:
    """The files below ``static/``, read once; nothing else is ever served."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._by_name: dict[str, Asset] = {}
        for file in files("outlast.web").joinpath("static").iterdir():
            stem, dot, ending = file.name.rpartition(".")
            if dot + ending in _MEDIA_TYPES:
                body = file.read_bytes()
                name = f"{stem}.{hashlib.sha256(body).hexdigest()[:16]}.{ending}"
                self._names[file.name] = name
                self._by_name[name] = Asset(_MEDIA_TYPES[dot + ending], body)

    def name(self, file: str) -> str:
        """Return the name of a file in URLs, which contains a hash of its content, so that browsers may cache it."""
        return self._names[file]

    def find(self, name: str) -> Asset | None:
        """Return a file by its name in URLs; None if there is none."""
        return self._by_name.get(name)


EVENTS, METRICS, STATIC = "/events", "/metrics", "/static/{name}"
SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
"""Paths of the site that are not pages or actions."""


class Renderer:
    """Renders templates.

    Args:
        pages: Pages that templates can link to.
        operations: Operations that templates can post to.
        assets: Files that pages load.
        title: Title of the dashboard.
    """

    def __init__(self, pages: Sequence[PageRoute], operations: Sequence[Operation], assets: Assets, title: str) -> None:
        self._environment = Environment(
            loader=PackageLoader("outlast.web"),
            autoescape=True,
            finalize=escape_invisible,
            undefined=StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(TEMPLATE_FILTERS)
        self._pages = {page.name: page.path for page in pages} | {"events": EVENTS}
        self._actions = (
            {each.name: each.path for each in operations}
            | {f"{each.name}:form": each.form_path for each in operations}
            | {"sign_in": SIGN_IN, "sign_out": SIGN_OUT}
        )
        self._operations = {each.name: each for each in operations}
        self._assets, self._title = assets, title

    def render(self, template: str, prefix: str, values: PageData) -> str:
        """Return the HTML of a page, or of a part of one.

        Args:
            template: File name of the template.
            prefix: Mount path of the dashboard; may be empty.
            values: Values for the template.
        """
        return self._environment.get_template(template).render(
            **values,
            url=_url_builder(prefix, self._pages, "page"),
            post=_url_builder(prefix, self._actions, "action"),
            operations=self._operations,
            asset=lambda file: build_url(prefix, STATIC, {"name": self._assets.name(file)}),
            site_title=self._title,
            now=datetime.now(UTC),
        )


def _url_builder(prefix: str, paths: Mapping[str, str], kind: str) -> Callable[..., str]:
    def url_of(name: str, /, **params: Any) -> str:
        if name not in paths:
            raise KeyError(f"{kind} {name!r} does not exist")
        return build_url(prefix, paths[name], params)

    return url_of
