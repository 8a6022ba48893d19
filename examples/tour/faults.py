"""Things that go wrong for real: one function each, which raises what the library at hand raises."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def faults(server: str) -> dict[str, Callable[[], object]]:
    """Return the faults by what a user would say of them."""
    return {
        "nobody listens there": lambda: get("http://127.0.0.1:1/"),
        "the name does not exist": lambda: get("http://nothing.invalid/"),
        "the server hangs up": lambda: get(f"{server}/reset"),
        "no answer in time": lambda: get(f"{server}/stall"),
        "asked too often": lambda: get(f"{server}/limited"),
        "down for maintenance": lambda: get(f"{server}/maintenance"),
        "the page is gone": lambda: get(f"{server}/gone"),
        "forbidden, and nobody logged in": lambda: get(f"{server}/private"),
        "forbidden, with an API key": lambda: get(f"{server}/private?api_key=abc123"),
        "forbidden, but really a rate limit": lambda: get(f"{server}/spent"),
        "the answer is no JSON": lambda: json.loads("<html>sorry</html>"),
        "the database is locked": _locked_database,
        "the row is there already": _double_row,
        "the disk is full": _full_disk,
        "a library nobody knows": _unknown_library,
        "only the words tell": _only_words,
    }


def get(url: str, timeout: float = 0.3) -> bytes:
    """Fetch a page with what the standard library has; no proxy is asked, for all of it is on this machine."""
    with _OPENER.open(url, timeout=timeout) as response:
        body: bytes = response.read()
        return body


def _locked_database() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "app.db"
        one, other = sqlite3.connect(file), sqlite3.connect(file, timeout=0)
        try:
            one.execute("BEGIN EXCLUSIVE")
            other.execute("CREATE TABLE t (id)")
        finally:
            one.close()
            other.close()


def _double_row() -> None:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE TABLE items (code TEXT UNIQUE)")
        connection.executemany("INSERT INTO items VALUES (?)", [("a",), ("a",)])
    finally:
        connection.close()


def _full_disk() -> None:
    with Path("/dev/full").open("w", encoding="ascii") as file:
        file.write("x" * 100_000)


class VendorError(Exception):
    """An exception of a library that no rule describes."""


def _unknown_library() -> None:
    raise VendorError("warp core misaligned by 7 degrees")


def _only_words() -> None:
    raise VendorError("404 Not Found: timeout parameter missing")
