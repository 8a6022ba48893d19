"""The responses of /health, /ready and /metrics, as an ASGI app and as a handler for aiohttp and Starlette.

The token gives access to details and metrics; without it, clients see only whether each check passed.
"""

import hmac
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

from outlast.errors import ConfigError
from outlast.health.checker import HealthChecker, HealthReport

Exposition = Callable[[], tuple[bytes, str]]
"""A function that returns metrics as a body and its content type."""

METRICS_PATH = "/metrics"
_METHODS = ("GET", "HEAD")
_PATHS = ("/health", "/ready")
log = logging.getLogger("outlast.health")


class HealthResponse(NamedTuple):
    """An HTTP response. For HEAD the body is empty, but Content-Length is the length of the full body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def request_error(method: str, path: str, *, has_metrics: bool = False) -> HealthResponse | None:
    """Return the error response for a request; None if the path and the method are allowed."""
    if path not in _PATHS and not (has_metrics and path == METRICS_PATH):
        return error_response(404, "not found", method)
    if method not in _METHODS:
        return error_response(405, "method not allowed", method, ("Allow", ", ".join(_METHODS)))
    return None


def health_response(
    checker: HealthChecker, report: HealthReport, method: str, path: str, authorization: bytes | None, token: str | None
) -> HealthResponse:
    """Return the response of /health or /ready, with details if the client is authorized."""
    found = checker.readiness(report) if path == "/ready" else report
    status = 503 if found.status == "unhealthy" else 200
    content = found if _is_authorized(authorization, token) else found.result
    return _json_response(status, content.to_dict(), method)


def metrics_response(
    metrics: Exposition, method: str, authorization: bytes | None, token: str | None
) -> HealthResponse:
    """Return the response of /metrics."""
    if not _is_authorized(authorization, token):
        return error_response(401, "unauthorized", method, ("WWW-Authenticate", "Bearer"))
    try:
        body, kind = metrics()
    except Exception as error:  # noqa: BLE001  # every request gets a response
        from outlast.classify import classify  # noqa: PLC0415  # only needed for errors

        log.error("metrics failed: %s", classify(error))  # noqa: TRY400  # a traceback may contain secrets
        return error_response(503, "no metrics", method)
    return _response(200, body, kind, method)


def error_response(status: int, error: str, method: str = "GET", *more: tuple[str, str]) -> HealthResponse:
    """Return an error response."""
    return _json_response(status, {"error": error}, method, *more)


def check_token(token: str | None) -> str | None:
    """Return a valid token.

    Raises:
        ConfigError: If it is empty, for example because an environment variable is not set. The message does not show
            the token.
    """
    value: object = token
    if value is not None and (not isinstance(value, str) or not value.strip() or value != value.strip()):
        raise ConfigError(
            "token is empty, is not a text, or has spaces around it; give a secret, or None to show no details"
        )
    return token


def _is_authorized(authorization: bytes | None, token: str | None) -> bool:
    if token is None or authorization is None:
        return False
    scheme, _, credentials = authorization.strip().partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(credentials.strip(), token.encode())


def _json_response(status: int, content: dict[str, object], method: str, *more: tuple[str, str]) -> HealthResponse:
    return _response(status, json.dumps(content).encode(), "application/json", method, *more)


def _response(status: int, body: bytes, kind: str, method: str, *more: tuple[str, str]) -> HealthResponse:
    headers = (
        ("Content-Type", kind),
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        *more,
    )
    return HealthResponse(status, headers, b"" if method == "HEAD" else body)


AsgiMessage = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[AsgiMessage]]
AsgiSend = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp = Callable[[AsgiMessage, AsgiReceive, AsgiSend], Awaitable[None]]


def health_app(checker: HealthChecker, *, token: str | None = None) -> AsgiApp:
    """Return an ASGI app that serves ``/health`` and ``/ready``. It may be mounted under a path.

    Args:
        checker: The checker. Its checks never block the event loop.
        token: Clients that send it as ``Authorization: Bearer`` get the details. If None, no client does.

    Raises:
        ConfigError: If the token is not valid.
    """
    secret = check_token(token)

    async def app(scope: AsgiMessage, receive: AsgiReceive, send: AsgiSend) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await _run_lifespan(receive, send)
        elif kind == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif kind == "http":
            method, path = scope["method"], _path_in_mount(scope)
            response = request_error(method, path)
            if response is None:
                report = await checker.report_async()
                response = health_response(checker, report, method, path, _authorization_header(scope), secret)
            await _send_response(send, response)

    return app


async def _run_lifespan(receive: AsgiReceive, send: AsgiSend) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return


async def _send_response(send: AsgiSend, response: HealthResponse) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in response.headers]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


def _path_in_mount(scope: AsgiMessage) -> str:
    """Return the path below the mount point. Some servers include the mount point in the path, some do not."""
    path: str = scope["path"]
    mount: str = scope.get("root_path", "").rstrip("/")
    return path[len(mount) :] if mount and path.startswith(f"{mount}/") else path


def _authorization_header(scope: AsgiMessage) -> bytes | None:
    values = [value for name, value in scope.get("headers", ()) if name.lower() == b"authorization"]
    return values[0] if len(values) == 1 else None


_CHECKER_KEY = "health_checker"
_NO_STORE = {"Cache-Control": "no-store"}


async def health_handler(request: Any) -> Any:
    """Return the public health as a response with status 200 or 503.

    Args:
        request: A request of aiohttp, with the checker in ``app["health_checker"]``; or a request of Starlette or
            FastAPI, with the checker in ``app.state.health_checker``.

    Returns:
        A response of the same library.

    Raises:
        ConfigError: If the app has no checker, or the request comes from another library.
    """
    library = _web_library_of(request)
    if library == "aiohttp":
        own, where = request.app.get(_CHECKER_KEY), f'app["{_CHECKER_KEY}"]'
        checker = request.config_dict.get(_CHECKER_KEY) if own is None else own  # the parent apps may have one
    else:
        checker, where = getattr(request.app.state, _CHECKER_KEY, None), f"app.state.{_CHECKER_KEY}"
    if not isinstance(checker, HealthChecker):
        raise ConfigError(f"the app has no health checker; set {where} = HealthChecker(…)")
    result = (await checker.report_async()).result
    status = 200 if all(result.checks.values()) else 503
    if library == "aiohttp":
        return import_module("aiohttp.web").json_response(result.to_dict(), status=status, headers=_NO_STORE)
    responses = import_module("starlette.responses")
    return responses.JSONResponse(result.to_dict(), status_code=status, headers=_NO_STORE)


def _web_library_of(request: object) -> str:
    for kind in type(request).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in {"aiohttp", "starlette"}:
            return library
    kind = type(request)
    raise ConfigError(f"the request must come from aiohttp or Starlette, not {kind.__module__}.{kind.__qualname__}")
