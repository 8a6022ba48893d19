"""Write a picture of every page of the dashboard: both themes, on a wide screen and on a phone.

Usage: python tools/screenshots.py FOLDER [--only NAME]
       python tools/screenshots.py --readme     writes docs/images/overview.png

The pages show the stage of the browser tests, on SQLite in a temporary folder. Needs chromium and the tests' packages.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from browser.house import House  # noqa: E402  # the tests are no package that is installed
from browser.looking import STILL  # noqa: E402
from browser.stage import build  # noqa: E402
from browser.views import MISSING, VIEWS  # noqa: E402
from browser.window import PHONE, WIDE, Rooms, Windows, launched  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Page

README = ROOT / "docs" / "images" / "overview.png"
MOST = 200_000
"""Bytes of the picture in README."""
_TALLEST = 3000  # pixels; what is below says nothing new


def main() -> None:
    """Read the arguments and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "screenshots")
    parser.add_argument("--only", default="", help="pages whose name begins so")
    parser.add_argument("--readme", action="store_true", help="the picture of README alone")
    given = parser.parse_args()
    logging.getLogger("outlast").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        house = House.opened(build(f"sqlite:///{Path(folder) / 'stage.db'}", tame=given.readme))
        windows = Windows(rooms := Rooms(browser))
        windows.expected = ("401 (Unauthorized)", "404 (Not Found)")
        try:
            if given.readme:
                _for_readme(windows.page(house, "/?range=1h"))
            else:
                _all(house, windows, given.folder, given.only)
        finally:
            windows.close()
            rooms.close()
            house.close()
    for complaint in windows.complaints:
        print(complaint, file=sys.stderr)


def _all(house: House, windows: Windows, folder: Path, only: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    views = [*VIEWS, *MISSING]
    for theme, width in product(("light", "dark"), (WIDE, PHONE)):
        page = windows.page(house, theme=theme, width=width)
        for view in views:
            if not str(view).startswith(only):
                continue
            page.goto(house.at(view.path(house.stage)))
            name = str(view).strip("-").replace(" ", "-")
            _picture(page, folder / f"{name}.{theme}.{width}.png", width)
        if "sign-in".startswith(only):
            guest = windows.page(house, "/", role=None, theme=theme, width=width)
            _picture(guest, folder / f"sign-in.{theme}.{width}.png", width)


def _picture(page: Page, file: Path, width: int) -> None:
    page.evaluate(STILL)
    height = min(_TALLEST, page.evaluate("() => document.documentElement.scrollHeight"))
    page.screenshot(path=file, full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})
    print(file)


def _for_readme(page: Page) -> None:
    README.parent.mkdir(parents=True, exist_ok=True)
    page.set_viewport_size({"width": WIDE, "height": 860})
    page.wait_for_selector('[data-live-state="on"]')
    page.evaluate(STILL)
    page.screenshot(path=README)
    size = README.stat().st_size
    print(f"{README.relative_to(ROOT)}: {size:,} bytes")
    if size > MOST:
        sys.exit(f"that is more than {MOST:,}")


if __name__ == "__main__":
    main()
