"""The source book: `app.sources`."""

import pytest

import outlast
from outlast.errors import ConfigError, NetworkError, ResourceNotFoundError
from outlast.ports.source_rows import NewSource

GONE = ResourceNotFoundError("gone")


@pytest.fixture
def app():
    app = outlast.App("memory://")
    yield app
    app.close()


@pytest.fixture
def book(app):
    return app.sources


def test_a_source_is_added_once_and_found_by_number_and_url(book):
    source = book.add(" HTTP://Feeds.Test:80/news#top ", name="News")

    assert (source.url, source.profile, source.name, source.state) == (
        "http://feeds.test/news",
        "feed",
        "News",
        "healthy",
    )
    assert book.add("http://feeds.test/news").id == source.id
    assert book.get("http://FEEDS.test/news").id == book.get(source.id).id == source.id
    assert [each.created for each in book.add_many([NewSource("http://feeds.test/news", "feed"), NewSource("http://b.test/", "feed")])] == [False, True]  # fmt: skip


def test_one_url_in_two_profiles_is_asked_for_by_number(book):
    one, two = book.add("http://a.test/"), book.add("http://a.test/", profile="blog")

    with pytest.raises(ConfigError, match=rf"2 sources .* {one.id} \(feed\), {two.id} \(blog\)"):
        book.get("http://a.test/")


@pytest.mark.parametrize(
    ("which", "said"), [(99, "source 99 does not exist"), ("http://nowhere.test/?key=s3cret", "no source has that URL")]
)
def test_what_is_not_there_is_said_without_its_secrets(book, which, said):
    with pytest.raises(ConfigError, match=said) as raised:
        book.get(which)
    assert "s3cret" not in str(raised.value)


def test_a_list_or_opml_is_imported_whole_or_not_at_all(book, tmp_path):
    plain, opml, bad = (tmp_path / name for name in ("a.txt", "b.opml", "c.txt"))
    plain.write_text("# mine\nhttp://a.test/\nhttp://b.test/\n")
    opml.write_bytes(b'\xef\xbb\xbf <opml><body><outline text="C" xmlUrl="http://c.test/"/></body></opml>')
    bad.write_text("http://d.test/\nftp://e.test/\n")

    assert [each.created for each in (*book.import_file(plain), *book.import_file(str(opml)))] == [True] * 3
    with pytest.raises(ConfigError, match="ftp"):
        book.import_file(bad)
    with pytest.raises(ConfigError, match="cannot be read"):
        book.import_file(tmp_path / "none.txt")
    assert [each.url for each in book.list()] == [f"http://{each}.test/" for each in "abc"]


def test_sources_are_listed_by_state_profile_and_text_and_page_by_page(book):
    numbers = [book.add(f"http://{each}.test/", name=each.upper()).id for each in "abcd"]
    book.add("http://e.test/", profile="blog")
    book.disable(numbers[0])

    assert [each.id for each in book.list(state="disabled")] == numbers[:1]
    assert [each.id for each in book.list(text="B")] == [numbers[1]]
    assert [each.id for each in book.list(profile="feed", after=numbers[1], limit=1)] == [numbers[2]]
    assert sum(book.health().values()) == 5
    assert (book.health("blog")["healthy"], book.health()["disabled"]) == (1, 1)
    with pytest.raises(ValueError, match="unwell"):
        book.list(state="unwell")


def test_five_reported_failures_disable_and_a_success_brings_back(app, book):
    number = book.add("http://a.test/").id
    moves = [book.record_failure(number, GONE) for _ in range(6)]

    assert [move and (str(move.before), str(move.after)) for move in moves] == [
        ("healthy", "warning"), None, None, None, ("warning", "disabled"), None,
    ]  # fmt: skip
    assert (moves[4].consecutive_failures, book.get(number).consecutive_failures) == (5, 6)
    assert [book.record_success(number).after for _ in range(2)] == ["probation", "healthy"]
    assert book.record_success(number) is None
    assert [str(each.kind) for each in app.store.alerts()][::-1] == ["first", "recovered"]
    assert [each.outcome for each in book.history(number, 3)] == ["unchanged"] * 3


def test_a_reported_network_failure_is_noted_and_not_counted(book):
    number = book.add("http://a.test/").id
    for _ in range(20):
        assert book.record_failure(number, NetworkError("down")) is None

    source = book.get(number)
    assert (source.state, source.consecutive_failures, source.last_failure["category"]) == ("healthy", 0, "network")
    assert source.last_error == "NetworkError: down"


def test_the_apps_own_profile_judges_what_is_reported(app, book):
    number = book.add("http://a.test/", profile="mine").id
    with pytest.raises(ConfigError, match="'mine', which this app does not have"):
        book.record_failure(number, GONE)
    app.monitor(outlast.profile("feed").replace(name="mine", threshold=1, disables=False), fetch=lambda source: "")

    assert book.record_failure(number, GONE).after == "error"
    assert "mine" not in outlast.App("memory://").sources.profiles, "each app has its own"


def test_what_somebody_does_is_in_the_history(book):
    number = book.add("http://a.test/").id
    moves = [book.disable(number, "spam"), book.disable(number), book.enable(number), book.enable(number)]

    assert [move and str(move.after) for move in moves] == ["disabled", None, "healthy", None]
    assert moves[0].reason == "spam"
    assert [each.outcome for each in book.history(number)] == ["enabled", "enabled", "disabled", "disabled"]


def test_a_source_that_somebody_disabled_stays_so_whatever_is_reported(book):
    number = book.add("http://a.test/").id
    book.disable(number)

    assert book.record_success(number) is None
    assert book.record_failure(number, GONE) is None
    assert not book.probe(number)
    assert (book.get(number).state, book.get(number).consecutive_failures) == ("disabled", 0)


def test_a_removed_source_is_gone_with_its_history(app, book):
    number = book.add("http://a.test/").id
    book.record_failure(number, GONE)
    book.remove(number)

    assert (book.list(), app.store.polls(number, 10)) == ([], [])
    with pytest.raises(ConfigError):
        book.remove(number)


def test_transitions_are_told_to_subscribers_and_logged_without_secrets(book, caplog):
    number, seen = book.add("http://a.test/?api_key=s3cret").id, []
    unsubscribe = outlast.subscribe(seen.append, outlast.events.SourceChanged)
    try:
        book.record_failure(number, GONE)
    finally:
        unsubscribe()

    (event,) = seen
    assert (event.source_id, event.before, event.after) == (number, "healthy", "warning")
    assert "s3cret" not in caplog.text + str(event)
    assert f"source {number} is warning, was healthy" in caplog.text
