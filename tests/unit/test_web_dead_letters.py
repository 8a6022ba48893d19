"""The pages of dead letters: what they list, what they show of one, and what becomes of those that are chosen."""

import sqlite3
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient

import outlast
from outlast.report.dead_letters import dlq_command, facets, handled_text, numbers_text
from outlast.web import dashboard

BIG = 2**53 + 1
SECRET = "hunter2"


class World:
    """An app on SQLite whose numbers are beyond what a script counts exactly, and a browser that may change things."""

    def __init__(self, folder, role="operator"):
        self.path = folder / "outlast.db"
        self.app = outlast.App(f"sqlite:///{self.path}")
        self.app.create_schema()
        with sqlite3.connect(self.path) as connection:
            rows = [("task_queue", BIG - 1), ("dead_letter_queue", BIG + 999)]
            connection.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", rows)

        @self.app.task
        def scrape(url: str, api_key: str = "", number: int = 0):
            raise ValueError(f"no good: {url}, password={SECRET} <script>x</script>")

        @self.app.task(queue="mail")
        def mail(to: str):
            raise FileNotFoundError(to)

        self.scrape, self.mail = scrape, mail
        self.role = role
        site = dashboard(self.app, auth=lambda _: self.role)
        self.client = TestClient(site, base_url="http://localhost", headers={"Origin": "http://localhost"})

    def fail(self, *urls, **more):
        """Have tasks fail for good, one after the other; return their dead letters' numbers, oldest first."""
        for url in urls:
            self.scrape.enqueue(url=url, **more)
        self.app.worker(concurrency=1).drain()
        return sorted(letter.id for letter in self.app.dead_letters.list(None))

    def listed(self, query=""):
        return [int(row["id"]) for row in self.client.get(f"/api/dead-letters{query}").json()["rows"]]

    def post(self, path, **form):
        return self.client.post(path, data=form, follow_redirects=False)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.app.close()


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    """One with a dead letter, for what changes nothing."""
    made = World(tmp_path_factory.mktemp("steady"))
    made.fail("a")
    yield made
    made.app.close()


def test_none(world):
    page = world.client.get("/dead-letters")
    assert page.status_code == 200
    assert "No dead letters." in page.text
    assert "Replay selected" not in page.text


def test_the_list_is_narrowed_by_everything(world):
    world.mail.enqueue(to="me")
    letters = world.fail("a", "b")
    group = world.client.get("/api/dead-letters?text=NO%20GOOD:%20b").json()["rows"][0]["fingerprint"]

    assert world.listed() == letters[::-1]
    assert letters[0] > BIG
    assert world.listed("?task=mail") == world.listed("?queue=mail") == world.listed("?category=not_found")
    assert len(world.listed("?task=mail")) == 1
    assert world.listed(f"?group={group}") == letters[:1:-1]
    assert world.listed("?task=scrape") == world.listed("?category=unknown") == letters[:0:-1]
    assert world.listed("?reason=permanent") == letters[::-1]
    assert world.listed("?reason=crash") == []
    assert world.listed("?text=no+good:+a&task=scrape") == letters[1:2]
    assert world.listed("?since=2h") == letters[::-1]
    assert world.listed("?until=2h") == world.listed("?since=2999-01-01T00:00") == []
    assert world.listed("?since=2020-01-01T00:00&until=2999-01-01T00:00:00%2B09:00") == letters[::-1]
    assert world.listed(f"?before={letters[-1]}") == letters[-2::-1]


def test_the_counts_are_narrowed_with_the_list(world):
    world.mail.enqueue(to="me")
    world.fail("a", "b")
    data = world.client.get("/api/dead-letters?task=scrape").json()

    assert data["tasks"] == [{"name": "scrape", "size": 2}, {"name": "mail", "size": 1}]
    assert data["categories"] == [{"name": "unknown", "size": 2}]
    assert (data["whole"], data["counted"]) == (2, True)
    assert not world.client.get("/api/dead-letters?text=x").json()["counted"]
    page = world.client.get("/dead-letters?task=scrape").text
    assert "2 dead letters" in page
    assert "outlast dlq replay --task scrape --app MODULE:APP" in page


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("since=yesterday", "since is &#39;yesterday&#39;; it must be a time in UTC"),
        ("until=2026-13-01T00:00", "until is"),
        ("since=0001-01-01T00:00%2B14:00", "since is"),
        ("since=999999w", "since is"),
        ("category=netwrok", "is not a valid category; choose one of: network,"),
        ("reason=bored", "is not a valid reason; choose one of: exhausted,"),
        ("before=x", "it must be a row number"),
        ("before=99999999999999999999", "it must be a row number"),
        (f"text={'x' * 201}", "text has 201 characters"),
    ],
)
def test_what_cannot_be_meant_is_said(steady, query, said):
    page, twin = steady.client.get(f"/dead-letters?{query}"), steady.client.get(f"/api/dead-letters?{query}")
    assert (page.status_code, twin.status_code) == (400, 400)
    assert said in page.text


def test_pages_follow_one_another(world):
    letters = world.fail(*(str(number) for number in range(55)))
    first = world.client.get("/api/dead-letters?task=scrape").json()
    page = world.client.get("/dead-letters?task=scrape").text

    assert [int(row["id"]) for row in first["rows"]] == letters[:14:-1]
    assert not first["stopped"]
    assert f"/dead-letters?task=scrape&amp;before={first['next']}" in page
    assert world.listed(f"?task=scrape&before={first['next']}") == letters[14::-1]
    assert "Back to the newest" in world.client.get(f"/dead-letters?before={first['next']}").text


def test_a_page_that_stopped_looking_says_so(world, monkeypatch):
    letters = world.fail("a", "b", "c", "d", "e")
    lines = world.app.store.dead_letter_lines
    monkeypatch.setattr(world.app.store, "dead_letter_lines", lambda which: lines(which, look=3))
    page = world.client.get("/dead-letters?text=good:+b").text
    data = world.client.get("/api/dead-letters?text=good:+b").json()

    assert data["rows"] == []
    assert data["stopped"]
    assert "Scanned the latest 3; " in page
    assert "among the rows scanned" in page
    assert world.listed(f"?text=good:+b&before={data['next']}") == [letters[1]]


def test_one_shows_why_and_no_secret(world):
    (letter,) = world.fail("a", api_key=SECRET, number=BIG)
    page, data = (
        world.client.get(f"/dead-letters/{letter}").text,
        world.client.get(f"/api/dead-letters/{letter}").json(),
    )

    assert "a retry would not help" in page
    assert "nothing showed what it is" in page
    assert "Traceback (most recent call last)" in page
    assert f"outlast dlq replay {letter} --app MODULE:APP" in page
    assert f"&#34;number&#34;: {BIG}" in page
    assert "<script>x" not in page
    assert SECRET not in page + str(data)
    assert data["dead_letter"]["id"] == str(letter)
    assert data["history"]["attempts"][0]["rule"] == data["rule"]
    assert data["why"]


def test_one_that_is_not_there(world):
    for path in ("/dead-letters/1", "/dead-letters/0", "/dead-letters/x", f"/dead-letters/{2**70}"):
        assert world.client.get(path).status_code == 404
        assert world.post(f"{path}/replay").status_code == 404


def test_one_is_replayed(world):
    (letter,) = world.fail("a")
    task = world.app.dead_letters.show(letter).dead_letter.original_task_id
    answer = world.post(f"/dead-letters/{letter}/replay")

    assert (answer.status_code, answer.headers["location"]) == (303, f"/tasks/{task}")
    assert world.app.store.get(task).status == "QUEUED"
    assert world.post(f"/dead-letters/{letter}/replay").status_code == 404


def test_one_that_cannot_be_replayed_stays(world):
    (letter,) = world.fail("a", unique_key="k")
    world.scrape.enqueue(url="other", unique_key="k")
    answer = world.client.post(f"/api/dead-letters/{letter}/replay").json()

    assert (answer["ok"], answer["outcome"]) == (False, "conflict")
    assert "its unique key is taken by another live task" in answer["message"]
    assert world.listed() == [letter]


def test_one_is_discarded(world):
    (letter,) = world.fail("a")
    answer = world.post(f"/dead-letters/{letter}/discard")
    assert (answer.status_code, answer.headers["location"]) == (303, "/dead-letters")
    assert world.listed() == []


def test_many_are_replayed_and_those_that_stay_are_linked(world):
    free = world.fail("a", "b")
    taken = [letter for letter in world.fail("c", unique_key="k") if letter not in free]
    world.scrape.enqueue(url="other", unique_key="k")
    gone = free[0] - 1
    form = {"dead_letter_id": [str(each) for each in [*free, *taken, gone]], "back": "task=scrape&text=no+good"}
    answer = world.post("/dead-letters/replay", **form)
    to = urlsplit(answer.headers["location"])

    assert (answer.status_code, to.path) == (303, "/dead-letters")
    assert parse_qs(to.query) == {"task": ["scrape"], "text": ["no good"], "stayed": [str(taken[0])]}
    assert world.listed() == taken
    page = world.client.get(answer.headers["location"]).text
    assert f"2 replayed, 1 stayed: its unique key is taken by another live task ({taken[0]})" in page
    assert f"1 does not exist any more ({gone})" in page
    assert f'href="/dead-letters/{taken[0]}"' in page


def test_many_are_discarded_by_a_program(world):
    letters = world.fail("a", "b", "c")
    answer = world.client.post(
        "/api/dead-letters/discard", json={"dead_letter_id": [str(each) for each in letters[:2]]}
    ).json()

    assert answer["ok"]
    assert answer["message"] == "2 discarded"
    assert answer["discarded"] == [str(each) for each in letters[:2]]
    assert world.listed() == letters[2:]


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([], "no dead letter id was given"),
        (["x"], "must be a row number"),
        (["-1"], "must be a row number"),
        (["1e3"], "must be a row number"),
        ([str(2**63)], "must be a row number"),
        ([str(number) for number in range(1, 502)], "501 values of dead letter id are given; at most 500"),
    ],
)
def test_choices_that_cannot_be_used(steady, numbers, said):
    (letter,) = steady.listed()
    for verb in ("replay", "discard"):
        answer = steady.post(
            f"/dead-letters/{verb}", dead_letter_id=[*numbers, *([str(letter)] if numbers else [])][:501]
        )
        assert answer.status_code == 400
        assert said in answer.text
    assert steady.listed() == [letter]


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "a=b&stayed=1", "\r\nSet-Cookie: a=b"])
def test_the_way_back_leads_nowhere_else(world, back):
    (letter,) = world.fail("a")
    answer = world.post("/dead-letters/discard", dead_letter_id=str(letter), back=back)
    assert answer.headers["location"] == "/dead-letters"
    assert "a=b" not in answer.headers.get("set-cookie", "")


def test_who_may_only_look_sees_no_buttons(world):
    (letter,) = world.fail("a")
    world.role = "reader"
    pages = world.client.get("/dead-letters").text + world.client.get(f"/dead-letters/{letter}").text

    assert "Replay selected" not in pages
    assert 'method="post"' not in pages
    assert world.post("/dead-letters/discard", dead_letter_id=str(letter)).status_code == 403
    assert world.listed() == [letter]


def test_outcomes_in_words():
    assert handled_text("replayed", {"replayed": [1], "conflict": [], "gone": []}) == "1 replayed"
    assert handled_text("replayed", {"replayed": [], "conflict": [1, 2], "gone": []}) == (
        "0 replayed, 2 stayed: their unique keys are taken by another live task (1, 2)"
    )
    gone = {"discarded": [], "conflict": [], "gone": [1, 2]}
    assert handled_text("discarded", gone) == "0 discarded, 2 do not exist any more (1, 2)"
    assert numbers_text(range(1, 13)) == "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 others"


def test_a_command_for_a_shell_is_quoted():
    given = {"text": "it's; rm -rf /", "group": "ff", "since": "2026-11-15T10:00:00+00:00"}
    assert dlq_command("replay", {}) == "outlast dlq replay --all --app MODULE:APP"
    assert dlq_command("discard", given) == (
        "outlast dlq discard --group ff --since 2026-11-15T10:00:00+00:00 "
        "--text 'it'\"'\"'s; rm -rf /' --app MODULE:APP"
    )


def test_counts_below_one_are_not_shown():
    assert facets({("a", "x"): 0, ("b", "x"): -1}, task=None, category=None) == ([], [], 0)


@pytest.mark.parametrize("query", ["queue=nosuch", "text=no+good", "since=1h", "reason=permanent", "group=x"])
def test_numbers_that_are_not_of_the_list_are_not_shown(world, query):
    world.fail("a", "b")
    told = world.client.get(f"/api/dead-letters?{query}").json()
    page = world.client.get(f"/dead-letters?{query}").text
    assert (told["whole"], told["counted"]) == (None, False)
    assert [(each["name"], each["size"]) for each in told["tasks"]] == [("scrape", None)]
    assert {each["size"] for each in told["categories"]} == {None}
    assert '<option value="scrape">scrape</option>' in page
    assert "(2)" not in page
    assert '<span class="num sub">2</span>' not in page
    assert "(2)" in world.client.get("/dead-letters").text
