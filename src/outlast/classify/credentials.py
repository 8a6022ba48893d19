"""Whether a request carried credentials, which is what a 403 turns on."""

import re
from functools import cache
from itertools import islice

__all__ = ["credentials_in"]

_HEADERS = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "cookie",
        "x-api-key",
        "api-key",
        "apikey",
        "x-auth-token",
        "x-access-token",
        "x-amz-security-token",
        "x-goog-api-key",
        "x-rapidapi-key",
        "x-functions-key",
        "ocp-apim-subscription-key",
        "private-token",
    }
)
_URL_LIMIT = 8192
_HEADER_LIMIT = 200


@cache
def _in_url() -> re.Pattern[str]:
    names = (
        "api[_-]?key|key|access[_-]?key|access[_-]?token|auth[_-]?token|id[_-]?token|token|auth|application_?id|app_?id|"
        "client[_-]?secret|secret|password|passwd|pwd|signature|sig|x-amz-(?:signature|credential|security-token)|"
        "x-goog-(?:signature|credential)|awsaccesskeyid|hmac|session[_-]?id|sessionid"
    )
    return re.compile(rf"\A[a-z][a-z0-9+.-]*://[^/?#]*@|[?&;](?:{names})=[^&;#]", re.IGNORECASE)


def credentials_in(headers: object, url: object) -> bool | None:
    """Tell whether credentials were sent.

    Args:
        headers: Request headers of any client, or None.
        url: The requested URL as text or as an object whose text it is.

    Returns:
        True or False, or None where neither could be looked at.
    """
    names = _names(headers)
    text = _text(url)
    if names & _HEADERS or (text and _in_url().search(text)):
        return True
    return None if not names and not text else False


def _names(headers: object) -> set[str]:
    try:
        return {
            name.decode("ascii", "replace").lower() if isinstance(name, bytes) else str(name).lower()
            for name in islice(headers, _HEADER_LIMIT)  # type: ignore[call-overload]  # any mapping; what is none is caught
        }
    except Exception:  # noqa: BLE001  # headers of any library, or none
        return set()


def _text(url: object) -> str:
    if url is None:
        return ""
    try:
        return str(url)[:_URL_LIMIT]
    except Exception:  # noqa: BLE001  # a URL object of any library
        return ""
