"""What is answered over HTTP, whoever carries it: /health and /ready, in short or, with the token, in detail.

Figures, where there are any, are under /metrics and for those who show the token alone.
"""

import hmac
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

from outlast.errors import ConfigError
from outlast.health.checker import HealthChecker
from outlast.health.checks import HealthReport

Exposition = Callable[[], tuple[bytes, str]]
"""Returns figures as a body and its content type."""

METRICS_PATH = "/metrics"
_METHODS = ("GET", "HEAD")
_PATHS = ("/health", "/ready")
log = logging.getLogger("outlast.health")


class HealthResponse(NamedTuple):
    """A response; the body is left out for HEAD, its length is told all the same."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def request_error(method: str, path: str, *, has_metrics: bool = False) -> HealthResponse | None:
    """Return the answer to what is not asked of the checks or the figures; None where they are to be asked."""
    if path not in _PATHS and not (has_metrics and path == METRICS_PATH):
        return error_response(404, "not found", method)
    if method not in _METHODS:
        return error_response(405, "method not allowed", method, ("Allow", ", ".join(_METHODS)))
    return None


def health_response(
    checker: HealthChecker, report: HealthReport, method: str, path: str, authorization: bytes | None, token: str | None
) -> HealthResponse:
    """Return the answer to a question that was not refused."""
    asked = checker.readiness(report) if path == "/ready" else report
    status = 503 if asked.status == "unhealthy" else 200
    told = asked if _is_authorized(authorization, token) else asked.result
    return _json_response(status, told.to_dict(), method)


def metrics_response(
    metrics: Exposition, method: str, authorization: bytes | None, token: str | None
) -> HealthResponse:
    """Return the answer to who asks for figures."""
    if not _is_authorized(authorization, token):
        return error_response(401, "unauthorized", method, ("WWW-Authenticate", "Bearer"))
    try:
        body, kind = metrics()
    except Exception as error:  # noqa: BLE001  # whoever asks is answered
        from outlast.classify import classify  # noqa: PLC0415  # only trouble needs it

        log.error("no figures: %s", classify(error))  # noqa: TRY400  # a traceback may hold secrets
        return error_response(503, "no figures", method)
    return _response(200, body, kind, method)


def error_response(status: int, error: str, method: str = "GET", *more: tuple[str, str]) -> HealthResponse:
    """Return an answer that has only a word to say."""
    return _json_response(status, {"error": error}, method, *more)


def check_token(token: str | None) -> str | None:
    """Return a token that can be used.

    Raises:
        ConfigError: If it is empty, as a variable that nobody has set would make it; the message does not show it.
    """
    thing: object = token
    if thing is not None and (not isinstance(thing, str) or not thing.strip() or thing != thing.strip()):
        message = "token is empty, no text, or has blanks around it; give a secret, or None for no details to anybody"
        raise ConfigError(message)
    return token


def _is_authorized(authorization: bytes | None, token: str | None) -> bool:
    if token is None or authorization is None:
        return False
    scheme, _, given = authorization.strip().partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token.encode())


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


# The health endpoint as an ASGI 3 app, for programs that have a web server already.

AsgiMessage = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[AsgiMessage]]
AsgiSend = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp = Callable[[AsgiMessage, AsgiReceive, AsgiSend], Awaitable[None]]


def health_app(checker: HealthChecker, *, token: str | None = None) -> AsgiApp:
    """Return an ASGI app that answers ``/health`` and ``/ready``, also where it is mounted under a path.

    Args:
        checker: What is asked; its checks never block the event loop.
        token: Whoever sends ``Authorization: Bearer`` with it gets the details; without one nobody does.

    Raises:
        ConfigError: If the token cannot be used.
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
            answer = request_error(method, path)
            if answer is None:
                report = await checker.report_async()
                answer = health_response(checker, report, method, path, _authorization_header(scope), secret)
            await _send_response(send, answer)

    return app


async def _run_lifespan(receive: AsgiReceive, send: AsgiSend) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return


async def _send_response(send: AsgiSend, answer: HealthResponse) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _path_in_mount(scope: AsgiMessage) -> str:
    """Return the path below where the app is mounted; some servers leave the mount in it, some do not."""
    path: str = scope["path"]
    mount: str = scope.get("root_path", "").rstrip("/")
    return path[len(mount) :] if mount and path.startswith(f"{mount}/") else path


def _authorization_header(scope: AsgiMessage) -> bytes | None:
    given = [value for name, value in scope.get("headers", ()) if name.lower() == b"authorization"]
    return given[0] if len(given) == 1 else None


# The handler for aiohttp and Starlette by its well-known name; neither is imported unless its request comes in.

_CHECKER_KEY = "health_checker"
_NO_STORE = {"Cache-Control": "no-store"}


async def health_handler(request: Any) -> Any:
    """Answer a request for the health: 200 or 503, with what everybody may know.

    Args:
        request: Of aiohttp, whose app has the checker as ``app["health_checker"]``; or of Starlette or FastAPI, whose
            app has it as ``app.state.health_checker``.

    Returns:
        A response of the same library.

    Raises:
        ConfigError: If the app has no checker, or the request is of another library.
    """
    library = _web_library_of(request)
    checker = _aiohttp_checker(request) if library == "aiohttp" else _starlette_checker(request)
    if not isinstance(checker, HealthChecker):
        where = f'app["{_CHECKER_KEY}"]' if library == "aiohttp" else f"app.state.{_CHECKER_KEY}"
        message = f"the app has no health checker; set {where} = HealthChecker(…)"
        raise ConfigError(message)
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
    message = f"health_handler takes a request of aiohttp or Starlette, not {kind.__module__}.{kind.__qualname__}"
    raise ConfigError(message)


def _aiohttp_checker(request: Any) -> object:
    own = request.app.get(_CHECKER_KEY)
    return request.config_dict.get(_CHECKER_KEY) if own is None else own  # those of the apps around it


def _starlette_checker(request: Any) -> object:
    return getattr(request.app.state, _CHECKER_KEY, None)
