"""A browser for each process of the test run, and a dashboard for each module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from browser.house import House
from browser.stage import build
from browser.window import Rooms, Windows, launched

if TYPE_CHECKING:
    from collections.abc import Iterator


_FIRST_HALF = {"test_access", "test_dead_letters", "test_every_page", "test_keyboard", "test_looking"}
"""Modules that one process of the test run takes; another takes the rest, for a browser costs more than a test does."""


@pytest.hookimpl(tryfirst=True)  # before those of other modules are grouped by module
def pytest_collection_modifyitems(items):
    for item in items:
        if "windows" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs("chromium"))
        if item.path.parent.name == "browser":
            half = "first" if item.path.stem in _FIRST_HALF else "second"
            item.add_marker(pytest.mark.xdist_group(f"browser_{half}"))


@pytest.fixture(scope="package")
def chromium():
    """Debian's, without a window. It ends with this folder: while it lives, nothing else can have a loop in this thread."""
    with launched() as browser:
        yield browser


def opened(url: str, tmp_path_factory) -> House:
    stage = build(url, spool=tmp_path_factory.mktemp("spool"))
    return House.opened(stage)


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Iterator[House]:
    """A dashboard on SQLite, which the tests of a module share."""
    house = opened(f"sqlite:///{tmp_path_factory.mktemp('stage') / 'outlast.db'}", tmp_path_factory)
    yield house
    house.close()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def any_house(request, tmp_path_factory) -> Iterator[House]:
    """The same, and another one on PostgreSQL."""
    if request.param == "sqlite":
        yield request.getfixturevalue("house")
        return
    server = request.getfixturevalue("postgres_server")
    name = f"stage_{request.module.__name__.rpartition('.')[2]}"
    server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", f"CREATE DATABASE {name}")
    house = opened(f"{server.url.rpartition('/')[0]}/{name}", tmp_path_factory)
    yield house
    house.close()


@pytest.fixture(scope="module")
def rooms(chromium) -> Iterator[Rooms]:
    rooms = Rooms(chromium)
    yield rooms
    rooms.close()


@pytest.fixture
def windows(rooms) -> Iterator[Windows]:
    """Opens windows onto a house. At the end none of them may have complained."""
    windows = Windows(rooms)
    yield windows
    complaints = windows.close()
    assert complaints == []
