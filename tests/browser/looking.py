"""What is wrong with a page as a browser shows it: in both themes, wide and on a phone."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from browser.window import PHONE, WIDE

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from browser.house import House

AUDIT = Path(__file__).with_name("audit.js").read_text("utf-8")
MOST_BYTES = 100_000
"""Of a page with its styles and scripts, as they are before any compression."""
_LOADED = re.compile(r'<(?:link|script)[^>]+(?:href|src)="([^"]+)"')
STILL = "() => document.getAnimations().forEach(each => { try { each.finish() } catch { each.cancel() } })"


AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
_SERIOUS = """() => axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(
  ({violations}) => violations.filter(each => ["serious", "critical"].includes(each.impact)).map(
    each => `${each.id}: ${each.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(" | ")}`))"""


def barriers(page: Page) -> list[str]:
    """Return what axe-core finds serious or critical on a page as it is shown now."""
    page.evaluate(STILL)
    page.evaluate(AXE)
    return list(page.evaluate(_SERIOUS))


def audit(page: Page) -> dict[str, list[str]]:
    """Return what is wrong with a page as it is shown now, by kind; nothing for what is right."""
    page.evaluate(STILL)
    return {kind: found for kind, found in page.evaluate(AUDIT).items() if found}


_WAYS = [("light", WIDE), ("dark", PHONE), ("light", PHONE), ("dark", WIDE)]


def problems(page: Page, *, ways: int = 4) -> dict[str, dict[str, list[str]]]:
    """Return what is wrong with an open page in every theme and width; in two ways each has been seen once."""
    found = {}
    for theme, width in _WAYS[:ways]:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 900})
        found[f"{theme}, {width} px"] = audit(page)
    return {how: wrong for how, wrong in found.items() if wrong}


def weight(house: House, path: str) -> int:
    """Return the bytes of a page with all that it loads."""
    html = house.asked(path).content
    return len(html) + sum(_size(house.at(each)) for each in set(_LOADED.findall(html.decode())))


@cache
def _size(url: str) -> int:
    answer = httpx.get(url)
    assert answer.status_code == 200, url
    return len(answer.content)


def texts_of(value: Any) -> str:
    """Return all texts of a JSON value, as one."""
    if isinstance(value, dict):
        return " ".join(f"{key} {texts_of(each)}" for key, each in value.items())
    if isinstance(value, list):
        return " ".join(map(texts_of, value))
    return str(value)
