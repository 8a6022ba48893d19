"""Settings become channels, and no channel shows its address."""

import sys
from functools import partial

import pytest

from outlast.decide.decision import AlertKind
from outlast.errors import ConfigError
from outlast.observe.channels import AppriseChannel, FunctionChannel, SlackChannel, channel
from outlast.observe.messages import Message

MESSAGE = Message("title", "text", (AlertKind.FIRST,))
SLACK = "https://hooks.slack.com/services/T0/B0/hunter2"


class Own:
    name = "own"

    def __init__(self):
        self.got = []

    def send(self, message):
        self.got.append(message)


def plain(message):
    """A function as users write it."""


async def waiting(message):
    """One that nobody would wait for."""


class Waiting:
    async def __call__(self, message):
        """As above."""


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (SLACK, SlackChannel),
        ("HTTPS://Hooks.Slack.com/services/T0/B0/hunter2", SlackChannel),
        (f"  {SLACK}\n", SlackChannel),
        ("slack+https://chat.example/hooks/hunter2", SlackChannel),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/", AppriseChannel),
        ("json://user:hunter2@localhost/path", AppriseChannel),
        ("mailto://user:hunter2@example.com", AppriseChannel),
    ],
)
def test_a_url_says_what_kind_of_channel_it_is(url, kind):
    made = channel(url)
    assert type(made) is kind
    assert "hunter2" not in repr(made) + made.name + str(vars(type(made)))
    assert made.name in repr(made)
    assert channel(url).name == made.name, "it stays the same"


def test_names_tell_channels_apart_and_nothing_else():
    names = [channel(url).name for url in (SLACK, SLACK + "1", "json://localhost/a", "json://localhost/b")]
    assert len(set(names)) == 4
    assert [name.partition("#")[0] for name in names] == ["slack", "slack", "json", "json"]
    assert all(len(name.partition("#")[2]) == 8 for name in names)


def test_a_channel_is_taken_as_it_is():
    own = Own()
    assert channel(own) is own


def test_a_function_is_a_channel():
    got = []
    made = channel(got.append)
    made.send(MESSAGE)
    assert got == [MESSAGE]
    assert channel(plain).name.endswith("test_notifications_channels.plain")
    assert isinstance(channel(plain), FunctionChannel)


def test_what_a_function_raises_is_raised():
    def broken(message):
        raise LookupError(message.title)

    with pytest.raises(LookupError, match="title"):
        channel(broken).send(MESSAGE)


@pytest.mark.parametrize("function", [waiting, Waiting()])
def test_an_async_function_is_refused(function):
    with pytest.raises(ConfigError, match="async"):
        channel(function)


def test_an_async_function_in_disguise_is_refused_when_called():
    with pytest.raises(ConfigError, match="nothing was sent"):
        channel(partial(lambda wait, message: wait(message), waiting)).send(MESSAGE)


@pytest.mark.parametrize("thing", [None, 5, Own, SlackChannel, object(), b"https://hooks.slack.com/hunter2"])
def test_other_things_are_no_channels(thing):
    with pytest.raises(ConfigError, match="is not a valid channel") as caught:
        channel(thing)
    assert "hunter2" not in str(caught.value)


def test_a_channel_needs_a_name():
    nameless = Own()
    nameless.name = ""
    with pytest.raises(ConfigError, match="has no name"):
        channel(nameless)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hunter2",
        "nosuch://hunter2/hunter2",
        "https://example.com/hunter2",
        "slack://hunter2",
        "tgram://hunter2",
        "json://localhost/hunter2, json://localhost/other",
        "https://[hunter2",
        "mailto://user:hunter2@",
    ],
)
def test_what_nobody_understands_is_refused_without_being_shown(url, caplog):
    caplog.set_level(0)
    with pytest.raises(ConfigError) as caught:
        channel(url)
    assert "hunter2" not in str(caught.value) + repr(caught.value.__cause__) + caplog.text


def test_without_apprise_its_installation_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ConfigError, match=r"pip install 'outlast\[notify\]'") as caught:
        channel("mailto://user:hunter2@example.com")
    assert "hunter2" not in str(caught.value)
    channel(SLACK)  # needs nothing
