"""Everything else, by Apprise: mail, chat and push services, each by a URL of its own kind (extra ``notify``)."""

import contextvars
import logging
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from outlast.decide.alerting import AlertKind
from outlast.errors import ConfigError, TemporaryAPIError
from outlast.observe.messages import Message
from outlast.observe.names import name_of

__all__ = ["AppriseChannel"]

_LOGGERS = ("apprise", "urllib3.connectionpool")  # both write addresses, which are secrets
_quiet: contextvars.ContextVar[bool] = contextvars.ContextVar("outlast_apprise_quiet", default=False)


def _unless_quiet(_: logging.LogRecord) -> bool:
    return not _quiet.get()


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
            message = 'this kind of notification needs Apprise; run: pip install ".[notify]" in a clone of Outlast'
            raise ConfigError(message) from error
        for each in map(logging.getLogger, _LOGGERS):
            if _unless_quiet not in each.filters:
                each.addFilter(_unless_quiet)
        self._service = apprise.Apprise()
        if not self._added(url) or len(self._service) != 1:
            message = (
                "Apprise does not understand the address of a notification (not shown, it may hold secrets), or it "
                "names several services; a webhook that speaks Slack's language is written slack+https://…"
            )
            raise ConfigError(message)
        self.name = name_of(urlsplit(url).scheme or "apprise", url)

    def __repr__(self) -> str:
        """Show the name alone."""
        return f"<AppriseChannel {self.name}>"

    def _added(self, url: str) -> bool:
        token = _quiet.set(True)
        try:
            return bool(self._service.add(url))
        except Exception:  # noqa: BLE001  # whatever a service makes of a URL; its text may show it
            return False
        finally:
            _quiet.reset(token)

    def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            TemporaryAPIError: If Apprise could not deliver it; it does not say why.
        """
        recovered = all(kind is AlertKind.RECOVERED for kind in message.kinds)
        token = _quiet.set(True)
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
            _quiet.reset(token)
        if not sent:
            failure = f"Apprise could not deliver to {self.name}"
            raise TemporaryAPIError(failure)
