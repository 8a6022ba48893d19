"""Where messages go: Slack, whatever Apprise knows, a function of yours, or a channel of your own making."""

import inspect
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from outlast.errors import ConfigError
from outlast.observe.messages import Message
from outlast.observe.slack import SlackChannel

__all__ = ["Channel", "FunctionChannel", "channel"]

_SLACK_HOSTS = {"hooks.slack.com", "hooks.slack-gov.com"}
_SLACK_SCHEMES = {"slack+https", "slack+http"}


@runtime_checkable
class Channel(Protocol):
    """A way to people.

    Attributes:
        name: Tells it from others, and stays the same when the program starts again. It is stored and shown, so it
            must hold no secret.
    """

    @property
    def name(self) -> str:
        """Its name."""

    def send(self, message: Message) -> None:
        """Send a message, in bounded time; raise what went wrong. It may be called twice with the same message."""


class FunctionChannel:
    """Hands messages to a function. It runs in the courier's thread and has to bound its own time.

    Args:
        function: Takes a `Message`; what it raises means that the message was not delivered.

    Attributes:
        name: Module and name of the function.

    Raises:
        ConfigError: If it is async, which nobody here could wait for.
    """

    def __init__(self, function: Callable[[Message], object]) -> None:
        """Keep the function."""
        kind = type(function)
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004  # its kind is asked for
            message = "a notification goes to a plain function, and this one is async"
            raise ConfigError(message)
        module = getattr(function, "__module__", None) or kind.__module__
        self.name = f"{module}.{getattr(function, '__qualname__', None) or kind.__qualname__}"
        self._function = function

    def __repr__(self) -> str:
        """Show the name."""
        return f"<FunctionChannel {self.name}>"

    def send(self, message: Message) -> None:
        """Call the function."""
        given: Any = self._function(message)
        if inspect.iscoroutine(given):
            given.close()
            text = f"{self.name} is async, so nothing was sent; give a plain function"
            raise ConfigError(text)


def channel(target: Channel | Callable[[Message], object] | str, *, allow_private: bool = False) -> Channel:
    """Return the channel that a setting stands for.

    Args:
        target: A channel as it is; a function that takes a `Message`; or a URL: ``https://hooks.slack.com/…``,
            ``slack+https://…`` for another server that speaks Slack's language, or any URL that Apprise knows.
        allow_private: Whether a Slack webhook may lead into a private network; ``slack+http://…`` needs it. It means
            nothing to Apprise, which makes its own requests to wherever its URL says.

    Raises:
        ConfigError: If it is none of these, cannot be used, or needs Apprise and that is not installed. The message
            does not show the URL.
    """
    if isinstance(target, str):
        return _by_url(target.strip(), allow_private=allow_private)
    given: Any = target  # settings come from anywhere
    if isinstance(given, Channel) and not isinstance(given, type):
        return _named(given)
    if callable(given) and not isinstance(given, type):
        return FunctionChannel(given)
    shown = given.__name__ if isinstance(given, type) else type(given).__name__
    message = f"{shown} is no channel; give a URL, a function that takes a message, or an object with name and send"
    raise ConfigError(message)


def _named(given: Channel) -> Channel:
    name = getattr(given, "name", None)  # somebody else's object may say anything
    if isinstance(name, str) and name:
        return given
    message = f"the channel {type(given).__name__} has no name; it needs one that stays the same"
    raise ConfigError(message)


def _by_url(url: str, *, allow_private: bool) -> Channel:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        message = "the address of a notification cannot be read as a URL"
        raise ConfigError(message) from None  # the error shows parts of it
    if parts.scheme in _SLACK_SCHEMES:
        return SlackChannel(url.partition("+")[2], allow_private=allow_private)
    if parts.scheme in {"https", "http"} and host in _SLACK_HOSTS:
        return SlackChannel(url, allow_private=allow_private)
    if parts.scheme in {"", "https", "http"}:
        message = (
            "the address of a notification is neither a Slack webhook (https://hooks.slack.com/…) nor one that Apprise "
            "knows by its scheme (mailto://…); a server that speaks Slack's language is written slack+https://…"
        )
        raise ConfigError(message)
    from outlast.observe.apprise_channel import AppriseChannel  # noqa: PLC0415  # needed only where it is used

    return AppriseChannel(url)
