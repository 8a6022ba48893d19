"""Questions over a real connection, and streams that are read until they end."""

import contextlib
import http.client
import threading

__all__ = ["Stream", "ask"]


def ask(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    with contextlib.closing(connection):
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, names)
        response = connection.getresponse()
        return response, response.read().decode()


class Stream:
    """Reads ``/events`` in a thread until it ends."""

    def __init__(self, server, cookie, path="/events?view=tasks"):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.connection.request("GET", path, headers={"Cookie": cookie})
        self.response = self.connection.getresponse()
        assert self.response.status == 200
        assert self.response.getheader("Content-Type").startswith("text/event-stream")
        assert self.response.readline()  # it has begun
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            while self.response.readline():
                pass
        self.ended.set()
        self.connection.close()
