"""Security headers of every response: content security policy, referrer policy and caching."""

import secrets

from starlette.types import Message, Scope, Send

_NONCE_KEY = "outlast.nonce"
_CACHE_CONTROL = b"cache-control"
_SECURITY_HEADERS = (
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def get_nonce(scope: Scope) -> str:
    """Return the nonce of a response, which allows its own scripts and styles, and no injected ones."""
    nonce: str = scope[_NONCE_KEY]
    return nonce


def with_security_headers(scope: Scope, send: Send) -> Send:
    """Return a send function that adds the security headers, and sends no body for HEAD.

    Args:
        scope: Scope of the request; gets the nonce of the response.
        send: The server's send function.
    """
    nonce = scope[_NONCE_KEY] = secrets.token_urlsafe(18)
    ours = ((b"content-security-policy", _content_security_policy(nonce).encode()), *_SECURITY_HEADERS)
    names = {name for name, _ in ours}
    is_head = scope["method"] == "HEAD"

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in names]
            if not any(name.lower() == _CACHE_CONTROL for name, _ in kept):
                kept.append((_CACHE_CONTROL, b"no-store"))
            message = {**message, "headers": [*kept, *ours]}
        elif is_head and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return send_with_headers


def _content_security_policy(nonce: str) -> str:
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
