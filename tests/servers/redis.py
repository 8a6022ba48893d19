"""A real redis-server for tests, from the system's own package, on a free port of 127.0.0.1."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

START_LIMIT = 10.0
"""Seconds within which the server has to answer."""


class RedisServer:
    """Keeps nothing on disk and asks for a password.

    Args:
        cluster: Whether it is a node of a cluster; no slot is served until somebody assigns them.
    """

    host = "127.0.0.1"
    password = "redis-secret"

    def __init__(self, *, cluster: bool = False) -> None:
        self._cluster = cluster
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._folder = Path(tempfile.mkdtemp(prefix="outlast-redis-"))
        self.port = _free_port(self._cluster)
        settings = {
            "bind": self.host,
            "port": self.port,
            "requirepass": self.password,
            "dir": self._folder,
            "save": "",
            "appendonly": "no",
            "lua-time-limit": 10,
            "enable-protected-configs": "yes",
            "cluster-enabled": "yes" if self._cluster else "no",
        }
        command = ["redis-server", *(part for key, value in settings.items() for part in (f"--{key}", str(value)))]
        with (self._folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._wait()

    def stop(self) -> None:
        """End the server and remove what it wrote."""
        if self._process is not None:
            self._process.kill()  # there is nothing to save, and a script may be running
            self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def client(self, **changes: Any) -> Any:
        """Return a client that tries once; keyword arguments change its parameters."""
        return redis_client((self.host, self.port), **{"password": self.password, **changes})

    def _wait(self) -> None:
        import redis

        limit = time.monotonic() + START_LIMIT
        with self.client() as client:
            while time.monotonic() < limit and self._process is not None and self._process.poll() is None:
                try:
                    client.ping()
                except redis.ConnectionError:
                    time.sleep(0.01)
                else:
                    return
        log = (self._folder / "server.log").read_text(errors="replace")
        self.stop()
        message = f"redis-server did not start: {log[-2000:]}"
        raise RuntimeError(message)


def redis_client(address: tuple[str, int], **changes: Any) -> Any:
    """Return a client that tries once and introduces itself as little as it can."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    host, port = address
    settings = {"socket_timeout": 5, "protocol": 2, "driver_info": None, "retry": Retry(NoBackoff(), 0), **changes}
    return redis.Redis(host=host, port=port, **settings)


def _free_port(cluster: bool) -> int:  # a node of a cluster also opens the port that is 10000 higher
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if not cluster or port + 10_000 < 65_536:
            return port
