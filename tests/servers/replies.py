"""A server for SMTP or FTP that gives prepared replies to commands, on a free port of 127.0.0.1."""

from __future__ import annotations

import socketserver
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replying(greeting: str, replies: dict[str, str], otherwise: str) -> Iterator[tuple[str, int]]:
    """Run the server and yield its address.

    Args:
        greeting: What it says first.
        replies: Reply by a whole command or by its first word, in upper case; an empty one closes the connection.
        otherwise: Reply to every other command.
    """

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.say(greeting)
            for line in self.rfile:
                command = line.decode(errors="replace").strip().upper()
                reply = replies.get(command, replies.get(command.partition(" ")[0], otherwise))
                if not reply:
                    return
                self.say(reply)
                if reply.startswith("354"):  # what follows is a message, up to a lone dot
                    while self.rfile.readline() not in {b".\r\n", b""}:
                        pass
                    self.say(replies["."])

        def say(self, text: str) -> None:
            self.wfile.write(text.replace("\n", "\r\n").encode() + b"\r\n")

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

        def handle_error(self, *_: object) -> None:
            pass  # the client hung up, as it should

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server.server_address  # type: ignore[misc]
        finally:
            server.shutdown()
            thread.join()
