"""What is answered over HTTP, whoever carries it: /health and /ready, in short or, with the token, in detail.

Figures, where there are any, are under /metrics and for those who show the token alone.
"""

import hmac
import json
import logging
from collections.abc import Callable
from typing import NamedTuple

from outlast.errors import ConfigError
from outlast.health.checker import HealthChecker
from outlast.health.findings import HealthReport

__all__ = ["METRICS_PATH", "Answer", "Exposition", "answered", "checked_token", "measured", "plain", "refusal"]

Exposition = Callable[[], tuple[bytes, str]]
"""Returns figures as a body and its content type."""

METRICS_PATH = "/metrics"
_METHODS = ("GET", "HEAD")
_PATHS = ("/health", "/ready")
log = logging.getLogger("outlast.health")


class Answer(NamedTuple):
    """A response; the body is left out for HEAD, its length is told all the same."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def refusal(method: str, path: str, *, has_metrics: bool = False) -> Answer | None:
    """Return the answer to what is not asked of the checks or the figures; None where they are to be asked."""
    if path not in _PATHS and not (has_metrics and path == METRICS_PATH):
        return plain(404, "not found", method)
    if method not in _METHODS:
        return plain(405, "method not allowed", method, ("Allow", ", ".join(_METHODS)))
    return None


def answered(
    checker: HealthChecker, report: HealthReport, method: str, path: str, authorization: bytes | None, token: str | None
) -> Answer:
    """Return the answer to a question that was not refused."""
    asked = checker.readiness(report) if path == "/ready" else report
    status = 503 if asked.status == "unhealthy" else 200
    told = asked if _may_know(authorization, token) else asked.result
    return _made(status, told.to_dict(), method)


def measured(metrics: Exposition, method: str, authorization: bytes | None, token: str | None) -> Answer:
    """Return the answer to who asks for figures."""
    if not _may_know(authorization, token):
        return plain(401, "unauthorized", method, ("WWW-Authenticate", "Bearer"))
    try:
        body, kind = metrics()
    except Exception as error:  # noqa: BLE001  # whoever asks is answered
        from outlast.classify import classify  # noqa: PLC0415  # only trouble needs it

        log.error("no figures: %s", classify(error))  # noqa: TRY400  # a traceback may hold secrets
        return plain(503, "no figures", method)
    return _with_body(200, body, kind, method)


def plain(status: int, error: str, method: str = "GET", *more: tuple[str, str]) -> Answer:
    """Return an answer that has only a word to say."""
    return _made(status, {"error": error}, method, *more)


def checked_token(token: str | None) -> str | None:
    """Return a token that can be used.

    Raises:
        ConfigError: If it is empty, as a variable that nobody has set would make it; the message does not show it.
    """
    thing: object = token
    if thing is not None and (not isinstance(thing, str) or not thing.strip() or thing != thing.strip()):
        message = "token is empty, no text, or has blanks around it; give a secret, or None for no details to anybody"
        raise ConfigError(message)
    return token


def _may_know(authorization: bytes | None, token: str | None) -> bool:
    if token is None or authorization is None:
        return False
    scheme, _, given = authorization.strip().partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token.encode())


def _made(status: int, content: dict[str, object], method: str, *more: tuple[str, str]) -> Answer:
    return _with_body(status, json.dumps(content).encode(), "application/json", method, *more)


def _with_body(status: int, body: bytes, kind: str, method: str, *more: tuple[str, str]) -> Answer:
    headers = (
        ("Content-Type", kind),
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        *more,
    )
    return Answer(status, headers, b"" if method == "HEAD" else body)
