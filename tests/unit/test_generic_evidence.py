"""Libraries that nobody described are judged by telling attributes and names; lies change nothing."""

import enum
import errno
import json
from datetime import timedelta
from unittest.mock import MagicMock, Mock

import pytest

from outlast import Classifier, Strength, classify, explain


class MadeUpError(Exception):
    """Of a client library that does not exist."""

    def __init__(self, message="it failed", **attributes):
        super().__init__(message)
        for name, value in attributes.items():
            setattr(self, name, value)


class Status(enum.Enum):
    UNAVAILABLE = 14
    SlowDown = "slow"


class Response:
    def __init__(self, status_code, headers=()):
        self.status_code = status_code
        self.headers = dict(headers)


@pytest.mark.parametrize(
    ("attributes", "category", "retryable", "retry_after"),
    [
        ({"status_code": 503}, "api_temporary", True, None),
        ({"status": 404}, "not_found", False, None),
        ({"status": "429"}, "rate_limit", True, None),
        ({"http_status": 401}, "authentication", False, None),
        ({"code": 422}, "invalid_parameters", False, None),
        ({"code": "SlowDown"}, "rate_limit", True, None),
        ({"code": Status.SlowDown}, "rate_limit", True, None),
        ({"status_code": 400, "code": "insufficient_quota"}, "quota_exhausted", False, None),
        ({"response": Response(503, {"Retry-After": "30"})}, "api_temporary", True, 30),
        ({"response": Response(429, {"X-RateLimit-Reset": "30"})}, "rate_limit", True, 30),
        ({"status_code": 429, "headers": {"retry-after": "7"}}, "rate_limit", True, 7),
        ({"status_code": 403, "retry_after": 9}, "rate_limit", True, 9),
        ({"retry_after": 30}, "rate_limit", True, 30),
        ({"retry_after": timedelta(minutes=1)}, "rate_limit", True, 60),
        ({"retry_after": 999999}, "rate_limit", True, 3600),
        ({"sqlstate": "40001"}, "database_busy", True, None),
        ({"pgcode": "23505"}, "integrity", False, None),
        ({"errno": errno.ECONNRESET}, "network", True, None),
        ({"retryable": True}, "api_temporary", True, None),
        ({"retriable": False}, "unknown", False, None),
        ({"should_retry": True, "status_code": 409}, "invalid_parameters", True, None),
        ({"retryable": False, "status_code": 503}, "api_temporary", False, None),
        ({"non_retryable": True, "status_code": 503}, "api_temporary", False, None),
        ({"non_retryable": False, "status_code": 503}, "api_temporary", True, None),
    ],
)
def test_telling_attributes(attributes, category, retryable, retry_after):
    error = MadeUpError(**attributes)
    failure = classify(error)

    assert (failure.category, failure.retryable, failure.retry_after) == (category, retryable, retry_after)
    assert failure.rule.startswith("attribute: ")
    assert next(Classifier().readings(error)).strength is Strength.WEAK


class Lying(Exception):
    @property
    def status_code(self):
        raise RuntimeError("no")

    status = code = retry_after = response = errno = retryable = status_code


@pytest.mark.parametrize(
    "error",
    [
        Lying("it failed"),
        MadeUpError(status_code="abc"),
        MadeUpError(status=99999),
        MadeUpError(status=200),
        MadeUpError(status=-1),
        MadeUpError(status=True),
        MadeUpError(status=5.03),
        MadeUpError(code="not a code"),
        MadeUpError(code="x" * 10_000),
        MadeUpError(code=1045),
        MadeUpError(errno=2),
        MadeUpError(errno=-104),
        MadeUpError(sqlstate="4000"),
        MadeUpError(sqlstate=40001),
        MadeUpError(retry_after="soon"),
        MadeUpError(retry_after=-5),
        MadeUpError(retry_after=float("nan")),
        MadeUpError(retry_after=True),
        MadeUpError(retryable=lambda: True),
        MadeUpError(should_retry="yes"),
        MadeUpError(response=Mock()),
        MadeUpError(response=MagicMock(), request=MagicMock(), headers=MagicMock()),
        MadeUpError(
            **dict.fromkeys(("status_code", "status", "code", "errno", "sqlstate", "retry_after", "retryable"), Mock())
        ),
    ],
)
def test_lies_change_nothing(error):
    failure = classify(error)

    assert (failure.category, failure.rule) == ("unknown", "nothing matched")


def test_nothing_is_ever_called():
    calls = []
    error = MadeUpError(
        **{
            name: lambda: calls.append(1)
            for name in ("status_code", "code", "retryable", "should_retry", "retry_after", "response")
        }
    )

    classify(error)
    assert not calls


def named(name, *bases):
    return type(name, bases or (Exception,), {"__module__": "vendor.sdk"})


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("RequestTimeout", "network"),
        ("ApiTimedOutError", "network"),
        ("ConnectionLost", "network"),
        ("ThrottledError", "rate_limit"),
        ("RateLimitExceeded", "rate_limit"),
        ("TooManyRequests", "rate_limit"),
        ("ItemNotFound", "not_found"),
        ("DoesNotExist", "not_found"),
        ("Unauthorized", "authentication"),
        ("AuthenticationFailed", "authentication"),
        ("Forbidden", "access_denied"),
        ("DuplicateKey", "integrity"),
        ("ConflictError", "invalid_parameters"),
        ("ServiceUnavailable", "api_temporary"),
        ("ServerOverloadedError", "api_temporary"),
        ("QuotaExceeded", "quota_exhausted"),
        ("ValidationError", "invalid_parameters"),
        ("DeadlockDetected", "database_busy"),
        ("ResponseParseError", "data"),
        ("ConfigurationError", "configuration"),
        ("SomethingElse", "unknown"),
        ("Untimely", "unknown"),
    ],
)
def test_telling_class_names(name, category):
    assert classify(named(name)("it failed")).category == category


def test_the_name_of_a_base_tells_too():
    assert classify(named("PeachError", named("FruitNotFound"))("it failed")).category == "not_found"


def test_a_name_is_weaker_than_an_attribute_and_than_a_permanent_text():
    error = named("RequestTimeout")("404 not found")
    assert classify(error).rule == "text: http 404"
    error.status_code = 401
    assert classify(error).category == "authentication"


def test_a_name_is_stronger_than_a_retryable_text():
    assert classify(named("RequestTimeout")("too many requests")).rule == "class name: RequestTimeout"


def verdict(error):
    failure = classify(error)
    return failure.category, failure.retryable


@pytest.mark.parametrize(
    ("name", "arguments", "attributes", "expected"),
    [
        # mail and FTP replies are not statuses: 4yz is temporary, 5yz is permanent
        ("SMTPDataError", (451, "4.3.0 queue file write error"), {"code": 451}, ("api_temporary", True)),
        ("SMTPSenderRefused", (553, "5.1.8 domain"), {"code": 553}, ("invalid_parameters", False)),
        ("SMTPConnectError", (554, "5.7.1 blocked"), {"code": 554}, ("access_denied", False)),
        ("DeliveryError", (535, "5.7.8 not accepted"), {"code": 535, "message": "5.7.8 no"}, ("authentication", False)),
        ("FTPReplyError", ("421 closing",), {"code": "421"}, ("api_temporary", True)),
        ("FTPReplyError", ("x",), {"received_codes": ("530",)}, ("authentication", False)),
        # numbers of databases and brokers, and numbers that no HTTP server sends
        ("DatabaseError", ("x",), {"code": 503}, ("unknown", False)),
        ("VendorError", ("x",), {"code": 516}, ("unknown", False)),
        ("VendorError", ("x",), {"code": 599}, ("unknown", False)),
        ("VendorError", ("x",), {"number": 404}, ("unknown", False)),
        # HTTP, by the object or by the name of the attribute
        ("VendorError", ("x",), {"code": 599, "response": None, "url": "https://h/"}, ("network", True)),
        ("VendorError", ("x",), {"code": 520, "headers": {}}, ("api_temporary", True)),
        ("VendorError", ("x",), {"code": 503}, ("api_temporary", True)),
        ("VendorError", ("x",), {"response_code": 520}, ("api_temporary", True)),
    ],
)
def test_a_number_is_a_status_only_if_the_error_looks_like_http(name, arguments, attributes, expected):
    error = named(name)(*arguments)
    error.__dict__.update(attributes)
    assert verdict(error) == expected


def test_the_worst_reply_about_a_recipient_decides():
    refused = [named("SMTPRecipientRefused")(450, "4.2.0 greylisted"), named("SMTPRecipientRefused")(550, "5.1.1 who?")]
    error = named("SMTPRecipientsRefused")(refused)
    error.recipients = refused
    assert verdict(error) == ("not_found", False)
    error = named("SMTPRecipientsRefused")(refused[:1])
    error.recipients = refused[:1]
    assert verdict(error) == ("api_temporary", True)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (named("ConnectionFailed")("invalid username or password"), ("authentication", False)),
        (named("DisconnectError")("Host key is not trusted for host h"), ("authentication", False)),
        (named("VendorError", ConnectionError)("Login failed for user 'bob'"), ("authentication", False)),
        (named("VendorError", ConnectionError)("the database d does not exist"), ("not_found", False)),
        (named("HostKeyNotVerifiable", named("DisconnectError"))("x"), ("authentication", False)),
        (ConnectionError("password authentication failed"), ("authentication", False)),
        # nothing permanent is said
        (named("VendorError", ConnectionError)("the server went to sleep"), ("network", True)),
        (named("ConnectionFailed")("host not found"), ("network", True)),
        (ConnectionError("user not found"), ("network", True)),
        # words do not make a 5xx or an errno permanent, unless they refuse credentials
        (named("InternalServerError")("the user was not found"), ("api_temporary", True)),
        (named("VendorError")("500 Internal Server Error: item not found"), ("api_temporary", True)),
        (named("VendorError")("HTTP 500: invalid credentials"), ("authentication", False)),
        (named("RateLimitError")("quota exceeded, slow down"), ("rate_limit", True)),
        (named("RateLimitError")("You have reached your monthly limit"), ("quota_exhausted", False)),
        (named("VendorError", OSError)(errno.ECONNREFUSED, "user not found"), ("network", True)),
        (MadeUpError("invalid api key", status_code=500), ("authentication", False)),
        (MadeUpError("page not found", status_code=500), ("api_temporary", True)),
    ],
    ids=repr,
)
def test_permanent_evidence_wins_over_a_retryable_class(error, expected):
    assert verdict(error) == expected


def test_a_timeout_because_of_a_refused_login_is_permanent():
    error = TimeoutError()
    error.__cause__ = named("OperationalError")("Cannot open database. The login failed.")
    assert verdict(error) == ("authentication", False)
    error.__cause__ = named("OperationalError")("no row was found")
    assert verdict(error) == ("network", True)


def test_explain_shows_both_sides_of_a_conflict():
    shown = str(explain(named("ConnectionFailed")("wrong password")))
    assert "because   text: wrong password  [text only]" in shown
    assert "differs   network, by class name: ConnectionFailed" in shown


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (403, {"error": {"errors": [{"reason": "rateLimitExceeded"}]}}, ("rate_limit", True)),
        (403, [{"errorCode": "REQUEST_LIMIT_EXCEEDED", "message": "TotalRequests"}], ("quota_exhausted", False)),
        (403, {"message": "Resource not accessible by personal access token"}, ("authentication", False)),
        (400, [{"errorCode": "UNABLE_TO_LOCK_ROW", "message": "busy"}], ("database_busy", True)),
        (400, {"error_type": "INVALID_INPUT", "error_code": "INVALID_API_KEYS"}, ("authentication", False)),
        (400, {"error": {"type": "insufficient_quota"}}, ("quota_exhausted", False)),
        (400, {"__type": "com.amazon.coral#ThrottlingException"}, ("rate_limit", True)),
        (
            400,
            {"error": {"status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_EXPIRED"}]}},
            ("authentication", False),
        ),
        (400, "<Error><Code>SlowDown</Code></Error>", ("rate_limit", True)),
        (400, '{"fault": {"code": "QuotaExceeded", "text": "' + "x" * 5000, ("quota_exhausted", False)),
        (
            429,
            {"type": "https://h.example/problems/usage-capped", "title": "UsageCapExceeded"},
            ("quota_exhausted", False),
        ),
        (429, {"message": "a key is limited to 1000 API calls / month"}, ("quota_exhausted", False)),
        (200, {"errors": [{"extensions": {"code": "UNAUTHENTICATED"}}]}, ("authentication", False)),
        (200, {"errors": [{"type": "NOT_FOUND", "message": "x"}]}, ("not_found", False)),
        (402, {}, ("quota_exhausted", False)),
        (451, {}, ("access_denied", False)),
        # the status says as much, or the name is not the reason for the failure
        (404, {"error": {"type": "invalid_request_error"}}, ("not_found", False)),
        (401, {"error": {"type": "invalid_request_error"}}, ("authentication", False)),
        (429, {"error": {"code": "rate_limit_exceeded"}}, ("rate_limit", True)),
        (429, {"error": {"code": "quota_exceeded"}}, ("rate_limit", True)),
        (400, {"message": "the code quota_exceeded is not documented"}, ("invalid_parameters", False)),
        (400, {"request": {"type": "timeout"}, "message": "no"}, ("invalid_parameters", False)),
        (400, {"error": {"code": "NotAThrottlingError"}}, ("invalid_parameters", False)),
        (403, {"error": "forbidden"}, ("access_denied", False)),
        (503, {"error": "service_unavailable"}, ("api_temporary", True)),
    ],
)
def test_the_reason_in_the_body_beats_the_status(status, body, expected):
    assert verdict(MadeUpError(status_code=status, body=body)) == expected
    text = body if isinstance(body, str) else json.dumps(body)
    response = Response(status)
    response._content = text.encode()
    assert verdict(MadeUpError(response=response)) == expected or status == 200  # a success is not a failure's response


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"response_code": 503}, ("api_temporary", True)),
        ({"resp": Response(503)}, ("api_temporary", True)),
        ({"http_resp": Response(404)}, ("not_found", False)),
        ({"error_name": "SYNTAX_ERROR"}, ("invalid_parameters", False)),
        ({"error_type": "INTERNAL_ERROR"}, ("api_temporary", True)),
        ({"error_code": "too_many_requests"}, ("rate_limit", True)),
        ({"reason": "quotaExceeded"}, ("quota_exhausted", False)),
        ({"reasons": ["rateLimitExceeded"]}, ("rate_limit", True)),
        ({"description": "invalidCredentials"}, ("authentication", False)),
        ({"details": {"code": "model_not_found"}}, ("not_found", False)),
        ({"json_body": {"error": {"code": "resource_missing"}}}, ("not_found", False)),
        ({"response_body": b'{"error": "insufficient_scope"}', "response_code": 403}, ("authentication", False)),
        ({"code": "ECONNRESET"}, ("network", True)),
        ({"gql_status": "08000"}, ("network", True)),
        # not reasons
        ({"reason": "because it is Monday"}, ("unknown", False)),
        ({"description": "a timeout"}, ("unknown", False)),
        ({"error_name": "Peter"}, ("unknown", False)),
        ({"details": {"page": "not_found"}}, ("unknown", False)),
        ({"code": "40001"}, ("unknown", False)),
        ({"body": object()}, ("unknown", False)),
    ],
)
def test_attributes_for_reasons(attributes, expected):
    assert verdict(MadeUpError(**attributes)) == expected


@pytest.mark.parametrize(
    ("name", "state", "expected"),
    [
        ("OperationalError", "40001", ("database_busy", True)),
        ("PostgresError", "40001", ("database_busy", True)),
        ("PostgresError", "23505", ("integrity", False)),
        ("QueryError", "40P01", ("database_busy", True)),
        ("QueryError", "28P01", ("authentication", False)),
        ("QueryError", "40001", ("unknown", False)),
    ],
)
def test_a_sqlstate_as_the_code_of_a_database_error(name, state, expected):
    error = named(name)("x")
    error.code = state
    assert verdict(error) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((503, "Service Unavailable"), ("api_temporary", True)),
        ((503, "lines rejected by the schema"), ("unknown", False)),
        ((400, {"error": {"code": "unauthorized_client"}}), ("authentication", False)),
        (({"errorName": "QUERY_QUEUE_FULL"},), ("database_busy", True)),
        ((503,), ("unknown", False)),
        ((553, "no"), ("unknown", False)),
        ((404, 5), ("unknown", False)),
    ],
)
def test_numbers_and_bodies_in_the_arguments(arguments, expected):
    error = named("VendorError")(*arguments)
    failure = classify(error)
    if expected[0] == "unknown":
        assert not failure.rule.startswith("attribute: ")
    else:
        assert (failure.category, failure.retryable) == expected


def test_headers_as_pairs_of_bytes():
    error = MadeUpError(status_code=429, resp_headers=[(b"Retry-After", b"7")])
    assert classify(error).retry_after == 7


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (named("DeadlockDetected"), "database_busy"),
        (named("VendorError", ConnectionError), "network"),
        (named("VendorError"), "unknown"),
    ],
)
def test_a_flag_decides_about_retrying_and_not_about_the_category(error, category):
    error = error("x")
    error.retriable = False
    assert verdict(error) == (category, False)


def test_a_flag_keeps_the_category_of_a_cause_and_of_a_text():
    error = MadeUpError("too many requests", retriable=False)
    assert verdict(error) == ("rate_limit", False)
    error = MadeUpError(retriable=False)
    error.__cause__ = ConnectionResetError(errno.ECONNRESET, "x")
    assert verdict(error) == ("network", False)


@pytest.mark.parametrize(
    ("code", "category"),
    [
        ("ThrottlingException", "rate_limit"),
        ("KMSThrottlingException", "rate_limit"),
        ("UserRateLimitExceeded", "rate_limit"),
        ("DBInstanceNotFound", "not_found"),
        ("AWS.SimpleQueueService.NonExistentQueue", "not_found"),
        ("NotAThrottlingError", "unknown"),
        ("UnthrottledRateLimits", "unknown"),
        ("NotAccessDenied", "unknown"),
        ("NoRateLimit", "unknown"),
        ("quota_exceeded_handler", "unknown"),
    ],
)
def test_a_code_matches_as_a_whole(code, category):
    assert classify(MadeUpError(code=code)).category == category


def test_a_typed_cause_is_stronger_than_a_name():
    error = named("SyncTimeout")("it failed")
    error.__cause__ = FileNotFoundError(2, "x")
    assert classify(error).category == "not_found"


def test_an_attribute_is_stronger_than_the_cause():
    error = MadeUpError(status_code=503)
    error.__cause__ = ValueError("no JSON in the error body")
    assert classify(error).category == "api_temporary"


def test_a_response_that_calls_its_status_code():
    class ClientError(Exception):
        pass

    error = ClientError("HTTP 503: Service Unavailable")
    error.response = type("HTTPResponse", (), {"code": 503, "headers": {"Retry-After": "120"}})()
    failure = classify(error)
    assert (failure.category, failure.retry_after) == ("api_temporary", 120.0)


def test_the_status_of_google_genai_decides():
    base = type("APIError", (Exception,), {"__module__": "google.genai.errors"})
    error = type("ClientError", (base,), {"__module__": "google.genai.errors"})("429 RESOURCE_EXHAUSTED.")
    error.code, error.status = 429, "RESOURCE_EXHAUSTED"
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "26s"}
    error.details = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [delay]}}
    failure = classify(error)
    assert (failure.category, failure.retry_after) == ("rate_limit", 26.0)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (409, {"reason": "AlreadyExists", "details": {"name": "maintenance", "kind": "pods"}, "code": 409}),
        (422, {"reason": "Invalid", "details": {"name": "timeout", "kind": "Deployment"}, "code": 422}),
        (400, {"errors": [{"name": "timeout", "message": "must be an integer"}]}),
        (422, {"errors": [{"field": "status", "code": "unavailable"}]}),
        (422, {"code": "product_unavailable"}),
        (409, {"error": {"code": "slot_unavailable"}}),
        (400, {"code": "tax_settings_not_ready"}),
        (400, {"error": {"type": "api_error", "code": "amount_too_small"}}),
        (422, {"detail": [{"type": "int_parsing", "input": {"status": "busy", "more": "x" * 5000}}]}),
        (None, {"errors": [{"extensions": {"code": each}} for each in ("INTERNAL_SERVER_ERROR", "BAD_USER_INPUT")]}),
        (None, {"errors": [{"extensions": {"code": each}} for each in ("THROTTLED", "FORBIDDEN")]}),
    ],
)
def test_what_a_rejected_request_is_about_does_not_make_it_retryable(status, body):
    response = Response(status)
    response._content = json.dumps(body).encode()
    error = MadeUpError(response=response) if status else MadeUpError(body=body)
    assert classify(error).retryable is False


@pytest.mark.parametrize(
    "error",
    [
        type("BuildApiError", (Exception,), {"code": 3})("no"),
        type("ApiError", (Exception,), {"__module__": "worldapi.client", "code": 80})("no"),
        type("CallFailed", (Exception,), {"__module__": "softphone"})("404 unknown number"),
        type("TimeoutError", (Exception,), {"__module__": "rediscovery"})("query timeout must be positive"),
        type("SyncError", (Exception,), {"__module__": "myapp.mysql_sync"})(1205, "rows differ"),
        type("RpcError", (Exception,), {"code": -32000})("execution reverted"),
        Exception("INTERNAL_ERROR - field price is required"),
        Exception("Build 512 5.4.1 not found"),
        MadeUpError("must be positive", title="timeout"),
        MadeUpError(error_type="APIError"),
    ],
    ids=str,
)
def test_a_family_is_recognised_by_whole_words(error):
    assert classify(error).retryable is False


@pytest.mark.parametrize(
    ("state", "text", "expected"),
    [
        ("08001", "FATAL: password authentication failed for user (101) (SQLDriverConnect)", ("authentication", False)),
        ("08001", "Client unable to establish connection (10060) (SQLDriverConnect)", ("network", True)),
        ("42000", "[ODBC Driver 18][SQL Server]Transaction was deadlocked. (1205) (SQLExecDirectW)", ("database_busy", True)),
        ("42000", "[ODBC Driver 18][SQL Server]Incorrect syntax near 'x'. (102) (SQLExecDirectW)", ("invalid_parameters", False)),
    ],
)  # fmt: skip
def test_odbc_errors_are_judged_by_the_number_of_the_database(state, text, expected):
    error = type("Error", (Exception,), {"__module__": "pyodbc"})(state, f"[{state}] {text}")
    assert verdict(error) == expected


def test_a_body_that_is_a_property_is_not_read():
    reads = []

    class LazyError(Exception):
        @property
        def body(self):
            reads.append("body")

        text = json = content = body

    classify(LazyError("x"))
    assert reads == []


@pytest.mark.parametrize(
    ("body", "category"),
    [
        (
            "<html><h1>Maintenance</h1>Unauthorized access prohibited, invalid credentials are logged</html>",
            "api_temporary",
        ),
        ('{"error": "invalid credentials"}', "authentication"),
    ],
)
def test_a_page_for_people_does_not_refuse_credentials(body, category):
    response = Response(503)
    response._content = body.encode()
    assert classify(MadeUpError(response=response)).category == category


@pytest.mark.parametrize(
    ("text", "category", "retryable"),
    [
        ("Conflict occurred while saving. Please try again.", "api_temporary", True),
        ("Conflict: the name is taken. Please try again with another one.", "invalid_parameters", False),
        ("The item exists already.", "invalid_parameters", False),
    ],
)
def test_a_conflict_with_another_writer_is_retried(text, category, retryable):
    failure = classify(MadeUpError(text, status=409, body={"message": text}))
    assert (failure.category, failure.retryable) == (category, retryable)


def test_a_full_disk_of_the_server_is_retried_whatever_the_status():
    error = MadeUpError(status=422, body={"code": "no_space_left_on_device"})
    assert (classify(error).category, classify(error).retryable) == ("system", True)


@pytest.mark.parametrize(
    ("number", "text", "category"),
    [
        (errno.EADDRINUSE, "Address already in use (addr='tcp://127.0.0.1:5555')", "configuration"),
        (errno.EADDRINUSE, "98 columns", "unknown"),
        (errno.ENOENT, "No such file or directory: 'a'", "not_found"),
        (errno.ENOENT, "the second rule failed", "unknown"),
    ],
)
def test_a_number_is_an_errno_if_the_text_has_its_words(number, text, category):
    assert classify(MadeUpError(text, errno=number)).category == category


def _reply(package, **attributes):
    kind = type("ReplyError", (Exception,), {"__module__": f"{package}.errors"})
    error = kind("refused")
    vars(error).update(attributes)
    return error


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (_reply("acme_lmtp", code=452, message="4.2.2 Mailbox full"), "api_temporary"),
        (_reply("acme", code=450, message="4.7.1 Greylisted"), "api_temporary"),
        (_reply("acme", status_code=550, smtp_error=b"5.7.1 Blocked"), "access_denied"),
        (_reply("acme_ftp", code=421), "api_temporary"),
        (_reply("acme_ftp", code=550), "not_found"),
    ],
)
def test_replies_are_read_from_attributes(error, category):
    assert classify(error).category == category


@pytest.mark.parametrize(
    ("replies", "category"),
    [
        ([(450, "4.2.0 Greylisted"), (451, "4.3.0 Try later")], "api_temporary"),
        ([(450, "4.2.0 Greylisted"), (550, "5.1.1 User unknown")], "not_found"),
    ],
)
def test_refused_recipients_are_as_bad_as_the_worst_of_them(replies, category):
    refused = [_reply("aiosmtp", code=code, message=message) for code, message in replies]
    kind = type("SMTPRecipientsRefused", (Exception,), {"__module__": "aiosmtp.errors"})
    error = kind(refused)
    error.recipients = refused
    assert classify(error).category == category


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (
            "When reading 'a.parquet': AWS Error ACCESS_DENIED during HeadObject operation: No response body.",
            "authentication",
        ),
        ("AWS Error NETWORK_CONNECTION during ListObjectsV2 operation: curlCode: 28, Timeout was reached", "network"),
        ("An error occurred (ProvisionedThroughputExceededException) when calling the PutItem operation", "rate_limit"),
        ("An error occurred (InvalidAccessKeyId) when calling the PutObject operation", "authentication"),
    ],
)
def test_codes_of_aws_in_the_texts_of_other_libraries(text, category):
    assert classify(OSError(text)).category == category


@pytest.mark.parametrize(
    ("name", "args", "category"),
    [
        ("InterfaceError", ("IM002", "[IM002] [unixODBC][Driver Manager]Data source name not found"), "configuration"),
        ("ProducerBusy", ("Pulsar error: 7",), "api_temporary"),
        ("ResourceBusyError", ("",), "api_temporary"),
        ("BusyboxError", ("",), "unknown"),
        ("ConnectionLoss", ("",), "network"),
    ],
)
def test_a_class_of_an_unknown_library(name, args, category):
    assert classify(type(name, (Exception,), {"__module__": "acme"})(*args)).category == category
