"""One look for all lists: the same heading, numbers to the right, the same words for times, a hint where nothing is."""

import re
import sys
from datetime import UTC, datetime, timedelta

import pytest

from cli_world import make_world  # noqa: F401  # a fixture
from outlast import clock
from outlast.cli import output
from outlast.cli.formats import duration_text, relative_time

LISTS = (
    "tasks list",
    "dlq list",
    "dlq groups",
    "queues list",
    "sources list",
    "sources cycles",
    "job list",
    "policy list",
)
TIME = re.compile(r"now|due|-|(?:in )?\d+[smhd](?: ago)?")
CODE = """
import outlast

app = outlast.App("sqlite:///outlast.db")


@app.task(queue="letters-that-go-round-the-world")
def deliver_to_everybody_who_ever_asked_for_it(to: str):
    raise ValueError(f"there is nobody at {to}, and there was nobody before either")


@app.job("items", entity="tag", targets=lambda: ["a", "b"], policy=outlast.RetryPolicy(max_attempts=1))
def items(context, target):
    raise ValueError("no good")


monitor = app.monitor("feed", fetch=lambda source: b"x")
"""


@pytest.fixture
def full(world, monkeypatch):
    """A store with something in every list."""
    (world.folder / "full.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(world.folder))
    import full

    for number in range(12):
        full.deliver_to_everybody_who_ever_asked_for_it.enqueue(f"somebody-{number}@example.com")
    full.app.worker(concurrency=1).drain()
    full.deliver_to_everybody_who_ever_asked_for_it.enqueue("later", delay=3599.7)
    full.items.run()
    full.app.sources.add("https://example.com/a-rather-long-address/that-goes-on-and-on/feed.xml")
    full.monitor.cycle()
    yield world
    full.app.close()
    del sys.modules["full"]


def rows_of(text):
    """Return the heading and the rows of the first table in a text, each cut where its columns begin."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if re.match(r"[A-Z]{2,}  ", line))
    places = [match.start() for match in re.finditer(r"\S+(?: \S+)*", lines[start])]
    return (
        lines[start],
        places,
        [line for line in lines[start + 1 :] if line and not re.match("there may|no room", line)],
    )


@pytest.mark.parametrize("columns", [80, 200, None])
@pytest.mark.parametrize("name", LISTS)
def test_a_list(full, monkeypatch, name, columns):
    if columns is not None:
        monkeypatch.setenv("COLUMNS", str(columns))
    text = full.run(*name.split()).stdout
    heading, _, rows = rows_of(text)

    assert heading == heading.upper()
    assert max(map(len, text.splitlines()[:-1])) <= (columns or 80)
    assert rows
    assert "None" not in text
    if columns == 200 and name in {"tasks list", "dlq list"}:
        assert "deliver_to_everybody_who_ever_asked_for_it" in text  # there is room for all of it
        assert "…" not in text


def test_numbers_stand_to_the_right(full):
    heading, _, rows = rows_of(full.run("tasks", "list").stdout)
    end = heading.index("ID") + 2

    assert [row[:end] for row in rows[:4]] == ["13", "12", "11", "10"]
    assert rows[-1][:end] == " 1"
    assert rows[0][heading.index("FAILED") : heading.index("FAILED") + 6] == "     -"


def test_times_have_the_same_words_everywhere(full):
    for name, column in (("tasks list", "WHEN"), ("dlq list", "WHEN"), ("dlq groups", "LAST"), ("job list", "STARTED"),
                         ("sources list", "NEXT"), ("sources cycles", "STARTED")):  # fmt: skip
        heading, places, rows = rows_of(full.run(*name.split()).stdout)
        start = heading.index(column)
        end = next((place for place in places if place > start), None)
        assert all(TIME.fullmatch(row[start:end].strip()) for row in rows), (name, rows)


def test_what_is_empty_says_so_and_what_to_do(world):
    world.run("db", "init", "--url", "sqlite:///outlast.db")
    for name in LISTS[:-1]:
        text = world.run(*name.split()).stdout
        assert re.fullmatch(r"no [a-z ,]+; .*outlast \w+.*\n", text), text
    for words in (
        ["tasks", "list", "--status", "done"],
        ["dlq", "list", "--since", "1h"],
        ["dlq", "groups", "--task", "x"],
        ["dlq", "replays", "list", "--running"],
        ["alerts", "list", "--waiting"],
        ["job", "list", "--job", "x"],
        ["sources", "cycles", "--profile", "x"],
    ):
        command = " ".join(words).partition(" --")[0]
        assert world.run(*words).stdout.endswith(f" match; outlast {command} shows all\n")


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("tasks list", "--before 13"),
        ("dlq list", "--limit 2"),
        ("dlq groups", "--limit 2"),
        ("sources list", "--after 1"),
        ("sources cycles", "--limit 2"),
        ("job list", "--limit 2"),
    ],
)
def test_a_list_that_may_be_longer_says_how_to_see_more(full, name, option):
    assert f"there may be more: {option}" in full.run(*name.split(), "--limit", 1).stdout
    assert "there may be more" not in full.run(*name.split(), "--limit", 100).stdout


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "now"),
        (0.9, "now"),
        (59.7, "in 1m"),
        (-59.7, "1m ago"),
        (3599.7, "in 1h"),
        (86399.8, "in 1d"),
        (-90, "2m ago"),
    ],
)
def test_a_time_is_rounded_before_its_unit_is_chosen(monkeypatch, seconds, said):
    monkeypatch.setattr(clock, "now", lambda: 1_800_000_000.0)

    assert relative_time(datetime.fromtimestamp(1_800_000_000, UTC) + timedelta(seconds=seconds)) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(None, None), (0.04, "0.0s"), (9.94, "9.9s"), (12.4, "12s"), (200, "3m20s"), (3900, "1h05m")]
)
def test_how_long_something_took(seconds, said):
    assert duration_text(seconds) == said


def test_a_column_gives_way_only_where_there_is_no_room(monkeypatch):
    def text(columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        console = output.make_console()
        with console.capture() as captured:
            console.print(output.make_table({"NAME": 8, "NOTE": None}, [("a" * 30, "b" * 60)]))
        return captured.get().splitlines()[1].split()

    assert text(120) == ["a" * 30, "b" * 60]
    assert text(50) == ["aaaaaaa…", "b" * 39 + "…"]
