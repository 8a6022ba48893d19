"""The dashboard of a stage, as a server of its own, and the ways into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

from outlast.web.server import serve

if TYPE_CHECKING:
    from browser.stage import Stage

TOKEN = "operator-token-for-tests-0123456789"
_TICK = 0.2  # seconds; people can wait for longer than tests can
READ_TOKEN = "reader-token-for-tests-0123456789"


@dataclass
class House:
    """A stage with its dashboard.

    Attributes:
        stage: What it shows.
        server: The dashboard.
        entries: Cookies of those who are signed in, by role.
    """

    stage: Stage
    server: Any
    entries: dict[str, list[dict[str, Any]]]

    @classmethod
    def opened(cls, stage: Stage, **settings: Any) -> House:
        given = {"port": 0, "token": TOKEN, "read_token": READ_TOKEN} | settings
        server = serve(stage.app, **given)
        server._hub._tick = _TICK
        return cls(stage, server.start(), {})

    @property
    def url(self) -> str:
        """Where it is, without a slash at the end."""
        return str(self.server.url).rstrip("/")

    def at(self, path: str) -> str:
        return f"{self.url}{path}"

    def cookies(self, role: str) -> list[dict[str, Any]]:
        """Sign in once as ``operator`` or ``reader``, and return what a browser would have then."""
        if role not in self.entries:
            token = TOKEN if role == "operator" else READ_TOKEN
            with httpx.Client(base_url=self.url) as client:
                answer = client.post("/sign-in", data={"token": token}, headers={"Origin": self.url})
                assert answer.status_code == 303, answer.text
                self.entries[role] = [
                    {"name": each.name, "value": each.value, "domain": urlsplit(self.url).hostname, "path": each.path}
                    for each in client.cookies.jar
                ]
        return self.entries[role]

    def asked(self, path: str, *, token: str = TOKEN) -> httpx.Response:
        """Ask as a program does."""
        return httpx.get(self.at(path), headers={"Authorization": f"Bearer {token}"}, timeout=30)

    def json(self, path: str) -> Any:
        answer = self.asked(f"/api{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close(self) -> None:
        self.server.close()
        self.stage.close()
