"""The HTTP client that a monitor polls with."""

import importlib
from typing import Any

import outlast
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.failure import RETRYABLE
from outlast.http.transport import AsyncRetryTransport
from outlast.run.cooling import Cooling

__all__ = ["open_client"]

_ONCE = RetryPolicy(max_attempts=1, retry_on=RETRYABLE)  # the monitor tries again itself, and holds no slot meanwhile


def open_client(cooling: Cooling, *, concurrency: int, timeout: float, user_agent: str | None) -> Any:
    """Return an AsyncClient of httpx2, or of httpx where that is what is installed.

    Raises:
        ConfigError: If neither is.
    """
    library = _library()
    limits = library.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    transport = AsyncRetryTransport(
        library.AsyncHTTPTransport(limits=limits), policy=_ONCE, cooling=cooling, patience=0.0
    )
    agent = user_agent or f"outlast/{outlast.__version__}"
    return library.AsyncClient(
        transport=transport, timeout=timeout, follow_redirects=True, headers={"User-Agent": agent}
    )


def _library() -> Any:
    for name in ("httpx2", "httpx"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    message = 'polling needs an HTTP client; install one with: pip install ".[feeds]" in a clone of Outlast'
    raise ConfigError(message)
