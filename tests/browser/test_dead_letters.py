"""Dead letters and their tasks: found by what is known of them, replayed and discarded in the page."""

from __future__ import annotations

import re

import pytest

from browser import texts
from browser.views import path_to
from outlast.ports.rows import DeadLetterFilter, Status

ROWS = "tr[data-row]"


def count(house, **which) -> int:
    return house.stage.app.store.count_dead_letters(DeadLetterFilter(**which))


def status(house, task: int) -> str:
    return house.stage.app.store.get(task).status


@pytest.mark.parametrize(
    ("label", "choice", "which"),
    [
        ("Category", "not_found", {"category": "not_found"}),
        ("Task", "import_rows", {"task_type": "import_rows"}),
        ("Reason", "permanent", {"reason": "permanent"}),
    ],
)
def test_a_choice_narrows_the_list_at_once(house, windows, label, choice, which):
    page = windows.page(house, path_to("dead_letters"))
    page.get_by_text("More filters").click()
    page.get_by_role("combobox", name=label).select_option(choice)
    page.wait_for_url(f"**={choice}*")
    assert page.locator(ROWS).count() == min(40, count(house, **which))
    assert page.get_by_role("combobox", name=label).input_value() == choice


@pytest.mark.parametrize(
    ("label", "text", "which"),
    [
        ("Text in the error", "WINDOW.PWNED", {"text": "window.pwned"}),
        ("Text in the error", texts.JAPANESE, {"text": texts.JAPANESE}),
        ("Queue", texts.QUEUE, {"queue": texts.QUEUE}),
    ],
)
def test_what_is_typed_narrows_the_list_on_enter(house, windows, label, text, which):
    page = windows.page(house, path_to("dead_letters"))
    page.get_by_text("More filters").click()
    page.get_by_label(label).fill(text)
    page.get_by_label(label).press("Enter")
    page.wait_for_url("**?*")
    assert page.locator(ROWS).count() == count(house, **which) > 0
    assert page.get_by_label(label).input_value() == text


def test_times_narrow_the_list(house, windows):
    page = windows.page(house, path_to("dead_letters", {"until": "2020-01-01T00:00"}))
    assert page.locator(ROWS).count() == 0
    assert "No dead letters match" in page.locator("main").inner_text()
    page.get_by_role("link", name="Clear").click()
    page.wait_for_url(f"**{path_to('dead_letters')}")
    page.get_by_text("More filters").click()
    page.get_by_label("Since (UTC)").fill("2020-01-01T00:00")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**since=*")
    assert page.locator(ROWS).count() == min(40, count(house))


@pytest.mark.parametrize("name", ["dead_letters", "failures"])
def test_a_range_is_one_click_away_and_stays_with_a_search(house, windows, name):
    page = windows.page(house, path_to(name))
    ranges = page.get_by_role("navigation", name="Time range")
    ranges.get_by_role("link", name="24 hours").click()
    page.wait_for_url("**since=24h*")
    assert ranges.locator("[aria-current]").inner_text() == "24 hours"
    assert not page.get_by_label(re.compile(r"before \(UTC\)", re.IGNORECASE)).is_visible(), (
        "a range opens no other filter"
    )
    page.get_by_role("searchbox", name="text").fill("the page is gone")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**text=the*")
    assert "since=24h" in page.url
    assert page.locator(ROWS).count() > 0
    ranges.get_by_role("link", name="Any time").click()
    page.wait_for_url(lambda url: "since" not in url)
    assert "text=the" in page.url


def test_categories_above_the_list_lead_to_theirs(house, windows):
    page = windows.page(house, path_to("dead_letters"))
    link = page.get_by_role("navigation", name="Categories").get_by_role("link", name="data", exact=True)
    link.click()
    page.wait_for_url("**category=data*")
    assert page.locator(ROWS).count() == count(house, category="data")


def test_older_ones_are_a_page_further(house, windows):
    house.stage.fail("import_rows", count=60, trouble="invalid")
    page = windows.page(house, path_to("dead_letters"))
    assert page.locator(ROWS).count() == 40
    seen = page.locator(f"{ROWS} a[data-open]").evaluate_all("links => links.map(each => each.getAttribute('href'))")
    while (older := page.get_by_role("link", name="Older")).count():
        older.click()
        page.wait_for_load_state()
        seen += page.locator(f"{ROWS} a[data-open]").evaluate_all(
            "links => links.map(each => each.getAttribute('href'))"
        )
    assert len(seen) == len(set(seen)) == count(house)


def test_new_ones_are_told_and_shown_when_asked_for(any_house, windows):
    page = windows.page(any_house, path_to("dead_letters"))
    page.wait_for_selector('[data-live-state="on"]')
    any_house.stage.fail("import_rows", trouble="bug", count=2)
    told = page.locator("[data-new]")
    told.filter(has_text="New · show").wait_for()
    told.click()
    page.wait_for_load_state()
    assert "KeyError" in page.locator(ROWS).first.inner_text()
    assert not told.is_visible()


def test_one_is_replayed_in_its_page(any_house, windows):
    (task,) = any_house.stage.fail("import_rows", trouble="bug")
    letter = any_house.stage.letter_of(task)
    page = windows.page(any_house, path_to("dead_letter", dead_letter_id=letter))
    page.get_by_role("button", name="Replay").click()
    page.wait_for_url(f"**{path_to('task', task_id=task)}")
    assert "replayed" in page.get_by_role("status").first.inner_text()
    assert status(any_house, task) is Status.QUEUED
    assert any_house.stage.app.store.dead_letter(letter) is None
    any_house.stage.app.tasks.cancel(task)


def test_one_is_replayed_from_the_page_of_its_task(house, windows):
    (task,) = house.stage.fail("import_rows", trouble="bug")
    page = windows.page(house, path_to("task", task_id=task))
    page.get_by_role("button", name="Replay").click()
    page.wait_for_load_state()
    page.get_by_role("status").first.wait_for()
    assert status(house, task) is Status.QUEUED
    house.stage.app.tasks.cancel(task)


def test_one_is_discarded_after_a_question(any_house, windows):
    (task,) = any_house.stage.fail("import_rows", trouble="bug")
    letter = any_house.stage.letter_of(task)
    page = windows.page(any_house, path_to("dead_letter", dead_letter_id=letter))
    windows.answers = [False, True]
    page.get_by_role("button", name="Discard").click()
    assert any_house.stage.app.store.dead_letter(letter) is not None, "no is no"
    page.get_by_role("button", name="Discard").click()
    page.wait_for_url(f"**{path_to('dead_letters')}")
    assert len(windows.questions) == 2
    assert any_house.stage.app.store.dead_letter(letter) is None
    assert status(any_house, task) is Status.DISCARDED


def test_all_that_are_shown_are_selected_and_replayed_together(any_house, windows):
    tasks = any_house.stage.fail("import_rows", count=5, trouble="shelf")
    page = windows.page(any_house, path_to("dead_letters", {"text": "shelf is empty"}))
    assert page.get_by_role("button", name="Replay selected").is_disabled()
    page.locator("[data-select-all]").check()
    assert page.locator("[data-select]:checked").count() == 5
    page.locator("[data-select]").first.uncheck()
    assert page.locator("[data-select-all]").evaluate("box => box.indeterminate")
    page.get_by_role("button", name="Replay selected").click()
    page.wait_for_load_state()
    assert "4" in page.get_by_role("status").first.inner_text()
    assert "text=shelf" in page.url, "the filter is kept"
    assert page.locator(ROWS).count() == 1
    assert sorted(status(any_house, task) for task in tasks) == [Status.FAILED] + [Status.QUEUED] * 4
    any_house.stage.app.tasks.cancel(*tasks)


def test_selected_ones_are_discarded_together(house, windows):
    tasks = house.stage.fail("import_rows", count=3, trouble="busy")
    page = windows.page(house, path_to("dead_letters", {"category": "database_busy"}))
    for task in tasks:
        page.get_by_label(f"Select dead letter {house.stage.letter_of(task)}").check()
    windows.answers = [True]
    page.get_by_role("button", name="Discard selected").click()
    page.wait_for_load_state()
    assert "discarded" in page.get_by_role("status").first.inner_text()
    assert {status(house, task) for task in tasks} == {Status.DISCARDED}


def test_what_cannot_be_replayed_stays_and_is_told(house, windows):
    app = house.stage.app
    dead = app.tasks_by_name["import_rows"].enqueue(trouble="invalid", unique_key="taken")
    house.stage.drain()
    live = app.tasks_by_name["import_rows"].enqueue(trouble="bug", unique_key="taken", delay=3600)
    letter = house.stage.letter_of(dead.id)
    page = windows.page(house, path_to("dead_letters"))
    page.get_by_label(f"Select dead letter {letter}").check()
    page.get_by_role("button", name="Replay selected").click()
    page.wait_for_url("**stayed=*")
    assert str(letter) in page.locator(".notice", has_text="another live task has the same unique key").inner_text()
    assert status(house, dead.id) is Status.FAILED
    app.tasks.cancel(live.id)


def test_a_task_shows_each_attempt_with_its_waits_and_no_secret(any_house, windows):
    task = any_house.stage.task["history"]
    page = windows.page(any_house, path_to("task", task_id=task))
    main = page.locator("main").inner_text()
    assert page.locator("section[id^=attempt-]").count() == 4
    assert page.locator("svg a[href^='#attempt-']").count() == 4
    assert "***" in page.get_by_label("Arguments").inner_text()
    assert [secret for secret in texts.SECRETS if secret in main] == []
    assert "patient" in page.get_by_role("heading", level=1).inner_text()
    link = page.locator("svg a[href^='#attempt-']").first
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**#attempt-*")


def test_numbers_too_large_for_a_script_stay_exact(house, windows):
    task = house.stage.task["nasty"]
    assert task > 2**53
    page = windows.page(house, path_to("tasks", {"before": task + 1}))
    page.locator(f'a[href="{path_to("task", task_id=task)}"]').first.click()
    page.wait_for_url(f"**/{task}")
    assert str(task) in page.locator("main").inner_text()
    assert str(task) in str(house.json(path_to("task", task_id=task)))
    assert page.evaluate("window.pwned") is None


def test_a_task_that_waits_is_run_now_and_cancelled(any_house, windows):
    task = any_house.stage.enqueue("send_mail", to="soon@mail.test", delay=3600)
    page = windows.page(any_house, path_to("task", task_id=task))
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("status").filter(has_text="due now").wait_for()
    assert page.get_by_role("button", name="Run now").count() == 0
    windows.answers = [True]
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("status").filter(has_text="cancelled").wait_for()
    assert status(any_house, task) is Status.CANCELLED
    assert page.get_by_role("button", name="Cancel").count() == 0


def test_tasks_are_narrowed_by_status_task_and_queue(house, windows):
    page = windows.page(house, path_to("tasks"))
    page.get_by_text("More filters").click()
    page.get_by_role("combobox", name="Status").select_option("PARKED")
    page.wait_for_url("**status=PARKED*")
    assert page.locator(ROWS).count() == 1
    assert "retired_task" in page.locator(ROWS).inner_text()
    page.goto(house.at(path_to("tasks", {"queue": texts.PAUSED})))
    assert page.locator(ROWS).count() == 3
    page.goto(house.at(path_to("tasks", {"task": texts.SCRIPT})))
    assert page.locator(ROWS).count() == 1
    assert page.evaluate("window.pwned") is None
