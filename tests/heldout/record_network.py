"""SSH, name resolution, WebSocket, geocoding, tokens and other clients of the network."""
# A case is one line, so that cases can be compared.
# fmt: off
# ruff: noqa: C901 (all errors of one server are provoked in one function)

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from servers.dns_stub import name_server

from .world import Cases, Service, file, folder, hanging_up, refused, reply, silent, talking

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

CASES = Cases()
add = CASES.add


def _at_port(call: Callable[[int], object], server: Callable[[], Any]) -> Callable[[], None]:
    def provoke() -> None:
        with server() as port:
            call(port)

    return provoke


# -- SSH against asyncssh's own server ----------------------------------------------------------------------------------------


def _ssh(action: str) -> Callable[[], None]:
    def provoke() -> None:
        import asyncssh

        class Server(asyncssh.SSHServer):
            def begin_auth(self, username: str) -> bool:
                return True

            def password_auth_supported(self) -> bool:
                return True

            def validate_password(self, username: str, password: str) -> bool:
                return password == "right"

        async def handle(process: Any) -> None:
            process.exit(3)

        async def run() -> None:
            key = asyncssh.generate_private_key("ssh-ed25519")
            server = await asyncssh.create_server(Server, "127.0.0.1", 0, server_host_keys=[key], process_factory=handle, sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=str(folder())))
            port = server.sockets[0].getsockname()[1]
            password = "wrong" if action == "password" else "right"
            known = file("known_hosts", b"") if action == "host-key" else None
            settings = {"username": "u", "password": password, "known_hosts": known, "client_keys": None, "agent_path": None, "config": None, "login_timeout": 3}
            if action == "algorithm":
                settings["encryption_algs"] = ["aes128-cbc"]
            async with asyncssh.connect("127.0.0.1", port, **settings) as connection:
                if action == "exit":
                    await connection.run("x", check=True)
                if action == "lost":
                    connection.abort()
                    await connection.run("x", check=True)
                if action == "time":
                    await connection.run("x", check=True, timeout=0.0001)
                async with connection.start_sftp_client() as sftp:
                    if action == "folder":
                        await sftp.mkdir("a")
                        await sftp.mkdir("a")
                    await sftp.get("/nope", str(folder()))

        asyncio.run(run())

    return provoke


def _ssh_port(port: int) -> None:
    import asyncssh

    asyncio.run(asyncio.wait_for(asyncssh.connect("127.0.0.1", port, known_hosts=None, config=None, login_timeout=1, client_keys=None, agent_path=None), 5))


def _ssh_key() -> None:
    import asyncssh

    asyncssh.import_private_key("-----BEGIN OPENSSH PRIVATE KEY-----\nxx\n-----END OPENSSH PRIVATE KEY-----\n")


def _ssh_passphrase() -> None:
    import asyncssh

    key = asyncssh.generate_private_key("ssh-ed25519")
    asyncssh.import_private_key(key.export_private_key("pkcs8-pem", passphrase="x"))


add("asyncssh/password", "authentication", False, "the password is refused", _ssh("password"))
add("asyncssh/host-key", "authentication", False, "the server's key is not trusted", _ssh("host-key"), also=("configuration", "network"))
add("asyncssh/no-file", "not_found", False, "no such file", _ssh("file"))
add("asyncssh/exists", "integrity", False, "the folder exists", _ssh("folder"), also=("unknown", "invalid_parameters"))
add("asyncssh/exit", "unknown", False, "the command ended with status 3, whose meaning only its author knows", _ssh("exit"))
add("asyncssh/algorithm", "configuration", False, "the two sides have no cipher in common", _ssh("algorithm"), also=("network",))
add("asyncssh/closed", "network", True, "the peer ended the connection", _at_port(_ssh_port, hanging_up))
add("asyncssh/not-ssh", "configuration", False, "another service answers on the port", _at_port(_ssh_port, lambda: talking(lambda c: c.sendall(b"SSH-1.5-old\r\n") or c.recv(100))), also=("data", "network"))
add("asyncssh/key", "configuration", False, "the key is malformed", _ssh_key, also=("data", "authentication"))
add("asyncssh/passphrase", "configuration", False, "the key needs a passphrase", _ssh_passphrase, also=("authentication", "data"))

# -- name resolution -------------------------------------------------------------------------------------------------------------


def _aiodns(label: str) -> Callable[[], None]:
    def provoke() -> None:
        import aiodns

        async def run(port: int) -> None:
            resolver = aiodns.DNSResolver(nameservers=[f"127.0.0.1:{port}"], timeout=0.3, tries=1)
            if label == "name":
                await resolver.query_dns("a" * 70 + ".example", "A")
            await resolver.query_dns(f"{label}.example", "A")

        if label == "refused-port":
            asyncio.run(run(refused()))
        with name_server() as port:
            asyncio.run(run(port))

    return provoke


add("aiodns/nxdomain", "network", True, "the name does not exist: DNS failures count as network", _aiodns("nxdomain"), also=("not_found",))
add("aiodns/servfail", "network", True, "the name server failed", _aiodns("servfail"), also=("api_temporary",))
add("aiodns/query-refused", "network", True, "the name server refuses the question", _aiodns("refused"), also=("access_denied", "configuration"))
add("aiodns/empty", "network", True, "the name has no address: DNS failures count as network", _aiodns("empty"), also=("not_found", "data"))
add("aiodns/timeout", "network", True, "the name server is silent", _aiodns("silent"))
add("aiodns/refused-port", "network", True, "no name server listens", _aiodns("refused-port"))
add("aiodns/name", "invalid_parameters", False, "not a name of a host", _aiodns("name"), also=("configuration", "network"))

# -- WebSocket ----------------------------------------------------------------------------------------------------------------------


def _websocket(url: str) -> None:
    import websocket

    connection = websocket.create_connection(url.replace("http", "ws", 1), timeout=0.7)
    connection.recv()


s = Service(CASES, "websocket-client", _websocket)
s.answers("401", reply(401, "who?"), "authentication", False, "the handshake was refused")
s.answers("403", reply(403, "no"), "access_denied", False, "the handshake was refused, without credentials sent", also=("authentication",))
s.answers("404", reply(404, "nope"), "not_found", False, "no such endpoint")
s.answers("429", reply(429, "slow down", Retry_After="25"), "rate_limit", True, "a stated wait", retry_after=25)
s.answers("503", reply(503, "away"), "api_temporary", True, "away for now")
s.answers("200", reply(200, "hello"), "data", False, "not a WebSocket endpoint", also=("configuration", "invalid_parameters", "not_found"))
s.faults("timeout", "hangup", "dns")


def _websocket_closed() -> None:
    import base64
    import hashlib

    def talk(connection: socket.socket) -> None:
        request = connection.recv(4096).decode()
        key = next(line.split(": ")[1] for line in request.split("\r\n") if line.lower().startswith("sec-websocket-key"))
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        connection.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())

    with talking(talk) as port:
        _websocket(f"http://127.0.0.1:{port}")


add("websocket-client/closed", "network", True, "the peer ended the connection", _websocket_closed)


def _websocket_scheme() -> None:
    import websocket

    websocket.create_connection("http://127.0.0.1/")


add("websocket-client/scheme", "configuration", False, "the URL has to be ws or wss", _websocket_scheme, also=("invalid_parameters",))


def _socketio(url: str) -> None:
    import socketio

    socketio.SimpleClient().connect(url, wait_timeout=1, transports=["polling"])


s = Service(CASES, "python-socketio", _socketio)
s.answers("401", reply(401, {"message": "Authentication error"}), "authentication", False, "the server refuses the connection", also=("network", "access_denied"))
s.answers("503", reply(503, {"message": "Service Unavailable"}), "api_temporary", True, "away for now", also=("network",))
s.faults("refused")

# -- geocoding -------------------------------------------------------------------------------------------------------------------------


def _geopy(url: str) -> None:
    from geopy.geocoders import Nominatim

    Nominatim(domain=urlsplit(url).netloc, scheme="http", user_agent="outlast-tests", timeout=1).geocode("Berlin")


s = Service(CASES, "geopy", _geopy)
s.answers("429", reply(429, "Too many requests"), "rate_limit", True, "too many requests for now")
s.answers("403", reply(403, "You have been blocked because you have violated the usage policy of OSM's Nominatim geocoding service"), "access_denied", False, "the caller is blocked", also=("authentication",))
s.answers("401", reply(401, "who?"), "authentication", False, "the key is refused")
s.answers("400", reply(400, {"error": {"code": 400, "message": "Parameter 'q' missing."}}), "invalid_parameters", False, "the question is wrong")
s.answers("402", reply(402, "Payment Required"), "quota_exhausted", False, "the plan is used up")
s.answers("502", reply(502, "Bad Gateway"), "api_temporary", True, "the gateway failed", also=("network",))
s.answers("504", reply(504, "Gateway Timeout"), "api_temporary", True, "the gateway waited too long", also=("network",))
s.answers("html", reply(200, "<html>maintenance</html>"), "data", False, "not the promised JSON", also=("api_temporary",))
s.faults("refused", "timeout", "dns")


def _geopy_agent() -> None:
    from geopy.geocoders import Nominatim

    Nominatim()


add("geopy/agent", "configuration", False, "the service demands a name of the program", _geopy_agent, also=("invalid_parameters",))

# -- industry and files over the network ----------------------------------------------------------------------------------------------


def _modbus(port: int) -> None:
    from pymodbus.client import ModbusTcpClient

    client = ModbusTcpClient("127.0.0.1", port=port, timeout=0.5, retries=0)
    client.connect()
    client.read_holding_registers(1, count=1)


add("pymodbus/refused", "network", True, "nobody listens on the port", lambda: _modbus(refused()))
add("pymodbus/timeout", "network", True, "no answer within the client's time limit", _at_port(_modbus, silent))


def _modbus_count() -> None:
    with silent() as port:
        from pymodbus.client import ModbusTcpClient

        client = ModbusTcpClient("127.0.0.1", port=port, timeout=0.5, retries=0)
        client.connect()
        client.read_holding_registers(1, count=5000)


add("pymodbus/count", "invalid_parameters", False, "more registers than one request may read", _modbus_count)


def _smb(port: int, host: str = "127.0.0.1") -> None:
    import uuid

    from smbprotocol.connection import Connection

    Connection(uuid.uuid4(), host, port).connect(timeout=1)


add("smbprotocol/refused", "network", True, "nobody listens on the port", lambda: _smb(refused()))


def _fsspec_protocol() -> None:
    import fsspec

    fsspec.open("nope://bucket/key").open()


def _fsspec_missing() -> None:
    import fsspec

    fsspec.filesystem("memory").open("/nope")


add("fsspec/protocol", "configuration", False, "no such kind of file system", _fsspec_protocol, also=("invalid_parameters",))
add("fsspec/missing", "not_found", False, "no such file", _fsspec_missing)


def _smart_open_scheme() -> None:
    import smart_open

    smart_open.open("nope://bucket/key")


add("smart_open/scheme", "configuration", False, "the URL has a scheme that the library does not know", _smart_open_scheme, also=("invalid_parameters",))

# -- tokens and ciphers -------------------------------------------------------------------------------------------------------------------


def _jwt(how: str) -> Callable[[], None]:
    def provoke() -> None:
        import jwt

        key = "k" * 32
        token = jwt.encode({"exp": 1 if how == "expired" else 4102444800, "aud": "a"}, key, "HS256")
        if how == "malformed":
            token = "abc"
        jwt.decode(token, "x" * 32 if how == "signature" else key, algorithms=["HS256"], audience="b" if how == "audience" else "a")

    return provoke


add("PyJWT/expired", "authentication", False, "the token is too old", _jwt("expired"), also=("data",))
add("PyJWT/signature", "authentication", False, "the token's signature is wrong", _jwt("signature"), also=("data",))
add("PyJWT/audience", "authentication", False, "the token is meant for somebody else", _jwt("audience"), also=("data", "invalid_parameters"))
add("PyJWT/malformed", "data", False, "not a token", _jwt("malformed"), also=("authentication",))


def _jwks(url: str) -> None:
    import jwt

    jwt.PyJWKClient(url + "/jwks.json", timeout=1).get_signing_key("k1")


s = Service(CASES, "PyJWT", _jwks)
s.answers("jwks-unknown-key", reply(200, {"keys": [{"kty": "oct", "kid": "k2", "k": "c2VjcmV0", "use": "sig", "alg": "HS256"}]}), "not_found", False, "no key of that name", also=("authentication", "configuration", "data"))
s.faults("refused", "timeout")


def _fernet() -> None:
    from cryptography.fernet import Fernet

    Fernet(Fernet.generate_key()).decrypt(b"gAAAAABh")


def _pem() -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    load_pem_private_key(b"-----BEGIN PRIVATE KEY-----\nnope\n-----END PRIVATE KEY-----", None)


add("cryptography/token", "data", False, "the token was not made with this key", _fernet, also=("authentication",))
add("cryptography/pem", "data", False, "not a key", _pem, also=("configuration",))


def _signed(how: str) -> Callable[[], None]:
    def provoke() -> None:
        from itsdangerous import URLSafeTimedSerializer

        serializer = URLSafeTimedSerializer("k")
        token = serializer.dumps({"a": 1})
        if how == "old":
            serializer.loads(token, max_age=-1)
        serializer.loads(token[:-2] + "zz")

    return provoke


add("itsdangerous/old", "authentication", False, "the token is too old", _signed("old"), also=("data",))
add("itsdangerous/signature", "authentication", False, "the token's signature is wrong", _signed("bad"), also=("data",))
