"""Cooldowns and breakers: what waits for what, and what is done about it by hand."""

from __future__ import annotations

import pytest

from browser import texts
from browser.views import path_to

ROWS = "tr[data-row]"


def cooling(house) -> dict[str, str]:
    return {each.resource: each.reason for each in house.stage.app.tasks.cooldowns()}


def ordered(house) -> dict[str, str]:
    return {each.resource: each.state for each in house.stage.app.store.breaker_orders(0)}


def row(page, table: str, resource: str):
    return page.get_by_role("table", name=table).locator(ROWS).filter(has=page.get_by_text(resource, exact=True))


def test_a_cooldown_tells_why_and_how_many_tasks_wait(house, windows):
    page = windows.page(house, path_to("waits"))
    text = row(page, "Resources in cooldown", texts.RESOURCE).inner_text()
    assert "429 Too Many Requests" in text
    assert "4" in text, "three that were enqueued, and the one that was put off"


@pytest.mark.parametrize("resource", ["shop.test", texts.RESOURCE])
def test_a_cooldown_is_ended_after_a_question_and_begun_again(house, windows, resource):
    assert resource in cooling(house)
    page = windows.page(house, path_to("waits"))
    windows.answers = [False, True]
    button = row(page, "Resources in cooldown", resource).get_by_role("button", name="End now")
    button.click()
    assert resource in cooling(house)
    button.click()
    page.get_by_role("status").first.wait_for()
    assert resource not in cooling(house)
    form = page.locator("form", has=page.get_by_role("button", name="Start cooldown"))
    form.get_by_label("Resource").fill(resource)
    form.get_by_label("Minutes").fill("30")
    form.get_by_label("Why", exact=True).fill(texts.MARKUP)
    form.get_by_role("button").click()
    row(page, "Resources in cooldown", resource).wait_for()
    assert "window.pwned" in cooling(house)[resource]
    assert page.evaluate("window.pwned") is None


def test_a_breaker_is_opened_and_closed_in_all_processes(house, windows):
    page = windows.page(house, path_to("waits"))
    assert "1 open, 1 half-open" in row(page, "Breakers by resource", "payments").inner_text()
    row(page, "Breakers by resource", "payments").get_by_role("button", name="Close").click()
    page.get_by_role("status").first.wait_for()
    assert ordered(house)["payments"] == "closed"
    windows.answers = [True]
    row(page, "Breakers by resource", "search").get_by_role("button", name="Open").click()
    page.get_by_role("status").filter(has_text="search").wait_for()
    assert ordered(house)["search"] == "open"


def test_a_limit_tells_how_much_is_used_and_when_there_is_room(house, windows):
    page = windows.page(house, path_to("waits"))
    for resource in ("shop.test", texts.RESOURCE):
        text = row(page, "Resources with limits", resource).inner_text()
        assert "36/h, burst 5" in text
        assert "0 of 3" in text, "what is not running holds no slot"
        assert "30/m" in text


def test_a_breaker_that_nobody_has_told_of_is_opened_by_its_name(house, windows):
    page = windows.page(house, path_to("waits"))
    form = page.locator("form", has=page.get_by_role("button", name="Open", exact=True)).filter(
        has=page.get_by_label("Minutes")
    )
    form.get_by_label("Resource").fill("mail.test")
    form.get_by_label("Minutes").fill("5")
    windows.answers = [True]
    form.get_by_role("button", name="Open").click()
    row(page, "Breakers by resource", "mail.test").wait_for()
    assert ordered(house)["mail.test"] == "open"


def test_what_cannot_be_meant_is_refused_in_words(house, windows):
    windows.expected = ("400 (Bad Request)",)
    page = windows.page(house, path_to("waits"))
    form = page.locator("form", has=page.get_by_role("button", name="Start cooldown"))
    form.get_by_label("Resource").fill("shop.test")
    form.get_by_label("Minutes").fill("soon")
    form.get_by_role("button").click()
    page.get_by_text("soon").first.wait_for()
    assert page.get_by_role("heading", level=1).inner_text()
