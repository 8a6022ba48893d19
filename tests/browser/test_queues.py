"""Queues are paused and resumed, whatever they are called; workers show what they hold."""

from __future__ import annotations

import pytest

from browser import texts
from browser.views import path_to

ROWS = "tr[data-row]"


def paused(house) -> set[str]:
    return {row.name for row in house.stage.app.tasks.queues() if row.paused}


def row(page, name: str):
    return (
        page.get_by_role("table", name="Queues", exact=True)
        .locator(ROWS)
        .filter(has=page.get_by_role("link", name=name, exact=True))
    )


@pytest.mark.parametrize("name", [texts.QUEUE, texts.PAUSED])
def test_a_paused_queue_is_resumed_and_paused_again(any_house, windows, name):
    assert name in paused(any_house)
    page = windows.page(any_house, path_to("queues"))
    row(page, name).get_by_role("button", name="Resume").click()
    page.get_by_role("status").filter(has_text=name).wait_for()
    assert name not in paused(any_house)
    if row(page, name).count():  # a queue that is empty and not paused is not listed
        windows.answers = [True]
        row(page, name).get_by_role("button", name="Pause").click()
    else:
        page.get_by_text("Pause a queue that is not listed").click()
        page.get_by_label("Queue", exact=True).fill(name)
        page.get_by_label("Also a queue that has no tasks yet").check()
        page.get_by_role("button", name="Pause", exact=True).last.click()
    page.get_by_role("status").filter(has_text=name).wait_for()
    assert name in paused(any_house)
    assert page.evaluate("window.pwned") is None


def test_nothing_is_paused_when_the_answer_is_no(house, windows):
    page = windows.page(house, path_to("queues"))
    windows.answers = [False]
    row(page, "default").get_by_role("button", name="Pause").click()
    assert len(windows.questions) == 1
    assert "default" not in paused(house)


def test_counts_of_a_queue_lead_to_its_tasks(house, windows):
    page = windows.page(house, path_to("queues"))
    row(page, texts.PAUSED).get_by_role("link").nth(1).click()
    page.wait_for_url("**status=QUEUED*")
    assert page.locator(ROWS).count() == 3


def test_a_worker_shows_what_it_holds(any_house, windows):
    page = windows.page(any_house, path_to("queues"))
    workers = page.get_by_role("table", name="Workers").locator(ROWS)
    assert workers.count() >= 2
    link = workers.filter(has_text="stage-1").get_by_role("link")
    assert str(any_house.stage.task["running"]) in link.inner_text()
    link.click()
    page.wait_for_url(f"**{path_to('task', task_id=any_house.stage.task['running'])}")
