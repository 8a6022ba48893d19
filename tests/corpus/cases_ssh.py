"""paramiko against a real SSH server of its own, and against servers that speak something else or nothing."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught
from outlast import Category as C
from outlast import Origin
from servers.wire import talking, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers.wire import Talk

RETRIED = {C.NETWORK, C.API_TEMPORARY}
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


def connected(port: int, *, trusted: bool = True, known: Any = None, **options: Any) -> Any:
    """Connect as a program would; `known` is the key that the client expects of the host."""
    import paramiko

    client = paramiko.SSHClient()
    if trusted:
        client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    if known is not None:
        client.get_host_keys().add(f"[127.0.0.1]:{port}", known.get_name(), known)
    settings = {"username": "user", "password": "right", "timeout": 2, "look_for_keys": False, "allow_agent": False}
    client.connect("127.0.0.1", port=port, **{**settings, **options})
    return client


def at_server(options: dict[str, Any], act: Callable[[Any], object], channel: int, _: World) -> BaseException:
    from servers.ssh import ssh_server

    with ssh_server(channel) as port:

        def run() -> None:
            client = connected(port, **options)
            try:
                act(client)
            finally:
                client.close()

        return caught(run)


def wrong_host_key(_: World) -> BaseException:
    import paramiko

    from servers.ssh import ssh_server

    with ssh_server() as port:
        return caught(connected, port, known=paramiko.ECDSAKey.generate())


def at_stub(talk: Talk, options: dict[str, Any], _: World) -> BaseException:
    with talking(talk) as (_, port):
        return caught(connected, port, **options)


def refused(world: World) -> BaseException:
    return caught(connected, int(world.faults.refused_url.rstrip("/").rpartition(":")[2]))


def encrypted_key(world: World) -> BaseException:
    import paramiko

    path = str(world.folder / "encrypted-key")
    paramiko.ECDSAKey.generate().write_private_key_file(path, password="locked")
    return caught(paramiko.ECDSAKey.from_private_key_file, path)


def broken_key(world: World) -> BaseException:
    import paramiko

    path = world.folder / "broken-key"
    path.write_text("-----BEGIN NOTHING-----\n")
    return caught(paramiko.ECDSAKey.from_private_key_file, str(path))


def _says(words: bytes) -> Talk:
    return lambda incoming, outgoing: (outgoing.write(words), incoming.readline(), incoming.read1(4096))  # type: ignore[attr-defined]


def _silent(incoming: Any, outgoing: Any) -> None:
    wait_for_end(incoming)


# Options of the client, what it does, how channels are answered, category, code.
SERVED: dict[str, tuple[dict[str, Any], Callable[[Any], object], int, C, str | None]] = {
    "wrong password": ({"password": "wrong"}, id, 0, C.AUTHENTICATION, None),
    "password not allowed": ({"username": "keys-only", "password": "wrong"}, id, 0, C.AUTHENTICATION, None),
    "no credentials": ({"password": None}, id, 0, C.CONFIGURATION, None),
    "unknown host key": ({"trusted": False}, id, 0, C.CONFIGURATION, None),
    "channel prohibited": ({}, lambda it: it.exec_command("true"), 1, C.ACCESS_DENIED, "ADMINISTRATIVELY_PROHIBITED"),
    "channel cannot connect": ({}, lambda it: it.exec_command("true"), 2, C.NETWORK, "CONNECT_FAILED"),
    "channel of an unknown type": ({}, lambda it: it.exec_command("true"), 3, C.CONFIGURATION, "UNKNOWN_CHANNEL_TYPE"),
    "server out of resources": ({}, lambda it: it.exec_command("true"), 4, C.API_TEMPORARY, "RESOURCE_SHORTAGE"),
    "server hangs up": ({}, lambda it: it.exec_command("hang up"), 0, C.NETWORK, None),
    "file missing": ({}, lambda it: it.open_sftp().stat("/missing"), 0, C.NOT_FOUND, "ENOENT"),
    "file forbidden": ({}, lambda it: it.open_sftp().stat("/forbidden"), 0, C.ACCESS_DENIED, "EACCES"),
    "file failure": ({}, lambda it: it.open_sftp().stat("/full"), 0, C.UNKNOWN, None),
}

STUBS: dict[str, tuple[Talk, dict[str, Any], C]] = {
    "hangs up at once": (lambda incoming, outgoing: None, {}, C.NETWORK),
    "hangs up in the key exchange": (_says(b"SSH-2.0-stub\r\n"), {}, C.NETWORK),
    "no banner": (_silent, {"banner_timeout": 0.05}, C.NETWORK),
    "speaks HTTP": (_says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), {"timeout": 0.2, "banner_timeout": 0.1}, C.NETWORK),
    "too old": (_says(b"SSH-1.5-stub\r\n"), {}, C.CONFIGURATION),
}

CASES: list[Case] = [
    *(
        Case(f"paramiko/{name}", partial(at_server, options, act, channel), category, category in RETRIED, code=code)
        for name, (options, act, channel, category, code) in SERVED.items()
    ),
    *(
        Case(f"paramiko/{name}", partial(at_stub, talk, options), category, category in RETRIED)
        for name, (talk, options, category) in STUBS.items()
    ),
    Case("paramiko/refused", refused, C.NETWORK, True, code="ECONNREFUSED", origin=Origin.NETWORK),
    Case("paramiko/wrong host key", wrong_host_key, C.CONFIGURATION, False, origin=Origin.NETWORK),
    Case("paramiko/key is encrypted", encrypted_key, C.CONFIGURATION, False),
    Case("paramiko/key is none", broken_key, C.CONFIGURATION, False),
]
