"""The messages that channels send: one per alert, or a digest if there are many."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from outlast.decide.decision import AlertKind
from outlast.errors import ConfigError
from outlast.ports.source_rows import Alert
from outlast.redact import Redactor
from outlast.units import span

__all__ = ["DIGEST_AT", "TEXT_LIMIT", "TITLE_LIMIT", "Message", "check_dashboard_url", "compose"]

DIGEST_AT = 4
"""The number of alerts from which on they are sent as one digest."""
TITLE_LIMIT = 200
"""Maximum length of a title, in characters."""
TEXT_LIMIT = 3000
"""Maximum length of a text, in characters."""
_MAX_LINES = 20  # lines of a digest
_LINE_LIMIT = 140  # characters; all lines of a digest fit into its text
_MIN_HEADLINE = 60  # characters of a line with a link
_DIGEST_TEXT_LIMIT = 300  # characters of each alert's text in a digest, which may have 500 alerts
_MAX_COUNTS = 6  # counts in the title of a digest
_COUNT_LABEL_LIMIT = 40
_TITLE_PREFIXES = {
    AlertKind.FIRST: "",
    AlertKind.CHANGED: "now: ",
    AlertKind.REMINDER: "still: ",
    AlertKind.RECOVERED: "recovered: ",
}
_redact = Redactor()


class Message(NamedTuple):
    """A message for a channel.

    Attributes:
        title: One line, at most `TITLE_LIMIT` characters.
        text: The details, at most `TEXT_LIMIT` characters; may be empty.
        kinds: The kind of each alert: first, changed, reminder or recovered.
        alerts: The alerts, redacted, for channels that send data instead of text.
        pages: The dashboard page about each alert; empty texts if the address of the dashboard is unknown.
    """

    title: str
    text: str
    kinds: tuple[AlertKind, ...]
    alerts: tuple[Alert, ...] = ()
    pages: tuple[str, ...] = ()


def compose(
    alerts: Sequence[Alert], digest_at: int = DIGEST_AT, *, dashboard: str = ""
) -> list[tuple[Message, tuple[Alert, ...]]]:
    """Return the messages for alerts: one for each, or a single digest if there are many.

    Args:
        alerts: The alerts to send, in order.
        digest_at: The number of alerts from which on they become a digest.
        dashboard: URL of the dashboard, for links; empty if unknown.

    Returns:
        Each message with its alerts.
    """
    if len(alerts) >= max(digest_at, 2):
        return [(_digest_message(alerts, dashboard), tuple(alerts))]
    return [(_single_message(alert, dashboard), (alert,)) for alert in alerts]


def _single_message(alert: Alert, dashboard: str) -> Message:
    page, command = _page_and_command(alert, dashboard)
    at = f"{alert.created_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    facts = f"Alert {alert.id}, {at}. Command: {command}"
    footer = f"{facts}\n{page}" if page else facts
    safe = _safe_alert(alert, TEXT_LIMIT)
    text = _truncate(safe.text, TEXT_LIMIT - len(footer) - 1)
    return Message(_headline(alert, TITLE_LIMIT), f"{text}\n{footer}".strip(), (alert.kind,), (safe,), (page,))


def check_dashboard_url(url: str) -> str:
    """Return the URL of a dashboard without a slash at its end.

    Raises:
        ConfigError: If it is not an http or https URL with a host.
    """
    parts = urlsplit(url)
    if url and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment):
        raise ConfigError(
            f"dashboard_url is {url!r}; give the address of the dashboard, such as https://ops.example.com"
        )
    return url.rstrip("/")


_PAGES = {
    "source": ("/sources/{}", "outlast sources show {}"),
    "outage": ("/sources", "outlast sources list"),
    "group": ("/failures/{}", "outlast dlq list --group {}"),
    "growth": ("/failures/{}", "outlast dlq list --group {}"),
    "age": ("/dead-letters", "outlast dlq groups"),
    "job": ("/jobs?job={}", "outlast job list"),
    "cooldown": ("/waits", "outlast status"),
}
"""By the first word of an alert's key: the page about it, and the command that shows the same."""


def _page_and_command(alert: Alert, dashboard: str) -> tuple[str, str]:
    kind, _, subject = alert.key.partition(":")
    path, command = _PAGES.get(kind, ("/", "outlast status"))
    safe = _redacted_line(subject)
    page = f"{dashboard}{path.format(quote(safe, safe=''))}" if dashboard else ""
    return page, command.format(safe)


def _digest_message(alerts: Sequence[Alert], dashboard: str) -> Message:
    pages = tuple(_page_and_command(alert, dashboard)[0] for alert in alerts)
    lines = [
        f"{_headline(alert, max(_LINE_LIMIT - len(page), _MIN_HEADLINE))} {page}".rstrip()
        for alert, page in zip(alerts[:_MAX_LINES], pages, strict=False)
    ]
    if len(alerts) > _MAX_LINES:
        lines.append(f"… and {len(alerts) - _MAX_LINES} more")
    title = f"{len(alerts)} changes: {_counts_text(alerts)}"
    return Message(
        _truncate(title, TITLE_LIMIT),
        _truncate("\n".join(lines), TEXT_LIMIT),
        tuple(alert.kind for alert in alerts),
        tuple(_safe_alert(alert, _DIGEST_TEXT_LIMIT) for alert in alerts),
        pages,
    )


def _safe_alert(alert: Alert, limit: int) -> Alert:
    return alert._replace(
        key=_redacted_line(alert.key),
        state=None if alert.state is None else _redacted_line(alert.state),
        title=_truncate(_redacted_line(alert.title), TITLE_LIMIT),
        text=_truncate(_redact(alert.text).strip(), limit),
    )


def _counts_text(alerts: Sequence[Alert]) -> str:
    """Return the number of alerts of each state, most frequent first."""
    counted = Counter(map(_count_label, alerts)).most_common()
    parts = [
        f"{count} {word}{'s' if word == 'reminder' and count > 1 else ''}" for word, count in counted[:_MAX_COUNTS]
    ]
    others = sum(count for _, count in counted[_MAX_COUNTS:])
    return ", ".join([*parts, f"{others} other"] if others else parts)


def _count_label(alert: Alert) -> str:
    if alert.kind is AlertKind.RECOVERED or alert.kind is AlertKind.REMINDER:
        return alert.kind.value
    return _truncate(_redacted_line(alert.state or alert.kind.value), _COUNT_LABEL_LIMIT)


def _headline(alert: Alert, limit: int) -> str:
    prefix = _TITLE_PREFIXES[alert.kind]
    if alert.lasted is not None and alert.lasted >= 1:  # less says nothing
        prefix = f"recovered after {span(alert.lasted)}: "
    return _truncate(prefix + (_redacted_line(alert.title) or _redacted_line(alert.key)), limit)


def _redacted_line(text: str) -> str:
    """Return a text as one redacted line."""
    return _redact(" ".join(text.split()))


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
