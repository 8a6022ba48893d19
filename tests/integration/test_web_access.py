"""Who gets in where the dashboard stands by itself: by a link, the form, a cookie or a token; and for how long."""

import logging
import re
from urllib.parse import quote

import pytest

from outlast.web.access.callers import Role
from outlast.web.access.hosts import parse_proxy
from outlast.web.access.token_access import _MAX_DELAYED, FREE_ATTEMPTS, Sessions, Tokens
from web_asking import Client
from web_small_site import (
    OPERATOR,
    READER,
    SEEN,
    bearer,
    clean,  # noqa: F401  # a fixture
    done,
    make_app,  # noqa: F401  # a fixture
    own,
    signed_in,
)

# The one-time link


def test_pitfall_65_a_link_is_exchanged_once_for_a_cookie_and_leads_away_from_itself(app):
    used = []
    access, site = own(app, tokens=Tokens(), on_link_used=lambda: used.append(1))
    secret = access.links.new()
    stranger = Client(site)
    assert stranger.ask("HEAD", f"/enter?once={secret}").status == 200  # a look ahead costs nothing
    answer = stranger.get(f"/enter?once={secret}")
    assert (answer.status, answer.header("location"), answer.body) == (303, "/", b"")
    assert secret not in str(answer.headers)
    cookie = answer.cookies()[0]
    assert re.fullmatch(r"outlast-session=[\w-]{43}; HttpOnly; Max-Age=43200; Path=/; SameSite=strict", cookie)
    assert used == [1]
    friend = Client(site, ("Cookie", cookie.partition(";")[0]))
    assert SEEN in friend.get("/").text
    assert secret not in friend.get("/").text
    again = stranger.get(f"/enter?once={secret}")
    assert again.status == 401
    assert not again.cookies()
    assert "already used" in again.text
    assert used == [1]
    assert SEEN in friend.get("/").text  # who is in stays in


@pytest.mark.parametrize("query", ["", "?once=", "?once=x", "?once=%00", "?once=" + "x" * 5000, "?token=x"])
def test_a_link_that_is_none_lets_nobody_in(app, query):
    _, site = own(app, tokens=Tokens())
    answer = Client(site).get(f"/enter{query}")
    assert answer.status in {400, 401}
    assert not answer.cookies()


def test_guessing_links_is_slowed_down_and_a_right_link_lets_in_at_once(app, monkeypatch, caplog):
    late = []

    async def sleep(seconds):
        late.append(seconds)

    monkeypatch.setattr("outlast.web.access.token_access.anyio.sleep", sleep)
    access, site = own(app, tokens=Tokens())
    for _ in range(FREE_ATTEMPTS):
        assert Client(site).get("/enter?once=a-guess").status == 401
    assert late == []
    answer = Client(site).get("/enter?once=a-guess")
    assert (answer.status, answer.header("retry-after"), late) == (429, "1", [1.0])
    assert Client(site).get("/enter?once=a-guess", client=("10.0.0.9", 1)).status == 401
    assert Client(site).get(f"/enter?once={access.links.new()}").status == 303
    assert "a wrong one-time link for the dashboard came from 127.0.0.1" in caplog.text
    assert "a-guess" not in caplog.text


def test_a_link_lets_in_though_the_next_one_cannot_be_printed(app):
    access, site = own(app, tokens=Tokens())

    def printed():
        raise BrokenPipeError

    access.on_link_used = printed
    assert Client(site).get(f"/enter?once={access.links.new()}").status == 303


def test_a_link_of_a_dashboard_that_only_shows_makes_a_reader(app):
    access, site = own(app, tokens=Tokens(), read_only=True)
    answer = Client(site).get(f"/enter?once={access.links.new()}")
    reader = Client(site, ("Cookie", answer.cookies()[0].partition(";")[0]))
    assert reader.get("/").status == 200
    assert reader.post("/things/x/change").status == 403
    assert done == []


def test_without_tokens_no_token_is_right(app):
    _, site = own(app, tokens=Tokens())
    assert Client(site).post("/sign-in", "token=").status == 401
    assert bearer(site, "").get("/api").status == 401
    assert "terminal" in Client(site).get("/").text


# The form


def test_a_token_is_exchanged_for_a_cookie(app):
    access, site = own(app)
    operator, reader = signed_in(site), signed_in(site, READER)
    assert "True operator by token" in operator.get("/").text
    assert "False reader by token" in reader.get("/").text
    assert operator.post("/things/x/change", "id=1&id=2").status == 303
    assert done == [("x", {"id": ["1", "2"]}, "operator by token")]
    assert OPERATOR not in operator.get("/").text
    assert access.throttle._failures == {}


def test_the_form_leads_on_to_where_somebody_wanted_to_go(app):
    _, site = own(app)
    asks = Client(site).get("/things/a%2Fb?x=%22%3Cb%3E")
    assert asks.status == 401
    assert SEEN not in asks.text
    to = re.search(r'name="to" value="([^"]*)"', asks.text)[1]
    assert to == "/things/a%2Fb?x=%22%3Cb%3E"
    answer = Client(site).post("/sign-in", f"token={quote(OPERATOR)}&to={quote(to, safe='')}")
    assert answer.header("location") == to


@pytest.mark.parametrize(
    "to",
    ["https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "/things/x\r\nX: y", "javascript:x", "", "x",
     "/nowhere", "/things/x/change", "/api", "/events", "/enter", "/things/" + "x" * 9000, "/things/\xe9", "/%2f/evil.example"],
    ids=range(16),
)  # fmt: skip
def test_nobody_is_led_anywhere_else(app, to):
    _, site = own(app)
    form = f"token={quote(OPERATOR)}&to={quote(to, safe='')}"
    answer = Client(site).post("/sign-in", form)
    assert (answer.status, answer.header("location")) == (303, "/")
    signed = Client(site, ("Cookie", answer.cookies()[0].partition(";")[0]))
    assert signed.get(f"/sign-in?to={quote(to[:3000], safe='')}").header("location") in {"/", None}


def test_a_wrong_token_is_refused_and_written_down_without_it(app, caplog):
    _, site = own(app)
    with caplog.at_level(logging.INFO):
        answer = Client(site).post("/sign-in", "token=my+other+password")
    assert answer.status == 401
    assert not answer.cookies()
    assert "my other password" not in answer.text + caplog.text
    assert "a wrong token for the dashboard came from 127.0.0.1" in caplog.text


def test_guessing_is_slowed_down_and_nobody_who_knows_the_token_is_locked_out(app, monkeypatch):
    late = []

    async def sleep(seconds):
        late.append(seconds)

    monkeypatch.setattr("outlast.web.access.token_access.anyio.sleep", sleep)
    _, site = own(app)
    friend = signed_in(site)
    for _ in range(FREE_ATTEMPTS):
        assert Client(site).post("/sign-in", "token=wrong").status == 401
    assert late == []
    for answer in (Client(site).post("/sign-in", "token=other"), bearer(site, "wrong").get("/")):
        assert answer.status == 429
        assert answer.header("retry-after") == "1"
        assert not answer.cookies()
    assert late == [1.0, 1.0]
    assert friend.get("/").status == 200
    assert Client(site).post("/sign-in", f"token={OPERATOR.replace(' ', '+')}").status == 303
    assert bearer(site, OPERATOR).get("/api").status == 200
    assert bearer(site, "wrong").get("/api").status == 429  # a right one changes nothing for the others
    assert bearer(site, "wrong").get("/api", client=("10.0.0.9", 1)).status == 401


def test_those_who_guess_hold_no_more_than_a_few_connections(app, monkeypatch):
    access, site = own(app)
    monkeypatch.setattr("outlast.web.access.token_access._GUESS_DELAY", 3600.0)
    for _ in range(FREE_ATTEMPTS):
        bearer(site, "wrong").get("/api")
    access._delayed = _MAX_DELAYED  # so many wait already
    assert bearer(site, "wrong").get("/api").status == 429


def test_behind_a_proxy_that_is_named_everybody_is_slowed_down_alone(app, monkeypatch):
    monkeypatch.setattr("outlast.web.access.token_access._GUESS_DELAY", 0.0)
    _, site = own(app, proxy=parse_proxy("127.0.0.1"))

    def wrong(client, *named):
        return bearer(site, "wrong").get("/api", *(("X-Forwarded-For", each) for each in named), client=(client, 1))

    for _ in range(FREE_ATTEMPTS):
        assert wrong("127.0.0.1", "9.9.9.9, 10.0.0.7").status == 401
    assert wrong("127.0.0.1", "8.8.8.8, 10.0.0.7").status == 429
    assert wrong("127.0.0.1", "10.0.0.8").status == 401
    assert wrong("10.0.0.5", "10.0.0.7").status == 401  # who is no proxy is taken for who is connected
    assert wrong("127.0.0.1").status == 401


def test_signing_in_needs_a_page_of_ours_too(app):
    _, site = own(app)
    form = f"token={OPERATOR.replace(' ', '+')}"
    for origin in (None, "http://evil.example", "null"):
        answer = Client(site, origin=origin).post("/sign-in", form)
        assert answer.status == 403
        assert not answer.cookies()


def test_a_proxy_that_speaks_https_makes_the_cookie_secure(app):
    _, site = own(app)
    form = f"token={OPERATOR.replace(' ', '+')}"
    behind = Client(site, origin="https://localhost:8787").post("/sign-in", form)
    direct = Client(site, origin="https://localhost:8787").post("/sign-in", form, scheme="https")
    plain = Client(site).post("/sign-in", form)
    assert ["; Secure" in each.cookies()[0] for each in (behind, direct, plain)] == [True, True, False]


def test_signing_in_anew_ends_the_session_before(app):
    _, site = own(app)
    first = signed_in(site)
    answer = Client(site, *first.headers).post("/sign-in", f"token={OPERATOR.replace(' ', '+')}")
    assert answer.status == 303
    assert first.get("/").status == 401


def test_whoever_comes_from_another_site_is_asked_again_from_a_page_of_ours(app):
    _, site = own(app)
    answer = Client(site).get("/things/x?y=1", ("Sec-Fetch-Site", "cross-site"))
    assert answer.status == 401
    assert 'content="0; url=/sign-in?to=%2Fthings%2Fx%3Fy%3D1"' in answer.text
    assert signed_in(site).get("/sign-in?to=%2Fthings%2Fx%3Fy%3D1").header("location") == "/things/x?y=1"
    assert Client(site).get("/sign-in?to=%2Fthings%2Fx", ("Sec-Fetch-Site", "cross-site")).status == 200  # no circle


# Sessions


def test_a_session_ends_by_itself(app):
    now = [1000.0]
    _, site = own(app, sessions=Sessions(now=lambda: now[0]))
    client = signed_in(site)
    now[0] += 12 * 3600 - 1
    assert client.get("/").status == 200
    now[0] += 1
    assert client.get("/").status == 401


def test_signing_out_ends_the_session_and_its_cookie(app):
    _, site = own(app)
    client, other = signed_in(site), signed_in(site)
    assert client.get("/sign-out").status == 405
    assert Client(site, *client.headers, origin="http://evil.example").post("/sign-out").status == 403
    assert client.get("/").status == 200
    answer = client.post("/sign-out")
    assert (answer.status, answer.header("location")) == (303, "/sign-in")
    assert 'outlast-session=""' in answer.cookies()[0]
    assert "Max-Age=0" in answer.cookies()[0]
    assert client.get("/").status == 401
    assert other.get("/").status == 200
    assert Client(site).post("/sign-out").status == 303


def test_a_reader_may_sign_out(app):
    _, site = own(app)
    reader = signed_in(site, READER)
    assert reader.post("/sign-out").status == 303
    assert reader.get("/").status == 401


@pytest.mark.parametrize(
    "cookie",
    ["outlast-session=", "outlast-session=x", "other={}", "outlast-session={0}; outlast-session={0}", "{}",
     "Outlast-Session={}", 'outlast-session="{}"', "outlast-session={0}x"],
)  # fmt: skip
def test_cookies_that_let_nobody_in(app, cookie):
    access, site = own(app)
    secret = access.sessions.begin(Role.OPERATOR, "x")
    assert Client(site, ("Cookie", f"outlast-session={secret}")).get("/").status == 200
    assert Client(site, ("Cookie", cookie.format(secret))).get("/").status == 401


# Programs


def test_programs_show_their_token_and_need_no_page(app):
    _, site = own(app)
    operator, reader = bearer(site, OPERATOR), bearer(site, READER)
    assert operator.get("/api").status == reader.get("/api").status == 200
    answer = operator.ask(
        "POST", "/api/things/a%2Fb/change", ("Content-Type", "application/json"), body=b'{"id": [1, 2]}'
    )
    assert answer.json() == {"ok": True, "message": "did a/b", "name": "a/b"}
    assert done == [("a/b", {"id": ["1", "2"]}, "operator by token")]
    refused = reader.post("/api/things/x/change")
    assert refused.status == 403
    assert refused.json() == {"ok": False, "message": "You have read access only."}
    assert len(done) == 1


def test_a_token_and_a_cookie_do_not_go_together(app):
    _, site = own(app)
    cookie = signed_in(site).headers[0]
    both = Client(site, cookie, ("Authorization", f"Bearer {OPERATOR}"), origin=None)
    assert both.post("/things/x/change").status == 403  # no page of ours sent it
    wrong = Client(site, cookie, ("Authorization", "Bearer wrong"))
    assert wrong.get("/").status == 401  # the cookie does not help
    basic = Client(site, cookie, ("Authorization", "Basic eDp5"))
    assert basic.get("/").status == 200  # of a proxy before us


def test_a_token_from_a_foreign_page_is_refused(app):
    _, site = own(app)
    foreign = Client(site, ("Authorization", f"Bearer {OPERATOR}"), origin="http://evil.example")
    assert foreign.post("/api/things/x/change").status == 403
    assert done == []


@pytest.mark.parametrize(
    "value",
    ["Bearer", "Bearer ", "Basic {}", "{}", "Bearer  x {}", "Bearer {}x", "Token {}", "Bearer \xe9", "bearer,{}"],
)
def test_headers_that_let_nobody_in(app, value):
    _, site = own(app)
    assert Client(site, ("Authorization", value.format(OPERATOR))).get("/api").status == 401


def test_two_tokens_are_none(app):
    _, site = own(app)
    header = ("Authorization", f"Bearer {OPERATOR}")
    assert Client(site, header, header).get("/api").status == 401


def test_how_programs_are_turned_away(app):
    _, site = own(app)
    answer = Client(site).get("/api/things/x")
    assert (answer.status, answer.header("www-authenticate")) == (401, "Bearer")
    assert answer.json()["ok"] is False


def test_nobody_changes_anything_where_all_is_for_show(app):
    _, site = own(app, read_only=True)
    assert signed_in(site).post("/things/x/change").status == 403
    assert bearer(site, OPERATOR).post("/api/things/x/change").status == 403
    assert done == []
