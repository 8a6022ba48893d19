"""Slack's incoming webhook, which Mattermost and others understand too."""

import json
import re
from typing import Any

from outlast.observe.messages import Message
from outlast.observe.names import name_of
from outlast.observe.webhook import post, target_of

__all__ = ["SlackChannel", "payload"]

_HEADER_LIMIT = 150  # what Slack takes in a header
_SECTION_LIMIT = 3000  # and in a section
_CALLS = re.compile(r"@(?=(?:channel|here|everyone|all|group)\b)", re.IGNORECASE)
_HALF_ENTITY = re.compile(r"&[a-z]{0,3}$")
_HEADERS = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "outlast"}


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
        target_of(url, allow_private=allow_private)
        self.name = name_of("slack", url)
        self._url, self._allow_private, self._timeout = url, allow_private, timeout

    def __repr__(self) -> str:
        """Show the name alone."""
        return f"<SlackChannel {self.name}>"

    def send(self, message: Message) -> None:
        """Send a message, or raise what went wrong, as `post` does."""
        body = json.dumps(payload(message), ensure_ascii=False).encode("utf-8", "replace")
        post(self._url, body, _HEADERS, allow_private=self._allow_private, timeout=self._timeout)


def payload(message: Message) -> dict[str, Any]:
    """Return what Slack is sent: blocks for those who know them, and the whole as text for the others.

    Nothing in a text can call people or become a link: an error message is not ours, and may say '@channel'.
    """
    title, text = _escaped(message.title, _HEADER_LIMIT), _escaped(message.text, _SECTION_LIMIT)
    blocks: list[dict[str, Any]] = [{"type": "header", "text": {"type": "plain_text", "text": title, "emoji": False}}]
    if text:
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}})
    whole = _escaped(message.title, _SECTION_LIMIT)
    return {"text": f"{whole}\n{text}" if text else whole, "blocks": blocks}


def _escaped(text: str, limit: int) -> str:
    """Escape the three characters that mean something to Slack, and cut behind that, not within an escape."""
    calm = _CALLS.sub("@\u200b", text)
    safe = calm.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if len(safe) <= limit:
        return safe
    return f"{_HALF_ENTITY.sub('', safe[: limit - 1])}…"
