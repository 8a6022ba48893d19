"""A HEALTHCHECK command for containers without curl: ``python -m outlast.health [URL]`` exits with 0 or 1."""

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
"""Seconds to wait for a response."""
_BODY_LIMIT = 65536
_LINE_LIMIT = 300


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: a health endpoint answers itself."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, so that the redirect becomes an error."""


def main(arguments: list[str]) -> str | None:
    """Request the URL once. Returns None if it is healthy, otherwise one line that says why not."""
    url = _complete_url(arguments[0]) if arguments else DEFAULT_URL
    if len(arguments) > 1 or not _is_url(url):
        return (
            f"give one http or https URL without a password, or none for {DEFAULT_URL}: python -m outlast.health [URL]"
        )
    problem = _check_url(url)
    return None if problem is None else safe_text(" ".join(redact(problem).split()), _LINE_LIMIT)


def _complete_url(url: str) -> str:
    """Return a URL with its missing parts: ``127.0.0.1:8788`` becomes ``http://127.0.0.1:8788/health``."""
    whole = url if "://" in url else f"http://{url}"
    return whole if "/" in whole.partition("://")[2] else f"{whole}/health"


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and parts.hostname is not None and "@" not in parts.netloc


def _check_url(url: str) -> str | None:
    # A proxy could not reach a server on this machine's loopback address.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)
    try:
        with opener.open(url, timeout=TIMEOUT) as response:
            return None if response.status == 200 else f"answered {response.status}"  # noqa: PLR2004  # the status of a healthy program
    except urllib.error.HTTPError as error:
        with error:
            return f"answered {error.code}{_failed_checks(error)}"
    except (OSError, ValueError, HTTPException) as error:
        return f"no answer: {str(getattr(error, 'reason', error)) or type(error).__name__}"


def _failed_checks(error: urllib.error.HTTPError) -> str:
    """Return the names of the failed checks as text; empty if the response does not list them."""
    try:
        checks = json.loads(error.read(_BODY_LIMIT))["checks"]
        names = [str(name) for name, ok in checks.items() if ok is False]
    except (OSError, ValueError, HTTPException, LookupError, TypeError, AttributeError):
        return ""
    return f": failed checks: {', '.join(names)}" if names else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
