"""The page of a task follows it: a replay that fails again is seen to fail, without a reload."""

from __future__ import annotations

from browser.views import path_to

GONE = "https://shop.test/gone"


def status(page):
    return page.locator(".facts dd").first


def test_a_replayed_task_is_seen_to_fail_again(house, windows):
    (number,) = house.stage.fail(url=GONE)
    page = windows.page(house, path_to("task", task_id=number))
    page.get_by_role("button", name="Replay").click()
    page.get_by_role("status").filter(has_text="queued again").wait_for()
    assert status(page).inner_text() == "queued"
    house.stage.drain("default")
    page.get_by_text("It failed for good").wait_for()
    assert status(page).inner_text() == "failed"
    assert "queued again" in page.get_by_role("status").first.inner_text(), "what was done is still told"
    assert page.locator("[data-copy]:visible").count() == 1


def test_what_somebody_types_is_not_taken_away(house, windows):
    (number,) = house.stage.fail(url=GONE)
    page = windows.page(house, path_to("task", task_id=number))
    page.get_by_label("Why, for the audit log").fill("they moved")
    house.stage.app.dead_letters.replay(house.stage.letter_of(number))
    page.get_by_role("status").filter(has_text="Changed · show").wait_for()
    assert page.get_by_label("Why, for the audit log").input_value() == "they moved"
    house.stage.drain("default")


def test_a_dashboard_that_does_not_answer_is_told_across_the_page_on_a_phone_too(house, windows):
    windows.expected = ("net::ERR_",)
    page = windows.page(house, fresh=True, width=390)
    page.clock.install()
    page.route("**/events*", lambda route: route.abort())
    page.goto(house.at(path_to("waits")))
    page.locator('[data-live-state="lost"]').wait_for(state="attached")
    band = page.get_by_role("alert").filter(has_text="does not answer")
    assert not band.is_visible()
    page.clock.fast_forward(9_000)
    band.wait_for()
    page.unroute("**/events*")
    page.reload()
    page.clock.resume()
    page.locator('[data-live-state="on"]').wait_for(state="attached")
    assert not band.is_visible()
