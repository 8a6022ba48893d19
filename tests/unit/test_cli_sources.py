"""outlast sources: adding, importing, looking, and what is done by hand."""

import sqlite3

import pytest

from cli_world import make_world  # noqa: F401  # a fixture
from outlast.errors import ResourceNotFoundError
from outlast.ports.source_rows import NewSource

FEED = "https://example.com/feed.xml"
MONITORED = """import outlast
app = outlast.App("sqlite:///outlast.db")
news = app.monitor(outlast.profile("feed").replace(name="news"), fetch=lambda source: "text")
"""
SECRET = "hunter2"
OPML = """<?xml version="1.0"?><opml version="2.0"><body><outline text="News">
<outline text="One" xmlUrl="https://one.example.com/feed"/><outline text="Two" xmlUrl="https://two.example.com/feed"/>
</outline></body></opml>"""


@pytest.fixture
def book(world):
    world.run("db", "init", "--url", "sqlite:///outlast.db")
    return world


def failed(world, times, url=FEED):
    for _ in range(times):
        world.app().sources.record_failure(url, ResourceNotFoundError("404"))


class TestAdd:
    def test_new_and_known(self, book):
        first = book.run("sources", "add", FEED, "https://other.example.com/", "--profile", "blog")
        again = book.run("sources", "add", "HTTPS://Example.com:443/feed.xml", "--profile", "blog")

        assert first.stdout == (
            f"source 1: added, due at once: {FEED}\nsource 2: added, due at once: https://other.example.com/\n"
        )
        assert again.stdout == f"source 1: already exists, healthy: {FEED}\n"
        assert {source["profile"] for source in book.json("sources", "list")} == {"blog"}

    def test_json_and_names(self, book):
        assert book.json("sources", "add", FEED, "--name", "News") == [{"source_id": 1, "created": True, "url": FEED}]
        assert book.json("sources", "add", FEED)[0]["created"] is False
        assert book.json("sources", "show", 1)["name"] == "News"

    def test_all_mistakes_are_told_and_nothing_is_added(self, book):
        result = book.run("sources", "add", FEED, "ftp://example.com/", f"htp://me:{SECRET}@x/", code=2)
        heading, *lines = result.stderr.splitlines()

        assert heading == "Error: 2 problems with sources:"
        assert [line.partition(": ")[0] for line in lines] == ["  'ftp://example.com/'", "  'htp://***@x/'"]
        assert SECRET not in result.output
        assert book.json("sources", "list") == []

    def test_a_name_is_for_one(self, book):
        assert "--name needs exactly one URL" in book.run("sources", "add", "a", "b", "--name", "x", code=2).stderr

    def test_the_profile_of_the_only_monitor_is_the_default(self, book):
        (book.folder / "one_monitor.py").write_text(MONITORED, "utf-8")
        assert book.run("sources", "add", FEED, "--app", "one_monitor:app").stderr == ""
        (book.folder / "urls.txt").write_text("https://two.example.com/feed\n", "utf-8")
        assert book.run("sources", "import", "urls.txt", "--app", "one_monitor:app").stderr == ""

        assert {source["profile"] for source in book.json("sources", "list")} == {"news"}

    def test_a_profile_that_no_monitor_polls_is_told(self, book):
        (book.folder / "two_monitors.py").write_text(MONITORED + 'two = app.monitor("blog")\n', "utf-8")
        given = book.run("sources", "add", FEED, "--app", "two_monitors:app")

        assert given.stderr == "no monitor of two_monitors:app polls profile feed; it has: blog, news\n"

    def test_a_profile_that_nobody_knows_is_told(self, book):
        assert (
            "'fed' is not one of the profiles blog, feed" in book.run("sources", "add", FEED, "--profile", "fed").stderr
        )
        assert book.run("sources", "add", FEED, "--profile", "blog").stderr == ""

    def test_the_file_of_an_app_comes_into_being(self, world):
        world.run("sources", "add", FEED, "--app", "jobs:app")
        assert (world.folder / "outlast.db").exists()
        assert (
            "the file typo.db does not exist"
            in world.run("sources", "add", FEED, "--url", "sqlite:///typo.db", code=2).stderr
        )
        assert not (world.folder / "typo.db").exists()


class TestImport:
    def test_opml(self, book):
        (book.folder / "feeds.opml").write_text(OPML)
        assert book.run("sources", "import", "feeds.opml").stdout == "2 added, 0 already exist\n"
        assert book.run("sources", "import", "feeds.opml").stdout == "0 added, 2 already exist\n"
        assert [source["name"] for source in book.json("sources", "list")] == ["One", "Two"]

    def test_a_list(self, book):
        (book.folder / "urls.txt").write_text(f"# ours\n{FEED} News\n\nhttps://b.example.com/\n{FEED}\n")

        assert book.json("sources", "import", "urls.txt", "--profile", "blog") == {
            "new": 2,
            "known": 0,
            "dry_run": False,
        }
        assert {source["profile"] for source in book.json("sources", "list")} == {"blog"}

    def test_a_dry_run_adds_nothing(self, book):
        (book.folder / "urls.txt").write_text(f"{FEED}\nhttps://me:{SECRET}@b.example.com/\n")
        book.run("sources", "add", FEED)
        result = book.run("sources", "import", "urls.txt", "--dry-run")

        assert result.stdout == "1 would be added, 1 already exists\n  https://***@b.example.com/\n"
        assert book.json("sources", "import", "urls.txt", "--dry-run") == {"new": 1, "known": 1, "dry_run": True}
        assert len(book.json("sources", "list")) == 1

    def test_a_dry_run_tells_the_same_mistakes(self, book):
        (book.folder / "urls.txt").write_text("nonsense\nftp://x\n")
        tried = book.run("sources", "import", "urls.txt", "--dry-run", code=2).stderr

        assert tried == book.run("sources", "import", "urls.txt", code=2).stderr
        assert tried.startswith("Error: 2 problems with sources:\n  'nonsense'")

    def test_what_cannot_be_read(self, book):
        (book.folder / "bad.opml").write_text("<html></html>")

        assert "this is not OPML: line 1" in book.run("sources", "import", "bad.opml", code=2).stderr
        assert "nowhere.opml: cannot be read" in book.run("sources", "import", "nowhere.opml", code=2).stderr


class TestList:
    def test_none(self, book):
        assert "no sources; add some: outlast sources add" in book.run("sources", "list").stdout
        assert book.json("sources", "list") == []

    def test_counts_and_columns(self, book):
        book.run("sources", "add", FEED, "https://well.example.com/")
        failed(book, 2)
        text = book.run("sources", "list").stdout.splitlines()

        assert text[0] == "2 sources: healthy 1, warning 1"
        assert text[1].split() == ["ID", "STATE", "FAILURES", "SUCCESS", "FAILURE", "NEXT", "SOURCE"]
        assert text[2].split() == ["1", "warning", "2", "-", "now", "due", FEED]
        assert text[3].split()[:3] == ["2", "healthy", "0"]
        assert all(len(line) <= 80 for line in text)

    def test_filters(self, book):
        book.run("sources", "add", FEED, "https://well.example.com/")
        book.run("sources", "add", "https://page.example.com/", "--profile", "blog", "--name", "A page")
        failed(book, 5)

        def listed(*words):
            return [source["id"] for source in book.json("sources", "list", *words)]

        assert listed("--state", "disabled") == [1]
        assert listed("--profile", "blog") == [3]
        assert listed("--text", "page") == [3]
        assert listed("--limit", 2) == [1, 2]
        assert listed("--after", 2) == [3]
        assert "there may be more: --after 2" in book.run("sources", "list", "--limit", 2).stdout
        assert "no sources match" in book.run("sources", "list", "--state", "error").stdout
        assert "no sources of the profile x" in book.run("sources", "list", "--profile", "x").stdout


class TestShow:
    def test_all_there_is(self, book):
        book.run("sources", "add", FEED, "--name", "News")
        failed(book, 5)
        text, data = book.run("sources", "show", FEED).stdout, book.json("sources", "show", 1)

        for words in (
            "1, profile feed", "News", FEED, "disabled now, by its profile", "5 in a row", "not_found: ResourceNotFoundError: 404",
            ": as a probe; to probe it sooner: outlast sources probe 1", "warning > disabled",
        ):  # fmt: skip
            assert words in text, words
        assert (data["state"], data["consecutive_failures"], data["disabled_by"]) == ("disabled", 5, "rule")
        assert data["last_failure"]["category"] == "not_found"
        assert data["last_failure_at"].endswith("+00:00")
        assert [line["outcome"] for line in data["history"]] == ["failed"] * 5
        assert "epoch" not in data

    def test_a_new_one(self, book):
        book.run("sources", "add", FEED)
        text = book.run("sources", "show", "1").stdout

        assert "it has not been polled yet" in text
        assert "due" in text

    def test_a_host_that_is_left_alone(self, book):
        book.run("sources", "add", FEED)
        with sqlite3.connect("outlast.db") as connection:
            connection.execute(
                "UPDATE sources SET not_before = next_poll_at + 600000, next_poll_at = next_poll_at + 600000"
            )
        connection.close()

        assert "in 10m: its host asked for no requests until then" in book.run("sources", "show", 1).stdout

    @pytest.mark.parametrize("word", ["7", "0", "9" * 19, "9" * 400, "https://nowhere.example.com/"])
    def test_no_such_source(self, book, word):
        result = book.run("sources", "show", word, code=1)

        problem = f"source {word} does not exist" if word.isdecimal() else f"source {word}: no source has that URL"
        assert result.stderr.startswith(f"Error: {problem}\n")
        assert "outlast sources list shows the sources" in result.stderr

    def test_a_url_of_two_profiles(self, book):
        book.run("sources", "add", FEED)
        book.run("sources", "add", FEED, "--profile", "blog")

        assert "choose one by its number: 1 (feed), 2 (blog)" in book.run("sources", "show", FEED, code=1).stderr


class TestByHand:
    def test_disable_and_enable(self, book):
        book.run("sources", "add", FEED, "https://other.example.com/")
        result = book.run("sources", "disable", 1, 7, FEED, "--why", "moved \x1b[2Jaway", code=1)
        told = result.stdout.splitlines()

        assert (
            told[0]
            == "source 1 is disabled, was healthy; it is not polled until it is enabled; outlast sources enable 1"
        )
        assert told[1].startswith("source 7 does not exist")
        assert told[2].startswith("source 1 is disabled, was disabled")
        assert result.stderr == ""
        shown = book.run("sources", "show", 1).stdout
        assert "by hand" in shown
        assert "never: it was disabled by hand; outlast sources enable 1" in shown
        assert (
            "disabled by hand and is not polled until it is enabled; outlast sources enable 1"
            in book.run("sources", "probe", 1, code=1).stdout
        )
        assert "source 1 is enabled, was disabled" in book.run("sources", "enable", 1).stdout
        assert "source 1 is enabled: its failures are cleared" in book.run("sources", "enable", 1).stdout
        assert [source["state"] for source in book.json("sources", "list")] == ["healthy", "healthy"]

    def test_probe(self, book):
        book.run("sources", "add", FEED)
        failed(book, 5)
        assert book.json("sources", "show", 1)["not_before"] is not None
        assert (
            book.run("sources", "probe", FEED).stdout
            == "source 1 is polled in the next cycle; this needs a running monitor\n"
        )
        assert book.json("sources", "show", 1)["not_before"] is None

    def test_remove_asks(self, book):
        book.run("sources", "add", f"https://me:{SECRET}@example.com/", "https://other.example.com/")
        result = book.run("sources", "remove", 1, 2, code=1, text="n\n")
        assert (
            "Remove it with its history for good? source 1 (https://***@example.com/), source 2 (https://other.example.com/)"
            in result.output
        )
        assert SECRET not in result.output
        assert len(book.json("sources", "list")) == 2
        book.run("sources", "remove", 1, text="y\n")
        assert book.run("sources", "remove", 2, 2, "--yes").stdout == "source 2 was removed\n"
        assert book.json("sources", "list") == []

    def test_remove_removes_nothing_where_one_is_unknown(self, book):
        book.run("sources", "add", FEED)
        assert "source 9 does not exist" in book.run("sources", "remove", 1, 9, "--yes", code=1).stderr
        assert len(book.json("sources", "list")) == 1


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize(
    "words", [["sources", "list"], ["sources", "show", 1], ["sources", "cycles"], ["status"], ["alerts", "list"]]
)
def test_no_secret_is_shown_and_no_terminal_obeys(book, words, form):
    store = book.app().store
    store.add_sources(
        [NewSource(f"https://me:{SECRET}@example.com/?access_token={SECRET}&api_key={SECRET}", "feed", "a\x1b[2Jb")]
    )
    text = f"\x1b[2J customer 4711 https://me:{SECRET}@db/ api_key={SECRET}"
    for _ in range(5):
        book.app().sources.record_failure(1, ResourceNotFoundError(text))
    with sqlite3.connect("outlast.db") as connection:
        connection.execute("UPDATE sources SET last_error = ?1, etag = ?1, selector = ?1", (text,))
        connection.execute("UPDATE source_polls SET error = ?1", (text,))
        connection.execute("UPDATE alerts SET title = ?1, text = ?1, last_error = ?1", (text,))
    connection.close()
    (book.folder / "outlast.toml").write_text("[redact]\npatterns = ['customer \\d+']\n")
    told = book.run(*words, *form).stdout

    assert SECRET not in told
    assert "4711" not in told
    assert "\x1b" not in told


def test_status_tells_of_sources_and_alerts(book):
    before = book.json("status")
    assert (before["alerts_waiting"], sum(before["sources"].values())) == (0, 0)
    assert "source" not in book.run("status").stdout.partition("\n")[2]
    book.run("sources", "add", FEED, "https://other.example.com/")
    failed(book, 5)
    data, text = book.json("status"), book.run("status").stdout

    assert (data["sources"]["disabled"], data["sources"]["healthy"], data["alerts_waiting"]) == (1, 1, 1)
    assert "2 sources: healthy 1, disabled 1" in text
    assert "1 alert not delivered yet, the oldest now" in text
