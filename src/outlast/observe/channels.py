"""Where messages go: Slack, whatever Apprise knows, a function of yours, or a channel of your own making."""

import contextvars
import hashlib
import inspect
import json
import logging
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from outlast.decide.decision import AlertKind
from outlast.errors import ConfigError, TemporaryAPIError
from outlast.observe.messages import Message
from outlast.observe.webhook import parse_webhook_url, post

__all__ = ["Channel", "FunctionChannel", "channel"]


# What a channel is called where everybody may read it: never by its address, which is often the secret.

_HASH_ROUNDS = 100_000  # an address may hold a weak password; so nobody finds it by trying them against the name


def channel_name(service: str, address: str) -> str:
    """Return a name that is the same for the same address, and tells nothing of it.

    Args:
        service: What kind of channel it is.
        address: Its URL.
    """
    digest = hashlib.pbkdf2_hmac("sha256", address.encode("utf-8", "replace"), b"outlast channel", _HASH_ROUNDS)
    return f"{service}#{digest.hex()[:8]}"


# Slack's incoming webhook, which Mattermost and others understand too.

_HEADER_LIMIT = 150  # what Slack takes in a header
_SECTION_LIMIT = 3000  # and in a section
_MENTIONS = re.compile(r"@(?=(?:channel|here|everyone|all|group)\b)", re.IGNORECASE)
_HALF_ENTITY = re.compile(r"&[a-z]{0,3}$")
_SLACK_HEADERS = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "outlast"}


class SlackChannel:
    """Sends messages to an incoming webhook.

    Args:
        url: The webhook's address. It is a secret: whoever knows it can write to the channel.
        allow_private: Whether it may lead into a private network, and begin with http.
        timeout: Seconds for one request.

    Attributes:
        name: Safe to store and show.

    Raises:
        ConfigError: If the address cannot be used.
    """

    def __init__(self, url: str, *, allow_private: bool = False, timeout: float = 10.0) -> None:
        """Look at the address; whom it leads to is checked whenever it is called."""
        parse_webhook_url(url, allow_private=allow_private)
        self.name = channel_name("slack", url)
        self._url, self._allow_private, self._timeout = url, allow_private, timeout

    def __repr__(self) -> str:
        """Show the name alone."""
        return f"<SlackChannel {self.name}>"

    def send(self, message: Message) -> None:
        """Send a message, or raise what went wrong, as `post` does."""
        body = json.dumps(slack_payload(message), ensure_ascii=False).encode("utf-8", "replace")
        post(self._url, body, _SLACK_HEADERS, allow_private=self._allow_private, timeout=self._timeout)


def slack_payload(message: Message) -> dict[str, Any]:
    """Return what Slack is sent: blocks for those who know them, and the whole as text for the others.

    Nothing in a text can call people or become a link: an error message is not ours, and may say '@channel'.
    """
    title, text = _escape(message.title, _HEADER_LIMIT), _escape(message.text, _SECTION_LIMIT)
    blocks: list[dict[str, Any]] = [{"type": "header", "text": {"type": "plain_text", "text": title, "emoji": False}}]
    if text:
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}})
    whole = _escape(message.title, _SECTION_LIMIT)
    return {"text": f"{whole}\n{text}" if text else whole, "blocks": blocks}


def _escape(text: str, limit: int) -> str:
    """Escape the three characters that mean something to Slack, and cut behind that, not within an escape."""
    calm = _MENTIONS.sub("@\u200b", text)
    safe = calm.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if len(safe) <= limit:
        return safe
    return f"{_HALF_ENTITY.sub('', safe[: limit - 1])}…"


# Everything else, by Apprise: mail, chat and push services, each by a URL of its own kind (extra ``notify``).

_APPRISE_LOGGERS = ("apprise", "urllib3.connectionpool")  # both write addresses, which are secrets
_logs_silenced: contextvars.ContextVar[bool] = contextvars.ContextVar("outlast_apprise_quiet", default=False)


def _is_log_allowed(_: logging.LogRecord) -> bool:
    return not _logs_silenced.get()


class AppriseChannel:
    """Sends messages to one service that Apprise knows.

    Apprise makes its own requests: it follows redirects, and its addresses are **not** checked for private networks.
    Who may set the URL can make this program call whatever it can reach. What Apprise logs meanwhile is dropped,
    because it shows addresses.

    Args:
        url: An Apprise URL, such as ``mailto://…`` or ``discord://…``.

    Attributes:
        name: Safe to store and show.

    Raises:
        ConfigError: If Apprise is not installed, or does not understand the URL.
    """

    def __init__(self, url: str) -> None:
        """Have Apprise read the URL."""
        try:
            apprise: Any = import_module("apprise")
        except ImportError as error:
            message = "this kind of notification needs Apprise; run: pip install 'outlast[notify]'"
            raise ConfigError(message) from error
        for each in map(logging.getLogger, _APPRISE_LOGGERS):
            if _is_log_allowed not in each.filters:
                each.addFilter(_is_log_allowed)
        self._service = apprise.Apprise()
        if not self._added(url) or len(self._service) != 1:
            message = (
                "Apprise does not understand the address of a notification (not shown, it may hold secrets), or it "
                "names several services; a webhook that speaks Slack's language is written slack+https://…"
            )
            raise ConfigError(message)
        self.name = channel_name(urlsplit(url).scheme or "apprise", url)

    def __repr__(self) -> str:
        """Show the name alone."""
        return f"<AppriseChannel {self.name}>"

    def _added(self, url: str) -> bool:
        token = _logs_silenced.set(True)
        try:
            return bool(self._service.add(url))
        except Exception:  # noqa: BLE001  # whatever a service makes of a URL; its text may show it
            return False
        finally:
            _logs_silenced.reset(token)

    def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            TemporaryAPIError: If Apprise could not deliver it; it does not say why.
        """
        recovered = all(kind is AlertKind.RECOVERED for kind in message.kinds)
        token = _logs_silenced.set(True)
        try:
            sent = self._service.notify(
                title=message.title,
                body=message.text or message.title,  # some services drop a message without a body
                notify_type="success" if recovered else "warning",
                body_format="text",
            )
        except Exception as error:  # noqa: BLE001  # its text may show the address
            failure = f"Apprise could not deliver to {self.name}: {type(error).__name__}"
            raise TemporaryAPIError(failure) from None
        finally:
            _logs_silenced.reset(token)
        if not sent:
            failure = f"Apprise could not deliver to {self.name}"
            raise TemporaryAPIError(failure)


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
        return _channel_from_url(target.strip(), allow_private=allow_private)
    given: Any = target  # settings come from anywhere
    if isinstance(given, Channel) and not isinstance(given, type):
        return _check_name(given)
    if callable(given) and not isinstance(given, type):
        return FunctionChannel(given)
    shown = given.__name__ if isinstance(given, type) else type(given).__name__
    message = f"{shown} is no channel; give a URL, a function that takes a message, or an object with name and send"
    raise ConfigError(message)


def _check_name(given: Channel) -> Channel:
    name = getattr(given, "name", None)  # somebody else's object may say anything
    if isinstance(name, str) and name:
        return given
    message = f"the channel {type(given).__name__} has no name; it needs one that stays the same"
    raise ConfigError(message)


def _channel_from_url(url: str, *, allow_private: bool) -> Channel:
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

    return AppriseChannel(url)
