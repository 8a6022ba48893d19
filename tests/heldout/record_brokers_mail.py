"""Brokers, mail, FTP and directories: scripted servers that speak the protocols' real replies."""
# A case is one line, so that cases can be compared.
# fmt: off

from __future__ import annotations

import asyncio
import json
import struct
from typing import TYPE_CHECKING, Any

from servers.amqp_stub import broker
from servers.wire import talking as wire_talking

from .world import NO_HOST, Cases, hanging_up, lines, refused, resetting, silent, talking

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

CASES = Cases()
add = CASES.add


def _at_port(call: Callable[[int], object], server: Callable[[], Any]) -> Callable[[], None]:
    def provoke() -> None:
        with server() as port:
            call(port if isinstance(port, int) else port[1])

    return provoke


# -- AMQP --------------------------------------------------------------------------------------------------------------------


def _pika(port: int) -> None:
    import pika

    parameters = pika.ConnectionParameters("127.0.0.1", port, credentials=pika.PlainCredentials("u", "p"), connection_attempts=1, socket_timeout=1, stack_timeout=1.5, blocked_connection_timeout=1)
    connection = pika.BlockingConnection(parameters)
    connection.channel().queue_declare("q", passive=True)


def _aio_pika(port: int) -> None:
    import aio_pika

    async def run() -> None:
        connection = await aio_pika.connect(f"amqp://u:p@127.0.0.1:{port}/v", timeout=1.5)
        channel = await connection.channel(publisher_confirms=False)
        await channel.declare_queue("q", passive=True, timeout=1.5)

    asyncio.run(run())


_AMQP: list[tuple[Any, ...]] = [
    ("login", 403, "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.", "login", "authentication", False, "the password is refused", ()),
    ("vhost", 530, "NOT_ALLOWED - vhost v not found", "open", "not_found", False, "no such virtual host", ("configuration", "invalid_parameters", "authentication", "access_denied")),
    ("queue", 404, "NOT_FOUND - no queue 'q' in vhost '/'", "channel", "not_found", False, "no such queue", ()),
    ("precondition", 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'", "channel", "invalid_parameters", False, "the queue was declared in another way", ("configuration", "integrity")),
    ("locked", 405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.", "channel", "invalid_parameters", False, "another connection has the queue for itself", ("database_busy", "access_denied", "authentication", "integrity")),
    ("permission", 403, "ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'u'", "channel", "authentication", False, "the user lacks the right", ("access_denied",)),
    ("forced", 320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'", "command", "network", True, "the broker restarts", ("api_temporary",)),
    ("internal", 541, "INTERNAL_ERROR", "command", "api_temporary", True, "the broker failed", ("network",)),
    ("resource", 506, "RESOURCE_ERROR - not enough resources", "command", "api_temporary", True, "the broker is short of resources", ("system", "rate_limit")),
    ("frame", 501, "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,131073,131064}", "command", "invalid_parameters", False, "the frame is too large", ("data", "configuration")),
]


class _Capable:
    """Adds the table of capabilities, which brokers send and aiormq needs, to the stub's first frame."""

    def __init__(self, outgoing: Any) -> None:
        self._outgoing = outgoing

    def write(self, frame: bytes) -> None:
        if frame[7:11] == struct.pack(">HH", 10, 10):
            table = b"\x0ccapabilities" + b"F" + struct.pack(">I", 0)
            payload = frame[7:13] + struct.pack(">I", len(table)) + table + frame[17:-1]
            frame = frame[:3] + struct.pack(">I", len(payload)) + payload + frame[-1:]
        self._outgoing.write(frame)


def _capable(talk: Any) -> Any:
    return lambda incoming, outgoing: talk(incoming, _Capable(outgoing))


for library, call in (("pika", _pika), ("aio-pika", _aio_pika)):
    for name, code, text, at, category, retry, reason, also in _AMQP:
        if (library, name) == ("aio-pika", "vhost"):
            continue  # the client drops what the broker said
        add(f"{library}/{name}", category, retry, reason, _at_port(call, lambda code=code, text=text, at=at: wire_talking(_capable(broker(code, text, at=at)))), also=also)
    add(f"{library}/refused", "network", True, "nobody listens on the port", lambda call=call: call(refused()))
    add(f"{library}/hangup", "network", True, "the peer ended the connection", _at_port(call, hanging_up), also=("configuration",))
add("pika/timeout", "network", True, "no answer within the client's time limit", _at_port(_pika, silent))


def _pika_url() -> None:
    import pika

    pika.URLParameters("amqp://127.0.0.1:abc/")


add("pika/url", "configuration", False, "the port is not a number", _pika_url, also=("invalid_parameters",))

# -- NATS ----------------------------------------------------------------------------------------------------------------------


def _nats_server(error: str = "", answer: str = "", max_payload: int = 1048576) -> Callable[[], Any]:
    info = json.dumps({"server_id": "S", "server_name": "s", "version": "2.10.0", "proto": 1, "headers": True, "max_payload": max_payload, "jetstream": True})

    def talk(connection: socket.socket) -> None:
        connection.sendall(f"INFO {info}\r\n".encode())
        buffer = b""
        while data := connection.recv(65536):
            buffer += data
            while b"\r\n" in buffer:
                line, buffer = buffer.split(b"\r\n", 1)
                words = line.split()
                if line.startswith(b"CONNECT") and error:
                    connection.sendall(f"-ERR '{error}'\r\n".encode())
                    return
                if line == b"PING":
                    connection.sendall(b"PONG\r\n")
                if words[:1] in ([b"PUB"], [b"HPUB"]) and len(words) >= 4:
                    reply_to = words[2].decode()
                    if answer == "no-responders":
                        head = "NATS/1.0 503\r\n\r\n"
                        connection.sendall(f"HMSG {reply_to} 1 {len(head)} {len(head)}\r\n{head}\r\n".encode())
                    elif answer:
                        connection.sendall(f"MSG {reply_to} 1 {len(answer)}\r\n{answer}\r\n".encode())

    return lambda: talking(talk)


def _nats(action: str) -> Callable[[int], None]:
    def call(port: int) -> None:
        import nats

        async def run() -> None:
            client = await nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False, connect_timeout=1, max_reconnect_attempts=0, user="u", password="p")
            try:
                if action == "request":
                    await client.request("service", b"x", timeout=0.5)
                if action == "stream":
                    await client.jetstream(timeout=0.5).stream_info("orders")
                if action == "publish":
                    await client.publish("subject", b"x" * 200)
                if action == "subject":
                    await client.publish("", b"x")
                if action == "closed":
                    await client.close()
                    await client.publish("s", b"x")
            finally:
                if not client.is_closed:
                    await client.close()

        asyncio.run(run())

    return call


def _js(code: int, err_code: int, description: str) -> str:
    return json.dumps({"type": "io.nats.jetstream.api.v1.stream_info_response", "error": {"code": code, "err_code": err_code, "description": description}})


add("nats-py/refused", "network", True, "nobody listens on the port", lambda: _nats_refused())  # noqa: PLW0108 (defined below)


def _nats_refused() -> None:
    import nats

    asyncio.run(nats.connect(f"nats://127.0.0.1:{refused()}", connect_timeout=1, max_reconnect_attempts=1, reconnect_time_wait=0))


add("nats-py/authorization", "authentication", False, "the password is refused", _at_port(_nats("request"), _nats_server("Authorization Violation")))
add("nats-py/connections", "database_busy", True, "all connections are taken", _at_port(_nats("request"), _nats_server("maximum connections exceeded")), also=("network", "rate_limit", "api_temporary"))
add("nats-py/no-responders", "api_temporary", True, "nobody serves the subject now", _at_port(_nats("request"), _nats_server(answer="no-responders")), also=("network", "not_found"))
add("nats-py/timeout", "network", True, "no answer within the time limit", _at_port(_nats("request"), _nats_server()))
add("nats-py/stream", "not_found", False, "no such stream", _at_port(_nats("stream"), _nats_server(answer=_js(404, 10059, "stream not found"))))
add("nats-py/stream-exists", "integrity", False, "the name is taken with other settings", _at_port(_nats("stream"), _nats_server(answer=_js(400, 10058, "stream name already in use with a different configuration"))), also=("invalid_parameters", "configuration"))
add("nats-py/stream-unavailable", "api_temporary", True, "the cluster has no leader now", _at_port(_nats("stream"), _nats_server(answer=_js(503, 10008, "JetStream system temporarily unavailable"))))
add("nats-py/stream-resources", "system", True, "the server's storage is full", _at_port(_nats("stream"), _nats_server(answer=_js(500, 10047, "insufficient storage resources available"))), also=("api_temporary", "quota_exhausted"))
add("nats-py/payload", "invalid_parameters", False, "the message is too large", _at_port(_nats("publish"), _nats_server(max_payload=100)))
add("nats-py/subject", "invalid_parameters", False, "no subject was named", _at_port(_nats("subject"), _nats_server()))
add("nats-py/closed", "network", True, "the connection is closed", _at_port(_nats("closed"), _nats_server()), also=("invalid_parameters", "unknown", "configuration"))

# -- MQTT, STOMP, Kafka, ZeroMQ -------------------------------------------------------------------------------------------------


def _aiomqtt(port: int) -> None:
    import aiomqtt

    async def run() -> None:
        async with aiomqtt.Client("127.0.0.1", port, username="u", password="p", timeout=1, protocol=aiomqtt.ProtocolVersion.V311):
            pass

    asyncio.run(run())


def _connack(code: int) -> Callable[[], Any]:
    def talk(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(bytes([0x20, 2, 0, code]))
        connection.recv(10)

    return lambda: talking(talk)


add("aiomqtt/refused", "network", True, "nobody listens on the port", lambda: _aiomqtt(refused()))
add("aiomqtt/password", "authentication", False, "the password is refused", _at_port(_aiomqtt, _connack(4)))
add("aiomqtt/not-authorized", "authentication", False, "the client lacks the right", _at_port(_aiomqtt, _connack(5)), also=("access_denied",))
add("aiomqtt/unavailable", "api_temporary", True, "the broker is away for now", _at_port(_aiomqtt, _connack(3)), also=("network",))
add("aiomqtt/timeout", "network", True, "no answer within the client's time limit", _at_port(_aiomqtt, silent))


def _stomp(port: int) -> None:
    import stomp

    connection = stomp.Connection([("127.0.0.1", port)], reconnect_attempts_max=1, timeout=1, reconnect_sleep_initial=0.01)
    connection.connect("u", "p", wait=True)
    connection.send("/queue/q", "x")


def _stomp_error(message: str, body: str) -> Callable[[], Any]:
    def talk(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(f"ERROR\nmessage:{message}\ncontent-type:text/plain\n\n{body}\0".encode())

    return lambda: talking(talk)


def _stomp_unconnected() -> None:
    import stomp

    stomp.Connection([("127.0.0.1", refused())]).send("/queue/q", "x")


add("stomp.py/refused", "network", True, "nobody listens on the port", lambda: _stomp(refused()))
add("stomp.py/password", "network", True, "the broker refuses the password, but the client only says that it could not connect", _at_port(_stomp, _stomp_error("Bad CONNECT", "Access refused for user 'u'")), also=("authentication",))
add("stomp.py/not-connected", "network", True, "there is no connection", _stomp_unconnected, also=("invalid_parameters", "unknown", "configuration"))


def _aiokafka(port: int) -> None:
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=f"127.0.0.1:{port}", request_timeout_ms=800, api_version="2.0.0")
        try:
            await producer.start()
        finally:
            await producer.stop()

    asyncio.run(run())


def _aiokafka_unstarted() -> None:
    from aiokafka import AIOKafkaConsumer

    async def run() -> None:
        await AIOKafkaConsumer("t", bootstrap_servers="127.0.0.1:9").getone()

    asyncio.run(run())


def _aiokafka_settings() -> None:
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        AIOKafkaProducer(bootstrap_servers="127.0.0.1:9", acks=7)

    asyncio.run(run())


add("aiokafka/refused", "network", True, "nobody listens on the port", lambda: _aiokafka(refused()))
add("aiokafka/silent", "network", True, "no answer within the client's time limit", _at_port(_aiokafka, silent))
add("aiokafka/acks", "configuration", False, "not a value of the setting", _aiokafka_settings, also=("invalid_parameters",))


def _zmq(how: str) -> Callable[[], None]:
    def provoke() -> None:
        import zmq

        context = zmq.Context()
        one = context.socket(zmq.REP)
        one.linger = 0
        try:
            port = one.bind_to_random_port("tcp://127.0.0.1")
            if how == "address":
                context.socket(zmq.REP).bind(f"tcp://127.0.0.1:{port}")
            if how == "again":
                one.recv(zmq.NOBLOCK)
            if how == "state":
                one.send(b"x")
            if how == "scheme":
                one.connect("nope://x")
        finally:
            one.close()

    return provoke


add("pyzmq/again", "network", True, "no message has come yet", _zmq("again"), also=("api_temporary", "database_busy"))
add("pyzmq/address", "configuration", False, "the port is taken", _zmq("address"), also=("network", "system"))
add("pyzmq/state", "invalid_parameters", False, "an answer before a question", _zmq("state"), also=("unknown", "configuration"))
add("pyzmq/scheme", "configuration", False, "no such transport", _zmq("scheme"), also=("invalid_parameters",))


def _rq(how: str) -> Callable[[], None]:
    def provoke() -> None:
        import redis
        from rq import Queue
        from rq.job import Job

        from .record_databases import _redis_server

        server = _redis_server()
        connection = redis.Redis(port=server.port, password=server.password)
        if how == "missing":
            Job.fetch("nope", connection=connection)
        if how == "main":
            def local() -> None: ...

            local.__module__ = "__main__"
            Queue(connection=connection).enqueue(local)

    return provoke


add("rq/missing", "not_found", False, "no such job", _rq("missing"))
add("rq/main", "invalid_parameters", False, "a function that workers cannot import", _rq("main"), also=("configuration",))

# -- mail ---------------------------------------------------------------------------------------------------------------------------


def _smtp(port: int) -> None:
    import aiosmtplib

    async def run() -> None:
        client = aiosmtplib.SMTP(hostname="127.0.0.1", port=port, timeout=1, start_tls=False)
        await client.connect()
        await client.ehlo()
        await client.sendmail("a@example.com", ["b@example.com"], "Subject: x\r\n\r\nx")

    asyncio.run(run())


def _smtp_login(port: int) -> None:
    import aiosmtplib

    async def run() -> None:
        client = aiosmtplib.SMTP(hostname="127.0.0.1", port=port, timeout=1, start_tls=False)
        await client.connect()
        await client.ehlo()
        await client.login("u", "p")

    asyncio.run(run())


_EHLO = b"250-mail.example\r\n250-AUTH PLAIN LOGIN\r\n250 SIZE 1000000\r\n"
_HI = b"220 mail.example ESMTP\r\n"
_SMTP: list[tuple[Any, ...]] = [
    ("greeting-421", (b"421 4.7.0 Too many connections from your address, try again later\r\n",), "rate_limit", True, "too many connections for now", ("api_temporary", "network", "database_busy")),
    ("greeting-554", (b"554 5.7.1 Service unavailable; Client host [127.0.0.1] blocked using zen.spamhaus.org\r\n",), "access_denied", False, "the address is on a block list", ("authentication", "invalid_parameters")),
    ("recipient-550", (_HI, _EHLO, b"250 2.1.0 Ok\r\n", b"550 5.1.1 <b@example.com>: Recipient address rejected: User unknown in local recipient table\r\n"), "not_found", False, "no such mailbox", ("invalid_parameters",)),
    ("recipient-450", (_HI, _EHLO, b"250 2.1.0 Ok\r\n", b"450 4.2.0 <b@example.com>: Recipient address rejected: Greylisted, see http://postgrey.schweikert.ch/help/example.com.html\r\n"), "rate_limit", True, "greylisting: a later try is accepted", ("api_temporary",)),
    ("recipient-452", (_HI, _EHLO, b"250 2.1.0 Ok\r\n", b"452 4.2.2 The email account that you tried to reach is over quota\r\n"), "api_temporary", True, "the mailbox is full; 4yz replies are temporary", ("quota_exhausted", "system", "rate_limit")),
    ("recipient-552", (_HI, _EHLO, b"250 2.1.0 Ok\r\n", b"552 5.2.2 The email account that you tried to reach is over quota\r\n"), "quota_exhausted", False, "the mailbox is full; 5yz replies are permanent", ("invalid_parameters",)),
    ("sender-553", (_HI, _EHLO, b"553 5.1.8 <a@example.com>: Sender address rejected: Domain not found\r\n"), "invalid_parameters", False, "the sender is refused", ("not_found", "authentication", "access_denied")),
    ("sender-530", (_HI, _EHLO, b"530 5.7.0 Authentication Required.\r\n"), "authentication", False, "no login before", ()),
    ("data-554", (_HI, _EHLO, b"250 Ok\r\n", b"250 Ok\r\n", b"354 go\r\n", b"554 5.7.1 Message rejected as spam by Content Filtering.\r\n"), "invalid_parameters", False, "the content is refused", ("access_denied", "data", "authentication")),
    ("data-451", (_HI, _EHLO, b"250 Ok\r\n", b"250 Ok\r\n", b"451 4.3.0 Error: queue file write error\r\n"), "api_temporary", True, "the server's disk failed; 4yz replies are temporary", ("system",)),
    ("size-552", (_HI, _EHLO, b"552 5.3.4 Message size exceeds fixed limit\r\n"), "invalid_parameters", False, "the mail is too large", ("quota_exhausted", "data")),
]
for name, script, category, retry, reason, also in _SMTP:
    add(f"aiosmtplib/{name}", category, retry, reason, _at_port(_smtp, lambda script=script: lines(*script)), also=also)
add("aiosmtplib/login-535", "authentication", False, "the password is refused", _at_port(_smtp_login, lambda: lines(_HI, _EHLO, b"535 5.7.8 Username and Password not accepted. For more information, go to https://support.google.com/mail/?p=BadCredentials\r\n")))
add("aiosmtplib/login-454", "api_temporary", True, "the login service is away for now", _at_port(_smtp_login, lambda: lines(_HI, _EHLO, b"454 4.7.0 Temporary authentication failure\r\n")), also=("authentication",))
add("aiosmtplib/refused", "network", True, "nobody listens on the port", lambda: _smtp(refused()))
add("aiosmtplib/timeout", "network", True, "no greeting within the client's time limit", _at_port(_smtp, silent))
add("aiosmtplib/hangup", "network", True, "the peer broke the connection off", _at_port(_smtp, lambda: resetting(_HI)))


def _imap(action: str) -> Callable[[int], None]:
    def call(port: int) -> None:
        import imapclient

        client = imapclient.IMAPClient("127.0.0.1", port, ssl=False, timeout=1)
        client.login("u", "p")
        client.select_folder("Nope")
        assert action

    return call


def _imap_server(*answers: str, greeting: bytes = b"* OK IMAP4rev1 ready\r\n") -> Callable[[], Any]:
    """A server that gives each command the next answer, after the command's tag."""

    def talk(connection: socket.socket) -> None:
        left = list(answers)
        connection.sendall(greeting)
        stream = connection.makefile("rb")
        while line := stream.readline():
            tag, command = line.split()[:2]
            if command == b"CAPABILITY":
                connection.sendall(b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n" + tag + b" OK done\r\n")
            elif command == b"LOGOUT":
                return
            else:
                connection.sendall(tag + b" " + (left.pop(0) if left else "OK done").encode() + b"\r\n")

    return lambda: talking(talk)


add("imapclient/login", "authentication", False, "the password is refused", _at_port(_imap("login"), _imap_server("NO [AUTHENTICATIONFAILED] Invalid credentials (Failure)")))
add("imapclient/login-limit", "rate_limit", True, "too many connections at once", _at_port(_imap("login"), _imap_server("NO [ALERT] Too many simultaneous connections. (Failure)")), also=("authentication", "database_busy", "network"))
add("imapclient/unavailable", "api_temporary", True, "the server is away for now", _at_port(_imap("login"), _imap_server("NO [UNAVAILABLE] Temporary authentication failure.")), also=("authentication",))


def _ftp(action: str) -> Callable[[int], None]:
    def call(port: int) -> None:
        import aioftp

        async def run() -> None:
            client = aioftp.Client(socket_timeout=1, connection_timeout=1)
            await client.connect("127.0.0.1", port)
            await client.login("u", "p")
            if action == "remove":
                await client.remove_file("/x")
            else:
                await client.change_directory("/x")

        asyncio.run(run())

    return call


_FTP_IN = (b"220 ready\r\n", b"331 password\r\n", b"230 in\r\n")
add("aioftp/login", "authentication", False, "the password is refused", _at_port(_ftp("cwd"), lambda: lines(b"220 ready\r\n", b"331 password\r\n", b"530 Login incorrect.\r\n")))
add("aioftp/folder", "not_found", False, "no such folder", _at_port(_ftp("cwd"), lambda: lines(*_FTP_IN, b"550 Failed to change directory: No such file or directory.\r\n")), also=("invalid_parameters",))
add("aioftp/permission", "authentication", False, "the user may not do that", _at_port(_ftp("cwd"), lambda: lines(*_FTP_IN, b"550 Permission denied.\r\n")), also=("access_denied",))
add("aioftp/busy", "api_temporary", True, "too many users for now", _at_port(_ftp("cwd"), lambda: lines(b"421 Too many connections (8) from this IP\r\n")), also=("rate_limit", "network", "database_busy"))
add("aioftp/space", "system", True, "the server's disk is full", _at_port(_ftp("cwd"), lambda: lines(*_FTP_IN, b"452 Insufficient storage space.\r\n")), also=("api_temporary", "quota_exhausted"))
add("aioftp/syntax", "invalid_parameters", False, "the server does not know the command", _at_port(_ftp("cwd"), lambda: lines(*_FTP_IN, b"500 Unknown command.\r\n")))
add("aioftp/quota", "quota_exhausted", False, "the account's storage is full; 5yz replies are permanent", _at_port(_ftp("cwd"), lambda: lines(*_FTP_IN, b"552 Exceeded storage allocation.\r\n")))
add("aioftp/timeout", "network", True, "no greeting within the client's time limit", _at_port(_ftp("cwd"), silent))

# -- LDAP ------------------------------------------------------------------------------------------------------------------------------


def _ldap(port: int, host: str = "127.0.0.1") -> None:
    import ldap3

    server = ldap3.Server(host, port=port, get_info=ldap3.NONE, connect_timeout=1)
    ldap3.Connection(server, "cn=u,dc=x", "p", auto_bind=True, raise_exceptions=True, receive_timeout=1)


def _ldap_result(code: int, message: str) -> Callable[[], Any]:
    def talk(connection: socket.socket) -> None:
        while request := connection.recv(4096):
            number = request[request.index(b"\x02\x01") + 2]
            text = message.encode()
            inner = b"\x0a\x01" + bytes([code]) + b"\x04\x00\x04" + bytes([len(text)]) + text
            body = b"\x02\x01" + bytes([number]) + b"\x61" + bytes([len(inner)]) + inner
            connection.sendall(b"\x30\x81" + struct.pack("B", len(body)) + body)

    return lambda: talking(talk)


for name, code, text, category, retry, reason, also in (
    ("credentials", 49, "80090308: LdapErr: DSID-0C090447, comment: AcceptSecurityContext error, data 52e, v3839", "authentication", False, "the password is refused", ()),
    ("busy", 51, "", "database_busy", True, "busy for now", ("api_temporary", "rate_limit")),
    ("unavailable", 52, "the server is shutting down", "api_temporary", True, "away for now", ("network",)),
    ("unwilling", 53, "unauthenticated bind (DN with no password) disallowed", "authentication", False, "the server does not accept such a login", ("invalid_parameters", "access_denied")),
    ("rights", 50, "00002098: SecErr: DSID-03150F94, problem 4003 (INSUFF_ACCESS_RIGHTS), data 0", "authentication", False, "the user lacks the right", ("access_denied",)),
    ("no-object", 32, "", "not_found", False, "no such entry", ()),
    ("dn", 34, "invalid DN", "invalid_parameters", False, "not a name of an entry", ()),
    ("exists", 68, "", "integrity", False, "the entry exists", ("invalid_parameters",)),
    ("time-limit", 3, "", "database_busy", True, "the server gave up after its time limit", ("network", "api_temporary")),
    ("size-limit", 4, "", "invalid_parameters", False, "the search finds more than is allowed", ("quota_exhausted",)),
    ("strong-auth", 8, "00002028: LdapErr: DSID-0C090259, comment: The server requires binds to turn on integrity checking", "authentication", False, "the server wants a safer login", ("configuration",)),
):
    add(f"ldap3/{name}", category, retry, reason, _at_port(_ldap, _ldap_result(code, text)), also=also)
add("ldap3/refused", "network", True, "nobody listens on the port", lambda: _ldap(refused()))
add("ldap3/hangup", "network", True, "the peer ended the connection", _at_port(_ldap, hanging_up))
add("ldap3/timeout", "network", True, "no answer within the client's time limit", _at_port(_ldap, silent))
add("ldap3/dns", "network", True, "the host name does not resolve", lambda: _ldap(389, NO_HOST))


def _ldap_filter() -> None:
    import ldap3

    connection = ldap3.Connection(ldap3.Server("x", get_info=ldap3.NONE), client_strategy=ldap3.MOCK_SYNC)
    connection.bind()
    connection.search("dc=x", "(&(a=b)")


add("ldap3/filter", "invalid_parameters", False, "the filter does not parse", _ldap_filter)
