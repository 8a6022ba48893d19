"""Errors of libraries nobody described: codes that families of clients share, malformed input, exhausted quotas."""

from types import SimpleNamespace
from typing import Any

import pytest

import outlast
from outlast import Category
from outlast.classify.classifier import Classifier

C = Category


def error_of(
    name: str, *args: Any, bases: tuple[type, ...] = (Exception,), text: str | None = None, **attributes: Any
) -> Exception:
    """Return an error of a class ``module.Name`` with attributes and, if it is not that of its arguments, a text."""
    module, _, short = name.rpartition(".")
    methods = {"__module__": module} | ({} if text is None else {"__str__": lambda _: text})
    error = type(short, bases, methods)(*args)
    vars(error).update(attributes)
    return error  # type: ignore[no-any-return]  # an Exception, by its bases


ORACLE = "acme_oracle.DatabaseError"
FAMILIES = [
    # Oracle: numbers in the text; a permanent one decides
    ("oracle-busy", error_of(ORACLE, "ORA-00054: resource busy and acquire with NOWAIT specified"), C.DATABASE_BUSY),
    ("oracle-deadlock", error_of(ORACLE, "ORA-00060: deadlock detected while waiting"), C.DATABASE_BUSY),
    ("oracle-login", error_of(ORACLE, "ORA-01017: invalid username/password; logon denied"), C.AUTHENTICATION),
    ("oracle-table", error_of(ORACLE, "ORA-00942: table or view does not exist"), C.CONFIGURATION),
    ("oracle-unique", error_of(ORACLE, "ORA-00001: unique constraint (A.B) violated"), C.INTEGRITY),
    ("oracle-syntax", error_of(ORACLE, "ORA-00933: SQL command not properly ended"), C.INVALID_PARAMETERS),
    (
        "oracle-nested",
        error_of(ORACLE, "DPY-6005: cannot connect\nDPY-6001: Service is not registered"),
        C.CONFIGURATION,
    ),
    ("oracle-plain", RuntimeError("ORA-12541: TNS:no listener"), C.NETWORK),
    # SQL Server: attributes, arguments, ODBC's and the command line's text
    ("mssql-attributes", error_of("acme.OperationalError", "x", number=1222, severity=16, state=1), C.DATABASE_BUSY),
    ("mssql-login", error_of("acme_mssql.OperationalError", (18456, b"Login failed for user 'sa'")), C.AUTHENTICATION),
    ("mssql-text", error_of("acme.Error", "Msg 2627, Level 14, State 1: Violation of PRIMARY KEY"), C.INTEGRITY),
    (
        "odbc-native",
        error_of(
            "acme.Error",
            "HY000",
            "[HY000] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Denied (229) (SQLExecDirectW)",
        ),
        C.AUTHENTICATION,
    ),
    ("odbc-state", error_of("acme.Error", "40001", "[40001] [ACME][ODBC] serialization"), C.DATABASE_BUSY),
    # other databases
    ("mysql-attribute", error_of("acme_mariadb.OperationalError", "x", errno=1213), C.DATABASE_BUSY),
    ("mysql-argument", error_of("acme_mysql.OperationalError", 1045, "Access denied"), C.AUTHENTICATION),
    ("mysql-text", error_of("acme.Error", "ERROR 1062 (23000): Duplicate entry"), C.INTEGRITY),
    ("db2-number", error_of("acme.Error", "SQL0911N  The current transaction has been rolled back"), C.DATABASE_BUSY),
    ("db2-code", error_of("acme.Error", "DB2 SQL Error: SQLCODE=-803, SQLSTATE=23505"), C.INTEGRITY),
    ("sqlstate-text", error_of("acme.Error", "failed, SQLSTATE: 28P01"), C.AUTHENTICATION),
    ("sqlstate-fields", error_of("acme.DatabaseError", {"S": "FATAL", "C": "53300", "M": "sorry"}), C.DATABASE_BUSY),
    ("snowflake", error_of("acme.ProgrammingError", "002003 (42S02): Object 'T' does not exist"), C.CONFIGURATION),
    (
        "clickhouse",
        error_of("acme.ServerException", "Code: 202. DB::Exception: Too many simultaneous queries"),
        C.DATABASE_BUSY,
    ),
    ("clickhouse-code", error_of("clickhouse_acme.Error", "x", code=516), C.AUTHENTICATION),
    (
        "trino",
        error_of("acme.QueryError", "QueryError(type=INSUFFICIENT_RESOURCES, name=QUERY_QUEUE_FULL, m)"),
        C.DATABASE_BUSY,
    ),
    (
        "trino-type",
        error_of("acme.QueryError", "QueryError(type=USER_ERROR, name=SYNTAX_ERROR, m)"),
        C.INVALID_PARAMETERS,
    ),
    ("neo4j", error_of("acme.Error", "{code: Neo.TransientError.Transaction.DeadlockDetected}"), C.DATABASE_BUSY),
    # numbers whose meaning is easy to get wrong
    ("oracle-wrapped", error_of(ORACLE, "ORA-12801: error in parallel query\nORA-01555: too old"), C.DATABASE_BUSY),
    ("oracle-view", error_of(ORACLE, "ORA-01039: insufficient privileges on underlying objects"), C.AUTHENTICATION),
    ("oracle-cursors", error_of(ORACLE, "ORA-01000: maximum open cursors exceeded"), C.DATABASE_BUSY),
    ("oracle-certificate", error_of(ORACLE, "DPY-6002: the server's certificate DN does not match"), C.CONFIGURATION),
    ("mssql-intent", error_of("acme.Error", "Msg 978, Level 14, State 1: read-only intent"), C.CONFIGURATION),
    ("mssql-locks", error_of("acme.Error", "Msg 40550, Level 16, State 1: too many locks"), C.INVALID_PARAMETERS),
    ("clickhouse-quota", error_of("acme.Error", "Code: 199. DB::Exception: Unknown quota q"), C.CONFIGURATION),
    ("clickhouse-array", error_of("acme.Error", "Code: 130. DB::Exception: Array does not start"), C.DATA),
    ("clickhouse-load", error_of("acme.Error", "Code: 745. DB::Exception: CPU is overloaded"), C.DATABASE_BUSY),
    (
        "snowflake-password",
        error_of("acme.DatabaseError", "250001 (08001): None: Incorrect username or password was specified."),
        C.AUTHENTICATION,
    ),
    (
        "snowflake-errno",
        error_of("snowflake_acme.DatabaseError", "250001 (08001): JWT token is invalid.", errno=250001),
        C.AUTHENTICATION,
    ),
    ("snowflake-network", error_of("acme.Error", "250001 (08001): None: Could not connect"), C.NETWORK),
    ("snowflake-account", error_of("acme.Error", "290404 (08001): 404 Not Found: post a.example"), C.CONFIGURATION),
    ("snowflake-address", error_of("acme.Error", "390422 (08004): Incoming request with IP 10.0.0.1"), C.ACCESS_DENIED),
    (
        "neo4j-provider",
        error_of("acme.Error", "{code: Neo.TransientError.Security.AuthProviderTimeout}"),
        C.DATABASE_BUSY,
    ),
    ("neo4j-killed", error_of("acme.Error", "{code: Neo.TransientError.Transaction.Terminated}"), C.UNKNOWN),
    (
        "mqtt-version",
        error_of("acme_mqtt.Error", "Connection Refused: unacceptable protocol version."),
        C.CONFIGURATION,
    ),
    ("mqtt-queue", error_of("acme_mqtt.Error", "Message queue full."), C.API_TEMPORARY),
    ("nats-setting", error_of("acme.Error", "nats: timeout invalid"), C.INVALID_PARAMETERS),
    ("imap-limit", error_of("acme_imap.Error", "NO [LIMIT] At most 32 flags in one mailbox"), C.INVALID_PARAMETERS),
    ("imap-rate", error_of("acme_imap.Error", "NO [LIMIT] LOGIN Rate limit hit."), C.RATE_LIMIT),
    ("curl-interface", error_of("acme.Error", "curl: (45) bind failed"), C.CONFIGURATION),
    ("curl-tftp", error_of("acme_curl.Error", "x", code=68), C.NOT_FOUND),
    ("search", error_of("acme.ConflictException", "(429, 'es_rejected_execution_exception')"), C.RATE_LIMIT),
    (
        "search-disk",
        error_of("acme.AuthorizationException", "(403, 'cluster_block_exception', '[FORBIDDEN/12/index]')"),
        C.SYSTEM,
    ),
    ("programming-error", error_of("acme.ProgrammingError", "x"), C.INVALID_PARAMETERS),
    ("redis-fork", error_of("valkey.ResponseError", "WRONGTYPE Operation against a key"), C.INVALID_PARAMETERS),
    ("redis-fork-class", error_of("valkey.BusyLoadingError", "x"), C.DATABASE_BUSY),
    # brokers and directories
    ("amqp-number", error_of("acme.ChannelClosed", "x", reply_code=405, reply_text="RESOURCE_LOCKED"), C.API_TEMPORARY),
    (
        "amqp-text",
        error_of("acme.ChannelClosed", "PRECONDITION_FAILED - inequivalent arg 'durable'"),
        C.INVALID_PARAMETERS,
    ),
    ("mqtt-number", error_of("acme_mqtt.CodeError", "x", rc=135), C.AUTHENTICATION),
    ("mqtt-object", error_of("acme_mqtt.CodeError", "x", rc=SimpleNamespace(value=137)), C.API_TEMPORARY),
    ("mqtt-text", error_of("acme_mqtt.CodeError", "[code:4] The client is not currently connected.", rc=4), C.NETWORK),
    ("nats", error_of("acme.Error", "nats: 'Authorization Violation'"), C.AUTHENTICATION),
    ("nats-busy", error_of("acme.Error", "nats: 'maximum connections exceeded'"), C.DATABASE_BUSY),
    ("ldap-number", error_of("acme_ldap.OperationResult", "x", result=51), C.DATABASE_BUSY),
    (
        "ldap-fields",
        error_of("acme_ldap.INVALID_CREDENTIALS", {"result": 49, "desc": "Invalid credentials"}),
        C.AUTHENTICATION,
    ),
    (
        "ldap-name",
        error_of("acme_ldap.BindError", "automatic bind not successful - timeLimitExceeded"),
        C.DATABASE_BUSY,
    ),
    # mail: 4yz is temporary, 5yz is permanent, also for classes that look like a lost connection
    ("smtp-451", error_of("acme_smtp.SMTPDataError", 451, "4.3.0 queue file write error", code=451), C.API_TEMPORARY),
    ("smtp-535", error_of("acme_smtp.SMTPAuthenticationError", "x", code=535, message="5.7.8 no"), C.AUTHENTICATION),
    (
        "smtp-554",
        error_of("acme_smtp.SMTPConnectError", 554, "5.7.1 blocked", bases=(ConnectionError,), code=554),
        C.ACCESS_DENIED,
    ),
    (
        "mail-list",
        error_of("acme.Refused", "[Refused(450, '4.2.0 Greylisted'), Refused(550, '5.1.1 User unknown')]"),
        C.NOT_FOUND,
    ),
    (
        "imap-code",
        error_of("acme_imap.LoginError", "b'[UNAVAILABLE] Temporary authentication failure.'"),
        C.API_TEMPORARY,
    ),
    ("imap-login", error_of("acme_imap.Error", "NO [AUTHENTICATIONFAILED] Invalid credentials"), C.AUTHENTICATION),
    ("ftp", error_of("acme_ftp.StatusCodeError", "x", received_codes=("530",)), C.AUTHENTICATION),
    # transfers, resolvers, shells, calls
    ("curl-code", error_of("acme_curl.CurlError", "x", code=28), C.NETWORK),
    ("curl-text", error_of("acme.RequestException", "Failed to perform, curl: (3) URL rejected"), C.CONFIGURATION),
    ("resolver", error_of("acme.DNSError", 11, "Could not contact DNS servers"), C.NETWORK),
    ("resolver-name", error_of("acme.DNSError", 8, "Misformatted domain name"), C.INVALID_PARAMETERS),
    (
        "ssh",
        error_of("acme.HostKeyError", "x", bases=(type("DisconnectError", (Exception,), {}),), code=9),
        C.AUTHENTICATION,
    ),
    ("json-rpc", error_of("acme.Error", "x", code=-32602), C.INVALID_PARAMETERS),
    ("json-rpc-limit", error_of("acme.Error", "x", code=-32005), C.RATE_LIMIT),
    ("grpc-text", error_of("acme.Error", "call ended, status = StatusCode.UNAVAILABLE"), C.API_TEMPORARY),
    ("websocket", error_of("acme_websocket.Closed", "x", code=1013), C.API_TEMPORARY),
    # malformed input, by class name and by text
    ("archive", error_of("acme.Bad7zFile", "x"), C.DATA),
    ("yaml", error_of("acme.ScannerError", "while scanning a quoted scalar"), C.DATA),
    ("avro", error_of("acme.InvalidAvroBinaryEncoding", "x"), C.DATA),
    ("pdf", error_of("acme.PdfReadError", "EOF marker not found"), C.DATA),
    ("snappy", error_of("acme.UncompressError"), C.DATA),
    ("parquet", error_of("acme.Problem", "Parquet magic bytes not found in footer"), C.DATA),
    ("lz4", RuntimeError("LZ4F_getFrameInfo failed with code: ERROR_frameType_unknown"), C.DATA),
    ("hdf5", OSError("Unable to synchronously open file (file signature not found)"), C.DATA),
    # exhausted quotas, whatever the status
    (
        "quota-429",
        error_of("acme.TooManyRequests", "Usage cap exceeded: Monthly product cap", status_code=429),
        C.QUOTA_EXHAUSTED,
    ),
    (
        "quota-400",
        error_of("acme.BadRequestError", "Your credit balance is too low to access the API", status_code=400),
        C.QUOTA_EXHAUSTED,
    ),
    (
        "quota-trial",
        error_of("acme.ApiError", "x", body="a Trial key, limited to 1000 API calls / month", status_code=429),
        C.QUOTA_EXHAUSTED,
    ),
]


@pytest.mark.parametrize(("error", "category"), [pytest.param(*row, id=name) for name, *row in FAMILIES])
def test_a_family_is_recognised(error: Exception, category: Category) -> None:
    failure = outlast.classify(error)
    assert failure.category is category, failure.rule


STRANGERS = [
    ("number-elsewhere", error_of("acme.Error", "x", number=1222)),  # without a severity it may be anything
    ("code-of-another", error_of("acme.Error", "x", code=28)),
    ("small-argument", error_of("acme.Error", 11, "apples")),
    ("text-with-number", error_of("acme.Error", "order 1045 is late")),
    ("product-name", error_of("acme.Error", "flora-00054 sold")),
    ("five-characters", error_of("acme.Error", "40001", "is the postal code")),
    ("version", error_of("acme.Error", "build 451, version 4.3.0")),
    ("reply-of-none", error_of("acme.Error", "x", reply_code=77)),
    ("brackets", error_of("acme.Error", "[UNAVAILABLE] is a word")),
    ("six-digits", error_of("acme.Error", "see (002003) in the manual")),
    ("name-in-code", error_of("acme.Error", "call wrap_my_exception first")),
    ("rpc-mismatch", ValueError("proto (StatusCode.ABORTED) doesn't match (StatusCode.INTERNAL)")),
    ("dash", error_of("acme.Error", "MY_LIST - an overview")),
    ("flag", error_of("acme_mysql.Error", True)),
    ("format", error_of("acme.Formatter", "x")),
    ("shape", error_of("acme.ShapeOfThings", "x")),
]


@pytest.mark.parametrize("error", [pytest.param(error, id=name) for name, error in STRANGERS])
def test_what_only_resembles_a_code_is_none(error: Exception) -> None:
    failure = outlast.classify(error)
    assert failure.category is Category.UNKNOWN, failure.rule


def test_a_status_of_the_server_stays_temporary_whatever_the_text_says() -> None:
    response = SimpleNamespace(status_code=503, headers={})
    for text in ("Your credit balance is too low", "ORA-00942: table or view does not exist"):
        assert outlast.classify(error_of("acme.Error", text, response=response)).category is C.API_TEMPORARY


def test_a_limit_per_minute_is_no_exhausted_quota() -> None:
    for text in (
        "You exceeded your current quota: 15 requests per minute",
        "You exceeded your current quota. Please retry in 26.7s.",
        "Daily limit reached, try again in 40 seconds",
    ):
        assert outlast.classify(error_of("acme.ApiError", text, status_code=429)).category is C.RATE_LIMIT, text


@pytest.mark.parametrize(
    ("text", "wait", "capped"),
    [
        ("You have reached your API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.", 3600, True),
        ("Monthly quota exceeded, resets at 2026-11-30T23:40:00Z", 1800, False),
        ("Monthly quota exceeded.", None, False),
    ],
)
def test_a_quota_knows_when_it_resets(text: str, wait: float | None, capped: bool) -> None:
    now = 1796080200.0 if "11-30" in text else 1795000000.0  # 2026-11-30 23:10 UTC, or days before
    failure = Classifier(now=lambda: now).classify(error_of("acme.ApiError", text, status_code=429))
    assert (failure.category, failure.retryable) == (C.QUOTA_EXHAUSTED, False)
    assert (failure.retry_after, failure.capped) == (wait, capped)


@pytest.mark.parametrize(
    ("error", "rule"),
    [
        (error_of(ORACLE, "ORA-00054: resource busy"), "Oracle ORA-00054"),
        (error_of("acme_ldap.OperationResult", "x", result=51), "LDAP busy"),
        (error_of("acme.Bad7zFile", "x"), "class name: Bad7zFile"),
        (RuntimeError("zlib error -3"), "text: zlib error"),
        (error_of("acme.ApiError", "You are out of credits", status_code=429), "text about an exhausted quota"),
    ],
)
def test_explain_names_the_family(error: Exception, rule: str) -> None:
    assert outlast.classify(error).rule == rule
    assert rule in str(outlast.explain(error))
