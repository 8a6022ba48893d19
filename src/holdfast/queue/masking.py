"""Payloads as they may be shown: whole in the table, masked on a screen, in JSON output and on a page."""

import json
import re
from itertools import pairwise

from holdfast.classify import default_classifier
from holdfast.redact import MASK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["is_secret_name", "masked_parameters"]

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+")
_SECRET_WORD = re.compile(
    r"(?:[a-z]*(?:passw(?:or)?d|passwort|passphrase|secret|token|credential|(?:api|access|private|secret|auth)key|"
    r"authori[sz]ation|cookie|signature|sessionid)|auth|bearer|jwt|pwd|pw|sig|csrf|xsrf|otp|dsn|パスワード|密码|密碼)(s?)"
)
_LOCKED_BY = frozenset(
    [
        *("access", "account", "api", "auth", "client", "encryption", "license", "master", "private", "secret"),
        *("service", "session", "shared", "signing", "ssh", "storage", "subscription", "webhook"),
    ]
)
_QUANTITIES = frozenset(["budget", "count", "length", "limit", "size"])


def masked_parameters(text: str) -> str:
    """Return the JSON text of a payload with its secrets masked.

    What stands under a name that says so is masked whole, whatever it is; so is the second of a pair whose first is
    such a name. In all other text the redactor of the process looks for secrets, and long text is cut. What is no JSON
    is redacted as it is.

    Args:
        text: As it is stored.
    """
    redact = default_classifier().redact
    try:
        return json.dumps(_masked(json.loads(text), redact), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        return redact(text)


def is_secret_name(name: str, value: object = "") -> bool:
    """Tell whether something of this name is a secret: ``api_key``, ``dbPassword``, ``Set-Cookie``.

    Args:
        name: In snake_case, camelCase or as a header.
        value: What stands under it: a number of tokens is no token, and what is absent, true or false is no secret.
    """
    if value is None or isinstance(value, bool):
        return False
    words = [word.lower() for word in _WORD.findall(name[-200:])]
    number = isinstance(value, int | float)
    if not words or (number and words[-1] in _QUANTITIES):
        return False
    for word in words:
        found = _SECRET_WORD.fullmatch(word)
        if found and not (number and found[1]):
            return True
    pairs = pairwise(words)
    return words[-1] == "pass" or any(
        (second in {"key", "keys"} and first in _LOCKED_BY) or (first, second) == ("session", "id")
        for first, second in pairs
    )


def _masked(value: "Any", redact: "Any") -> "Any":
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [
            MASK if number and _names_the_next(value[number - 1], each, len(value)) else _masked(each, redact)
            for number, each in enumerate(value)
        ]
    if isinstance(value, dict):
        called = next((value[key] for key in ("name", "key", "header") if isinstance(value.get(key), str)), "")
        return {
            redact(key): MASK
            if is_secret_name(key, each) or (key == "value" and is_secret_name(called, each))
            else _masked(each, redact)
            for key, each in value.items()
        }
    return value


def _names_the_next(before: object, value: object, size: int) -> bool:
    """Tell whether a value follows its name: in a pair, as headers are sent, or behind an option of a command."""
    if not isinstance(before, str) or not isinstance(value, str | int | float):
        return False
    is_pair, is_option = size == 2, before.startswith("-") and "=" not in before  # noqa: PLR2004  # name and value
    return (is_pair or is_option) and is_secret_name(before, value)
