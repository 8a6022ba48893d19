"""What an action did, kept for the one page that the browser goes to next.

Where somebody signed in here, the session keeps it. Elsewhere the browser brings it along in a cookie that is signed,
so that nobody can put words into our mouth, and that is good for a moment only.
"""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["COOKIE", "SECONDS", "Notice", "Signing"]

COOKIE = "outlast-notice"
"""Name of the cookie."""
SECONDS = 30
"""How long the cookie is good."""
_MOST = 600  # characters; a cookie has to stay below 4 KiB


class Notice(NamedTuple):
    """One line about what was done.

    Attributes:
        text: For people.
        ok: Whether it was done as it was asked for.
    """

    text: str
    ok: bool


class Signing:
    """Turns notices into the values of cookies and back, with a key that lives as long as the process.

    Args:
        now: The clock.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """Make a key."""
        self._key, self._now = secrets.token_bytes(32), now

    def value(self, notice: Notice) -> str:
        """Return a notice as a cookie has it."""
        told = json.dumps([notice.text[:_MOST], notice.ok, int(self._now()) + SECONDS], ensure_ascii=False)
        body = base64.urlsafe_b64encode(told.encode("utf-8", "replace"))
        return f"{body.decode('ascii')}.{self._signature(body)}"

    def notice(self, value: str) -> Notice | None:
        """Return the notice in a cookie; None where it is not ours or too old."""
        body, dot, signature = value.partition(".")
        if not dot or not value.isascii() or not hmac.compare_digest(signature, self._signature(body.encode("ascii"))):
            return None
        text, ok, until = json.loads(base64.urlsafe_b64decode(body))
        return Notice(text, ok) if self._now() < until else None

    def _signature(self, body: bytes) -> str:
        return hmac.new(self._key, body, hashlib.sha256).hexdigest()
