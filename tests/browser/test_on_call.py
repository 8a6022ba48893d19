"""What the dashboard says while something is wrong: no contradictions, no empty charts, and a way on from every page."""

from __future__ import annotations

import logging
import re
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import outlast
from browser.house import House
from browser.stage import Stage, _minutes_ago
from browser.views import path_to
from outlast import errors
from outlast.ports.read_rows import FailureFilter
from outlast.ports.source_rows import NewSource

WIDE = 1440
_ONCE = outlast.RetryPolicy(max_attempts=1)


def _refuse() -> None:
    raise errors.ResourceNotFoundError("404 Not Found: the page is gone")


@pytest.fixture
def small(tmp_path):
    """A dashboard on a store in which nothing has happened yet, with two tasks that fail for one reason."""
    logging.getLogger("outlast").setLevel(logging.CRITICAL)
    app = outlast.App(f"sqlite:///{tmp_path / 'small.db'}")
    app.store.create_schema()

    @app.task(policy=_ONCE)
    def fetch(url: str) -> None:
        _refuse()

    @app.task(policy=_ONCE)
    def parse(url: str) -> None:
        _refuse()

    @app.task
    def greet() -> None: ...

    house = House.opened(Stage(app))
    yield house
    house.close()
    logging.getLogger("outlast").setLevel(logging.NOTSET)


def bars(page) -> int:
    return page.locator("#main figure a rect").count()


def current_range(page) -> str:
    return page.locator(".range [aria-current]").inner_text()


@pytest.mark.parametrize(
    ("minutes", "expected"), [(1, "10 minutes"), (28, "1 hour"), (300, "24 hours"), (3000, "7 days")]
)
def test_the_overview_begins_with_the_smallest_range_that_shows_something(small, windows, minutes, expected):
    with _minutes_ago(minutes):
        small.stage.fail("fetch")
    page = windows.page(small, "/", width=WIDE)
    assert current_range(page) == expected
    assert bars(page) > 0


def test_a_store_without_any_activity_shows_ten_minutes(small, windows):
    page = windows.page(small, "/", width=WIDE)
    assert current_range(page) == "10 minutes"


def test_a_second_page_does_not_change_the_steps_of_the_chart(small, windows):
    for minutes in (5, 4, 3, 2):
        with _minutes_ago(minutes):
            small.stage.fail("fetch")
            small.stage.fail("fetch")
    windows.page(small, path_to("tasks"), fresh=True, width=WIDE).wait_for_selector("[data-live-state=on]")
    page = windows.page(small, path_to("overview", {"range": "10m"}), width=WIDE)
    drawn = bars(page)
    page.evaluate(
        """() => { window.seen = [];
        new MutationObserver(() => window.seen.push(document.querySelectorAll("#main figure a rect").length))
            .observe(document.querySelector("main"), {childList: true, subtree: true}); }"""
    )
    small.stage.fail("parse")
    page.wait_for_function(f"() => document.querySelectorAll('#main figure a rect').length > {drawn}")
    assert min(page.evaluate("window.seen")) >= drawn


def test_tasks_that_wait_without_a_worker_are_red_and_not_called_nothing(small, windows):
    small.stage.enqueue("greet")
    small.stage.enqueue("greet")
    page = windows.page(small, "/", width=WIDE)
    assert page.locator(".status.k-bad h1").inner_text() == "No worker is alive: 2 tasks wait"
    waits = page.locator("[data-part=waits]")
    assert "2 tasks wait for a worker; none is alive." in waits.inner_text()
    assert "Nothing waits" not in waits.inner_text()
    assert page.locator(".tile.k-bad", has_text="Oldest ready task").count() == 1
    page.goto(small.at(path_to("queues")))
    assert page.locator(".notice.k-bad", has_text="No live worker serves").count() == 1
    assert page.locator(".tile.k-bad", has_text="Workers").count() == 1


def test_a_group_of_several_tasks_lists_them_and_can_be_replayed_for_one_of_them(small, windows):
    small.stage.fail("fetch")
    small.stage.fail("parse")
    small.stage.fail("parse")
    page = windows.page(small, "/", width=WIDE)
    row = page.get_by_role("row", name="ResourceNotFoundError in 2 tasks")
    assert "parse, fetch" in row.inner_text()
    row.get_by_role("link", name="ResourceNotFoundError in 2 tasks").click()
    page.wait_for_url("**/failures/*")
    assert page.get_by_role("heading", level=1).inner_text() == "ResourceNotFoundError in 2 tasks"
    page.get_by_role("listitem").filter(has_text="parse").get_by_role("link", name="Replay only these").click()
    page.wait_for_url("**/replays/new?**task=parse*")
    assert page.get_by_role("heading", level=1).inner_text() == "Replay 2 dead letters"
    assert "ResourceNotFoundError in parse" in page.locator("main").inner_text()
    page.get_by_role("button", name="Replay 2 dead letters").click()
    page.wait_for_url("**/replays/*")
    (replay,) = small.stage.app.dead_letters.replays()
    assert (replay.filters.task_type, replay.total) == ("parse", 2)


def test_a_source_whose_failures_do_not_count_is_not_green(small, windows):
    (source,) = small.stage.app.sources.add_many([NewSource("https://down.test/feed", "feed")])
    for _ in range(35):
        small.stage.app.sources.record_failure(source.id, errors.TemporaryAPIError("503 Service Unavailable"))
    for path in (path_to("sources"), path_to("source", source_id=source.id)):
        page = windows.page(small, path, width=WIDE)
        badge = page.locator("#main .badge", has_text="failing").first
        assert "k-warn" in badge.get_attribute("class")
        assert page.locator("#main .badge.k-ok", has_text="healthy").count() == 0
        assert "never answered, 35 failed" in page.locator("main").inner_text()


def test_the_same_change_is_shown_once_with_how_often_and_when_last(small, windows):
    @small.stage.app.job("nightly", max_failure_rate=0.5, policy=_ONCE)
    def nightly(context: Any, target: str) -> None: ...

    for _ in range(4):
        nightly.run(["one"], concurrency=1)
    page = windows.page(small, "/", width=WIDE)
    lines = page.locator("[data-part=changes] li", has_text="nightly").all_inner_texts()
    assert len(lines) == 1
    assert lines[0].startswith("Run of job nightly done with exit code 0. ×4, last ")


def test_the_message_of_an_http_error_has_no_link_to_an_encyclopedia(small, windows):
    import httpx

    @small.stage.app.task(policy=_ONCE)
    def download(url: str) -> None:
        httpx.Response(404, request=httpx.Request("GET", "https://shop.test/gone")).raise_for_status()

    small.stage.fail("download")
    (group,) = small.stage.app.store.failures(FailureFilter(task_type="download")).rows
    page = windows.page(small, path_to("failure", fingerprint=group.fingerprint), width=WIDE)
    shown = page.locator(".page-head").inner_text()
    assert "Client error '404 Not Found' for url 'https://shop.test/gone'" in shown
    assert "For more information" not in shown


def test_a_page_that_does_not_exist_leads_back(small, windows):
    windows.expected = ("404",)
    page = windows.page(small, "/no/such/page", width=WIDE)
    page.get_by_role("link", name="Go to the overview").click()
    page.wait_for_url(f"{small.url}/")
    assert page.get_by_role("heading", level=1).count() == 1


def test_periodic_tasks_are_listed_with_their_last_run_and_outcome(house, windows):
    page = windows.page(house, path_to("periodic"), width=WIDE)
    paused = page.get_by_role("row", name="refresh_prices").inner_text()
    assert "paused" in paused
    assert "done" in paused
    assert "when resumed" in paused
    failed = page.locator("tr[data-row]", has_text="periodic").filter(has_text="failed")
    failed.get_by_role("link", name="failed").click()
    page.wait_for_url("**/tasks/*")
    assert "the mail server did not answer" in page.locator("main").inner_text()


def test_tasks_are_found_by_id_unique_key_and_arguments_but_not_by_a_secret(small, windows):
    @small.stage.app.task
    def login(user: str, password: str) -> None: ...

    secret = "hunter2-hunter2-hunter2"
    number = login.enqueue(user="ada", password=secret).id
    keyed = login.options(unique_key="ada:1").enqueue(user="bob", password=secret).id
    page = windows.page(small, path_to("tasks"), width=WIDE)
    for text, found in ((str(number), [number]), ('"user":"ADA"', [number]), ("ada:1", [keyed]), (secret, [])):
        page.get_by_role("searchbox", name="Id, unique key or text of the arguments").fill(text)
        with page.expect_navigation():
            page.keyboard.press("Enter")
        titles = page.locator("tr[data-row] a[data-open]").all_inner_texts()
        assert titles == [f"login #{each}" for each in found], text


def test_the_performance_of_each_task_is_shown(house, windows):
    page = windows.page(house, path_to("performance"), width=WIDE)
    assert bars(page) > 0
    row = page.get_by_role("row", name="fetch_page")
    assert re.search(r"\d+ ms / .* / ", row.inner_text())
    assert re.search(r"\d per (minute|hour|day)", row.inner_text()), "no long decimal fractions"
    row.get_by_role("link", name="fetch_page").click()
    page.wait_for_url("**task=fetch_page*")
    assert page.get_by_role("heading", level=1).inner_text() == "Performance of fetch_page"
    assert page.locator("tr[data-row]").count() == 1
    page.get_by_role("link", name="1 hour").click()
    page.wait_for_url("**range=1h*")
    assert current_range(page) == "1 hour"
    page.goto(house.at(path_to("performance", {"task": "no_such_task"})))
    assert "from 0 tasks" in page.locator("main").inner_text(), "only tasks of this name are counted"


def test_deploys_are_lines_on_the_charts(small, windows):
    small.stage.fail("fetch")
    small.stage.app.store.add_chart_mark("deploy", "v1.2", "ada")
    page = windows.page(small, "/", width=WIDE)
    assert page.locator("#main .plot line.mark").count() == 2, "one on each chart"
    assert "deploy v1.2 by ada" in page.get_by_role("list", name="Marked events").first.inner_text()
    small.stage.app.store.add_chart_mark("deploy", "v1.3", "bob")
    small.stage.fail("fetch")
    page.goto(small.at(path_to("performance", {"range": "1h"})))
    assert page.locator("#main .plot line.mark").count() == 2


def test_lists_say_who_has_acknowledged_or_snoozed_a_group(small, windows):
    small.stage.fail("fetch")
    (group,) = small.stage.app.store.failures(FailureFilter()).rows
    for act, expected in (
        (lambda: small.stage.app.dead_letters.acknowledge(group.fingerprint, who="ada"), "acknowledged by ada"),
        (lambda: small.stage.app.dead_letters.snooze(group.fingerprint, 60.0, who="bob"), "snoozed by bob until"),
    ):
        act()
        for path in ("/", path_to("failures")):
            page = windows.page(small, path, width=WIDE)
            assert expected in " ".join(page.locator("tr[data-row] .marks").first.inner_text().split())


def test_local_time_stands_beside_utc(small, windows):
    small.stage.fail("fetch")
    (group,) = small.stage.app.store.failures(FailureFilter()).rows
    path = path_to("failure", fingerprint=group.fingerprint)
    stamp = group.first_seen.strftime("%Y-%m-%d %H:%M:%S UTC")
    local = group.first_seen.astimezone(ZoneInfo("Asia/Tokyo"))
    page = windows.page(small, path, width=WIDE, timezone_id="Asia/Tokyo")
    text = page.locator("time.clock", has_text=stamp).first.inner_text()
    assert text.startswith(f"{stamp} (")
    assert text.endswith(f"{local:%H:%M:%S} local)")
    plain = windows.page(small, path, width=WIDE, java_script_enabled=False)
    assert plain.locator("time.clock", has_text=stamp).first.inner_text() == stamp, "without a script there is UTC"


def test_a_periodic_task_is_paused_resumed_and_run_by_hand(small, windows):
    @small.stage.app.periodic(every=3600)
    def nightly() -> None: ...

    small.stage.app.schedule.begin(small.stage.app.store)
    page = windows.page(small, path_to("periodic"), width=WIDE)
    row = page.locator("tr[data-row]")
    row.get_by_role("button", name="Pause").click()
    page.get_by_text("periodic task nightly is paused for all workers").wait_for()
    assert "when resumed" in row.inner_text()
    row.get_by_role("button", name="Run now").click()
    page.get_by_text("a run of nightly was enqueued as task 1").wait_for()
    assert "queued" in row.inner_text()
    row.get_by_role("button", name="Resume").click()
    page.get_by_text("periodic task nightly is resumed").wait_for()
    assert "active" in row.inner_text()
    assert [entry.action for entry in small.stage.app.store.audits()] == [
        "resume_periodic",
        "run_periodic_now",
        "pause_periodic",
    ]
    reader = windows.page(small, path_to("periodic"), "reader", width=WIDE)
    assert reader.get_by_role("button", name="Pause").count() == 0


def test_selected_tasks_are_run_now_or_cancelled(small, windows):
    numbers = [small.stage.enqueue("greet", delay=3600) for _ in range(3)]
    page = windows.page(small, path_to("tasks", {"status": "DONE", "task": "greet"}), width=WIDE)
    assert page.get_by_role("button", name="Run selected now").count() == 0, "nothing here can be selected"
    page.goto(small.at(path_to("tasks", {"task": "greet"})))
    page.get_by_role("checkbox", name=f"Select task {numbers[0]}").check()
    page.get_by_role("checkbox", name=f"Select task {numbers[1]}").check()
    page.get_by_role("button", name="Run selected now").click()
    page.get_by_text("2 tasks due now").wait_for()
    assert page.url.endswith("/tasks?task=greet")
    tasks = small.stage.app.store
    assert [tasks.get(each).next_run_after <= tasks.now() for each in numbers] == [True, True, False]
    windows.answers.append(True)
    page.get_by_role("checkbox", name=f"Select task {numbers[2]}").check()
    page.get_by_role("button", name="Cancel selected").click()
    page.get_by_text("1 task cancelled").wait_for()
    assert tasks.get(numbers[2]).status == "CANCELLED"


def test_dead_letters_are_grouped_by_cause_and_one_cause_is_replayed_with_a_click(small, windows):
    small.stage.fail("fetch", 2)
    small.stage.fail("parse")
    page = windows.page(small, path_to("dead_letters"), width=WIDE)
    page.get_by_role("link", name="By cause").click()
    page.wait_for_url("**/failures?**dead=1*")
    row = page.get_by_role("row", name="ResourceNotFoundError in 2 tasks")
    windows.answers.append(True)
    row.get_by_role("button", name="Replay").click()
    page.wait_for_url("**/replays/*")
    assert windows.questions[-1].startswith("Replay 3 dead letters of this cause")
    (replay,) = small.stage.app.dead_letters.replays()
    assert (replay.total, replay.canary) == (3, True)
