"""The overview: what is wrong, what changed, and the way from every figure to what stands behind it."""

from __future__ import annotations

import re

import pytest

from browser import texts
from browser.views import path_to
from browser.window import PHONE
from outlast.ports.rows import DeadLetterFilter

FEW = re.compile(r"^\s*([\d,]+)")


def number_in(text: str) -> int:
    return int(FEW.match(text)[1].replace(",", ""))


def tile(page, label: str):
    """Return the figure with a label."""
    return page.locator(".tile", has=page.get_by_text(label, exact=True))


def value(page, label: str) -> int:
    return number_in(tile(page, label).locator(".tile-value").inner_text())


def test_it_takes_two_clicks_from_the_overview_to_why_something_failed(any_house, windows):
    page = windows.page(any_house, "/")
    page.get_by_role("table", name=re.compile("What fails")).get_by_role(
        "link", name=re.compile("TemporaryAPIError in fetch_page")
    ).click()
    page.wait_for_url("**/failures/*")
    assert page.get_by_role("heading", level=1).inner_text().startswith("TemporaryAPIError")
    main = page.locator("main")
    assert "503 Service Unavailable" in main.inner_text()
    assert "raise errors.TemporaryAPIError" in main.inner_text(), "the sample has a traceback"
    assert re.search(r"rule", main.inner_text(), re.IGNORECASE), "it says which rule decided"


def test_from_the_dead_letters_it_takes_two_clicks_too(house, windows):
    page = windows.page(house, "/")
    tile(page, "Dead letters").click()
    page.wait_for_url(f"**{path_to('dead_letters')}")
    page.locator("tr[data-row] a[data-open]", has_text="import_rows").first.click()
    page.wait_for_url("**/dead-letters/*")
    assert "Rule that decided" in page.locator("main").inner_text()


def test_every_figure_leads_to_the_list_behind_it(any_house, windows):
    page = windows.page(any_house, "/")
    counts = any_house.stage.app.store.counts()
    assert value(page, "Dead letters") == counts["dead_letters"]
    for label, path in {
        "Done, last hour": path_to("tasks", {"status": "DONE"}),
        "Failures, last hour": path_to("failures", {"since": "1h"}),
        "Retries waiting": path_to("tasks", {"status": "QUEUED"}),
        "Oldest ready task": path_to("queues"),
        "Workers alive": path_to("queues"),
    }.items():
        assert tile(page, label).get_attribute("href") == path, label
    assert value(page, "Workers alive") == 2
    dead = [link.get_attribute("href") for link in tile(page, "Dead letters").get_by_role("link").all()]
    assert dead == [path_to("dead_letters"), path_to("dead_letters", {"since": "1h"})], (
        "all, and those of the last hour"
    )


def test_every_category_of_the_chart_leads_to_its_failures(house, windows):
    page = windows.page(house, "/")
    links = [link.get_attribute("href") for link in page.locator("figure .legend a").all()]
    categories = {link.partition("category=")[2] for link in links if "category=" in link}
    assert {"api_temporary", "not_found", "data"} <= categories
    page.goto(house.at(next(link for link in links if link.endswith("category=not_found"))))
    rows = page.locator("tr[data-row]")
    assert rows.count() >= 1
    assert all("404 Not Found" in text for text in rows.all_inner_texts())


def test_every_bar_leads_to_what_happened_in_its_time(house, windows):
    page = windows.page(house, "/")
    bars = page.locator("figure svg a")
    assert bars.count() >= 2
    paths = {bar.get_attribute("href") for bar in bars.all()}
    answers = {path: house.asked(path) for path in sorted(paths)[:20]}
    assert {answer.status_code for answer in answers.values()} == {200}


def test_every_state_of_sources_leads_to_those_sources(house, windows):
    page = windows.page(house, "/")
    for state in ("healthy", "warning", "error", "disabled", "probation"):
        assert page.locator(f'a[href="{path_to("sources", {"state": state})}"]').count() >= 1, state


def test_what_changed_is_told_in_words_that_lead_there(house, windows):
    page = windows.page(house, "/")
    told = page.locator('[data-part="changes"]')
    assert "in import_rows" in told.inner_text()  # one by one, or as "3 new kinds of failure"
    paths = [link.get_attribute("href") for link in told.get_by_role("link").all()]
    assert paths
    assert {house.asked(path).status_code for path in paths} == {200}


def test_other_ranges_are_told_to_stand_still(house, windows):
    page = windows.page(house, "/")
    ranges = page.get_by_role("navigation", name="Range of the charts").get_by_role("link")
    assert ranges.count() >= 3
    paths = [link.get_attribute("href") for link in ranges.all()]
    for path in paths:
        page.goto(house.at(path))
        still = "Only the ranges of ten minutes and one hour are updated live" in page.locator("main").inner_text()
        assert still == (path not in paths[:2]), path


def test_a_failure_shows_on_an_open_page_without_a_reload(any_house, windows):
    page = windows.page(any_house, "/")
    page.wait_for_selector('[data-live-state="on"]')
    page.evaluate("window.stayed = true")
    before = value(page, "Dead letters")
    badge = page.locator('[data-badge="dead_letters"]')
    any_house.stage.fail("import_rows", trouble="bug")
    page.wait_for_function(
        "(number) => [...document.querySelectorAll('.tile')].some(tile => tile.textContent.includes('Dead letters') && "
        "Number(tile.querySelector('.tile-value').textContent.replaceAll(',', '')) === number)",
        arg=before + 1,
    )
    assert number_in(badge.inner_text()) == before + 1
    assert page.evaluate("window.stayed")


def test_groups_of_failures_can_be_narrowed_and_lead_to_their_dead_letters(any_house, windows):
    page = windows.page(any_house, path_to("failures"))
    all_rows = page.locator("tr[data-row]").count()
    page.get_by_text("More filters").click()
    page.get_by_role("combobox", name="Category").select_option("data")
    page.wait_for_url("**category=data*")
    rows = page.locator("tr[data-row]")
    assert 1 <= rows.count() < all_rows
    assert "JSONDecodeError" in " ".join(rows.all_inner_texts())
    rows.filter(has_text="JSONDecodeError").locator("a[data-open]").click()
    page.wait_for_url("**/failures/*")
    group = page.url.rpartition("/")[2]
    dead = any_house.stage.app.store.count_dead_letters(DeadLetterFilter(fingerprint=group))
    link = page.locator(f'a[href="{path_to("dead_letters", {"group": group})}"]').first
    link.click()
    page.wait_for_url("**group=*")
    assert page.locator("tr[data-row]").count() == dead


@pytest.mark.parametrize("text", ["window.pwned", "WWWW", texts.JAPANESE])
def test_hostile_groups_are_found_by_their_text_and_are_only_text(house, windows, text):
    page = windows.page(house, path_to("failures", {"text": text}))
    rows = page.locator("tr[data-row]")
    assert rows.count() >= 1
    rows.first.locator("a[data-open]").click()
    page.wait_for_url("**/failures/*")
    assert text in page.locator("main").inner_text()
    assert page.evaluate("window.pwned") is None


_PLACES = """() => Object.fromEntries([...document.querySelectorAll("main [data-part]")].map(
  each => [each.dataset.part, each.getBoundingClientRect()]))"""


def test_a_phone_shows_the_headline_causes_waits_and_then_charts(house, windows):
    found = windows.page(house, "/", width=PHONE).evaluate(_PLACES)
    tops = {part: box["top"] for part, box in found.items()}
    assert tops["status"] < tops["groups"] < tops["waits"] < tops["charts"]


def test_causes_and_charts_are_side_by_side_on_a_wide_screen(house, windows):
    found = windows.page(house, "/").evaluate(_PLACES)
    assert found["groups"]["right"] <= found["charts"]["left"]
    assert found["groups"]["top"] < found["charts"]["top"] < found["groups"]["bottom"]
    assert found["charts"]["right"] > 1380, "the width is used"
