"""A real PgBouncer for tests, from the system's own package, on a free port of 127.0.0.1, before a `PostgresServer`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from servers.postgres import server_account

if TYPE_CHECKING:
    from servers.postgres import PostgresServer

START_LIMIT = 20.0
"""Seconds within which it has to answer."""


class PgBouncer:
    """Asks for the same password as the server behind it, and has all of its databases.

    Args:
        server: What it stands before; it need not run yet.
        mode: ``transaction``, ``session`` or ``statement``.
        pool_size: Sessions of the server that it uses for one database.
        settings: More settings.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        server: PostgresServer,
        *,
        mode: str = "transaction",
        pool_size: int = 4,
        settings: dict[str, str] | None = None,
    ) -> None:
        self._server, self.mode = server, mode
        self._settings = {"default_pool_size": str(pool_size), **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path()
        self.port = 0

    def url(self, database: str | None = None) -> str:
        """Return the way to a database through it."""
        server = self._server
        return f"postgresql://{server.user}:{server.password}@{self.host}:{self.port}/{database or server.database}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        account = server_account()  # PgBouncer does not run as root either
        self._folder = Path(tempfile.mkdtemp(prefix="outlast-pgbouncer-"))
        self.port = _free_port()
        (self._folder / "users").write_text(f'"{self._server.user}" "{self._server.password}"\n')
        (self._folder / "pgbouncer.ini").write_text(self._configuration())
        more: dict[str, Any] = {}
        if account is not None:
            for path in (self._folder, *self._folder.iterdir()):
                os.chown(path, account.pw_uid, account.pw_gid)
            more = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["pgbouncer", str(self._folder / "pgbouncer.ini")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, **more,
            )  # fmt: skip
        self._wait()

    def stop(self) -> None:
        """End it and remove what it wrote."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def said(self) -> str:
        """Return what it has logged."""
        return (self._folder / "log").read_text(errors="replace")

    def _configuration(self) -> str:
        settings = {
            "listen_addr": self.host,
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": str(self._folder / "users"),
            "admin_users": self._server.user,
            "pool_mode": self.mode,
            "max_client_conn": "500",
            "server_login_retry": "0.2",
            **self._settings,
        }
        lines = "\n".join(f"{name} = {value}" for name, value in settings.items())
        return f"[databases]\n* = host={self._server.host} port={self._server.port}\n\n[pgbouncer]\n{lines}\n"

    def _wait(self) -> None:
        limit = time.monotonic() + START_LIMIT
        while time.monotonic() < limit and self._process is not None and self._process.poll() is None:
            try:
                psycopg.connect(self.url("pgbouncer"), autocommit=True, connect_timeout=5).close()
            except psycopg.OperationalError:
                time.sleep(0.03)
            else:
                return
        log = self.said()
        self.stop()
        message = f"PgBouncer did not start: {log[-2000:]}"
        raise RuntimeError(message)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
