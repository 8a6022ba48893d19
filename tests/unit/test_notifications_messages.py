"""What people read: titles that say what is new, digests, and nothing that is secret or calls everybody."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.decide.decision import AlertKind
from outlast.errors import ConfigError
from outlast.observe.channels import slack_payload
from outlast.observe.messages import TEXT_LIMIT, TITLE_LIMIT, Message, check_dashboard_url, compose
from outlast.ports.source_rows import Alert

AT = datetime(2030, 1, 1, tzinfo=UTC)


def alert(number=1, kind=AlertKind.FIRST, state="disabled", title="a feed is disabled", text="403 Forbidden"):
    return Alert(number, f"source:{number}", kind, state, title, text, 1, 1, (), None, None, AT)


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        (AlertKind.FIRST, "a feed is disabled"),
        (AlertKind.CHANGED, "now: a feed is disabled"),
        (AlertKind.REMINDER, "still: a feed is disabled"),
        (AlertKind.RECOVERED, "recovered: a feed is disabled"),
    ],
)
def test_a_title_says_what_kind_of_news_it_is(kind, title):
    """Pitfall 64: first, changed, reminder, recovered."""
    one = alert(kind=kind)
    text = "403 Forbidden\nAlert 1, 2030-01-01 00:00:00 UTC. Command: outlast sources show 1"
    assert compose([one]) == [(Message(title, text, (kind,), (one,), ("",)), (one,))]


@pytest.mark.parametrize(
    ("key", "path", "command"),
    [
        ("source:12", "/sources/12", "outlast sources show 12"),
        ("group:f1", "/failures/f1", "outlast dlq list --group f1"),
        ("growth:f1", "/failures/f1", "outlast dlq list --group f1"),
        ("age:dead_letters", "/dead-letters", "outlast dlq groups"),
        ("job:night ly", "/jobs?job=night%20ly", "outlast job list"),
        ("outage:feed", "/sources", "outlast sources list"),
        ("cooldown:api.test", "/waits", "outlast status"),
        ("something new", "/", "outlast status"),
    ],
)
def test_an_alert_links_to_the_page_about_it_and_names_the_command(key, path, command):
    one = alert()._replace(key=key)
    ((message, _),) = compose([one], dashboard="https://ops.test/outlast")
    assert message.text.splitlines()[1:] == [
        f"Alert 1, 2030-01-01 00:00:00 UTC. Command: {command}",
        f"https://ops.test/outlast{path}",
    ]
    digest, _ = compose([one] * 4, dashboard="https://ops.test/outlast")[0]
    assert digest.text.splitlines()[0].endswith(f" https://ops.test/outlast{path}")
    assert digest.pages == (f"https://ops.test/outlast{path}",) * 4


@pytest.mark.parametrize("url", ["ops.example.com", "ftp://ops.test", "https://", "https://ops.test/?a=1"])
def test_the_url_of_the_dashboard_is_checked(url):
    with pytest.raises(ConfigError, match="dashboard_url"):
        check_dashboard_url(url)


@pytest.mark.parametrize(
    ("lasted", "title"),
    [
        (timedelta(hours=2, minutes=5), "recovered after 2 h 5 min: a feed answers"),
        (timedelta(seconds=0.4), "recovered: a feed answers"),
    ],
)
def test_a_recovery_says_how_long_it_lasted(lasted, title):
    one = alert(kind=AlertKind.RECOVERED, title="a feed answers")
    one = one._replace(since=one.created_at - lasted)
    ((message, _),) = compose([one])
    assert message.title == title
    digest, _ = compose([one] * 4)[0]
    assert digest.text.splitlines()[0] == title


def test_the_alerts_of_a_message_hold_no_secret_and_are_cut():
    one = alert(title="key sk_live_abcdefghijklmnop1234", text="password=hunter2 " + "x" * 5000)
    ((message, _),) = compose([one])
    (sent,) = message.alerts
    assert "hunter2" not in sent.text
    assert len(sent.text) <= 3000
    digest, _ = compose([one] * 4)[0]
    assert [len(each.text) <= 300 for each in digest.alerts] == [True] * 4


def test_a_few_alerts_are_a_message_each_in_their_order():
    few = [alert(number) for number in (3, 1, 2)]
    assert [told for _, told in compose(few)] == [(one,) for one in few]
    assert compose([]) == []


def test_many_alerts_are_one_digest():
    many = [alert(number, title=f"feed {number}") for number in range(8)]
    many += [alert(number, AlertKind.RECOVERED, None, f"feed {number}") for number in range(8, 11)]
    many += [alert(11, AlertKind.REMINDER, "warning", "feed 11")]
    ((message, told),) = compose(many)
    assert told == tuple(many)
    assert message.title == "12 changes: 8 disabled, 3 recovered, 1 reminder"
    assert message.text.split("\n") == [
        *(f"feed {number}" for number in range(8)),
        *(f"recovered: feed {number}" for number in range(8, 11)),
        "still: feed 11",
    ]
    assert message.kinds == tuple(one.kind for one in many)


def test_a_long_digest_is_cut():
    ((message, told),) = compose([alert(number, title=f"feed {number} " + "x" * 500) for number in range(63)])
    lines = message.text.split("\n")
    assert (len(lines), lines[-1], len(told)) == (21, "… and 43 more", 63)
    assert all(line.endswith("…") for line in lines[:-1])
    assert len(message.text) <= TEXT_LIMIT


def test_a_digest_counts_only_so_many_words():
    ((message, _),) = compose([alert(number, state=f"state {number}") for number in range(9)])
    assert message.title.endswith("1 state 5, 3 other")


def test_the_size_of_a_digest_can_be_chosen():
    assert len(compose([alert(1), alert(2)], digest_at=2)) == 1
    assert len(compose([alert(number) for number in range(9)], digest_at=10)) == 9
    assert compose([alert(1)], digest_at=0)[0][0].title == "a feed is disabled", "one is no digest"


def test_secrets_are_taken_out_once_more():
    secret = "https://user:hunter2@example.com/ https://hooks.slack.com/services/T0/B0/hunter2"
    ((message, _),) = compose([alert(title=secret, text=secret)])
    ((digest, _),) = compose([alert(number, title=secret) for number in range(4)])
    assert "hunter2" not in str(message) + str(digest)


def test_a_title_is_one_line():
    ((message, _),) = compose([alert(title="one\ntwo\r\n three")])
    assert message.title == "one two three"


def test_an_alert_without_a_title_is_called_by_its_key():
    assert compose([alert(7, title="")])[0][0].title == "source:7"


@given(st.lists(st.tuples(st.text(), st.text(), st.text(), st.sampled_from(AlertKind)), min_size=1, max_size=30))
def test_no_text_is_too_long_or_lost(texts):
    alerts = [alert(number, kind, state, title, text) for number, (state, title, text, kind) in enumerate(texts)]
    composed = compose(alerts)
    assert [one for _, told in composed for one in told] == alerts
    for message, told in composed:
        assert 0 < len(message.title) <= TITLE_LIMIT
        assert "\n" not in message.title
        assert len(message.text) <= TEXT_LIMIT
        assert len(message.kinds) == len(told)


@given(st.text(alphabet="&<>@ab\n", max_size=4000), st.text(alphabet="&<>@", max_size=400))
def test_slack_takes_every_message(text, title):
    sent = slack_payload(Message(title or "t", text, (AlertKind.FIRST,)))
    limits = {"header": 150, "section": 3000}
    for block in sent["blocks"]:
        shown = block["text"]["text"]
        assert 0 < len(shown) <= limits[block["type"]]
        assert not set("<>") & set(shown)
        whole = shown.removesuffix("…")
        assert whole.count("&") == whole.count("&amp;") + whole.count("&lt;") + whole.count("&gt;")
    json.dumps(sent)


@pytest.mark.parametrize("before", range(6))
def test_slack_gets_no_half_of_an_escape(before):
    """The cut falls at every place of an escape in turn."""
    sent = slack_payload(Message("x" * before + "&" * 200, "x" * before + "<" * 3000, (AlertKind.FIRST,)))
    title, text = (block["text"]["text"] for block in sent["blocks"])
    assert title == "x" * before + "&amp;" * ((149 - before) // 5) + "…"
    assert text == "x" * before + "&lt;" * ((2999 - before) // 4) + "…"


def test_slack_calls_nobody():
    sent = slack_payload(Message("@channel", "<!here> @here @Everyone user@all.example", (AlertKind.FIRST,)))
    text = json.dumps(sent, ensure_ascii=False)
    assert not [call for call in ("@channel", "@here", "@Everyone", "<!here>", "@all") if call in text]


def test_slack_gets_no_empty_section():
    assert [block["type"] for block in slack_payload(Message("t", "", (AlertKind.FIRST,)))["blocks"]] == ["header"]
