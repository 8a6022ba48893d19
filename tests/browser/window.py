"""Windows of a browser onto a dashboard, and what they complain of."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

    from browser.house import House

WIDE, PHONE = 1440, 390
_PATIENCE = 15_000  # milliseconds
_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--disable-gpu-compositing", "--num-raster-threads=1"),
]


@contextmanager
def launched() -> Iterator[Browser]:
    """Start the system's Chromium without a window; playwright's own is not needed."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Rooms:
    """Windows that were used and can be used again: a new one costs three times what a page costs.

    Args:
        browser: Whose.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: dict[object, BrowserContext] = {}
        self._free: dict[object, list[Page]] = {}
        self._taken: dict[Page, object] = {}

    def taken(self, house: House, role: str, width: int, theme: str) -> Page:
        """Return a window in which somebody is signed in, and nothing else has happened that lasts."""
        key = (house.url, role)
        if key not in self._contexts:
            self._contexts[key] = self.fresh(width, theme)
            self._contexts[key].add_cookies(house.cookies(role))
        free = self._free.setdefault(key, [])
        page = free.pop() if free else self._contexts[key].new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        self._taken[page] = key
        return page

    def given_back(self, page: Page) -> None:
        """Take a window back, empty."""
        page.goto("about:blank")
        self._free[self._taken.pop(page)].append(page)

    def fresh(self, width: int, theme: str, **more: Any) -> BrowserContext:
        """Return a browser that knows nothing; whoever asks for it closes it."""
        context = self._browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, reduced_motion="reduce", **more
        )
        context.set_default_timeout(_PATIENCE)
        return context

    def close(self) -> None:
        for context in self._contexts.values():
            context.close()


class Windows:
    """Opens windows, and keeps what went wrong in any of them.

    Args:
        rooms: Where they are opened.

    Attributes:
        complaints: What pages complained of.
        expected: Texts of complaints that a test expects.
        questions: What pages asked.
        answers: Yes or no to the next questions; one more than these is a complaint.
    """

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._own: list[BrowserContext] = []
        self._taken: list[Page] = []
        self._watched: list[tuple[Page, str, Any]] = []
        self.complaints: list[str] = []
        self.expected: tuple[str, ...] = ()
        self.questions: list[str] = []
        self.answers: list[bool] = []

    def page(
        self,
        house: House,
        path: str | None = None,
        role: str | None = "operator",
        *,
        width: int = WIDE,
        theme: str = "light",
        **more: Any,
    ) -> Page:
        """Return a window, at a path if one is given.

        Args:
            house: Whose dashboard is looked at.
            path: What is opened.
            role: As whom; None for somebody whom nobody knows yet.
            width: Of the window.
            theme: Of the system.
            more: Settings of a browser of its own; ``fresh=True`` is one that has none of them.
        """
        if more.pop("fresh", False) or more or role is None:
            context = self._rooms.fresh(width, theme, **more)
            if role is not None:
                context.add_cookies(house.cookies(role))
            self._own.append(context)
            page = context.new_page()
        else:
            page = self._rooms.taken(house, role, width, theme)
            self._taken.append(page)
        self.watch(page)
        if path is not None:
            page.goto(house.at(path))
        return page

    def watch(self, page: Page) -> None:
        """Hear what a page has to complain of, and answer what it asks."""
        for event, heard in {
            "console": lambda message: self._heard(page, message),
            "pageerror": lambda error: self._complain(page, f"raised {error}"),
            "dialog": lambda dialog: self._answer(page, dialog),
        }.items():
            page.on(event, heard)
            self._watched.append((page, event, heard))

    def _answer(self, page: Page, dialog: Any) -> None:
        self.questions.append(dialog.message)
        if not self.answers:
            self._complain(page, f"asked {dialog.message!r}")
        if self.answers and self.answers.pop(0):
            dialog.accept()
        else:
            dialog.dismiss()

    def _heard(self, page: Page, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self._complain(page, f"{message.type}: {message.text}")

    def _complain(self, page: Page, text: str) -> None:
        if not any(each in text for each in self.expected):
            self.complaints.append(f"{page.url}: {text}")

    def close(self) -> list[str]:
        """Close what was opened; return what was complained of."""
        for page in self._taken:
            self._rooms.given_back(page)
        for context in self._own:
            context.close()
        for page, event, heard in self._watched:
            page.remove_listener(event, heard)
        return self.complaints
