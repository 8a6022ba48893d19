"""A stand-in of the API on loopback: four lists of records, and a bad day that is over with the first run. Not to copy."""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

COUNTS = {"ranking": 4, "genre": 30, "tag": 100, "item": 300}
"""Records of each kind."""

_GONE = {"tag-040"}
_UNWELL_TWICE = {f"shop:{number:03}" for number in range(20, 60)} | {"genre-007", "ranking-2"}
_CROWDED = {f"shop:{number:03}" for number in range(100, 118)}  # 18 of 300 items are 6 %, and 5 % may fail


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # a connection that finds no room comes again after a second


class RakutenApi:
    """Serves ``/item`` (the ids) and ``/item/ID`` (a record), and so for the other kinds, while its block runs.

    On the first day 40 items, a genre and a ranking answer 503 twice before they are well, and 18 items answer 429
    however often they are asked. One tag is gone for good. On the next day prices have changed for 5 items.
    """

    def __init__(self) -> None:
        """Listen on a free port."""
        self._day = 1
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        """Answer."""
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Be gone."""
        self._server.shutdown()
        self._server.server_close()

    def mood(self) -> str:
        """Return what kind of day it is."""
        if self._day == 1:
            return "the API has a bad day: 42 records answer 503 twice, 18 items answer 429 for ever, a tag is gone"
        return "the API is well again, and the tag is still gone" + "; 5 prices have changed" * (self._day == 2)

    def next_day(self) -> None:
        """Go on."""
        self._day += 1

    def answer(self, path: str) -> tuple[int, Any]:
        """Return status and document."""
        entity, _, source_id = path.strip("/").partition("/")
        if not source_id:
            return 200, [_id(entity, number) for number in range(1, COUNTS[entity] + 1)]
        with self._lock:
            self._asked[source_id] += 1
            asked = self._asked[source_id]
        if source_id in _GONE:
            return 404, {"error": "not_found"}
        if self._day == 1 and source_id in _CROWDED:
            return 429, {"error": "too_many_requests"}
        if source_id in _UNWELL_TWICE and asked <= 2:
            return 503, {"error": "service_unavailable"}
        return 200, {**self._record(entity, source_id), "asked": asked}

    def _record(self, entity: str, source_id: str) -> dict[str, Any]:
        if entity == "ranking":
            return {"genreId": source_id, "Items": [{"itemCode": _id("item", number)} for number in range(1, 11)]}
        if entity != "item":
            return {"id": source_id, "name": f" The {entity} {source_id} "}
        number = int(source_id.partition(":")[2])
        price = 100 * number + (50 if self._day > 1 and number <= 5 else 0)
        return {
            "itemCode": source_id,
            "itemName": f"Item {number}",
            "itemPrice": price,
            "tagIds": ["tag-001", "tag-002"],
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, document = api.answer(self.path)
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
                """Say nothing; the example does the talking."""

        return Handler


def _id(entity: str, number: int) -> str:
    return {"item": f"shop:{number:03}", "ranking": f"ranking-{number}"}.get(entity, f"{entity}-{number:03}")
