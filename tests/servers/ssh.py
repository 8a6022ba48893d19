"""An SSH server on loopback, made of paramiko's own server side: it refuses what it is told to refuse."""

from __future__ import annotations

import contextlib
import socket
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import paramiko

if TYPE_CHECKING:
    from collections.abc import Iterator


@cache
def host_key() -> Any:
    """Return the server's key, made once."""
    return paramiko.ECDSAKey.generate()


class _Door(paramiko.ServerInterface):
    def __init__(self, channel: int) -> None:
        self._channel = channel

    def check_auth_password(self, username: str, password: str) -> int:
        return paramiko.AUTH_SUCCESSFUL if password == "right" else paramiko.AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        return "password" if username != "keys-only" else "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return self._channel

    def check_channel_subsystem_request(self, channel: Any, name: str) -> bool:
        return super().check_channel_subsystem_request(channel, name)

    def check_channel_exec_request(self, channel: Any, command: bytes) -> bool:
        if command == b"hang up":
            channel.get_transport().close()
        return command == b"true"


class _Files(paramiko.SFTPServerInterface):
    """Every file is missing, forbidden, or broken, as its name says."""

    _ANSWERS = {  # a table
        "/missing": paramiko.SFTP_NO_SUCH_FILE,
        "/forbidden": paramiko.SFTP_PERMISSION_DENIED,
        "/full": paramiko.SFTP_FAILURE,
        "/unsupported": paramiko.SFTP_OP_UNSUPPORTED,
    }

    def stat(self, path: str) -> Any:
        return self._ANSWERS[path]


@contextlib.contextmanager
def ssh_server(channel: int = paramiko.OPEN_SUCCEEDED) -> Iterator[int]:
    """Run a server that takes one connection and yield its port.

    Args:
        channel: How it answers when a channel is to be opened.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    taken: list[Any] = []

    def serve() -> None:
        with contextlib.suppress(OSError, paramiko.SSHException, EOFError):  # the client left, as many cases want
            connection, _ = listener.accept()
            transport = paramiko.Transport(connection)
            taken.append(transport)
            transport.add_server_key(host_key())
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, _Files)
            transport.start_server(server=_Door(channel))

    thread = threading.Thread(target=serve, name="ssh-server", daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):  # a listener that accepted nobody
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for transport in taken:
            transport.close()
        thread.join(2)
