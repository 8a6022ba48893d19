"""Ways in and out, as a browser takes them (pitfalls 65 and 66)."""

from __future__ import annotations

import re

import httpx
import pytest

from browser.house import READ_TOKEN, TOKEN, House
from browser.looking import audit
from browser.stage import build
from browser.views import VIEWS, path_to
from outlast.operations.table import OPERATIONS
from outlast.ports.rows import DeadLetterFilter
from outlast.web.server import Opening


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A dashboard without a token, as it is started on one's own machine."""
    stage = build(f"sqlite:///{tmp_path_factory.mktemp('local') / 'outlast.db'}", tame=True)
    house = House.opened(stage, token=None, read_token=None)
    yield house
    house.close()


def signs_in(page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_a_link_lets_one_browser_in_once_and_leaves_no_secret_behind(local, windows):
    windows.expected = ("401 (Unauthorized)",)
    link = local.server.link()
    page = windows.page(local, role=None)
    page.goto(link)
    assert page.url == local.at("/")
    assert page.get_by_role("navigation", name="Pages").is_visible()
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert page.evaluate("document.cookie") == ""
    second = windows.page(local, role=None)
    second.goto(link)
    assert second.get_by_role("navigation", name="Pages").count() == 0
    assert "used" in second.locator("main").inner_text()
    assert audit(second) == {}


def test_a_link_is_opened_by_a_file_and_leaves_nothing_behind(local, windows):
    windows.expected = ("401 (Unauthorized)",)  # a strict cookie is kept back once, as a file is another site
    page = windows.page(local, role=None)
    with Opening(lambda file: bool(page.goto(file, wait_until="commit"))) as opening:
        assert opening.open(local.server.link())
        page.wait_for_url(local.at("/"))
        page.get_by_role("navigation", name="Pages").wait_for()
    assert "?once=" not in page.content()


def test_a_token_lets_in_where_one_wanted_to_go(house, windows):
    windows.expected = ("401 (Unauthorized)",)
    wanted = path_to("tasks", {"status": "DONE"})
    page = windows.page(house, wanted, role=None)
    assert page.get_by_role("navigation", name="Pages").count() == 0
    assert audit(page) == {}
    assert page.evaluate("document.activeElement.id") == "token"
    signs_in(page, "not-the-token")
    assert "token is wrong" in page.get_by_role("alert").inner_text()
    signs_in(page, TOKEN)
    page.wait_for_url(f"**{wanted}")
    assert TOKEN not in page.content()


def test_signing_out_ends_the_session_and_its_streams(house, windows):
    windows.expected = ("401 (Unauthorized)",)
    page = windows.page(house, "/", role=None)
    signs_in(page, TOKEN)
    page.wait_for_selector('[data-live-state="on"]')
    other = page.context.new_page()
    windows.watch(other)
    other.goto(house.at(path_to("tasks")))
    other.wait_for_selector('[data-live-state="on"]')
    cookie = page.context.cookies()[0]
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").wait_for()
    other.wait_for_selector('[data-live-state="lost"]')
    page.goto(house.at("/"))
    assert page.get_by_label("Token").is_visible()
    again = httpx.get(house.at("/"), cookies={cookie["name"]: cookie["value"]})
    assert again.status_code == 401, "the old cookie is worth nothing"


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_a_reader_sees_every_page_and_no_button(house, view):
    page = house.asked(view.path(house.stage), token=READ_TOKEN)
    assert page.status_code == 200
    assert "read only" in page.text
    assert re.findall(r'<form[^>]*method="?post', page.text, re.IGNORECASE) == []
    assert re.findall(r"data-select|data-needs-selection|formaction", page.text) == []


def test_no_action_is_taken_from_a_reader(house, windows):
    page = windows.page(house, "/", role="reader")
    windows.expected = ("403 (Forbidden)",)
    before = house.stage.app.store.count_dead_letters(DeadLetterFilter())
    for action in OPERATIONS:
        path = re.sub(r"\{\w+\}", "1", action.path)
        status = page.evaluate("async path => (await fetch(path, {method: 'POST'})).status", path)
        assert status == 403, path
    assert house.stage.app.store.count_dead_letters(DeadLetterFilter()) == before


def test_another_site_can_neither_read_nor_act(house, windows):
    """A page of another origin in a browser that is signed in."""
    page = windows.page(house)
    windows.expected = ("",)  # the browser complains of what it refuses, which is the point
    page.goto(f"http://localhost:{house.server.port}/sign-in")
    tried = page.evaluate(
        """async url => {
          const statuses = [];
          for (const mode of ["no-cors", "cors"]) {
            try { statuses.push((await fetch(url, {method: "POST", mode, credentials: "include"})).type) }
            catch { statuses.push("refused") }
          }
          return statuses
        }""",
        house.at("/queues/default/pause"),
    )
    assert tried[1] == "refused"
    assert not any(queue.paused for queue in house.stage.app.tasks.queues() if queue.name == "default")


def test_a_read_token_signs_in_a_reader(house, windows):
    windows.expected = ("401 (Unauthorized)",)
    page = windows.page(house, "/", role=None)
    signs_in(page, READ_TOKEN)
    page.wait_for_url(house.at("/"))
    assert "read only" in page.locator(".who").inner_text()


def test_the_dashboard_cannot_be_framed(house, windows):
    page = windows.page(house)
    windows.expected = ("frame", "Refused", "ERR_BLOCKED", "401")
    page.set_content(f'<iframe src="{house.at("/")}"></iframe>')
    page.wait_for_timeout(100)
    assert page.frames[-1].locator("nav").count() == 0
