"""MongoDB's errors as PyMongo raises them, from a stub that speaks MongoDB's wire protocol."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING, Any

from bson import Int64

from corpus.case import Case, World, caught, caught_async
from outlast import Category as C
from outlast import Origin
from servers.mongo_stub import CLOSE, GARBAGE, STALL, mongo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OPTIONS: dict[str, Any] = {"retryReads": False, "retryWrites": False, "serverSelectionTimeoutMS": 3000}
"""Each operation is tried once."""


def failed(code: int, name: str, message: str, *labels: str, **more: Any) -> dict[str, Any]:
    """What the server answers to a command that it refuses."""
    return {"ok": 0.0, "code": code, "codeName": name, "errmsg": message, "errorLabels": list(labels), **more}


def unwritten(code: int, message: str) -> dict[str, Any]:
    """What the server answers to an insert whose document it refuses."""
    return {"ok": 1.0, "n": 0, "writeErrors": [{"index": 0, "code": code, "errmsg": message}]}


def unconfirmed(code: int, message: str, *labels: str, **details: Any) -> dict[str, Any]:
    """What the server answers to an insert that was made, but not as widely as was asked."""
    concern = {"code": code, "errmsg": message, "errInfo": details}
    return {"ok": 1.0, "n": 1, "writeConcernError": concern, "errorLabels": list(labels)}


def find(client: Any) -> object:
    return client.shop.orders.find_one({"_id": 7})


def insert(client: Any) -> object:
    return client.shop.orders.insert_one({"_id": 7})


def insert_many(client: Any) -> object:
    return client.shop.orders.insert_many([{"_id": 7}, {"_id": 8}], ordered=False)


def read_on(client: Any) -> object:
    return list(client.shop.orders.find())


def ask(
    answers: Mapping[str, Any], use: Callable[[Any], object], options: Mapping[str, Any], _: World
) -> BaseException:
    import pymongo

    with mongo(answers) as (host, port), pymongo.MongoClient(host, port, **{**OPTIONS, **options}) as client:
        return caught(use, client)


def alone(function: Callable[..., object], *args: Any) -> Callable[[World], BaseException]:
    return lambda _: caught(function, *args)


def refused(_: World) -> BaseException:
    import pymongo

    with socket.socket() as bound:  # bound and never listening: nobody else can get the port
        bound.bind(("127.0.0.1", 0))
        host, port = bound.getsockname()
        with pymongo.MongoClient(host, port, **{**OPTIONS, "serverSelectionTimeoutMS": 100}) as client:
            return caught(find, client)


def without_primary(_: World) -> BaseException:
    """Find a replica set that has lost its primary."""
    import pymongo

    secondary = {"isWritablePrimary": False, "ismaster": False, "secondary": True, "setName": "main"}
    with mongo({}, {**secondary, "hosts": []}) as (host, port):
        options = {**OPTIONS, "serverSelectionTimeoutMS": 100, "replicaSet": "main"}
        with pymongo.MongoClient(host, port, **options) as client:
            return caught(insert, client)


def asynchronous(_: World) -> BaseException:
    import pymongo

    async def insert_one() -> None:
        async with pymongo.AsyncMongoClient(host, port, **OPTIONS) as client:
            await client.shop.orders.insert_one({"_id": 7})

    with mongo({"insert": failed(10107, "NotWritablePrimary", "not primary")}) as (host, port):
        return caught_async(insert_one)


def closed(client: Any) -> object:
    client.close()
    return find(client)


def too_large(client: Any) -> object:
    return client.shop.orders.insert_one({"text": "x" * (17 * 1024 * 1024)})


def no_file(client: Any) -> object:
    import gridfs

    return gridfs.GridFS(client.shop).get(7)


def encryption(inner: BaseException) -> BaseException:
    from pymongo.errors import EncryptionError

    return EncryptionError(inner)  # type: ignore[arg-type]


def not_looked_up(_: World) -> BaseException:
    import dns.resolver
    from pymongo.errors import ConfigurationError

    def look_up() -> None:
        try:
            raise dns.resolver.LifetimeTimeout(timeout=21.0, errors=[])
        except dns.resolver.LifetimeTimeout as error:
            raise ConfigurationError(str(error)) from error

    return caught(look_up)


_CURSOR = {"ok": 1.0, "cursor": {"id": Int64(99), "ns": "shop.orders", "firstBatch": [{"_id": 1}]}}

# The answers by command, what is done, the client's options; category, whether to try again, code, seconds to wait.
ANSWERED: dict[str, tuple[dict[str, Any], Callable[[Any], object], dict[str, Any], C, bool, str | None, float | None]] = {
    "not primary": (
        {"insert": failed(10107, "NotWritablePrimary", "not primary", "RetryableWriteError")}, insert, {},
        C.DATABASE_BUSY, True, "10107", None,
    ),
    "stepped down": (
        {"find": failed(189, "PrimarySteppedDown", "Primary stepped down")}, find, {}, C.DATABASE_BUSY, True, "189", None,
    ),
    "shutting down": (
        {"find": failed(91, "ShutdownInProgress", "The server is in quiesce mode and will shut down")}, find, {},
        C.DATABASE_BUSY, True, "91", None,
    ),
    "interrupted at shutdown": (
        {"insert": failed(11600, "InterruptedAtShutdown", "interrupted at shutdown")}, insert, {},
        C.DATABASE_BUSY, True, "11600", None,
    ),
    "write conflict": (
        {"insert": failed(112, "WriteConflict", "WriteConflict error", "TransientTransactionError")}, insert, {},
        C.DATABASE_BUSY, True, "112", None,
    ),
    "labelled transient": (
        {"insert": failed(251, "NoSuchTransaction", "Transaction 1 has been aborted.", "TransientTransactionError")},
        insert, {}, C.DATABASE_BUSY, True, "251", None,
    ),
    "labelled retryable, code unknown": (
        {"insert": failed(987654, "Location987654", "a shard is elsewhere", "RetryableWriteError")}, insert, {},
        C.DATABASE_BUSY, True, "987654", None,
    ),
    "lock timeout": (
        {"insert": failed(24, "LockTimeout", "Unable to acquire lock within 5ms")}, insert, {},
        C.DATABASE_BUSY, True, "24", None,
    ),
    "time limit": (
        {"find": failed(50, "MaxTimeMSExpired", "operation exceeded time limit")}, find, {},
        C.DATABASE_BUSY, True, "50", None,
    ),
    "overloaded": (
        {"find": failed(
            462, "IngressRequestRateLimitExceeded", "too many requests", "SystemOverloadedError", baseBackoffMS=7000)},
        find, {}, C.RATE_LIMIT, True, "462", 7.0,
    ),
    "cosmos request rate": (
        {"find": failed(16500, "RequestRateTooLarge", "Request rate is large. More Request Units may be needed")},
        find, {}, C.RATE_LIMIT, True, "16500", None,
    ),
    "cursor not found": (
        {"find": _CURSOR, "getMore": failed(43, "CursorNotFound", "cursor id 99 not found")}, read_on, {},
        C.DATABASE_BUSY, True, "43", None,
    ),
    "out of disk": (
        {"insert": failed(14031, "OutOfDiskSpace", "available disk space is less than required minimum")}, insert, {},
        C.SYSTEM, True, "14031", None,
    ),
    "host unreachable behind mongos": (
        {"find": failed(6, "HostUnreachable", "Error connecting to shard")}, find, {}, C.NETWORK, True, "6", None,
    ),
    "authentication failed": (
        {"saslStart": failed(18, "AuthenticationFailed", "Authentication failed.")}, find,
        {"username": "app", "password": "wrong"}, C.AUTHENTICATION, False, "18", None,
    ),
    "atlas authentication": (
        {"saslStart": failed(8000, "AtlasError", "bad auth : authentication failed")}, find,
        {"username": "app", "password": "wrong"}, C.AUTHENTICATION, False, "8000", None,
    ),
    "unauthorized": (
        {"find": failed(13, "Unauthorized", "command find requires authentication")}, find, {},
        C.AUTHENTICATION, False, "13", None,
    ),
    "duplicate key": (
        {"insert": unwritten(11000, "E11000 duplicate key error collection: shop.orders")}, insert, {},
        C.INTEGRITY, False, "11000", None,
    ),
    "document validation": (
        {"insert": unwritten(121, "Document failed validation")}, insert, {}, C.INTEGRITY, False, "121", None,
    ),
    "bulk, duplicate": (
        {"insert": unwritten(11000, "E11000 duplicate key error collection: shop.orders")}, insert_many, {},
        C.INTEGRITY, False, "11000", None,
    ),
    "bulk, conflict only": (
        {"insert": unwritten(112, "WriteConflict error")}, insert_many, {}, C.DATABASE_BUSY, True, "112", None,
    ),
    "bulk, the permanent one decides": (
        {"insert": {"ok": 1.0, "n": 0, "writeErrors": [
            {"index": 0, "code": 112, "errmsg": "WriteConflict error"},
            {"index": 1, "code": 121, "errmsg": "Document failed validation"}]}},
        insert_many, {}, C.INTEGRITY, False, "121", None,
    ),
    "write concern timeout": (
        {"insert": unconfirmed(64, "waiting for replication timed out", wtimeout=True)}, insert, {},
        C.DATABASE_BUSY, True, "64", None,
    ),
    "write concern, labelled retryable": (
        {"insert": unconfirmed(262, "operation exceeded time limit", "RetryableWriteError")}, insert, {},
        C.DATABASE_BUSY, True, "262", None,
    ),
    "write concern never to be met": (
        {"insert": unconfirmed(100, "Not enough data-bearing nodes")}, insert, {}, C.CONFIGURATION, False, "100", None,
    ),
    "bad value": (
        {"find": failed(2, "BadValue", "unknown operator: $eqq")}, find, {}, C.INVALID_PARAMETERS, False, "2", None,
    ),
    "no transactions here": (
        {"insert": failed(20, "IllegalOperation", "Transaction numbers are only allowed on a replica set member")},
        insert, {}, C.CONFIGURATION, False, "20", None,
    ),
    "change stream history lost": (
        {"find": failed(286, "ChangeStreamHistoryLost", "Resume of change stream was not possible")}, find, {},
        C.NOT_FOUND, False, "286", None,
    ),
    "killed": ({"find": failed(11601, "Interrupted", "operation was interrupted")}, find, {}, C.UNKNOWN, False, "11601", None),
    "lost": ({"find": CLOSE}, find, {}, C.NETWORK, True, None, None),
    "silent": ({"find": STALL}, find, {"socketTimeoutMS": 100}, C.NETWORK, True, None, None),
    "garbage": ({"find": GARBAGE}, find, {}, C.NETWORK, True, None, None),
    "closed client": ({}, closed, {}, C.INVALID_PARAMETERS, False, None, None),
    "document too large": ({}, too_large, {}, C.INVALID_PARAMETERS, False, None, None),
    "unfit value": (
        {}, lambda client: client.shop.orders.insert_one({"_id": object()}), {}, C.INVALID_PARAMETERS, False, None, None,
    ),
    "bad name": ({}, lambda client: client["a b"], {}, C.INVALID_PARAMETERS, False, None, None),
    "no such file": (
        {"find": {"ok": 1.0, "cursor": {"id": 0, "ns": "shop.fs.files", "firstBatch": []}}}, no_file, {},
        C.NOT_FOUND, False, None, None,
    ),
    "other replica set": (
        {}, find, {"replicaSet": "other", "serverSelectionTimeoutMS": 100}, C.CONFIGURATION, False, None, None,
    ),
}  # fmt: skip


def _mistakes() -> dict[str, tuple[Callable[[World], BaseException], C]]:
    import bson
    import pymongo

    client = pymongo.MongoClient
    return {
        "pymongo/invalid uri": (alone(client, "mongo://localhost"), C.CONFIGURATION),
        "pymongo/empty option": (alone(partial(client, "mongodb://u:p@127.0.0.1/?authSource=")), C.CONFIGURATION),
        "bson/cut off": (alone(bson.decode, b"\x20\x00\x00\x00\x02a\x00"), C.DATA),
        "bson/bad id": (alone(bson.ObjectId, "not an id"), C.INVALID_PARAMETERS),
        "bson/unfit key": (alone(bson.encode, {1: 2}), C.INVALID_PARAMETERS),
    }


def _case(name: str, produce: Any, category: C, retryable: bool, **more: Any) -> Case:
    return Case(name, produce, category, retryable, origin=Origin.DB, **more)


CASES: list[Case] = [
    *(
        _case(f"pymongo/{name}", partial(ask, answers, use, options), category, retryable, code=code, retry_after=wait)
        for name, (answers, use, options, category, retryable, code, wait) in ANSWERED.items()
    ),
    *(_case(name, produce, category, False) for name, (produce, category) in _mistakes().items()),
    _case("pymongo/refused", refused, C.NETWORK, True),
    _case("pymongo/no primary", without_primary, C.DATABASE_BUSY, True),
    _case("pymongo/async, not primary", asynchronous, C.DATABASE_BUSY, True, code="10107"),
    _case("pymongo/hosts not looked up", not_looked_up, C.NETWORK, True, constructed=True),
    _case(
        "pymongo/encryption timed out",
        lambda _: encryption(TimeoutError("timed out")),
        C.NETWORK,
        True,
        constructed=True,
    ),
]
