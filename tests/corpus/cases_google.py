"""Google's clients: cloud storage and YouTube against loopback answers, errors that came by gRPC, and google-auth."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest import mock

from corpus.case import Case, caught
from corpus.cases_grpc import STATUSES, call, details, error_info, retry_info
from outlast import Category, Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from corpus.case import World

_RETRIED = frozenset({Category.NETWORK, Category.RATE_LIMIT, Category.API_TEMPORARY})
_JSON = {"Content-Type": "application/json; charset=UTF-8"}


def _body(status: int, reason: str = "", message: str = "some words", *, name: str = "", more: Any = ()) -> str:
    """Write an answer as Google's APIs do."""
    error: dict[str, Any] = {"code": status, "message": message}
    if reason:
        error["errors"] = [{"message": message, "domain": "global", "reason": reason}]
    if name:
        error["status"] = name
    if more:
        error["details"] = list(more)
    return json.dumps({"error": error})


def _detail(kind: str, **fields: Any) -> dict[str, Any]:
    return {"@type": f"type.googleapis.com/google.rpc.{kind}", **fields}


def _storage(base: str, token: str = "", http: Any = None) -> Any:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage
    from google.oauth2.credentials import Credentials

    credentials = Credentials(token) if token else AnonymousCredentials()
    return storage.Client("project", credentials, _http=http, client_options={"api_endpoint": base})


def _fetch(base: str, token: str = "") -> BaseException:
    """Ask cloud storage for what an object is."""
    return caught(_storage(base, token).bucket("bucket").get_blob, "object", retry=None, timeout=5)


def _unauthorized(world: World) -> BaseException:
    """Ask with a session that does not renew tokens by itself."""
    import requests

    base = world.faults.base(401, _JSON, _body(401, "authError"))
    with requests.Session() as session:
        return caught(_storage(base, http=session).get_bucket, "bucket", retry=None, timeout=5)


def _metadata(status: int, reason: str = "", headers: dict[str, str] | None = None, **how: Any) -> Any:
    token = how.pop("token", "")
    body = _body(status, reason, **how)
    return lambda world: _fetch(world.faults.base(status, _JSON | (headers or {}), body), token)


_LIMIT_NAMED = (
    "Quota exceeded for quota metric 'Queries' and limit 'Queries per {}' of service 'example.googleapis.com'"
)

# name, status, category, how it is answered, and what the failure has to carry
STORAGE: list[tuple[str, int, Category, dict[str, Any], dict[str, Any]]] = [
    ("400", 400, Category.INVALID_PARAMETERS, {"reason": "invalid"}, {"code": "invalid"}),
    ("401-anonymous", 401, Category.CONFIGURATION, {"reason": "required"}, {"http_status": None}),
    (
        "401-token-stale",
        401,
        Category.AUTHENTICATION,
        {"reason": "authError", "token": "s3cret"},
        {"http_status": None},
    ),
    ("403-anonymous", 403, Category.ACCESS_DENIED, {"reason": "forbidden"}, {"code": "forbidden"}),
    ("403-token", 403, Category.AUTHENTICATION, {"reason": "forbidden", "token": "s3cret"}, {"code": "forbidden"}),
    ("403-not-configured", 403, Category.CONFIGURATION, {"reason": "accessNotConfigured", "token": "s3cret"}, {}),
    ("403-quota", 403, Category.QUOTA_EXHAUSTED, {"reason": "quotaExceeded"}, {"code": "quotaExceeded"}),
    ("403-rate", 403, Category.RATE_LIMIT, {"reason": "rateLimitExceeded"}, {"code": "rateLimitExceeded"}),
    ("409-conflict", 409, Category.INVALID_PARAMETERS, {"reason": "conflict"}, {}),
    ("409-aborted", 409, Category.API_TEMPORARY, {"name": "ABORTED"}, {"code": "ABORTED"}),
    ("410", 410, Category.NOT_FOUND, {}, {}),
    ("412", 412, Category.INVALID_PARAMETERS, {"reason": "conditionNotMet"}, {"code": "conditionNotMet"}),
    ("429", 429, Category.RATE_LIMIT, {"reason": "rateLimitExceeded"}, {"code": "rateLimitExceeded"}),
    ("429-header", 429, Category.RATE_LIMIT, {"headers": {"Retry-After": "9"}}, {"retry_after": 9}),
    (
        "429-wait",
        429,
        Category.RATE_LIMIT,
        {"name": "RESOURCE_EXHAUSTED", "more": [_detail("RetryInfo", retryDelay="35.5s")]},
        {"retry_after": 35.5, "code": "RESOURCE_EXHAUSTED"},
    ),
    (
        "429-day",
        429,
        Category.QUOTA_EXHAUSTED,
        {"name": "RESOURCE_EXHAUSTED", "message": _LIMIT_NAMED.format("day")},
        {},
    ),
    (
        "429-minute",
        429,
        Category.RATE_LIMIT,
        {"name": "RESOURCE_EXHAUSTED", "message": _LIMIT_NAMED.format("minute")},
        {},
    ),
    ("499", 499, Category.UNKNOWN, {"name": "CANCELLED"}, {"code": "CANCELLED"}),
    ("500", 500, Category.API_TEMPORARY, {"reason": "internalError"}, {"code": "internalError"}),
    ("503", 503, Category.API_TEMPORARY, {"reason": "backendError"}, {"code": "backendError"}),
    ("503-wait", 503, Category.API_TEMPORARY, {"headers": {"Retry-After": "30"}}, {"retry_after": 30}),
    ("504", 504, Category.API_TEMPORARY, {}, {}),
]


def _youtube(base: str) -> Any:
    """Ask YouTube's client, built from the description that comes with it, for the comments on a video."""
    from googleapiclient import discovery
    from httplib2 import Http

    client = discovery.build(
        "youtube", "v3", http=Http(timeout=5), developerKey="s3cret", client_options={"api_endpoint": f"{base}/"}
    )
    try:
        return client.commentThreads().list(part="snippet", videoId="7").execute()
    finally:
        client.close()


def _comments(status: int, body: str, headers: dict[str, str] | None = None) -> Callable[[World], BaseException]:
    return lambda world: caught(_youtube, world.faults.base(status, _JSON | (headers or {}), body))


_KEY_INVALID = _body(
    400,
    "badRequest",
    "API key not valid.",
    name="INVALID_ARGUMENT",
    more=[_detail("ErrorInfo", reason="API_KEY_INVALID")],
)
_DAY = [_detail("ErrorInfo", reason="RATE_LIMIT_EXCEEDED", metadata={"quota_limit": "defaultPerDayPerProject"})]
_DISABLED = [_detail("ErrorInfo", reason="SERVICE_DISABLED", domain="googleapis.com")]

# name, status, body, category, code
YOUTUBE: list[tuple[str, int, str, Category, str | None]] = [
    ("quotaExceeded", 403, _body(403, "quotaExceeded"), Category.QUOTA_EXHAUSTED, "quotaExceeded"),
    ("dailyLimitExceeded", 403, _body(403, "dailyLimitExceeded"), Category.QUOTA_EXHAUSTED, "dailyLimitExceeded"),
    ("rateLimitExceeded", 403, _body(403, "rateLimitExceeded"), Category.RATE_LIMIT, "rateLimitExceeded"),
    ("userRateLimitExceeded", 403, _body(403, "userRateLimitExceeded"), Category.RATE_LIMIT, "userRateLimitExceeded"),
    ("limit-per-day", 429, _body(429, "rateLimitExceeded", more=_DAY), Category.QUOTA_EXHAUSTED, "RATE_LIMIT_EXCEEDED"),
    (
        "limit-per-minute",
        403,
        _body(403, "quotaExceeded", "1200 queries per minute"),
        Category.RATE_LIMIT,
        "quotaExceeded",
    ),
    ("uploadLimitExceeded", 400, _body(400, "uploadLimitExceeded"), Category.QUOTA_EXHAUSTED, "uploadLimitExceeded"),
    ("forbidden", 403, _body(403, "forbidden"), Category.AUTHENTICATION, "forbidden"),
    ("commentsDisabled", 403, _body(403, "commentsDisabled"), Category.NOT_FOUND, "commentsDisabled"),
    ("videoNotFound", 404, _body(404, "videoNotFound"), Category.NOT_FOUND, "videoNotFound"),
    ("backendError", 503, _body(503, "backendError"), Category.API_TEMPORARY, "backendError"),
    ("internal", 500, _body(500, name="INTERNAL"), Category.API_TEMPORARY, "INTERNAL"),
    ("keyInvalid", 400, _body(400, "keyInvalid"), Category.AUTHENTICATION, "keyInvalid"),
    ("key-not-valid", 400, _KEY_INVALID, Category.AUTHENTICATION, "API_KEY_INVALID"),
    ("badRequest", 400, _body(400, "badRequest"), Category.INVALID_PARAMETERS, "badRequest"),
    ("authError", 401, _body(401, "authError"), Category.AUTHENTICATION, "authError"),
    ("service-disabled", 403, _body(403, "forbidden", more=_DISABLED), Category.CONFIGURATION, "SERVICE_DISABLED"),
    ("invalid-grant", 400, '{"error": "invalid_grant"}', Category.AUTHENTICATION, "invalid_grant"),
    ("html", 502, "<html>Bad Gateway</html>", Category.API_TEMPORARY, None),
    ("list", 500, f"[{_body(500, 'backendError')}]", Category.API_TEMPORARY, "backendError"),
]


def _by_grpc(status: str, words: str, trailing: Callable[[], Any] = dict) -> Callable[[World], BaseException]:
    """Let google-api-core translate what gRPC raises, as every google-cloud client does."""

    def produce(world: World) -> BaseException:
        from google.api_core import grpc_helpers

        return caught(grpc_helpers.wrap_errors(call), world.rpc.target, world.rpc.end(status, words, trailing()))

    return produce


def _retried(world: World) -> BaseException:
    from google.api_core.retry import Retry

    base = world.faults.base(503, _JSON, _body(503, "backendError"))
    bucket = _storage(base).bucket("bucket")
    return caught(bucket.get_blob, "object", retry=Retry(initial=0.01, maximum=0.01, timeout=0.05), timeout=5)


def _download(base: str) -> BaseException:
    return caught(_storage(base).bucket("bucket").blob("object").download_as_bytes, retry=None, timeout=5)


def _refresh(token_uri: str) -> BaseException:
    from google.auth.transport.requests import Request
    from google.oauth2.credentials import Credentials

    credentials = Credentials(None, refresh_token="s3cret", token_uri=token_uri, client_id="c", client_secret="s3cret")
    with mock.patch("google.auth._exponential_backoff.time.sleep"):  # its own retries wait for seconds
        return caught(credentials.refresh, Request())


def _metadata_server(status: int) -> Callable[[World], BaseException]:
    """Ask for a token as a machine at Google does."""

    def produce(world: World) -> BaseException:
        from google.auth.compute_engine import _metadata
        from google.auth.transport.requests import Request

        base = world.faults.base(status, _JSON | {"Metadata-Flavor": "Google"}, "no")
        with mock.patch("time.sleep"):
            return caught(_metadata.get, Request(), "token", root=f"{base}/", retry_count=1)

    return produce


def _credentials_file(text: str | None) -> Callable[[World], BaseException]:
    def produce(world: World) -> BaseException:
        import google.auth

        path = world.folder / f"credentials-{len(text or '')}.json"
        if text is not None:
            path.write_text(text)
        return caught(google.auth.load_credentials_from_file, str(path))

    return produce


def _job(status: int, reason: str) -> Callable[[World], BaseException]:
    """Build what BigQuery's client raises for a job that failed: without an answer, the reason in a list."""

    def produce(_: World) -> BaseException:
        from google.api_core.exceptions import from_http_status

        return from_http_status(status, "some words", errors=[{"reason": reason, "message": "some words"}])

    return produce


# reason, status, category
JOBS = [
    ("quotaExceeded", 403, Category.QUOTA_EXHAUSTED),
    ("rateLimitExceeded", 403, Category.RATE_LIMIT),
    ("accessDenied", 403, Category.AUTHENTICATION),
    ("backendError", 503, Category.API_TEMPORARY),
    ("invalidQuery", 400, Category.INVALID_PARAMETERS),
    ("resourcesExceeded", 400, Category.INVALID_PARAMETERS),
]


def _case(name: str, produce: Callable[[World], BaseException], category: Category, **more: Any) -> Case:
    return Case(name, produce, category, category in _RETRIED, **({"origin": Origin.HTTP} | more))


CASES = [
    *(
        _case(f"google-storage/{name}", _metadata(status, **how), category, **({"http_status": status} | carries))
        for name, status, category, how, carries in STORAGE
    ),
    _case(
        "google-storage/404",
        lambda world: caught(
            _storage(world.faults.base(404, _JSON, _body(404, "notFound"))).get_bucket, "bucket", retry=None, timeout=5
        ),
        Category.NOT_FOUND,
        http_status=404,
        code="notFound",
    ),
    _case("google-storage/401", _unauthorized, Category.AUTHENTICATION, http_status=401, code="authError"),
    _case("google-storage/refused", lambda world: _fetch(world.faults.refused_url.strip("/")), Category.NETWORK),
    _case("google-storage/reset", lambda world: _fetch(world.faults.fault("reset")), Category.NETWORK),
    _case("google-storage/retries-gave-up", _retried, Category.API_TEMPORARY, http_status=503, code="backendError"),
    _case(
        "google-storage/download-404",
        lambda world: _download(world.faults.base(404, {}, "No such object: bucket/object")),
        Category.NOT_FOUND,
        http_status=404,
    ),
    _case(
        "google-storage/download-503",
        lambda world: _download(world.faults.base(503, {"Retry-After": "3"}, "Service Unavailable")),
        Category.API_TEMPORARY,
        http_status=503,
        retry_after=3,
    ),
    _case(
        "google-storage/download-corrupt",
        lambda world: _download(
            world.faults.base(200, {"x-goog-hash": "crc32c=AAAAAA==,md5=AAAAAAAAAAAAAAAAAAAAAA=="}, "hello")
        ),
        Category.DATA,
    ),
    *(
        _case(f"googleapiclient/{name}", _comments(status, body), category, http_status=status, code=code)
        for name, status, body, category, code in YOUTUBE
    ),
    _case(
        "googleapiclient/retry-after",
        _comments(429, _body(429, "rateLimitExceeded"), {"Retry-After": "17"}),
        Category.RATE_LIMIT,
        http_status=429,
        retry_after=17,
    ),
    _case(
        "googleapiclient/refused", lambda w: caught(_youtube, w.faults.refused_url[:-1]), Category.NETWORK, origin=None
    ),
    *(
        _case(
            f"google-grpc/{status}",
            _by_grpc(status, "some words"),
            category,
            code=status,
            origin=Origin.RPC,
            needs="rpc",
        )
        for status, category in STATUSES.items()
    ),
    _case(
        "google-grpc/wait",
        _by_grpc("RESOURCE_EXHAUSTED", "slower", lambda: details(retry_info(20))),
        Category.RATE_LIMIT,
        code="RESOURCE_EXHAUSTED",
        retry_after=20,
        origin=Origin.RPC,
        needs="rpc",
    ),
    _case(
        "google-grpc/service-disabled",
        _by_grpc("PERMISSION_DENIED", "disabled", lambda: details(error_info("SERVICE_DISABLED"))),
        Category.CONFIGURATION,
        origin=Origin.RPC,
        needs="rpc",
    ),
    *(
        _case(f"google-job/{reason}", _job(status, reason), category, http_status=status, code=reason, constructed=True)
        for reason, status, category in JOBS
    ),
    _case(
        "google-auth/invalid-grant",
        lambda world: _refresh(
            world.faults.base(400, _JSON, '{"error": "invalid_grant", "error_description": "Token has been revoked."}')
        ),
        Category.AUTHENTICATION,
    ),
    _case(
        "google-auth/token-server-503",
        lambda world: _refresh(world.faults.base(503, _JSON, '{"error": "temporarily_unavailable"}')),
        Category.API_TEMPORARY,
    ),
    _case("google-auth/token-server-refused", lambda world: _refresh(world.faults.refused_url), Category.NETWORK),
    _case("google-auth/metadata-404", _metadata_server(404), Category.NOT_FOUND, http_status=404),
    _case("google-auth/metadata-503", _metadata_server(503), Category.API_TEMPORARY, http_status=503),
    _case("google-auth/file-missing", _credentials_file(None), Category.CONFIGURATION),
    _case("google-auth/file-malformed", _credentials_file("{ this is no JSON"), Category.CONFIGURATION),
    _case("google-auth/file-of-no-kind", _credentials_file('{"type": "other"}'), Category.CONFIGURATION),
]
