"""The HEALTHCHECK of a container without curl: ``python -m outlast.health [URL]`` ends with 0 or 1."""

import json
import sys
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from outlast.redact import redact, safe_text

DEFAULT_URL = "http://127.0.0.1:8787/health"
TIMEOUT = 3.0
"""Seconds to wait for an answer."""
_BODY_LIMIT = 65536
_LINE_LIMIT = 300


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A health endpoint answers by itself."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing."""


def main(arguments: list[str]) -> str | None:
    """Ask once; return what is wrong in one line, or None if all is well."""
    url = _complete_url(arguments[0]) if arguments else DEFAULT_URL
    if len(arguments) > 1 or not _is_url(url):
        return f"give one address without a password, or none for {DEFAULT_URL}: python -m outlast.health [URL]"
    trouble = _check_url(url)
    return None if trouble is None else safe_text(" ".join(redact(trouble).split()), _LINE_LIMIT)


def _complete_url(url: str) -> str:
    """Return an address with what people leave out: ``127.0.0.1:8788`` stands for ``http://127.0.0.1:8788/health``."""
    whole = url if "://" in url else f"http://{url}"
    return whole if "/" in whole.partition("://")[2] else f"{whole}/health"


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and parts.hostname is not None and "@" not in parts.netloc


def _check_url(url: str) -> str | None:
    # Nobody's proxy knows what answers on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)
    try:
        with opener.open(url, timeout=TIMEOUT) as response:
            return None if response.status == 200 else f"answered {response.status}"  # noqa: PLR2004  # what /health promises
    except urllib.error.HTTPError as error:
        with error:
            return f"answered {error.code}{_failed_checks(error)}"
    except (OSError, ValueError, HTTPException) as error:
        return f"no answer: {str(getattr(error, 'reason', error)) or type(error).__name__}"


def _failed_checks(error: urllib.error.HTTPError) -> str:
    """Return the checks that are not well, where the answer tells them."""
    try:
        checks = json.loads(error.read(_BODY_LIMIT))["checks"]
        names = [str(name) for name, well in checks.items() if well is False]
    except (OSError, ValueError, HTTPException, LookupError, TypeError, AttributeError):
        return ""
    return f": not well: {', '.join(names)}" if names else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
