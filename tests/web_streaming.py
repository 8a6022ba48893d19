"""``outlast web`` as a process, questions over a real connection, and streams that are read until they end."""

import contextlib
import http.client
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

__all__ = ["Address", "Stream", "ask", "running"]


@contextlib.contextmanager
def running(folder, *words, **variables):
    """Run ``outlast web`` in a folder with an app; yields the process and the first line that it says."""
    (folder / "jobs.py").write_text("import outlast\n\napp = outlast.App('sqlite:///outlast.db')\n", "utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OUTLAST_")} | variables
    command = [str(Path(sys.executable).with_name("outlast")), "web", *words]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


class Address:
    def __init__(self, said):
        self.link = re.search(r"http://\S+", said)[0]
        self.port = int(re.search(r":(\d+)", self.link)[1])


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
