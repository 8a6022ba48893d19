"""Somebody who looks at the dashboard all the while."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from contextlib import suppress

_PATHS = (
    "/api", "/api/failures", "/api/dead-letters", "/api/tasks", "/api/queues", "/api/sources", "/api/jobs",
    "/api/waits", "/api/replays", "/api/suggestions", "/api/audit",
    "/", "/tasks", "/dead-letters", "/failures", "/waits",
)  # fmt: skip
_BROKEN = 500


class Looking(threading.Thread):
    """Asks for one page after the other.

    Args:
        port: Of the dashboard.
        token: That opens it.

    Attributes:
        answers: How many there were of each status; 0 where nobody answered.
        broken: What an answer said that should not have been given.
    """

    def __init__(self, port: int, token: str) -> None:
        super().__init__(name="looking", daemon=True)
        self._port, self._token = port, token
        self._over = threading.Event()
        self.answers: Counter[int] = Counter()
        self.broken: list[str] = []

    def run(self) -> None:
        """Look until told to stop."""
        number = 0
        while not self._over.wait(0.3):
            path = _PATHS[number % len(_PATHS)]
            number += 1
            status = 0
            with suppress(OSError, http.client.HTTPException):
                status = self._ask(path)
            self.answers[status] += 1

    def finish(self) -> None:
        """Stop."""
        self._over.set()
        self.join(60)

    def _ask(self, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status == _BROKEN or answer.status in {401, 403}:
            self.broken.append(f"{path} answered {answer.status}: {body[:300]!r}")
        elif answer.status == 200 and path.startswith("/api"):
            json.loads(body)
        return answer.status
