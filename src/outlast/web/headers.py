"""The headers of every answer: what a browser may load, whom it tells, and what it keeps."""

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Message, Scope, Send

__all__ = ["fresh_nonce", "guarded", "keep_nonce", "nonce_of"]

_NONCE = "outlast.nonce"
_CACHE = b"cache-control"
_FIXED = (
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def fresh_nonce() -> str:
    """Return what tells the scripts and styles of one answer from those that somebody slipped in."""
    return secrets.token_urlsafe(18)


def keep_nonce(scope: "Scope", nonce: str) -> None:
    """Note the nonce of an answer, for the templates."""
    scope[_NONCE] = nonce


def nonce_of(scope: "Scope") -> str:
    """Return the nonce of an answer."""
    nonce: str = scope[_NONCE]
    return nonce


def guarded(scope: "Scope", send: "Send", nonce: str) -> "Send":
    """Return a way to send that adds the headers to whatever answers, and sends no body where none was asked for.

    Args:
        scope: Of the request.
        send: Of the server.
        nonce: Of this answer.
    """
    ours = ((b"content-security-policy", _policy(nonce).encode()), *_FIXED)
    names = {name for name, _ in ours}
    bodiless = scope["method"] == "HEAD"

    async def guarding(message: "Message") -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in names]
            if not any(name.lower() == _CACHE for name, _ in kept):
                kept.append((_CACHE, b"no-store"))
            message = {**message, "headers": [*kept, *ours]}
        elif bodiless and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return guarding


def _policy(nonce: str) -> str:
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
