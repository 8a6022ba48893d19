"""The health endpoint as an ASGI 3 app, for programs that have a web server already."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from outlast.health.answers import Answer, answered, checked_token, refusal
from outlast.health.checker import HealthChecker

__all__ = ["health_app"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]


def health_app(checker: HealthChecker, *, token: str | None = None) -> AsgiApp:
    """Return an ASGI app that answers ``/health`` and ``/ready``, also where it is mounted under a path.

    Args:
        checker: What is asked; its checks never block the event loop.
        token: Whoever sends ``Authorization: Bearer`` with it gets the details; without one nobody does.

    Raises:
        ConfigError: If the token cannot be used.
    """
    secret = checked_token(token)

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await _live(receive, send)
        elif kind == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif kind == "http":
            method, path = scope["method"], _path(scope)
            answer = refusal(method, path)
            if answer is None:
                report = await checker.report_async()
                answer = answered(checker, report, method, path, _authorization(scope), secret)
            await _respond(send, answer)

    return app


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return


async def _respond(send: Send, answer: Answer) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _path(scope: Message) -> str:
    """Return the path below where the app is mounted; some servers leave the mount in it, some do not."""
    path: str = scope["path"]
    mount: str = scope.get("root_path", "").rstrip("/")
    return path[len(mount) :] if mount and path.startswith(f"{mount}/") else path


def _authorization(scope: Message) -> bytes | None:
    given = [value for name, value in scope.get("headers", ()) if name.lower() == b"authorization"]
    return given[0] if len(given) == 1 else None
