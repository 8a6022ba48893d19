"""Redis's errors as redis-py raises them: from a real server, and from a stub where a real one cannot be made to fail."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught, caught_async
from outlast import Category as C
from outlast import Origin
from servers.redis import redis_client
from servers.redis_stub import redis_answering

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers.redis import RedisServer


# What is done with the real server; each returns the error and leaves the server as it was.


def run(server: RedisServer, *words: object, **changes: Any) -> BaseException:
    with server.client(**changes) as client:
        return caught(client.execute_command, *words)


def with_setting(server: RedisServer, name: str, value: object, *words: object) -> BaseException:
    with server.client() as client:
        before = client.config_get(name)[name]
        client.config_set(name, value)
        try:
            return caught(client.execute_command, *words)
        finally:
            client.config_set(name, before)


def wrong_type(server: RedisServer, *, pipeline: bool = False) -> BaseException:
    with server.client() as client:
        client.set("text", "a")
        if not pipeline:
            return caught(client.lpush, "text", "b")
        return caught(client.pipeline().set("other", "1").lpush("text", "b").execute)


def no_permission(server: RedisServer) -> BaseException:
    with server.client() as admin:
        admin.acl_setuser("reader", enabled=True, passwords=["+reader"], keys=["*"], commands=["+get"])
    return run(server, "SET", "a", "b", username="reader", password="reader")


def as_replica(server: RedisServer, *words: object, stale: str = "yes") -> BaseException:
    with server.client() as client:
        client.config_set("replica-serve-stale-data", stale)
        client.replicaof(server.host, 1)  # nobody listens there
        try:
            return caught(client.execute_command, *words)
        finally:
            client.replicaof("NO", "ONE")
            client.config_set("replica-serve-stale-data", "yes")


def out_of_memory_in_pipeline(server: RedisServer) -> BaseException:
    with server.client() as client:
        client.config_set("maxmemory", 1)
        try:
            return caught(client.pipeline(transaction=True).set("a", "b").execute)
        finally:
            client.config_set("maxmemory", 0)


def script_running(server: RedisServer) -> BaseException:
    with server.client() as runner, server.client() as other:
        running = threading.Thread(target=caught, args=(runner.eval, "while true do end", 0))
        running.start()
        try:
            for _ in range(200):
                time.sleep(0.01)
                error = _error_of(other.get, "a")
                if error is not None:
                    return error
            message = "the server never became busy"
            raise AssertionError(message)
        finally:
            other.script_kill()
            running.join()


def _error_of(function: Callable[..., object], *args: object) -> BaseException | None:
    try:
        function(*args)
    except Exception as error:
        return error
    return None


def save_fails(server: RedisServer) -> BaseException:
    """Let the server save into a folder that has gone; it then refuses to write."""
    with server.client() as client:
        before, folder = client.config_get("dir")["dir"], tempfile.mkdtemp()
        client.config_set("dir", folder)
        client.config_set("save", "3600 1")
        shutil.rmtree(folder)
        try:
            client.bgsave()
            while client.info("persistence")["rdb_last_bgsave_status"] == "ok":
                time.sleep(0.005)
            return caught(client.set, "a", "b")
        finally:
            client.config_set("dir", before)
            client.config_set("save", "")
            client.config_resetstat()


def too_many_clients(server: RedisServer) -> BaseException:
    with ExitStack() as stack:
        admin = stack.enter_context(server.client())
        admin.config_set("maxclients", 1)
        stack.callback(admin.config_set, "maxclients", 10_000)
        return run(server, "PING")


def aborted(server: RedisServer) -> BaseException:
    with server.client(single_connection_client=True) as client:
        client.execute_command("MULTI")
        caught(client.execute_command, "NOTHING")
        return caught(client.execute_command, "EXEC")


def watched(server: RedisServer) -> BaseException:
    with server.client() as client, client.pipeline() as pipe:
        pipe.watch("counter")
        client.set("counter", 2)
        pipe.multi()
        pipe.set("counter", 3)
        return caught(pipe.execute)


def lock_taken(server: RedisServer) -> BaseException:
    with server.client() as client, client.lock("door", timeout=5):
        return caught(client.lock("door", timeout=5, blocking_timeout=0.02).__enter__)


def lock_lost(server: RedisServer) -> BaseException:
    with server.client() as client:
        lock = client.lock("gate", timeout=5)
        lock.acquire()
        client.delete("gate")
        return caught(lock.release)


def killed(server: RedisServer) -> BaseException:
    with server.client(single_connection_client=True) as client, server.client() as other:
        other.client_kill_filter(_id=client.client_id())
        return caught(client.get, "a")


def pool_empty(server: RedisServer) -> BaseException:
    with server.client(max_connections=1) as client:
        held = client.connection_pool.get_connection()
        try:
            return caught(client.get, "a")
        finally:
            client.connection_pool.release(held)


def asynchronous(server: RedisServer) -> BaseException:
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    async def ask() -> None:
        once = Retry(NoBackoff(), 0)
        async with Redis(host=server.host, port=server.port, password="wrong", retry=once) as client:
            await client.get("a")

    return caught_async(ask)


def across_slots(server: RedisServer) -> BaseException:
    with server.client() as client:
        client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        try:
            return caught(client.mget, "a", "b")
        finally:
            client.execute_command("CLUSTER FLUSHSLOTS")


def cluster_client(server: RedisServer) -> BaseException:
    import redis

    return caught(redis.RedisCluster, host=server.host, port=server.port, password=server.password)


def cluster_refused(_: World) -> BaseException:
    import redis

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        host, port = bound.getsockname()
        return caught(redis.RedisCluster, host=host, port=port)


def _real(server: str, produce: Callable[[Any], BaseException]) -> Callable[[World], BaseException]:
    return lambda world: produce(getattr(world, server))


_ON_REAL: dict[str, tuple[Callable[[Any], BaseException], C, bool, str | None]] = {
    "NOAUTH": (lambda s: run(s, "GET", "a", password=None), C.AUTHENTICATION, False, "NOAUTH"),
    "WRONGPASS": (lambda s: run(s, "GET", "a", username="nobody", password="x"), C.AUTHENTICATION, False, "WRONGPASS"),
    "NOPERM": (no_permission, C.AUTHENTICATION, False, "NOPERM"),
    "asyncio/WRONGPASS": (asynchronous, C.AUTHENTICATION, False, "WRONGPASS"),
    "OOM": (lambda s: with_setting(s, "maxmemory", 1, "SET", "a", "b"), C.SYSTEM, True, "OOM"),
    "OOM in a pipeline": (out_of_memory_in_pipeline, C.SYSTEM, True, "OOM"),
    "MISCONF": (save_fails, C.SYSTEM, True, "MISCONF"),
    "WRONGTYPE": (wrong_type, C.INVALID_PARAMETERS, False, "WRONGTYPE"),
    "WRONGTYPE in a pipeline": (partial(wrong_type, pipeline=True), C.INVALID_PARAMETERS, False, "WRONGTYPE"),
    "READONLY": (lambda s: as_replica(s, "SET", "a", "b"), C.DATABASE_BUSY, True, "READONLY"),
    "MASTERDOWN": (lambda s: as_replica(s, "GET", "a", stale="no"), C.DATABASE_BUSY, True, "MASTERDOWN"),
    "NOREPLICAS": (
        lambda s: with_setting(s, "min-replicas-to-write", 1, "SET", "a", "b"), C.DATABASE_BUSY, True, "NOREPLICAS",
    ),
    "BUSY": (script_running, C.DATABASE_BUSY, True, "BUSY"),
    "EXECABORT": (aborted, C.INVALID_PARAMETERS, False, "EXECABORT"),
    "NOSCRIPT": (lambda s: run(s, "EVALSHA", "0" * 40, 0), C.NOT_FOUND, False, "NOSCRIPT"),
    "NOTBUSY": (lambda s: run(s, "SCRIPT", "KILL"), C.INVALID_PARAMETERS, False, "NOTBUSY"),
    "NOGROUP": (lambda s: run(s, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"), C.NOT_FOUND, False, "NOGROUP"),
    "unknown command": (lambda s: run(s, "NOTHING"), C.INVALID_PARAMETERS, False, "ERR"),
    "wrong number of arguments": (lambda s: run(s, "GET"), C.INVALID_PARAMETERS, False, "ERR"),
    "not an integer": (lambda s: run(s, "EXPIRE", "a", "soon"), C.INVALID_PARAMETERS, False, "ERR"),
    "no such database": (lambda s: run(s, "PING", db=99), C.CONFIGURATION, False, "ERR"),
    "no such key": (lambda s: run(s, "RENAME", "nothing", "b"), C.NOT_FOUND, False, "ERR"),
    "max number of clients": (too_many_clients, C.DATABASE_BUSY, True, None),
    "changed while watched": (watched, C.DATABASE_BUSY, True, None),
    "lock taken": (lock_taken, C.DATABASE_BUSY, True, None),
    "lock lost": (lock_lost, C.UNKNOWN, False, None),
    "killed": (killed, C.NETWORK, True, None),
    "blocked too long": (lambda s: run(s, "BLPOP", "nothing", 2, socket_timeout=0.05), C.NETWORK, True, None),
    "pool empty": (pool_empty, C.DATABASE_BUSY, True, None),
    "cluster client without a cluster": (cluster_client, C.CONFIGURATION, False, None),
    "unfit value": (lambda s: run(s, "SET", "a", {"b": 1}), C.INVALID_PARAMETERS, False, None),
}  # fmt: skip

_ON_CLUSTER: dict[str, tuple[Callable[[Any], BaseException], C, bool, str | None]] = {
    "CLUSTERDOWN": (lambda s: run(s, "GET", "a"), C.DATABASE_BUSY, True, "CLUSTERDOWN"),
    "CROSSSLOT": (across_slots, C.INVALID_PARAMETERS, False, "CROSSSLOT"),
    "no slot covered": (cluster_client, C.DATABASE_BUSY, True, None),
}

# What a GET is answered with, category, whether to try again, code.
_ON_STUB: dict[str, tuple[bytes | None, C, bool, str | None]] = {
    "LOADING": (b"-LOADING Redis is loading the dataset in memory", C.DATABASE_BUSY, True, "LOADING"),
    "TRYAGAIN": (b"-TRYAGAIN Multiple keys request during rehashing of slot", C.DATABASE_BUSY, True, "TRYAGAIN"),
    "MOVED": (b"-MOVED 3999 127.0.0.1:6381", C.CONFIGURATION, False, "MOVED"),
    "ASK": (b"-ASK 3999 127.0.0.1:6381", C.CONFIGURATION, False, "ASK"),
    "DENIED": (b"-DENIED Redis is running in protected mode", C.ACCESS_DENIED, False, "DENIED"),
    "UNBLOCKED": (
        b"-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
        C.DATABASE_BUSY, True, "UNBLOCKED",
    ),
    "aborted because of READONLY": (
        b"-EXECABORT Transaction discarded because of: READONLY You can't write against a read only replica.",
        C.DATABASE_BUSY, True, "EXECABORT",
    ),
    "daily requests used up": (
        b"-ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.", C.QUOTA_EXHAUSTED, False, "ERR",
    ),
    "a script's own code": (b"-STOCKOUT item 7 is sold", C.UNKNOWN, False, "STOCKOUT"),
    "no Redis at all": (b"HTTP/1.1 400 Bad Request", C.NETWORK, True, None),
    "closed": (b"", C.NETWORK, True, None),
    "silent": (None, C.NETWORK, True, None),
}  # fmt: skip


def on_stub(reply: bytes | None, _: World) -> BaseException:
    with redis_answering(reply) as address, redis_client(address, socket_timeout=0.1) as client:
        return caught(client.get, "a")


def refused(_: World) -> BaseException:
    with socket.socket() as bound:  # bound and never listening: nobody else can get the port
        bound.bind(("127.0.0.1", 0))
        with redis_client(bound.getsockname()) as client:
            return caught(client.get, "a")


def unresolvable(_: World) -> BaseException:
    with redis_client(("nothing.invalid", 6379)) as client:
        return caught(client.get, "a")


def sentinel_without_master(_: World) -> BaseException:
    from redis.backoff import NoBackoff
    from redis.retry import Retry
    from redis.sentinel import Sentinel

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        sentinel = Sentinel([bound.getsockname()], sentinel_kwargs={"retry": Retry(NoBackoff(), 0)})
        return caught(sentinel.discover_master, "main")


# Before redis-py 8 an error did not carry the server's code: class, text, category, whether to try again.
_BEFORE_8: tuple[tuple[str, str, C, bool], ...] = (
    ("ReadOnlyError", "You can't write against a read only replica.", C.DATABASE_BUSY, True),
    ("BusyLoadingError", "Redis is loading the dataset in memory", C.DATABASE_BUSY, True),
    ("OutOfMemoryError", "command not allowed when used memory > 'maxmemory'.", C.SYSTEM, True),
    ("ClusterDownError", "Hash slot not served", C.DATABASE_BUSY, True),
    ("NoPermissionError", "this user has no permissions to run the 'set' command", C.AUTHENTICATION, False),
    ("ResponseError", "wrong number of arguments for 'get' command", C.INVALID_PARAMETERS, False),
)


def before_8(name: str, text: str, _: World) -> BaseException:
    import redis

    error: BaseException = getattr(redis.exceptions, name)(text)
    return error


def _case(name: str, produce: Any, category: C, retryable: bool, code: str | None = None, needs: str = "") -> Case:
    return Case(f"redis/{name}", produce, category, retryable, code=code, origin=Origin.CACHE, needs=needs)


CASES: list[Case] = [
    *(_case(name, _real("redis", make), *verdict, "redis") for name, (make, *verdict) in _ON_REAL.items()),
    *(_case(name, _real("redis_cluster", make), *verdict, "redis") for name, (make, *verdict) in _ON_CLUSTER.items()),
    *(_case(name, partial(on_stub, reply), *verdict) for name, (reply, *verdict) in _ON_STUB.items()),
    *(
        Case(f"redis/{kind} before 8", partial(before_8, kind, text), *verdict, origin=Origin.CACHE, constructed=True)
        for kind, text, *verdict in _BEFORE_8
    ),
    _case("refused", refused, C.NETWORK, True),
    _case("cluster refused", cluster_refused, C.NETWORK, True),
    _case("unresolvable", unresolvable, C.NETWORK, True),
    _case("sentinel knows no master", sentinel_without_master, C.DATABASE_BUSY, True),
]
