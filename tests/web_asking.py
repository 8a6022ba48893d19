"""Requests to an ASGI app byte for byte, as no well-behaved client would send them."""

from __future__ import annotations

import asyncio
import atexit
import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Answer", "Client", "ask"]


class Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key == name]
        assert len(found) < 2, f"{name} is there twice"
        return found[0] if found else None

    def cookies(self) -> list[str]:
        return [value for key, value in self.headers if key == "set-cookie"]


async def asked(
    app: Any,
    method: str,
    path: str | bytes,
    headers: Sequence[tuple[str, str]] = (),
    body: bytes = b"",
    **scope: Any,
) -> Answer:
    raw = path if isinstance(path, bytes) else path.encode("latin-1")
    raw_path, _, query = raw.partition(b"?")
    whole = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote_to_bytes(raw_path).decode("utf-8", "replace"),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 4711),
        "server": ("127.0.0.1", 8787),
        **scope,
    }
    sent: list[dict[str, Any]] = []
    unread = [{"type": "http.request", "body": body, "more_body": False}]
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if unread:
            return unread.pop(0)
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(whole, receive, send)
    starts = [each for each in sent if each["type"] == "http.response.start"]
    assert len(starts) == 1, "one answer to one question"
    answered = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in starts[0]["headers"]]
    text = b"".join(each.get("body", b"") for each in sent if each["type"] == "http.response.body")
    return Answer(starts[0]["status"], answered, text)


_runner = asyncio.Runner()  # one loop for thousands of questions; its threads are used again
atexit.register(_runner.close)


def ask(app: Any, method: str, path: str | bytes, *args: Any, **kwargs: Any) -> Answer:
    return _runner.run(asked(app, method, path, *args, **kwargs))


class Client:
    """Somebody with a Host, and perhaps a cookie or a token.

    Args:
        site: Whom they ask.
        headers: That they always send.
        host: Under which name; None for none.
        origin: From which page they post; None for none.
        mount: Where the site is mounted, as the server tells it.
    """

    def __init__(
        self,
        site: Any,
        *headers: tuple[str, str],
        host: str | None = "localhost:8787",
        origin: str | None = "http://localhost:8787",
        mount: str = "",
    ) -> None:
        self.site, self.headers, self.host, self.origin, self.mount = site, headers, host, origin, mount

    def ask(self, method: str, path: str | bytes, *more: tuple[str, str], body: bytes = b"", **scope: Any) -> Answer:
        headers = [*self.headers, *more]
        if self.host is not None:
            headers.append(("Host", self.host))
        if self.origin is not None and method not in {"GET", "HEAD"}:
            headers.append(("Origin", self.origin))
        if body:
            headers.append(("Content-Length", str(len(body))))
        raw = path if isinstance(path, bytes) else path.encode("latin-1")
        return ask(self.site, method, self.mount.encode() + raw, headers, body, **({"root_path": self.mount} | scope))

    def after(self, answer: Answer) -> "Client":
        """Return somebody who also has the cookies of an answer."""
        cookies = [value for name, value in self.headers if name == "Cookie"]
        cookies += [each.partition(";")[0] for each in answer.cookies()]
        others = [header for header in self.headers if header[0] != "Cookie"]
        return Client(
            self.site, *others, ("Cookie", "; ".join(cookies)), host=self.host, origin=self.origin, mount=self.mount
        )

    def get(self, path: str | bytes, *more: tuple[str, str], **scope: Any) -> Answer:
        return self.ask("GET", path, *more, **scope)

    def post(self, path: str | bytes, form: str = "", *more: tuple[str, str], **scope: Any) -> Answer:
        kind = ("Content-Type", "application/x-www-form-urlencoded")
        return self.ask("POST", path, kind, *more, body=form.encode("latin-1"), **scope)
