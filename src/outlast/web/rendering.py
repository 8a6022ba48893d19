"""From a template and what a page read to HTML: everything is escaped, and a name that is not there is an error."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, NamedTuple
from unicodedata import category

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from outlast.report.text_format import ago, category_look, count, counted, span
from outlast.web.routing import ActionRoute, PageRoute, build_url

# What all templates can say: filters of ours, registered once by the site.

_UNREFERABLE_CHARS = frozenset(map(chr, range(0x80, 0xA0)))  # browsers read references to them as other characters
_ALLOWED_INVISIBLE = {
    "\n",
    "\t",
    "\u200c",
    "\u200d",
}  # lines, and what joins letters of some scripts and parts of some pictures


def _iso(at: datetime) -> str:
    """Return a time for the attribute of a ``<time>``."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _stamp(at: datetime) -> str:
    """Return a time in full, for people."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def escape_invisible(value: Any) -> Any:
    """Return what a template writes, with every character that would not be seen spelled out.

    Some of them turn the text behind them around, or hide it; a name may have them, and a page shows that it does.
    """
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(char if _is_visible(char) else _escape_char(char) for char in value.replace("\r\n", "\n"))


def _is_visible(char: str) -> bool:
    return char.isprintable() or char in _ALLOWED_INVISIBLE or category(char) == "Zs"


def _escape_char(char: str) -> str:
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"  # noqa: PLR2004  # as Python writes them


def _exact_form_value(value: Any) -> Markup:
    """Return a value that a form sends back as it is; characters that would not be seen are references."""
    text = str(escape(value))
    return Markup(  # noqa: S704  # escaped above
        "".join(char if _is_visible(char) or char in _UNREFERABLE_CHARS else f"&#{ord(char)};" for char in text)
    )  # escaped above


TEMPLATE_FILTERS: "dict[str, Callable[..., Any]]" = {
    "ago": ago,
    "category_look": category_look,
    "count": count,
    "counted": counted,
    "exact": _exact_form_value,
    "iso": _iso,
    "span": span,
    "stamp": _stamp,
}
"""By name, as templates write them: ``{{ row.at | ago(now) }}``."""


# The files that pages load: read once, and named after what is in them, so that a browser may keep them for ever.

_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    """A file as it is sent.

    Attributes:
        name: Under which it is asked for.
        kind: For the header ``Content-Type``.
        body: What is in it.
    """

    name: str
    kind: str
    body: bytes


class Assets:
    """The files below ``static/``, by the names under which they are asked for; nothing else is ever read."""

    def __init__(self) -> None:
        """Read them."""
        self._by_file: dict[str, Asset] = {}
        for file in sorted(files("outlast.web").joinpath("static").iterdir(), key=lambda each: each.name):
            stem, dot, ending = file.name.rpartition(".")
            if dot + ending in _MEDIA_TYPES:
                body = file.read_bytes()
                name = f"{stem}.{hashlib.sha256(body).hexdigest()[:16]}.{ending}"
                self._by_file[file.name] = Asset(name, _MEDIA_TYPES[dot + ending], body)
        self._by_name = {asset.name: asset for asset in self._by_file.values()}

    def name(self, file: str) -> str:
        """Return under which name a file is asked for.

        Raises:
            LookupError: If there is no such file.
        """
        if file not in self._by_file:
            message = f"there is no file {file!r} below static/"
            raise LookupError(message)
        return self._by_file[file].name

    def find(self, name: str) -> Asset | None:
        """Return a file by the name under which it is asked for."""
        return self._by_name.get(name)

    def names(self) -> list[str]:
        """Return the names under which there is something."""
        return sorted(self._by_name)


EVENTS, METRICS, STATIC = "/events", "/metrics", "/static/{name}"
SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
"""Paths that the site itself answers."""


class Renderer:
    """Renders templates.

    Args:
        pages: That can be linked to.
        actions: That can be posted to.
        assets: That pages load.
        title: Of the dashboard.
    """

    def __init__(self, pages: Sequence[PageRoute], actions: Sequence[ActionRoute], assets: Assets, title: str) -> None:
        """Prepare the templates; each is compiled when it is first used."""
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
        self._actions = {action.name: action.path for action in actions} | {"sign_in": SIGN_IN, "sign_out": SIGN_OUT}
        self._assets, self._title = assets, title

    def render(self, template: str, prefix: str, values: Mapping[str, Any]) -> str:
        """Return a page, or a part of one.

        Args:
            template: Its file.
            prefix: Where the dashboard is mounted; empty for nowhere.
            values: What it shows.
        """
        return self._environment.get_template(template).render(
            **values,
            url=_url_builder(prefix, self._pages, "page"),
            post=_url_builder(prefix, self._actions, "action"),
            asset=lambda file: build_url(prefix, STATIC, {"name": self._assets.name(file)}),
            site_title=self._title,
            now=datetime.now(UTC),
        )


def _url_builder(prefix: str, paths: Mapping[str, str], kind: str) -> Callable[..., str]:
    def addressing(name: str, /, **params: Any) -> str:
        if name not in paths:
            message = f"there is no {kind} {name!r}"
            raise LookupError(message)
        return build_url(prefix, paths[name], params)

    return addressing
