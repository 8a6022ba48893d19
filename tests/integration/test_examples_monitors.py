"""The examples that poll: each is run as its reader would, and what it prints has to add up."""

import json
import re
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from examples.feed_collector.__main__ import Entries

import outlast

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"\d+")
CORE_ALONE = "import sys; sys.modules.update(dict.fromkeys(['httpx', 'httpx2', 'feedparser', 'selectolax', 'apprise']))"

pytestmark = pytest.mark.xdist_group("examples_monitors")  # so that each is run once


@cache
def output_of(*arguments):
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def blog_monitor():
    return output_of("-m", "examples.blog_monitor")


def feed_collector():
    return output_of("-m", "examples.feed_collector")


def tour_scene():
    return output_of("-c", f"{CORE_ALONE}\nfrom examples.tour.monitor import monitored\nmonitored()")


def row(text, name):
    """Return the state and the numbers of a line of the table: those before '=', then the others."""
    (line,) = re.findall(rf"^ +(?:\d+ )?{re.escape(name)} {{2,}}(.*=.*)$", text, re.MULTILINE)
    before, _, after = line.partition("=")
    state = before.split()[0]
    numbers = re.split(r"  [A-Z]", after)[0]  # what follows is the last error
    return state, [int(each) for each in NUMBER.findall(before)], [int(each) for each in NUMBER.findall(numbers)]


def lines(text, word):
    found = [line.strip().removeprefix(word).strip() for line in text.splitlines() if line.strip().startswith(word)]
    return [re.sub(r"recovered after \d[\d.]* s:", "recovered after some time:", line) for line in found]


BLOGS = ("Daily News", "Quiet Garden", "Clock Tower", "Flaky Diary", "Busy Shop", "Moving House", "Gone Fishing")


def blog(name):
    """Return state, failures in a row, and the numbers of polls and requests by name."""
    state, (failures, polls), numbers = row(blog_monitor(), name)
    return (
        state,
        failures,
        dict(zip(("changed", "same", "failed", "put_off", "requests"), numbers, strict=True), polls=polls),
    )


def test_the_blog_monitor_accounts_for_every_poll_and_every_request():
    blogs = [blog(name)[2] for name in BLOGS]
    for found in blogs:
        assert found["polls"] == found["changed"] + found["same"] + found["failed"] + found["put_off"]
    _, (polls,), numbers = row(blog_monitor(), "together")
    assert polls == sum(found["polls"] for found in blogs)
    counted = int(re.search(r"have counted (\d+) requests", blog_monitor())[1])
    assert counted == numbers[-1] == sum(found["requests"] for found in blogs)


def test_a_blog_that_changes_is_told_and_one_that_does_not_is_not():
    assert blog("Daily News")[2]["changed"] >= 2
    assert "Daily News: Post number 2" in lines(blog_monitor(), "CHANGED")
    assert blog("Quiet Garden")[2]["changed"] == 1


def test_what_lies_outside_of_a_blogs_selector_is_no_change():
    found = blog("Clock Tower")[2]
    assert (found["changed"], found["same"]) == (1, found["polls"] - 1)


def test_a_blog_that_is_unwell_twice_is_asked_again_within_its_poll():
    state, failures, found = blog("Flaky Diary")
    assert (state, failures, found["failed"]) == ("healthy", 0, 0)
    assert found["requests"] == found["polls"] + 2
    assert sum("503 Service" in line for line in lines(blog_monitor(), "WARNING")) == 2  # one before each wait


def test_a_blog_that_asks_to_be_left_alone_is_put_off_and_not_counted():
    state, failures, found = blog("Busy Shop")
    assert (state, failures, found["failed"], found["put_off"]) == ("healthy", 0, 0, 1)
    assert found["requests"] == found["polls"]


def test_a_blog_that_stays_away_is_an_error_and_is_polled_on():
    state, failures, found = blog("Gone Fishing")
    assert state == "error"
    assert failures == found["failed"] == found["polls"] > 3


def test_slack_is_told_once_of_each_blog_in_trouble_and_of_the_one_that_is_back():
    assert sorted(line for line in lines(blog_monitor(), "SLACK") if line) == [
        "Gone Fishing: in trouble after 3 failures in a row",
        "Moving House: in trouble after 3 failures in a row",
        "recovered after some time: Moving House: it answers again",
    ]
    assert blog("Moving House")[:2] == ("healthy", 0)


def test_the_blog_monitor_can_be_asked_whether_it_is_well():
    (answer,) = lines(blog_monitor(), "HEALTH")
    status, _, body = answer.partition(" ")
    assert status == "200"
    assert json.loads(body) == {"status": "healthy", "checks": {"database": True, "scheduler": True}}


def test_mistakes_in_blogs_are_listed_all_at_once():
    assert "2 problems with sources" in blog_monitor()
    assert "http:// or https://" in blog_monitor()
    assert "selector 'h1['" in blog_monitor()


def test_the_blog_monitor_ends_in_the_time_it_is_given_and_still_accounts_for_all():
    text = output_of("-m", "examples.blog_monitor", "--for", "1s")
    _, _, numbers = row(text, "together")
    assert f"have counted {numbers[-1]} requests" in text


def test_ctrl_c_ends_the_blog_monitor_with_its_table():
    command = [sys.executable, "-u", "-m", "examples.blog_monitor", "--serve"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            seen = []
            for line in process.stdout:
                seen.append(line)
                if "first seen" in line:
                    break
            process.send_signal(signal.SIGINT)
            text = "".join([*seen, process.communicate(timeout=60)[0]])
        finally:
            process.kill()
    assert process.returncode == 0, text
    assert [name for name in BLOGS if row(text, name)] == list(BLOGS)


FEEDS = (
    "news",
    "weekly",
    "plain",
    "atom",
    "shielded",
    "moody",
    "crowded",
    "unwell",
    "lost",
    "forbidden",
    "gone",
    "moved",
)


def feed(name):
    """Return state, failures in a row, and the numbers of polls, requests and entries by name."""
    state, (failures, polls), numbers = row(feed_collector(), name)
    names = ("changed", "same", "failed", "put_off", "requests", "entries")
    return state, failures, dict(zip(names, numbers, strict=True), polls=polls)


def test_the_feed_collector_accounts_for_every_poll_request_and_entry():
    feeds = {name: feed(name)[2] for name in FEEDS}
    for found in feeds.values():
        assert found["polls"] == found["changed"] + found["same"] + found["failed"] + found["put_off"]
    arrived, nowhere = map(
        int, re.search(r"(\d+) requests arrived at the feeds; (\d+) went nowhere", feed_collector()).groups()
    )
    assert nowhere == feeds["lost"]["requests"] == feeds["lost"]["polls"]
    assert arrived == sum(found["requests"] for name, found in feeds.items() if name != "lost")
    shown, kept = map(int, re.search(r"have shown (\d+) entries; (\d+) are in the table", feed_collector()).groups())
    assert shown == kept == sum(found["entries"] for found in feeds.values()) == 19


def test_feeds_that_are_well_are_collected_whole():
    entries = {name: feed(name)[2]["entries"] for name in FEEDS}
    assert entries == {
        **dict.fromkeys(("weekly", "plain", "shielded", "moody", "crowded", "moved"), 2),
        **dict.fromkeys(("unwell", "lost", "forbidden", "gone"), 0),
        "news": 6,
        "atom": 1,
    }
    assert feed("atom")[2]["changed"] == 2  # the title was corrected; it is the same entry


def test_a_403_that_passes_is_mended_within_its_poll():
    state, failures, found = feed("shielded")
    assert (state, failures, found["failed"]) == ("healthy", 0, 0)
    assert found["requests"] == found["polls"] + 2


def test_a_403_for_ever_costs_four_requests_a_poll_and_the_feed_after_five():
    state, failures, found = feed("forbidden")
    assert state == "disabled"
    assert failures == found["failed"] == found["polls"] >= 5
    assert found["requests"] == 4 * found["polls"]
    assert "forbidden: warning → disabled, failures in a row: 5" in lines(feed_collector(), "STATE")


def test_a_404_is_asked_once_a_poll_and_disables_after_five():
    state, failures, found = feed("gone")
    assert state == "disabled"
    assert failures == found["failed"] == found["requests"] >= 5
    assert "gone: warning → disabled, failures in a row: 5" in lines(feed_collector(), "STATE")


def test_trouble_of_the_host_and_of_the_network_is_not_counted():
    for name in ("unwell", "lost", "moody"):
        state, failures, found = feed(name)
        assert (state, failures) == ("healthy", 0)
        assert found["failed"] == (1 if name == "moody" else found["polls"])


def test_a_host_that_asks_to_be_left_alone_is():
    state, _, found = feed("crowded")
    assert (state, found["put_off"], found["failed"], found["requests"]) == ("healthy", 1, 0, found["polls"])


def test_a_probe_brings_a_disabled_feed_back():
    assert [line for line in lines(feed_collector(), "STATE") if line.startswith("moved")] == [
        "moved: healthy → warning, failures in a row: 1",
        "moved: warning → disabled, failures in a row: 5",
        "moved: disabled → probation, failures in a row: 0",
        "moved: probation → healthy, failures in a row: 0",
    ]
    assert "10 healthy, 2 disabled" in feed_collector()


def test_each_feed_that_is_disabled_or_back_is_told_once():
    assert sorted(lines(feed_collector(), "ALERT")) == [
        "forbidden: disabled after 5 failures in a row",
        "gone: disabled after 5 failures in a row",
        "moved: disabled after 5 failures in a row",
        "recovered after some time: moved: it answers again",
    ]


def test_the_feed_collector_ends_in_the_time_it_is_given_and_still_accounts_for_all():
    text = output_of("-m", "examples.feed_collector", "--for", "1s")
    shown, kept = re.search(r"have shown (\d+) entries; (\d+) are in the table", text).groups()
    assert shown == kept
    arrived, nowhere = map(int, re.search(r"(\d+) requests arrived at the feeds; (\d+) went nowhere", text).groups())
    assert arrived + nowhere == row(text, "together")[2][4]


def test_entries_that_come_a_second_time_are_kept_once(tmp_path):
    source = outlast.App("memory://").sources.add("http://127.0.0.1/feed", name="news")
    entries = Entries(tmp_path / "entries.db")
    for _ in range(2):
        entries.keep(
            outlast.Changed(
                source, outlast.Fetched(entries=(outlast.Entry("a", "A"), outlast.Entry("b", "B"))), first=True
            )
        )
    assert entries.counts() == {"news": 2}


def test_the_tours_monitor_needs_the_core_alone_and_accounts_for_every_poll():
    _, (polls,), ends = row(tour_scene(), "together")
    assert polls == sum(ends)
    assert ends[3] == 11  # withdrawn: all that were asked while the cable was pulled
    feeds = re.findall(r"^ +\d+ (\w+) {2,}(\w+) +(\d+) +(\d+) +(\d+) =", tour_scene(), re.MULTILINE)
    assert len(feeds) == 12
    assert sum(int(each[4]) for each in feeds) == polls
    states = {name: (state, int(failures)) for name, state, failures, _, _ in feeds}
    assert states.pop("forbidden") == states.pop("gone") == ("disabled", 3)
    assert set(states.values()) == {("healthy", 0)}


def test_the_tours_monitor_takes_a_pulled_cable_for_an_outage_and_tells_of_it():
    alerts = lines(tour_scene(), "ALERT")
    assert alerts[0] == "feed: 11 of 11 sources failed together; their failures are not counted"
    assert alerts[1:] == ["4 changes: 3 disabled, 1 recovered", "recovered: moved: it answers again"]
    assert "source 12: disabled → probation" in tour_scene()


def test_the_tour_in_text_runs_to_its_end():
    text = output_of("-m", "examples.tour", "--text", "--for", "1s")
    ends = re.search(r"9 enqueued = (\d+) done \+ (\d+) dead letters \+ (\d+) live", text).groups()
    assert sum(map(int, ends)) == 9
    assert "A monitor: a dozen feeds" in text
    assert "And now at random" in text
