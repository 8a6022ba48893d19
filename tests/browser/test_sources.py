"""Sources, jobs and health: what a page shows of them, and what is done by hand."""

from __future__ import annotations

import re

import pytest

from browser import texts
from browser.views import path_to

ROWS = "tr[data-row]"


@pytest.mark.parametrize("state", ["healthy", "warning", "error", "disabled", "probation"])
def test_a_state_leads_to_the_sources_in_it(house, windows, state):
    page = windows.page(house, path_to("sources"))
    page.get_by_role("link", name=re.compile(f"^{state}", re.IGNORECASE)).first.click()
    page.wait_for_url(f"**state={state}*")
    found = len(house.stage.app.sources.list(state=state))
    assert 0 < page.locator(ROWS).count() <= found
    assert (page.locator(ROWS).count() == found) is (page.locator("a[rel=next]").count() == 0)
    told = {row.inner_text().lower() for row in page.locator(f"{ROWS} [data-label=State] .badge").all()}
    assert told - {"failing"} == {state}, "a healthy source may fail without being counted"


def test_sources_are_found_by_profile_and_text_and_paged(house, windows):
    page = windows.page(house, path_to("sources"))
    seen = page.locator(ROWS).count()
    while (more := page.locator("a[rel=next]")).count():
        more.click()
        page.wait_for_load_state()
        seen += page.locator(ROWS).count()
    assert seen == len(house.stage.app.sources.list())
    page.get_by_text("More filters").click()
    page.get_by_role("combobox", name="Profile").select_option("blog")
    page.wait_for_url("**profile=blog*")
    assert page.locator(ROWS).count() == 1
    page.goto(house.at(path_to("sources", {"text": "gone.test"})))
    assert page.locator(ROWS).count() == 1


def test_a_strip_tells_the_history_of_a_source(house, windows):
    page = windows.page(house, path_to("sources", {"text": "slow.test"}))
    assert "failed" in page.locator(f"{ROWS} svg[role=img]").get_attribute("aria-label")
    page.locator(f"{ROWS} a[data-open]").click()
    page.wait_for_url("**/sources/*")
    cells = page.get_by_role("list", name="History, oldest first").get_by_role("listitem")
    assert cells.count() >= 10
    assert all(text.strip() for text in cells.all_text_contents())


def test_a_source_is_disabled_and_enabled_by_hand(house, windows):
    number = house.stage.source["healthy"]
    page = windows.page(house, path_to("source", source_id=number))
    page.get_by_label("Why", exact=True).fill(f"moved {texts.MARKUP}")
    windows.answers = [True]
    page.get_by_role("button", name="Disable").click()
    page.get_by_role("status").first.wait_for()
    source = house.stage.app.sources.get(number)
    assert (source.state, source.health.disabled_by) == ("disabled", "hand")
    assert "moved" in page.locator("table").inner_text()
    assert page.get_by_role("button", name="Probe now").count() == 0, "it is not polled before it is enabled"
    page.get_by_role("button", name="Enable").click()
    page.get_by_role("status").filter(has_text=re.compile("polled|enabled", re.IGNORECASE)).wait_for()
    assert house.stage.app.sources.get(number).state == "healthy"
    assert page.evaluate("window.pwned") is None


def test_a_source_is_probed_by_hand(house, windows):
    number = house.stage.source["disabled"]
    assert house.stage.app.sources.get(number).not_before is not None
    page = windows.page(house, path_to("source", source_id=number))
    page.get_by_role("button", name="Probe now").click()
    page.get_by_role("status").first.wait_for()
    assert house.stage.app.sources.get(number).not_before is None


def test_a_source_is_enabled_and_probed_from_the_list(house, windows):
    off, stale = house.stage.source["off"], house.stage.source["error"]
    page = windows.page(house, path_to("sources", {"text": "off.test"}))
    page.locator(ROWS).get_by_role("button", name="Enable").click()
    page.get_by_role("status").first.wait_for()
    assert house.stage.app.sources.get(off).state == "healthy"
    before = house.stage.app.sources.get(stale).next_poll_at
    page.goto(house.at(path_to("sources", {"text": "stale.test"})))
    page.locator(ROWS).get_by_role("button", name="Probe").click()
    page.get_by_role("status").first.wait_for()
    assert house.stage.app.sources.get(stale).next_poll_at > before


def test_the_last_failure_of_a_source_says_why_without_its_secrets(house, windows):
    page = windows.page(house, path_to("source", source_id=house.stage.source["error"]))
    text = page.locator("main").inner_text()
    assert "ContentError" in text
    assert "***" in text
    assert [secret for secret in texts.SECRETS if secret in text] == []


def test_runs_show_how_they_ended(house, windows):
    page = windows.page(house, path_to("jobs"))
    rows = {house.stage.run[name]: name for name in ("passed", "failed", "rest", "aborted", "hostile", "running")}
    told = {}
    for row in page.locator(ROWS).all():
        text = row.inner_text()
        told |= {name: text for run, name in rows.items() if f"\n{run}" in text}
    assert told.keys() == set(rows.values())
    assert re.search("passed", told["passed"], re.IGNORECASE)
    assert re.search("failed", told["failed"], re.IGNORECASE)
    assert re.search("aborted", told["aborted"], re.IGNORECASE)
    assert house.stage.run["failed"] in told["rest"]
    page.get_by_role("combobox", name="Job").select_option(texts.SCRIPT)
    page.wait_for_url("**job=*")
    assert page.locator(ROWS).count() == 1


def test_a_run_shows_its_gate_its_groups_and_how_to_do_the_rest(house, windows):
    run = house.stage.run["failed"]
    page = windows.page(house, path_to("run", run_id=run))
    text = page.locator("main").inner_text()
    assert "20" in page.locator(".panel").first.inner_text(), "the failure rate that the gate allows"
    assert f"--only-failed {run}" in text
    groups = page.get_by_role("table", name=re.compile("Groups")).locator(ROWS)
    assert groups.count() == 2
    groups.filter(has_text="404 Not Found").locator("a").first.click()
    page.wait_for_url("**group=*")
    targets = page.get_by_role("table", name=re.compile("Targets")).locator(ROWS)
    assert targets.count() == 12
    assert all("gone-" in target for target in targets.all_inner_texts())


def test_a_run_that_did_the_rest_is_compared_with_the_one_before(house, windows):
    page = windows.page(house, path_to("run", run_id=house.stage.run["rest"]))
    page.locator(".panel", has_text="Compared with").get_by_role("link", name=house.stage.run["failed"]).click()
    page.wait_for_url(f"**{house.stage.run['failed']}")


def test_health_tells_of_checks_store_and_versions(house, windows):
    page = windows.page(house, path_to("health"))
    text = page.locator("main").inner_text()
    assert page.locator(ROWS).count() >= 3
    for word in ("database", "tables", "sqlite", "python", "outlast"):
        assert word in text.lower(), word
