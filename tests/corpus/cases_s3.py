"""S3's errors through botocore and boto3: from moto where it makes them, else from a stub that sends S3's own XML."""

from __future__ import annotations

import socket
import tempfile
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught
from outlast import Category as C
from outlast import Origin
from servers.s3 import s3_client
from servers.s3_stub import answering, error_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers.s3 import S3Server

    Call = Callable[[Any], object]


@cache
def prepared(server: S3Server) -> Any:
    """Return a client for a server that has a bucket with an object 'k'."""
    client = server.client()
    client.create_bucket(Bucket="bucket")
    client.put_object(Bucket="bucket", Key="k", Body=b"0123456789")
    return client


def from_moto(call: Call, world: World) -> BaseException:
    return caught(call, prepared(world.s3))


def from_stub(answer: dict[str, Any], call: Call, world: World) -> BaseException:
    with answering(**answer) as endpoint, closing(s3_client(endpoint)) as client:
        return caught(call, client)


def get(client: Any) -> object:
    return client.get_object(Bucket="bucket", Key="k")


def put(client: Any) -> object:
    return client.put_object(Bucket="bucket", Key="k", Body=b"x")


def head(client: Any) -> object:
    return client.head_object(Bucket="bucket", Key="k")


def listing(client: Any) -> object:
    return client.list_objects_v2(Bucket="bucket")


def read_all(client: Any) -> object:
    return get(client)["Body"].read()  # type: ignore[index]


def upload_file(client: Any, bucket: str = "bucket") -> object:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(b"content")
        return client.upload_file(file.name, bucket, "k")


def download_file(client: Any) -> object:
    with tempfile.TemporaryDirectory() as folder:
        return client.download_file("bucket", "missing", f"{folder}/k")


def upload_missing_file(client: Any) -> object:
    return client.upload_file("/nowhere/at/all", "bucket", "k")


def complete_small_parts(client: Any) -> object:
    upload = client.create_multipart_upload(Bucket="bucket", Key="m")["UploadId"]
    parts = []
    for number in (1, 2):
        part = client.upload_part(Bucket="bucket", Key="m", UploadId=upload, PartNumber=number, Body=b"tiny")
        parts.append({"ETag": part["ETag"], "PartNumber": number})
    return client.complete_multipart_upload(Bucket="bucket", Key="m", UploadId=upload, MultipartUpload={"Parts": parts})


def wait_until_there(client: Any) -> object:
    waiter = client.get_waiter("object_exists")
    return waiter.wait(Bucket="bucket", Key="missing", WaiterConfig={"Delay": 0, "MaxAttempts": 1})


# Call, category, status, code; none of these may succeed later.
MOTO: dict[str, tuple[Call, C, int | None, str | None]] = {
    "NoSuchKey": (lambda c: c.get_object(Bucket="bucket", Key="missing"), C.NOT_FOUND, 404, "NoSuchKey"),
    "NoSuchBucket": (lambda c: c.list_objects_v2(Bucket="missing-bucket"), C.NOT_FOUND, 404, "NoSuchBucket"),
    "404 to HEAD": (lambda c: c.head_object(Bucket="bucket", Key="missing"), C.NOT_FOUND, 404, "404"),
    "404 to HEAD of a bucket": (lambda c: c.head_bucket(Bucket="missing-bucket"), C.NOT_FOUND, 404, "404"),
    "BucketNotEmpty": (lambda c: c.delete_bucket(Bucket="bucket"), C.INVALID_PARAMETERS, 409, "BucketNotEmpty"),
    "InvalidRange": (
        lambda c: c.get_object(Bucket="bucket", Key="k", Range="bytes=100-200"),
        C.INVALID_PARAMETERS, 416, "InvalidRange",
    ),
    "PreconditionFailed": (
        lambda c: c.get_object(Bucket="bucket", Key="k", IfMatch='"other"'),
        C.INVALID_PARAMETERS, 412, "PreconditionFailed",
    ),
    "EntityTooSmall": (complete_small_parts, C.INVALID_PARAMETERS, 400, "EntityTooSmall"),
    "NoSuchUpload": (
        lambda c: c.abort_multipart_upload(Bucket="bucket", Key="k", UploadId="missing"),
        C.NOT_FOUND, 404, "NoSuchUpload",
    ),
    "NoSuchLifecycleConfiguration": (
        lambda c: c.get_bucket_lifecycle_configuration(Bucket="bucket"),
        C.NOT_FOUND, 404, "NoSuchLifecycleConfiguration",
    ),
    "invalid bucket name": (lambda c: c.list_objects_v2(Bucket="a b"), C.INVALID_PARAMETERS, None, None),
    "missing argument": (lambda c: c.get_object(Bucket="bucket"), C.INVALID_PARAMETERS, None, None),
    "wrong type": (lambda c: c.get_object(Bucket="bucket", Key=5), C.INVALID_PARAMETERS, None, None),
    "upload to a missing bucket": (lambda c: upload_file(c, "missing-bucket"), C.NOT_FOUND, 404, "NoSuchBucket"),
    "download of a missing object": (download_file, C.NOT_FOUND, 404, "404"),
    "upload of a missing file": (upload_missing_file, C.NOT_FOUND, None, "ENOENT"),
}  # fmt: skip

# Status and category of S3's error codes; the pages of the S3 API list them.
STUB: dict[str, tuple[int, C]] = {
    "SlowDown": (503, C.RATE_LIMIT),
    "Throttling": (400, C.RATE_LIMIT),
    "ThrottlingException": (400, C.RATE_LIMIT),
    "RequestLimitExceeded": (503, C.RATE_LIMIT),
    "TooManyRequestsException": (429, C.RATE_LIMIT),
    "InternalError": (500, C.API_TEMPORARY),
    "ServiceUnavailable": (503, C.API_TEMPORARY),
    "RequestTimeout": (400, C.API_TEMPORARY),
    "OperationAborted": (409, C.API_TEMPORARY),
    "ConditionalRequestConflict": (409, C.API_TEMPORARY),
    "AccessDenied": (403, C.AUTHENTICATION),
    "AllAccessDisabled": (403, C.AUTHENTICATION),
    "ExpiredToken": (400, C.AUTHENTICATION),
    "InvalidToken": (400, C.AUTHENTICATION),
    "InvalidAccessKeyId": (403, C.AUTHENTICATION),
    "SignatureDoesNotMatch": (403, C.AUTHENTICATION),
    "RequestTimeTooSkewed": (403, C.CONFIGURATION),
    "PermanentRedirect": (301, C.CONFIGURATION),
    "AuthorizationHeaderMalformed": (400, C.CONFIGURATION),
    "IllegalLocationConstraintException": (400, C.CONFIGURATION),
    "TooManyBuckets": (400, C.QUOTA_EXHAUSTED),
    "BucketAlreadyExists": (409, C.INVALID_PARAMETERS),
    "BucketAlreadyOwnedByYou": (409, C.INVALID_PARAMETERS),
    "EntityTooLarge": (400, C.INVALID_PARAMETERS),
    "MalformedXML": (400, C.INVALID_PARAMETERS),
    "MethodNotAllowed": (405, C.INVALID_PARAMETERS),
    "NotImplemented": (501, C.INVALID_PARAMETERS),
    "KeyTooLongError": (400, C.INVALID_PARAMETERS),
    "BadDigest": (400, C.DATA),
    "SomethingNobodyKnows": (400, C.INVALID_PARAMETERS),
    "SomethingElseNobodyKnows": (500, C.API_TEMPORARY),
}

# Answer, call, category, whether to try again, status.
ANSWERS: dict[str, tuple[dict[str, Any], Call, C, bool, int | None]] = {
    "403 to HEAD": ({"status": 403}, head, C.AUTHENTICATION, False, 403),
    "400 to HEAD": ({"status": 400}, head, C.INVALID_PARAMETERS, False, 400),
    "503 to HEAD": ({"status": 503}, head, C.API_TEMPORARY, True, 503),
    "412 to HEAD": ({"status": 412}, head, C.INVALID_PARAMETERS, False, 412),
    "a page in place of S3": ({"status": 502, "body": b"<html>bad gateway</html>"}, get, C.API_TEMPORARY, True, 502),
    "empty 500": ({"status": 500}, get, C.API_TEMPORARY, True, 500),
    "unparsable listing": ({"status": 200, "body": b"<ListBucket"}, listing, C.API_TEMPORARY, True, 500),
    "unreadable header": (
        {"status": 200, "headers": {"Last-Modified": "yesterday or so"}},
        head, C.DATA, False, None,
    ),
    "broken off in the body": (
        {"status": 200, "body": b"0123", "promised": 10},
        read_all, C.NETWORK, True, None,
    ),
    "error within a 200": (
        {"status": 200, "body": error_document("InternalError")},
        lambda c: c.copy_object(Bucket="bucket", Key="k", CopySource="bucket/j"), C.API_TEMPORARY, True, None,
    ),
    "upload refused": (
        {"status": 403, "body": error_document("AccessDenied")},
        upload_file, C.AUTHENTICATION, False, 403,
    ),
    "upload slowed down": (
        {"status": 503, "body": error_document("SlowDown")},
        upload_file, C.RATE_LIMIT, True, 503,
    ),
}  # fmt: skip


def no_credentials(world: World) -> BaseException:
    return caught(get, s3_client(world.s3.endpoint, credentials=False))


def refused(world: World) -> BaseException:
    return caught(get, s3_client("http://127.0.0.1:1"))


def read_timeout(world: World) -> BaseException:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return caught(get, s3_client(f"http://127.0.0.1:{listener.getsockname()[1]}", read_timeout=0.1))


def connect_timeout(world: World) -> BaseException:
    """A listener whose queue is full leaves the next connection unanswered."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=0)) as listener:
        address = listener.getsockname()
        waiting = []
        for _ in range(4):
            each = socket.socket()
            each.setblocking(False)
            each.connect_ex(address)
            waiting.append(each)
        error = caught(get, s3_client(f"http://127.0.0.1:{address[1]}", connect_timeout=0.2, read_timeout=1))
        for each in waiting:
            each.close()
    return error


def hang_up(listener: socket.socket) -> None:
    listener.accept()[0].close()


def hung_up(world: World) -> BaseException:
    import threading

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=hang_up, args=(listener,))
        thread.start()
        error = caught(get, s3_client(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        thread.join()
    return error


def unknown_proxy(world: World) -> BaseException:
    return caught(get, s3_client("http://127.0.0.1:1", proxies={"http": "http://-bad-:1"}))


def bad_endpoint(world: World) -> BaseException:
    return caught(s3_client, "not a url")


def unknown_profile(world: World) -> BaseException:
    import boto3

    return caught(boto3.session.Session, profile_name="no-such-profile")


def slow_down_with_hint(world: World) -> BaseException:
    answer = {"status": 503, "body": error_document("SlowDown"), "headers": {"Retry-After": "7"}}
    return from_stub(answer, put, world)


REGION = {"x-amz-bucket-region": "eu-west-1"}
RETRIED = {C.RATE_LIMIT, C.API_TEMPORARY}

CASES: list[Case] = [
    *(
        Case(f"s3/{name}", partial(from_moto, call), category, False, http_status=status, code=code, needs="s3")
        for name, (call, category, status, code) in MOTO.items()
    ),
    *(
        Case(
            f"s3-stub/{code}",
            partial(from_stub, {"status": status, "body": error_document(code), "headers": REGION}, put),
            category,
            category in RETRIED,
            http_status=status,
            code=code,
            origin=Origin.S3,
        )
        for code, (status, category) in STUB.items()
    ),
    *(
        Case(f"s3-stub/{name}", partial(from_stub, answer, call), category, retryable, http_status=status)
        for name, (answer, call, category, retryable, status) in ANSWERS.items()
    ),
    Case("s3-stub/SlowDown with Retry-After", slow_down_with_hint, C.RATE_LIMIT, True, retry_after=7.0),
    Case("s3/waiter gives up", partial(from_moto, wait_until_there), C.NOT_FOUND, False, needs="s3"),
    Case("s3/no credentials", no_credentials, C.CONFIGURATION, False, needs="s3"),
    Case("s3/refused", refused, C.NETWORK, True, code="ECONNREFUSED"),
    Case("s3/read timeout", read_timeout, C.NETWORK, True),
    Case("s3/connect timeout", connect_timeout, C.NETWORK, True),
    Case("s3/hung up", hung_up, C.NETWORK, True),
    Case("s3/unknown proxy", unknown_proxy, C.NETWORK, True),
    Case("s3/bad endpoint", bad_endpoint, C.CONFIGURATION, False),
    Case("s3/unknown profile", unknown_profile, C.CONFIGURATION, False),
]
