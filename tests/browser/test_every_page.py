"""What holds for every page of the table of routes, wherever it is opened."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from browser import texts
from browser.house import TOKEN
from browser.looking import MOST_BYTES, audit, barriers, problems, texts_of, weight
from browser.views import MISSING, PATHS, VIEWS
from browser.window import PHONE, WIDE, Windows
from outlast.web.site import PAGES

FIRST = list({view.page: view for view in reversed(VIEWS)}.values())
"""One view of each page; it is looked at more closely than the others."""


@pytest.fixture(scope="module")
def window(rooms, house):
    """One window for all of them: they are only looked at."""
    windows = Windows(rooms)
    page = windows.page(house)
    page.complaints = windows.complaints
    yield page
    windows.close()


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_a_page_reads_well_in_both_themes_and_widths_and_complains_of_nothing(window, house, view):
    window.complaints.clear()
    answer = window.goto(house.at(view.path(house.stage)))
    assert answer.status == 200
    assert problems(window, ways=4 if view in FIRST else 2) == {}
    assert window.complaints == []


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(("theme", "width"), [("light", WIDE), ("dark", PHONE)])
@pytest.mark.parametrize("view", [*FIRST, MISSING[0]], ids=str)
def test_axe_finds_nothing_serious_on_any_page(window, house, view, theme, width):
    window.emulate_media(color_scheme=theme)
    window.set_viewport_size({"width": width, "height": 900})
    window.goto(house.at(view.path(house.stage)))
    assert barriers(window) == []
    window.complaints.clear()  # the browser itself complains of a 404


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(("theme", "width"), [("light", WIDE), ("dark", PHONE)])
def test_the_page_to_sign_in_is_sound(house, windows, theme, width):
    windows.expected = ("401 (Unauthorized)",)
    page = windows.page(house, "/", role=None, theme=theme, width=width)
    assert barriers(page) == []
    assert audit(page) == {}


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("view", MISSING, ids=str)
def test_what_is_not_there_is_told_on_a_page_that_reads_well(window, house, view):
    window.set_viewport_size({"width": WIDE, "height": 900})
    answer = window.goto(house.at(view.path(house.stage)))
    assert answer.status == 404
    assert window.get_by_role("link", name="Overview", exact=True).is_visible(), "there is a way back"
    assert problems(window) == {}
    window.complaints.clear()  # the browser itself complains of a 404


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_a_page_and_its_twin_show_no_secret_and_weigh_little(house, view):
    path = view.path(house.stage)
    html = house.asked(path)
    assert html.status_code == 200
    twin = texts_of(house.json(path))
    assert [secret for secret in texts.SECRETS if secret in html.text or secret in twin] == []
    assert texts.SCRIPT not in html.text
    assert {char for char in html.text if not char.isprintable()} <= set("\n\t"), "nothing turns text around"
    assert weight(house, path) < MOST_BYTES


LISTED = ("overview", "failures", "dead_letters", "tasks", "queues", "sources", "jobs", "waits", "health")
"""What the menu has at least."""


def test_all_pages_are_there():
    assert {*LISTED, "failure", "dead_letter", "task", "source", "run"} <= PATHS.keys()
    assert {page.name for page in PAGES} - {view.page for view in VIEWS} == set(), "tell views.py where these are"


def test_every_page_leads_to_every_other(house, windows):
    page = windows.page(house, "/")
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    paths = [link.get_attribute("href") for link in links.all()]
    assert len(paths) == len(set(paths))
    assert {PATHS[name] for name in LISTED} <= set(paths) <= set(PATHS.values())
    for path in paths:
        page.goto(house.at(path))
        current = page.locator('nav[aria-label="Pages"] a[aria-current="page"]')
        assert current.get_attribute("href") == path


@pytest.mark.parametrize("view", FIRST, ids=str)
def test_the_menu_shows_where_a_page_belongs(house, view):
    assert house.asked(view.path(house.stage)).text.count('aria-current="page"') == 1


def test_links_of_a_page_lead_somewhere(house):
    """Links of each kind that stand on any page: none is dead."""
    kinds: dict[tuple[object, ...], list[str]] = {}
    with httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"}, base_url=house.url, timeout=30) as client:
        for view in VIEWS:
            html = client.get(view.path(house.stage)).text
            for link in map(unescape, re.findall(r'(?:href|src)="(/[^"#]*)', html)):
                parts = urlsplit(link)
                kind = (view.page, re.sub(r"/[^/]*\d[^/]*", "/…", parts.path), *sorted(dict(parse_qsl(parts.query))))
                kinds.setdefault(kind, []).append(link)
        assert len(kinds) > 50
        chosen = {link for links in kinds.values() for link in (links[0], links[-1])}
        dead = {link: status for link in chosen if (status := client.get(link).status_code) != 200}
    assert dead == {}


def test_a_phone_can_open_the_menu(house, windows):
    page = windows.page(house, "/", width=PHONE)
    link = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Dead letters")
    assert not link.is_visible()
    page.get_by_label("Show the menu").check()
    link.click()
    page.wait_for_url(f"**{PATHS['dead_letters']}")
