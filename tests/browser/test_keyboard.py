"""The dashboard by keyboard alone."""

from __future__ import annotations

import pytest

from browser.views import path_to
from browser.window import PHONE, WIDE

# Where the focus is: what has it, whether it is new there, whether a ring is painted around it, and whether it is seen.
_FOCUS = """() => {
  const at = document.activeElement;
  const again = at.dataset.stop === "last";  // a date has a stop for each of its parts
  const known = !again && at.dataset.stop !== undefined;
  document.querySelectorAll("[data-stop=last]").forEach(each => (each.dataset.stop = "before"));
  at.dataset.stop = "last";
  const style = getComputedStyle(at), box = at.getBoundingClientRect();
  return {
    name: at.tagName + " " + (at.id || at.getAttribute("name") || at.getAttribute("href") || at.textContent.trim().slice(0, 30)),
    again,
    over: known || at === document.body,
    ring: (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2) || style.boxShadow !== "none",
    seen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
  };
}"""
_UNREACHED = """() =>
  [...document.querySelectorAll("main button, main input:not([type=hidden]), main select")]
    .filter(each => !each.disabled && each.checkVisibility({visibilityProperty: true}) && !each.dataset.stop)
    .map(each => each.outerHTML.slice(0, 80))"""


def test_the_first_stop_skips_to_the_content(house, windows):
    page = windows.page(house, path_to("dead_letters"))
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    assert skip.evaluate("each => each === document.activeElement")
    assert page.evaluate(_FOCUS)["seen"]
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize(
    "path",
    [
        path_to("overview"),
        path_to("dead_letters", {"task": "import_rows", "category": "data"}),
        path_to("waits"),
        path_to("task", task_id=1),
    ],
)
def test_every_stop_is_seen_and_every_control_is_one(house, windows, path, width):
    page = windows.page(house, path, width=width)
    stops = []
    for _ in range(300):
        page.keyboard.press("Tab")
        stop = page.evaluate(_FOCUS)
        if stop["over"]:
            break
        if not stop["again"]:
            stops.append(stop)
    assert [stop["name"] for stop in stops if not stop["ring"]] == [], "no ring around these"
    assert [stop["name"] for stop in stops if not stop["seen"]] == [], "these have the focus out of sight"
    assert page.evaluate(_UNREACHED) == [], "no key reaches these"
    assert 5 < len(stops) < 300


def test_a_slash_goes_to_the_filter_and_a_question_mark_shows_the_keys(house, windows):
    page = windows.page(house, path_to("dead_letters"))
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.closest('form.filters') !== null")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    assert keys.is_visible()
    page.keyboard.press("Escape")
    assert not keys.is_visible()


def test_rows_are_walked_selected_and_opened(house, windows):
    page = windows.page(house, path_to("dead_letters"))
    for key in ("j", "j", "j", "k", "x"):
        page.keyboard.press(key)
    rows = page.locator("tr[data-row]")
    assert rows.nth(1).locator("[data-select]").is_checked()
    assert page.locator("[data-select]:checked").count() == 1
    wanted = rows.nth(1).locator("a[data-open]").get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{wanted}")


def test_g_and_each_letter_of_the_list_go_to_the_page_that_it_names(house, windows):
    page = windows.page(house, path_to("health"))
    page.keyboard.press("?")
    _, _, told = page.get_by_role("dialog", name="Keys").inner_text().partition("g then a letter")
    keys = dict(line.split(" ", 1) for line in told.partition("?")[0].strip().replace("\n", " ").split(", "))
    page.keyboard.press("Escape")
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    pages = {link.locator("span").first.inner_text(): link.get_attribute("href") for link in links.all()}
    assert list(keys.values()) == list(pages)
    for letter, name in keys.items():
        page.keyboard.press("g")
        page.keyboard.press(letter)
        page.wait_for_url(house.at(pages[name]))


def test_what_is_typed_into_a_field_is_no_command(house, windows):
    page = windows.page(house, path_to("sources"))
    page.keyboard.press("/")
    page.keyboard.type("g?jx/o")
    assert page.evaluate("document.activeElement.value") == "g?jx/o"
    assert page.url == house.at(path_to("sources"))


def test_a_dead_letter_is_replayed_by_keys_alone(house, windows):
    (task,) = house.stage.fail("import_rows", trouble="bug")
    page = windows.page(house, path_to("dead_letters"))
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.get_by_role("button", name="Replay selected").focus()
    page.keyboard.press("Enter")
    page.get_by_role("status").filter(has_text="1 replayed").wait_for()
    assert house.stage.app.store.get(task).status == "QUEUED"
    house.stage.app.tasks.cancel(task)
