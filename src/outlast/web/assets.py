"""The files that pages load: read once, and named after what is in them, so that a browser may keep them for ever."""

import hashlib
from importlib.resources import files
from typing import NamedTuple

__all__ = ["Asset", "Assets"]

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


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
            if dot + ending in _TYPES:
                body = file.read_bytes()
                name = f"{stem}.{hashlib.sha256(body).hexdigest()[:16]}.{ending}"
                self._by_file[file.name] = Asset(name, _TYPES[dot + ending], body)
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
