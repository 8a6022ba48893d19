"""Themes, pages without a script, and what a page does when the store or the server is gone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from browser.house import TOKEN
from browser.views import path_to
from outlast.ports.rows import DeadLetterFilter

_GROUND = "getComputedStyle(document.body).backgroundColor"


def brightness(page) -> int:
    """Return how bright a page's ground is, 0 to 255."""
    rgb = page.evaluate(_GROUND)
    return sum(int(part) for part in rgb[rgb.index("(") + 1 : -1].replace(",", " ").split()[:3]) // 3


def test_the_theme_follows_the_system_until_one_is_chosen(house, windows):
    page = windows.page(house, "/", theme="dark", fresh=True)
    assert brightness(page) < 60
    page.emulate_media(color_scheme="light")
    assert brightness(page) > 200
    toggle = page.get_by_role("button", name="Theme")
    chosen = []
    for _ in range(3):
        toggle.click()
        chosen.append((toggle.inner_text().partition(": ")[2], brightness(page) > 128))
    assert chosen == [("light", True), ("dark", False), ("auto", True)]


def test_a_chosen_theme_is_kept_on_other_pages(house, windows):
    page = windows.page(house, "/", fresh=True)
    toggle = page.get_by_role("button", name="Theme")
    toggle.click()
    toggle.click()
    page.goto(house.at(path_to("tasks")))
    assert brightness(page) < 60
    assert "dark" in page.get_by_role("button", name="Theme").inner_text()


@pytest.fixture
def plain(house, windows):
    """A window without JavaScript."""
    return windows.page(house, java_script_enabled=False)


def test_without_a_script_filters_work(house, plain):
    plain.goto(house.at(path_to("dead_letters")))
    plain.get_by_text("More filters").click()
    plain.locator("select[name=category]").select_option("not_found")
    plain.get_by_role("button", name="Filter").click()
    plain.wait_for_url("**category=not_found*")
    shown = plain.locator("tr[data-row]").count()
    assert shown == house.stage.app.store.count_dead_letters(DeadLetterFilter(category="not_found"))


def test_without_a_script_dead_letters_are_replayed_and_discarded(house, plain):
    tasks = house.stage.fail("import_rows", count=2, trouble="shelf")
    plain.goto(house.at(path_to("dead_letters", {"text": "shelf is empty"})))
    plain.locator(f'[name=dead_letter_id][value="{house.stage.letter_of(tasks[0])}"]').check()
    plain.get_by_role("button", name="Replay selected").click()
    assert "1 replayed" in plain.get_by_role("status").first.inner_text()
    plain.locator(f'[name=dead_letter_id][value="{house.stage.letter_of(tasks[1])}"]').check()
    plain.get_by_role("button", name="Discard selected").click()
    assert "1 discarded" in plain.get_by_role("status").first.inner_text()
    assert [house.stage.app.store.get(task).status for task in tasks] == ["QUEUED", "DISCARDED"]
    house.stage.app.tasks.cancel(*tasks)


def test_without_a_script_nothing_is_offered_that_needs_one(plain, house):
    for name in ("overview", "dead_letters", "jobs", "waits"):
        plain.goto(house.at(path_to(name)))
        assert plain.locator("[data-theme-toggle]:visible, [data-keys]:visible, [data-copy]:visible").count() == 0, name
        assert plain.locator("[data-select-all]:visible").count() == 0, name


def test_without_a_script_one_signs_in_and_out(house, windows):
    windows.expected = ("401 (Unauthorized)",)
    page = windows.page(house, "/", role=None, java_script_enabled=False)
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(house.at("/"))
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()  # once the next page is there


def test_times_stay_true_while_a_page_is_open(house, windows):
    page = windows.page(house, fresh=True)
    page.clock.install()
    page.goto(house.at(path_to("tasks")))
    time = page.locator("tr[data-row] time").last
    before = time.inner_text()
    page.clock.fast_forward(3 * 3600 * 1000)
    page.clock.run_for(2000)
    assert time.inner_text() != before
    assert " h " in time.inner_text()


def test_times_of_the_clock_stay_as_they_are(house, windows):
    page = windows.page(house, path_to("task", task_id=house.stage.task["history"]))
    page.locator("summary", has_text="As text").click()
    clocks = page.locator("figure details time")
    page.wait_for_function("document.querySelector('time[datetime]:not(.clock)')?.textContent.match(/ago|in |now/)")
    assert clocks.count() > 1
    assert [text for text in clocks.all_inner_texts() if not re.fullmatch(r"\d\d:\d\d:\d\d", text)] == []


def test_a_page_tells_when_the_store_does_not_answer_and_when_it_does_again(house, windows, monkeypatch):
    windows.expected = ("503",)
    page = windows.page(house, "/")
    page.wait_for_selector('[data-live-state="on"]')
    with monkeypatch.context() as broken:
        broken.setattr(house.stage.app.store, "pulse", _down)
        page.wait_for_selector('[data-live-state="lost"]')
        assert "does not answer" in page.locator("[data-live-state]").inner_text()
    page.wait_for_selector('[data-live-state="on"]')


def _down(**_: object) -> None:
    raise ConnectionError("postgresql://user:hunter2@db/x is down")
