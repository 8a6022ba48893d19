"""Clearing up in a browser: replays that try one first, edits, what is said of groups, and the log of who did it.

A real worker runs beside the dashboard. Whether the cause is mended is decided by each test.
"""

from __future__ import annotations

import logging
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from playwright.sync_api import expect

import outlast
from browser.house import READ_TOKEN, House
from browser.looking import problems, weight
from browser.window import PHONE
from outlast import errors
from outlast.operations.table import OPERATIONS
from outlast.ports.read_rows import FailureFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "sk-live-0123456789abcdef"
_ONCE = outlast.RetryPolicy(max_attempts=1)


@dataclass
class Shop:
    """An app whose pages are gone until somebody brings them back.

    Attributes:
        app: It.
        back: Names of tasks that succeed by now.
        ran: How often each task ran.
    """

    app: outlast.App
    back: set[str] = field(default_factory=set)
    ran: dict[str, int] = field(default_factory=dict)

    @classmethod
    def built(cls, url: str) -> Shop:
        shop = cls(outlast.App(url))
        shop.app.create_schema()
        for name in ("gone", "plain", "stopped", "moved", "marked"):
            shop._define(name)
        return shop

    def _define(self, name: str) -> None:
        @self.app.task(name=name, policy=_ONCE)
        def fetch(url: str, api_key: str = "", pages: int = 1, deep: bool = False) -> None:
            self.ran[name] = self.ran.get(name, 0) + 1
            if name not in self.back and not url.endswith("/good"):
                message = f"404 Not Found: {name} is gone"
                raise errors.ResourceNotFoundError(message)

    def fail(self, name: str, count: int = 1, **arguments: Any) -> list[int]:
        """Have tasks fail for good; return the numbers of their dead letters."""
        given = {"url": "https://shop.test/old", "api_key": SECRET, "pages": 1} | arguments
        for _ in range(count):
            self.app.tasks_by_name[name].enqueue(**given)
        with quiet():
            thread = threading.Thread(target=self.app.worker(concurrency=2).drain)
            thread.start()
            thread.join()
        return [letter.id for letter in self.app.dead_letters.list(None, task=name)]

    def group(self, name: str) -> str:
        return self.app.store.failures(FailureFilter(task_type=name)).rows[0].fingerprint

    def left(self, name: str) -> int:
        return self.app.dead_letters.count(task=name)

    @contextmanager
    def worked(self) -> Iterator[None]:
        """Have a worker at work within the block."""
        worker = self.app.worker(concurrency=2)
        thread = threading.Thread(target=worker.run)
        with quiet():
            thread.start()
            try:
                yield
            finally:
                worker.stop()
                thread.join()

    def close(self) -> None:
        self.app.close()


@contextmanager
def quiet() -> Iterator[None]:
    """Keep failures that are meant out of the log."""
    log = logging.getLogger("outlast")
    before, log.disabled = log.level, False
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


@pytest.fixture(scope="module")
def shop_house(tmp_path_factory) -> Iterator[House]:
    house = House.opened(Shop.built(f"sqlite:///{tmp_path_factory.mktemp('shop') / 'outlast.db'}"))
    yield house
    house.close()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def any_shop(request) -> Iterator[House]:
    """The same, and one on PostgreSQL."""
    if request.param == "sqlite":
        yield request.getfixturevalue("shop_house")
        return
    server = request.getfixturevalue("postgres_server")
    server.execute("DROP DATABASE IF EXISTS stage_triage WITH (FORCE)", "CREATE DATABASE stage_triage")
    house = House.opened(Shop.built(f"{server.url.rpartition('/')[0]}/stage_triage"))
    yield house
    house.close()


def begin(page, *, why="the shop is back", **fields):
    """Go from a page with the button to the counts, and from there to the replay itself."""
    page.get_by_role("link", name=re.compile("^Replay all")).click()
    for name, value in fields.items():
        page.locator(f"[name={name}]").fill(value)
    page.get_by_label("Why, for the audit log").fill(why)
    page.get_by_role("button", name=re.compile("^Replay ")).click()


def test_one_is_tried_first_and_the_rest_follows_when_the_cause_is_mended(any_shop, windows):
    shop = any_shop.stage
    shop.fail("gone", 14)
    page = windows.page(any_shop, f"/failures/{shop.group('gone')}")
    page.get_by_role("link", name="Replay all…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Replay 14 dead letters")
    assert shop.app.store.replay_runs(running=True) == [], "looking is not doing"
    page.go_back()
    begin(page)
    ran = shop.ran["gone"]
    state = page.locator("[data-replay]")
    with shop.worked():
        expect(state).to_have_attribute("data-replay", "stopped")  # live: nothing was reloaded
    expect(page.get_by_text("404 Not Found: gone is gone").first).to_be_visible()
    assert shop.ran["gone"] == ran + 1, "the canary had one attempt, and nothing else was tried"
    assert shop.left("gone") == 14
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    shop.back.add("gone")
    page.get_by_role("button", name="Resume").click()
    with shop.worked():
        expect(page.locator("[data-replay]")).to_have_attribute("data-replay", "done")
        expect(page.get_by_role("list", name="Steps").get_by_text("succeeded")).to_have_count(2)
    assert shop.left("gone") == 0


def test_without_a_script_all_of_it_works_too(any_shop, windows):
    shop = any_shop.stage
    shop.fail("plain", 3)
    page = windows.page(any_shop, "/dead-letters?task=plain", java_script_enabled=False)
    windows.expected = ("400 (Bad Request)",)
    begin(page, rate="fast")
    expect(page.get_by_role("alert")).to_contain_text("give a number per second")
    expect(page.locator("[name=rate]")).to_have_value("fast")
    page.locator("[name=rate]").fill("100")
    page.get_by_role("button", name="Replay 3 dead letters").click()
    shop.back.add("plain")
    number = int(page.url.rpartition("/")[2])
    with shop.worked():
        for _ in range(300):
            if shop.app.store.replay_run(number).state == "done":
                break
            threading.Event().wait(0.1)
    page.reload()
    expect(page.locator("[data-replay]")).to_have_attribute("data-replay", "done")
    assert shop.left("plain") == 0


def test_a_replay_is_stopped_by_hand(shop_house, windows):
    shop = shop_house.stage
    shop.fail("stopped", 3)
    page = windows.page(shop_house, "/dead-letters?task=stopped", width=PHONE)
    begin(page)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("[data-replay]")).to_have_attribute("data-replay", "cancelled")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    page.get_by_role("link", name="Replays").click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("cancelled")


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_arguments_are_edited_and_the_task_succeeds(any_shop, windows, script):
    shop = any_shop.stage
    letter = shop.fail("moved")[0]
    how = {} if script else {"java_script_enabled": False}
    page = windows.page(any_shop, f"/dead-letters/{letter}", **how)
    page.get_by_role("link", name="Edit").click()
    expect(page.get_by_label(re.compile("^api_key"))).to_have_value("")
    assert SECRET not in page.content()
    windows.expected = ("400 (Bad Request)",)
    page.get_by_label(re.compile("^pages")).fill("many")
    page.get_by_label(re.compile("^url")).fill("https://shop.test/good")
    page.get_by_label(re.compile("^Why")).fill("it has moved")
    page.get_by_role("button", name="Save and replay").click()
    expect(page.get_by_role("alert")).to_contain_text("'many' is not a number")
    expect(page.get_by_label(re.compile("^url"))).to_have_value("https://shop.test/good")
    page.get_by_label(re.compile("^pages")).fill("2")
    page.get_by_role("button", name="Save and replay").click()
    expect(page.get_by_role("status").first).to_contain_text("is queued again")
    with shop.worked():
        for _ in range(300):
            page.reload()
            if page.get_by_text("it succeeded").count():
                break
    edits = page.locator("#edits")
    expect(edits).to_contain_text("it has moved")
    expect(edits.locator("ins")).to_have_text(['"https://shop.test/good"', "2"])
    assert SECRET not in page.content()


def test_what_people_say_of_a_group(shop_house, windows):
    shop = shop_house.stage
    shop.fail("marked")
    shop.app.store.roll_up()
    page = windows.page(shop_house, f"/failures/{shop.group('marked')}")
    triage = page.get_by_role("region", name="Triage")
    page.get_by_role("button", name="Acknowledge").click()
    expect(triage).to_contain_text("Acknowledged by")
    page.get_by_label("Duration").select_option("7 days")
    page.get_by_role("button", name="Snooze").click()
    expect(triage).to_contain_text("No alerts until")
    page.get_by_label("Note for your team").fill("Ada asks them")
    page.get_by_role("button", name="Save note").click()
    expect(page.get_by_label("Note for your team")).to_have_value("Ada asks them")
    page.goto(shop_house.at("/failures?standing=snoozed"))
    expect(page.get_by_role("row").nth(1)).to_contain_text("Ada asks them")
    page.goto(shop_house.at("/audit"))
    for place, what in enumerate(("note group", "snooze group", "acknowledge group"), start=1):
        expect(page.get_by_role("row").nth(place)).to_contain_text(what)


def test_a_reader_can_press_nothing_and_is_refused_by_every_way(shop_house, windows):
    shop = shop_house.stage
    letter = shop.fail("stopped")[0]
    group = shop.group("stopped")
    replay = shop.app.dead_letters.replay_later(group=group).id
    shop.app.dead_letters.stop_replay(replay)
    paths = ("/dead-letters", f"/dead-letters/{letter}", f"/dead-letters/{letter}/edit", f"/failures/{group}", "/replays", "/replays/new", f"/replays/{replay}", "/audit")  # fmt: skip
    page = windows.page(shop_house, role="reader")
    for path in paths:
        page.goto(shop_house.at(path))
        assert page.locator("form[method=post]:not([action$='/sign-out'])").count() == 0, path
        assert page.locator("main :is(button:visible, input[type=checkbox])").locator("visible=true").count() <= 2, path
        assert page.get_by_role("link", name=re.compile("^(Replay all|Edit)")).count() == 0, path
    before = (shop.left("stopped"), len(shop.app.store.audits()))
    with httpx.Client(base_url=shop_house.url, headers={"Authorization": f"Bearer {READ_TOKEN}"}) as client:
        for action in OPERATIONS:
            filled = re.sub(r"\{\w+\}", str(letter), action.path)
            for each in (filled, f"/api{filled}"):
                assert client.post(each).status_code == 403, each
    assert (shop.left("stopped"), len(shop.app.store.audits())) == before


def test_the_pages_are_sound_in_every_theme_and_width(shop_house, windows):
    shop = shop_house.stage
    letter = shop.fail("stopped", 1, url="https://shop.test/" + "w" * 200)[0]
    patch = [{"op": "replace", "path": "/pages", "value": 7}]
    definition = shop.app.tasks_by_name["stopped"]
    shop.app.dead_letters.edit(letter, patch, definition=definition, who="ada", why="seven")
    replay = shop.app.dead_letters.replay_later(ids=(letter,), who="ada", why="seven").id
    page = windows.page(shop_house)
    for path in ("/replays", "/replays/new", f"/replays/{replay}", "/audit", f"/dead-letters/{letter}/edit", f"/dead-letters/{letter}", f"/failures/{shop.group('stopped')}", "/failures?since=1h"):  # fmt: skip
        page.goto(shop_house.at(path))
        assert problems(page) == {}, path
        assert weight(shop_house, path) < 100_000, path
