"""Channels for alerts: Slack, a JSON webhook, services that Apprise supports, a function, or an object of your own."""

import contextvars
import hashlib
import hmac
import inspect
import json
import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from outlast.decide.decision import AlertKind
from outlast.errors import ConfigError, TemporaryAPIError
from outlast.observe.messages import Message
from outlast.observe.webhook import parse_webhook_url, post
from outlast.ports.source_rows import Alert

_HASH_ROUNDS = 100_000  # a URL may contain a weak password, which must not be guessed from the channel's name


def channel_name(service: str, url: str) -> str:
    """Return a stable name for a URL that does not reveal it. The URL is often the secret, and names are shown.

    Args:
        service: The kind of channel.
        url: The URL of the channel.
    """
    digest = hashlib.pbkdf2_hmac("sha256", url.encode("utf-8", "replace"), b"outlast channel", _HASH_ROUNDS)
    return f"{service}#{digest.hex()[:8]}"


_HEADER_LIMIT = 150  # characters that Slack accepts in a header
_SECTION_LIMIT = 3000  # characters that Slack accepts in a section
_MENTIONS = re.compile(r"@(?=(?:channel|here|everyone|all|group)\b)", re.IGNORECASE)
_HALF_ENTITY = re.compile(r"&[a-z]{0,3}$")
_JSON_HEADERS = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "outlast"}


class _NamedChannel:
    """A channel that shows its name, and nothing else."""

    name: str

    def __repr__(self) -> str:
        """Return the class and the name; a URL stays secret."""
        return f"<{type(self).__name__} {self.name}>"


class _PostingChannel(_NamedChannel):
    """A channel that posts to a URL."""

    def _open(self, service: str, url: str, timeout: float, *, allow_private: bool) -> None:
        parse_webhook_url(url, allow_private=allow_private)  # the addresses of the host are checked at each request
        self.name = channel_name(service, url)
        self._post = partial(post, url, allow_private=allow_private, timeout=timeout)


class SlackChannel(_PostingChannel):
    """Sends messages to an incoming webhook of Slack, or of a compatible server such as Mattermost.

    Args:
        url: The URL of the webhook. It is a secret: anyone who has it can post to the channel.
        allow_private: Whether the URL may use http and point to a private network.
        timeout: Seconds for one request.

    Attributes:
        name: A name that is safe to store and show.

    Raises:
        ConfigError: If the URL is not valid.
    """

    def __init__(self, url: str, *, allow_private: bool = False, timeout: float = 10.0) -> None:
        self._open("slack", url, timeout, allow_private=allow_private)

    def send(self, message: Message) -> None:
        """Send a message. Raises the errors of `post`."""
        body = json.dumps(slack_payload(message), ensure_ascii=False).encode("utf-8", "replace")
        self._post(body, _JSON_HEADERS)


def slack_payload(message: Message) -> dict[str, Any]:
    """Return the JSON body for Slack: blocks, and the whole message as text for servers without blocks.

    Mentions and links are escaped, because error messages come from outside and may contain '@channel'.
    """
    title, text = _escape(message.title, _HEADER_LIMIT), _escape(message.text, _SECTION_LIMIT)
    blocks: list[dict[str, Any]] = [{"type": "header", "text": {"type": "plain_text", "text": title, "emoji": False}}]
    if text:
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}})
    whole = _escape(message.title, _SECTION_LIMIT)
    return {"text": f"{whole}\n{text}" if text else whole, "blocks": blocks}


def _escape(text: str, limit: int) -> str:
    """Escape mentions and the three special characters of Slack, then cut the text, but not within an escape."""
    unmentioned = _MENTIONS.sub("@\u200b", text)
    safe = unmentioned.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if len(safe) <= limit:
        return safe
    return f"{_HALF_ENTITY.sub('', safe[: limit - 1])}…"


_SIGNATURE = "Outlast-Signature"


class WebhookChannel(_PostingChannel):
    """Posts messages as JSON to a server of yours.

    The body is ``{"title": …, "text": …, "alerts": […]}``. Each alert has ``id``, ``key``, ``kind``, ``state``,
    ``title``, ``text``, ``created_at``, ``lasted`` (the seconds that a problem lasted which has recovered) and ``page``
    (its page on the dashboard, empty without `App(dashboard_url=…)`).

    Args:
        url: The URL. It may be a secret, so it is never shown.
        headers: Further headers, such as ``{"Authorization": "Bearer …"}``.
        secret: Signs the body: the header ``Outlast-Signature`` is then ``sha256=`` and its HMAC in hexadecimal.
        allow_private: Whether the URL may use http and point to a private network.
        timeout: Seconds for one request.

    Attributes:
        name: A name that is safe to store and show.

    Raises:
        ConfigError: If the URL is not valid.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        secret: str | None = None,
        allow_private: bool = False,
        timeout: float = 10.0,
    ) -> None:
        self._open("webhook", url, timeout, allow_private=allow_private)
        self._headers, self._secret = {**_JSON_HEADERS, **(headers or {})}, secret

    def send(self, message: Message) -> None:
        """Send a message. Raises the errors of `post`."""
        data = {"title": message.title, "text": message.text, "alerts": _alerts_data(message)}
        body, headers = json.dumps(data).encode("ascii"), dict(self._headers)
        if self._secret is not None:
            headers[_SIGNATURE] = f"sha256={hmac.new(self._secret.encode(), body, 'sha256').hexdigest()}"
        self._post(body, headers)


def _alerts_data(message: Message) -> list[dict[str, Any]]:
    pages = message.pages or [""] * len(message.alerts)
    return [{**_alert_data(each), "page": page} for each, page in zip(message.alerts, pages, strict=True)]


def _alert_data(alert: Alert) -> dict[str, Any]:
    data = {name: getattr(alert, name) for name in ("id", "key", "kind", "state", "title", "text")}
    return {**data, "created_at": alert.created_at.isoformat(), "lasted": alert.lasted}


_APPRISE_LOGGERS = ("apprise", "urllib3.connectionpool")  # both log URLs, which are secrets
_logs_silenced: contextvars.ContextVar[bool] = contextvars.ContextVar("outlast_apprise_quiet", default=False)


def _is_log_allowed(_: logging.LogRecord) -> bool:
    return not _logs_silenced.get()


class AppriseChannel(_NamedChannel):
    """Sends messages to a service that Apprise supports, such as mail, chat or push (extra ``notify``).

    Apprise makes its own requests: it follows redirects, and private networks are **not** blocked. Anyone who can set
    the URL can make this program call any address it can reach. The log records of Apprise are dropped while it sends,
    because they show URLs.

    Args:
        url: An Apprise URL, such as ``mailto://…`` or ``discord://…``.

    Attributes:
        name: A name that is safe to store and show.

    Raises:
        ConfigError: If Apprise is not installed, or the URL is not a valid Apprise URL.
    """

    def __init__(self, url: str) -> None:
        try:
            apprise: Any = import_module("apprise")
        except ImportError as error:
            raise ConfigError("this kind of channel needs Apprise; run: pip install 'outlast[notify]'") from error
        for each in map(logging.getLogger, _APPRISE_LOGGERS):
            if _is_log_allowed not in each.filters:
                each.addFilter(_is_log_allowed)
        self._service = apprise.Apprise()
        if not self._add_service(url) or len(self._service) != 1:
            raise ConfigError(
                "the URL of a channel is not a valid Apprise URL, or names several services (it is not shown because "
                "it may contain secrets); for a Slack-compatible webhook, use slack+https://…"
            )
        self.name = channel_name(urlsplit(url).scheme or "apprise", url)

    def _add_service(self, url: str) -> bool:
        token = _logs_silenced.set(True)
        try:
            return bool(self._service.add(url))
        except Exception:  # noqa: BLE001  # a service may raise anything, and the text may show the URL
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
        except Exception as error:  # noqa: BLE001  # the text may show the URL
            failure = f"Apprise could not deliver to {self.name}: {type(error).__name__}"
            raise TemporaryAPIError(failure) from None
        finally:
            _logs_silenced.reset(token)
        if not sent:
            failure = f"Apprise could not deliver to {self.name}"
            raise TemporaryAPIError(failure)


_SLACK_HOSTS = {"hooks.slack.com", "hooks.slack-gov.com"}
_SLACK_SCHEMES = {"slack+https", "slack+http"}
_JSON_SCHEMES = {"json+https", "json+http"}


@runtime_checkable
class Channel(Protocol):
    """A destination for alerts.

    Attributes:
        name: A unique name that stays the same across restarts. It is stored and shown, so it must not contain
            secrets.
    """

    @property
    def name(self) -> str:
        """The unique name of the channel."""

    def send(self, message: Message) -> None:
        """Send a message in bounded time, or raise. May be called twice with the same message."""


class FunctionChannel(_NamedChannel):
    """Passes messages to a function. It runs in the delivery thread, so it needs a timeout of its own.

    Args:
        function: Takes a `Message`. If it raises, the message counts as not delivered.

    Attributes:
        name: Module and name of the function.

    Raises:
        ConfigError: If the function is async.
    """

    def __init__(self, function: Callable[[Message], object]) -> None:
        kind = type(function)
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004  # iscoroutinefunction needs the method
            raise ConfigError("a channel must be a plain function, not an async one")
        module = getattr(function, "__module__", None) or kind.__module__
        self.name = f"{module}.{getattr(function, '__qualname__', None) or kind.__qualname__}"
        self._function = function

    def send(self, message: Message) -> None:
        """Call the function."""
        returned: Any = self._function(message)
        if inspect.iscoroutine(returned):
            returned.close()
            text = f"{self.name} returned a coroutine, so nothing was sent; give a plain function, not an async one"
            raise ConfigError(text)


def channel(target: Channel | Callable[[Message], object] | str, *, allow_private: bool = False) -> Channel:
    """Return the channel for a setting.

    Args:
        target: A channel, which is returned as it is; a function that takes a `Message`; or a URL:
            ``https://hooks.slack.com/…``, ``slack+https://…`` for another Slack-compatible server, ``json+https://…``
            for a server that takes the JSON of `WebhookChannel`, or any Apprise URL.
        allow_private: Whether a webhook may point to a private network. ``slack+http://…`` and ``json+http://…`` need
            it. It has no effect on Apprise, which makes its own requests.

    Raises:
        ConfigError: If the target is not one of these or is not valid, or if it needs Apprise and Apprise is not
            installed. The message does not show the URL.
    """
    if isinstance(target, str):
        return _channel_from_url(target.strip(), allow_private=allow_private)
    value: Any = target  # a setting may have any type
    if isinstance(value, Channel) and not isinstance(value, type):
        return _check_name(value)
    if callable(value) and not isinstance(value, type):
        return FunctionChannel(value)
    shown = value.__name__ if isinstance(value, type) else type(value).__name__
    raise ConfigError(
        f"{shown} is not a valid channel; give a URL, a function that takes a message, or an object with name and send"
    )


def _check_name(value: Channel) -> Channel:
    name = getattr(value, "name", None)  # an object of the user's may have any value there
    if isinstance(name, str) and name:
        return value
    raise ConfigError(
        f"the channel {type(value).__name__} has no name; give it a name that stays the same across restarts"
    )


def _channel_from_url(url: str, *, allow_private: bool) -> Channel:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        raise ConfigError("the URL of a channel is not valid") from None  # the error shows parts of the URL
    if parts.scheme in _SLACK_SCHEMES:
        return SlackChannel(url.partition("+")[2], allow_private=allow_private)
    if parts.scheme in _JSON_SCHEMES:
        return WebhookChannel(url.partition("+")[2], allow_private=allow_private)
    if parts.scheme in {"https", "http"} and host in _SLACK_HOSTS:
        return SlackChannel(url, allow_private=allow_private)
    if parts.scheme in {"", "https", "http"}:
        raise ConfigError(
            "the URL of a channel must be a Slack webhook (https://hooks.slack.com/…), an Apprise URL (mailto://…), "
            "slack+https://… for another Slack-compatible server, or json+https://… for any server that takes JSON"
        )
    return AppriseChannel(url)
