"""A name server on loopback (UDP) that answers every question in the way the first label of the name says."""

from __future__ import annotations

import socketserver
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

if TYPE_CHECKING:
    from collections.abc import Iterator


def _answer(question: bytes) -> bytes | None:
    query = dns.message.from_wire(question)
    asked = query.question[0]
    kind = asked.name.labels[0].decode()
    if kind == "silent":
        return None
    if kind == "garbage":
        return question[:2] + b"\x84\x00\x00\x01 this is no message"
    response = dns.message.make_response(query)
    if kind == "loop":
        response.answer.append(dns.rrset.from_text(asked.name, 60, "IN", "CNAME", str(asked.name)))
    elif kind != "empty":
        response.set_rcode(dns.rcode.from_text(kind))
    return response.to_wire()


@contextmanager
def name_server() -> Iterator[int]:
    """Run the server and yield its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            question, sender = self.request
            answer = _answer(question)
            if answer is not None:
                sender.sendto(answer, self.client_address)

    with socketserver.ThreadingUDPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
