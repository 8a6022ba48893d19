"""Tokens, one-time links, sessions and the slowing down of wrong guesses, each by itself."""

import hmac

import pytest

from outlast.errors import ConfigError
from outlast.web.access.callers import Role, TooManyAttemptsError
from outlast.web.access.token_access import (
    FREE_ATTEMPTS,
    LINK_SECONDS,
    MAX_WAIT_SECONDS,
    OneTimeLinks,
    Sessions,
    SignInThrottle,
    Tokens,
)
from outlast.web.endpoints import Notice, Notices

LONG, OTHER = "correct horse battery staple, and more", "another secret that is long enough"


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_a_token_has_a_role():
    tokens = Tokens(LONG, OTHER)
    assert tokens
    assert (tokens.role_of(LONG), tokens.role_of(OTHER)) == (Role.OPERATOR, Role.READER)
    for wrong in ("", LONG[:-1], LONG + " ", LONG.upper(), "\ud800", "é"):
        assert tokens.role_of(wrong) is None


def test_without_tokens_nothing_is_right():
    assert not Tokens()
    assert Tokens().role_of("") is None


def test_tokens_are_compared_in_constant_time_and_all_of_them(monkeypatch):
    seen = []
    real = hmac.compare_digest

    def spy(one, two):
        seen.append((len(one), len(two)))
        return real(one, two)

    tokens = Tokens(LONG, OTHER)
    monkeypatch.setattr(hmac, "compare_digest", spy)
    for secret in (LONG, OTHER, "", "x" * 5000):
        tokens.role_of(secret)
    assert seen == [(32, 32)] * 8  # hashes of one length, both looked at whatever the first says


def test_tokens_are_kept_as_hashes():
    assert LONG not in repr(vars(Tokens(LONG)))


@pytest.mark.parametrize(
    "token", ["", "  ", " padded secret ", "eleven char", "x" * 31, "with\nnewline in it, and otherwise long enough", 5]
)
def test_a_token_that_cannot_be_used_is_not_shown(token):
    with pytest.raises(ConfigError, match="OUTLAST_WEB_TOKEN") as caught:
        Tokens(token)
    assert not str(token).strip() or str(token).strip() not in str(caught.value).replace("5 ", "").split(":")[0]


def test_a_short_token_is_refused_with_a_command_that_makes_one():
    assert Tokens("x" * 32)
    with pytest.raises(ConfigError, match="shorter than 32 characters; make a longer one: python -c"):
        Tokens("x" * 31)
    with pytest.raises(ConfigError, match="OUTLAST_WEB_READ_TOKEN is shorter than 32 characters"):
        Tokens(LONG, "x" * 31)


def test_one_token_cannot_have_two_roles():
    with pytest.raises(ConfigError, match="are the same"):
        Tokens(LONG, LONG)


def test_a_link_is_good_once():
    links = OneTimeLinks()
    first, second = links.new(), links.new()
    assert first != second
    assert len(first) >= 43  # 256 bits
    assert links.use(first)
    assert not links.use(first)
    assert not links.use("")
    assert links.use(second)


def test_too_many_links_end_the_oldest():
    links = OneTimeLinks()
    made = [links.new() for _ in range(21)]
    assert not links.use(made[0])
    assert all(links.use(each) for each in made[1:])


def test_a_session_is_known_by_its_secret_and_lasts_twelve_hours():
    clock = Clock()
    sessions = Sessions(now=clock)
    secret = sessions.begin(Role.READER, "reader by token")
    assert len(secret) >= 43
    assert secret not in repr(vars(sessions))
    session = sessions.find(secret)
    assert (session.role, session.who) == (Role.READER, "reader by token")
    assert sessions.find(secret[:-1]) is None
    clock.now += 12 * 3600 - 1
    assert sessions.find(secret) is session
    clock.now += 1
    assert sessions.find(secret) is None
    assert not session.is_active()


def test_a_session_that_ended_is_not_found():
    sessions = Sessions()
    secret = sessions.begin(Role.OPERATOR, "x")
    sessions.find(secret).end()
    assert sessions.find(secret) is None


def test_sessions_are_bounded_and_the_oldest_ends():
    sessions = Sessions()
    first = sessions.begin(Role.OPERATOR, "first")
    kept = sessions.find(first)
    for _ in range(1000):
        last = sessions.begin(Role.OPERATOR, "x")
    assert sessions.find(first) is None
    assert not kept.is_active()
    assert sessions.find(last).is_active()
    sessions.end_all()
    assert sessions.find(last) is None


def test_wrong_guesses_wait_longer_each_time():
    clock = Clock()
    slow = SignInThrottle(clock)
    waits = []
    for _ in range(FREE_ATTEMPTS + 8):
        try:
            slow.check("10.0.0.1")
        except TooManyAttemptsError as error:
            waits.append(error.seconds)
            clock.now += error.seconds
        slow.check("10.0.0.1")
        slow.failed("10.0.0.1")
    assert waits == [1, 2, 4, 8, 16, 32, MAX_WAIT_SECONDS, MAX_WAIT_SECONDS]
    slow.check("10.0.0.2")  # elsewhere nobody waits
    for _ in range(1100):
        slow.failed("10.0.0.1")
    with pytest.raises(TooManyAttemptsError):
        slow.check("10.0.0.1")


def test_a_link_is_good_for_a_while():
    clock = Clock()
    links = OneTimeLinks(clock)
    first, second = links.new(), links.new()
    clock.now += LINK_SECONDS - 1
    assert links.use(first)
    clock.now += 1
    assert not links.use(second)


def test_neighbours_in_one_network_of_ipv6_are_one_place():
    slow = SignInThrottle()
    for number in range(FREE_ATTEMPTS):
        slow.failed(f"2001:db8::{number:x}")
    with pytest.raises(TooManyAttemptsError):
        slow.check("2001:db8::ffff")
    slow.check("2001:db8:0:1::1")
    for _ in range(FREE_ATTEMPTS):
        slow.failed("::ffff:10.0.0.1")
    slow.check("::ffff:10.0.0.2")
    with pytest.raises(TooManyAttemptsError):
        slow.check("10.0.0.1")


def test_places_are_bounded():
    slow = SignInThrottle()
    for number in range(5000):
        slow.failed(f"host-{number}")
    assert len(slow._failures) == 4096


def test_guesses_long_ago_are_forgotten():
    clock = Clock()
    slow = SignInThrottle(clock)
    for _ in range(FREE_ATTEMPTS):
        slow.failed("x")
    clock.now += 901
    slow.failed("x")
    slow.check("x")


def test_a_notice_comes_back_as_it_was_once():
    notices, notice = Notices(), Notice("3 tasks „replayed“", ok=False)
    key = notices.add(notice)
    assert notices.take(key) == notice
    assert notices.take(key) is None


def test_nobody_else_takes_notices_and_those_that_nobody_takes_are_dropped():
    notices = Notices()
    first, *keys = [notices.add(Notice(f"{number}", ok=True)) for number in range(1001)]
    assert [notices.take(key) for key in ("", first, Notices().add(Notice("send money", ok=True)))] == [None] * 3
    assert [notices.take(key).text for key in keys] == [f"{number}" for number in range(1, 1001)]
