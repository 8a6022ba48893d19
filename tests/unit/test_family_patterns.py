"""Patterns of error families and libraries match two texts at least, and not three that resemble them.

A statement of `outlast.classify` that holds a regular expression has to be listed here, or in one of the two other
files with texts of patterns.
"""

import ast
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import outlast.classify
from outlast import Category as C
from outlast.classify import codes, heuristics, vendor_codes
from outlast.classify import rpc_status as rpc
from outlast.classify.libraries import urllib3

# By module and name, in the order of the patterns: texts that must match, texts that must not; separated by " | ".
TEXTS: dict[str, list[tuple[str, str]]] = {
    "heuristics._POSTGRES_STATE": [("40P01 | 57P03 | 0LP01", "40001 | 4P001 | P0001")],
    "vendor_codes.MQTT_TEXTS": [
        (
            "Connection Refused: bad user name or password. | Connection Refused: not authorised. | Access denied by ACL.",
            "The user name is set | The author is unknown | Password file reloaded",
        ),
        (
            "Connection Refused: unacceptable protocol version. | This feature is not supported.",
            "Protocol version 5 | The connection was lost. | QoS 2 is supported",
        ),
        (
            "Connection Refused: identifier rejected. | Payload too large.",
            "Client identifier: worker-1 | The delay is too large | Message rejected by the filter",
        ),
        (
            "Connection Refused: broker unavailable. | Message queue full. | Server busy",
            "The line is busy | The queue is empty | The full queue name is a/b",
        ),
        (
            "The client is not currently connected. | The connection was lost. | A TLS error occurred.",
            "The client is connected | The TLS error log is empty | Payload too large.",
        ),
    ],
    "vendor_codes.NATS": [
        (
            "nats: 'Authorization Violation' | nats: invalid user credentials | nats: permissions violation for publish",
            "nats: authorization header parsed | nats: user created | nats: protocol violation",
        ),
        (
            "nats: secure connection required | nats: attempted to connect to route port | nats: invalid connect url option",
            "nats: secure connection failed | nats: connection closed | nats: invalid subject",
        ),
        (
            "nats: maximum payload exceeded | nats: invalid publish subject | nats: timeout invalid",
            "nats: payload of 5 bytes | nats: key not found | nats: fetch timeout",
        ),
        (
            "nats: 'maximum connections exceeded' | nats: 'maximum account active connections exceeded'",
            "nats: maximum payload exceeded | nats: connections: 5 | nats: maximum subscriptions exceeded",
        ),
        (
            "nats: no responders available for request | nats: slow consumer, messages dropped subject: a",
            "nats: no responders requires headers support | nats: consumer not found | nats: no keys found",
        ),
        (
            "nats: timeout | nats: no servers available for connection | nats: draining connection timed out",
            "nats: timeout invalid | nats: connection draining | nats: invalid timeout value 5",
        ),
    ],
    "vendor_codes.MAILBOX_TEXTS": [
        (
            "Too many simultaneous connections. | NO [LIMIT] LOGIN Rate limit hit.",
            "At most 32 flags in one mailbox | Too many flags | The exchange rates limit is 5",
        )
    ],
    "vendor_codes.SNOWFLAKE_REFUSAL": [
        (
            "250001 (08001): Incorrect username or password was specified. | JWT token is invalid. | User access disabled.",
            "Could not connect to Snowflake backend | The username was specified | The token table is empty",
        )
    ],
    "vendor_codes.GRAPH": [
        (
            "Neo.TransientError.Transaction.Terminated | Neo.ClientError.Transaction.LockClientStopped",
            (
                "Neo.TransientError.Transaction.DeadlockDetected | Neo.ClientError.Transaction.TransactionTimedOut | "
                "Neo.ClientError.Statement.SyntaxError"
            ),
        ),
        (
            "Neo.ClientError.Security.AuthorizationExpired | Neo.TransientError.Security.AuthorizationExpired",
            (
                "Neo.ClientError.Security.TokenExpired | Neo.ClientError.Security.CredentialsExpired | "
                "Neo.ClientError.Security.Forbidden"
            ),
        ),
        (
            "Neo.ClientError.Security.AuthenticationRateLimit | Neo.ClientError.General.RateLimit",
            (
                "Neo.DatabaseError.Database.DatabaseLimitReached | Neo.TransientError.Transaction.MaximumTransactionLimitReached | "
                "Neo.ClientError.Security.Unauthorized"
            ),
        ),
        (
            "Neo.ClientError.Security.Unauthorized | Neo.ClientError.Security.Forbidden",
            (
                "Neo.TransientError.Security.AuthProviderTimeout | Neo.ClientError.Statement.AccessMode | "
                "Neo.TransientError.Security.ModifiedConcurrently"
            ),
        ),
        (
            "Neo.ClientError.Schema.ConstraintValidationFailed | Neo.ClientError.Schema.ConstraintViolation",
            (
                "Neo.ClientError.Schema.ConstraintNotFound | Neo.ClientError.Schema.ConstraintAlreadyExists | "
                "Neo.TransientError.Transaction.ConstraintsChanged"
            ),
        ),
        (
            "Neo.ClientError.Database.DatabaseNotFound | Neo.ClientError.Procedure.ProcedureNotFound",
            (
                "Neo.ClientError.Statement.EntityNotFound | Neo.ClientError.Transaction.TransactionNotFound | "
                "Neo.TransientError.Database.DatabaseUnavailable"
            ),
        ),
        (
            "Neo.TransientError.General.OutOfMemoryError | Neo.ClientError.Cluster.NotALeader",
            "Neo.ClientError.Cluster.Routing | Neo.DatabaseError.General.UnknownError | Neo.ClientError.Request.Invalid",
        ),
        (
            "Neo.ClientError.Statement.SyntaxError | Neo.ClientError.Request.Invalid",
            (
                "Neo.DatabaseError.Statement.ExecutionFailed | Neo.TransientError.Request.NoThreadsAvailable | "
                "Neo.ClientNotification.Statement.EagerOperatorWarning"
            ),
        ),
        (
            "Neo.DatabaseError.General.UnknownError | Neo.DatabaseError.Statement.ExecutionFailed",
            (
                "Neo.ClientError.Statement.SyntaxError | Neo.TransientError.Database.DatabaseUnavailable | "
                "Neo.ClientError.Database.DatabaseNotFound"
            ),
        ),
    ],
    "browser_errors._FAMILIES": [
        ("ERR_BLOCKED_BY_CLIENT | ERR_BLOCKED_BY_ORB", "ERR_BLOCKED | ERR_UNBLOCKED_BY_X | ERR_FAILED"),
        (
            "ERR_CONNECTION_RESET | ERR_CERT_DATE_INVALID | ERR_PROXY_CONNECTION_FAILED",
            "ERR_CACHE_MISS | ERR_CONNECTIONS | ERR_INVALID_URL",
        ),
        (
            "NS_ERROR_NET_RESET | NS_ERROR_CONNECTION_REFUSED",
            "NS_ERROR_MALFORMED_URI | NS_ERROR_NETX | NS_BINDING_ABORTED",
        ),
        (
            "SEC_ERROR_UNKNOWN_ISSUER | MOZILLA_PKIX_ERROR_SELF_SIGNED_CERT",
            "SECOND_ERROR_X | SSL_OK | PKIX_ERROR_SELF_SIGNED_CERT",
        ),
    ],
    "browser_errors._NAME": [
        (
            "Page.goto: net::ERR_CONNECTION_REFUSED at http://h/ | Page.goto: NS_ERROR_UNKNOWN_HOST | about:neterror?e=dnsNotFound&u=x",
            "ERR_INVALID_ARG_TYPE in node | the error NS_OK was ignored | see about:networking",
        )
    ],
    "reasons._ENDINGS": [
        ("modelnotfound | usernotfound", "notfoundpage | founded | modelfound"),
        ("interactiveloginrequired | loginrequired", "loginoptional | loginrequiredfield | login"),
        ("modelunavailable | regionunavailable", "available | unavailableuntil | availability"),
        ("modelnotready | notready", "ready | notreadyet | already"),
        ("hostnotresponding | notresponding", "responding | notrespondingtimes | response"),
        ("serviceisdown | isdown", "countdown | breakdown | isdownloaded"),
        ("jobqueuefull | queuefull", "queue | queuefullname | fullqueue"),
    ],
    "reasons._XML_FIELD": [
        (
            "<Error><Code>NoSuchKey</Code></Error> | <faultcode>soap:Server</faultcode>",
            "<Error>NoSuchKey</Error> | <Coder>Jane</Coder> | <Code>two words</Code>",
        )
    ],
    "reasons._JSON_FIELD": [
        (
            '{"error": {"code": "quota_exceeded", "mess | {"__type": "ThrottlingException"',
            '{"message": "quota_exceeded" | {"code": 403 | {"title": "two words"',
        )
    ],
    "codes.CODE_SHAPES": [
        (
            "ConcurrentRequestsLimitExceeded | ActiveQueriesExceeded",
            "NotConcurrentExceeded | ConcurrentModification | LimitExceededConcurrent",
        ),
        (
            "TableLimitExceeded | VolumeLimitExceeded",
            "RequestLimitExceeded | RateLimitExceeded | LimitExceeded",
        ),
        (
            "ThrottlingException | EC2Throttled | UserRateLimitExceeded",
            "NotAThrottlingError | ThrottleSettings | ThrottlingDisabled",
        ),
        ("QueueNotFoundException | TopicDoesNotExist", "NotFoundation | QueueFound | NotFoundHandler"),
        ("S3AccessDenied | ClientUnauthorizedException", "NotUnauthorized | AccessDeniedPage | NonAccessDenied"),
    ],
    "retry_after.WAIT_PATTERNS": [
        (
            '{"retry_after": 64.57} | retry-after: 30',
            "retry_after is missing | retry_count: 3 | retry-after: 1,800 seconds | retry after: 2 to 3 hours | retry_after: 60 (minutes)",
        ),
        ('{"backoff": 10} | {"backoff": 2.5}', 'backoff: 10 | exponential backoff of 10 | {"backoff": "none"}'),
        (
            "please try again in 46.72s | resets in 1h2m",
            "do not retry in 5 seconds | connection reset after 5 s | available in 5 colours",
        ),
        (
            "please wait 30 seconds | a wait of 37 seconds is required",
            "the wait was 30 seconds | wait for the bus | waited 5 minutes",
        ),
        ("retry after 26 | retry-after 3.5.", "retry after 3 attempts | never retry after 5 | retry after lunch"),
        (
            "try again at 2026-12-01t00:00:00z | it renews on 2026-12-01 | you will regain access on 2026-12-01 at 00:00 utc",
            "expired on 2026-12-01 | try again at noon | try again at 2026-12-01 18:30 pst | try again at 2026-12-01 06:30:00 pm",
        ),
    ],
    "retry_after._LIMIT_AND_REQUEST": [
        (
            "Limit 9000, Requested 16008 | limit: 9,000 / min, requested: 16,008",
            "Limit 9000, used 5 | Rate limit 60 reached (requested 61 this minute) | the limit was requested",
        )
    ],
    "rpc_status._TRANSPORT_PATTERN": [
        (
            "failed to connect to all addresses | Connection reset by peer | Socket closed",
            "the socket is open | connected to 10.0.0.1 | the transport is slow",
        )
    ],
    "libraries.amqp._NOT_ALLOWED": [
        (
            "NOT_ALLOWED - connection limit (10) is reached | too many channels",
            "NOT_ALLOWED - vhost x not found | unlimited access | limitation of liability",
        ),
        (
            "access to vhost 'x' refused for user 'guest' | access to exchange refused",
            "attempt to redeclare queue | accessible | connection refused",
        ),
    ],
    "libraries.botocore._S3_OPERATION": [
        ("GetObject | CreateMultipartUpload", "GetItem | DescribeTable | PutRecord"),
    ],
    "libraries.botocore._IN_PROGRESS": [
        (
            "An update is in progress for resource | Table is being created",
            "The progress is unknown | Table x does not exist | The function is in use",
        )
    ],
    "libraries.ftplib._DENIED": [
        (
            "550 Permission denied. | 550 Operation not permitted",
            "550 File not found. | 550 /denials/a: no such file | 550 Not a regular file",
        )
    ],
    "libraries.google._STATUS_IN_TEXT": [
        (
            "Unexpected response. Response status: 503 | Response status: 404",
            "status: 503 | Response status: 5030 | Response: 503",
        )
    ],
    "libraries.google._STATUS_IN_BODY": [
        (
            '{"error": {"status": "RESOURCE_EXHAUSTED"}} | "status": "NOT_FOUND"',
            '"status": "ok" | "status": 404 | "state": "NOT_FOUND"',
        )
    ],
    "libraries.mail._TOO_FAST": [
        (
            "4.7.0 rate limit exceeded | too many connections from your host",
            "the exchange rate is unknown | too many hops | temporary lookup failure",
        )
    ],
    "libraries.mail._TOO_BIG": [
        (
            "message size exceeds fixed limit | 5.3.4 message too big",
            "mailbox full | resized image rejected | too many recipients",
        )
    ],
    "libraries.paramiko._WORDS": [
        (
            "Server 'h' not found in known_hosts | No authentication methods available",
            "Server closed the connection | Authentication failed. | key exchange started",
        ),
        (
            "Error reading SSH protocol banner | SSH session not active | Timeout opening channel.",
            "Unknown host key for h | The session is active | Private key file is encrypted",
        ),
        (
            "Channel request rejected | Request for a pty was denied",
            "Connection refused | access denied | the host was rejected",
        ),
    ],
    "libraries.playwright._WORDS": [
        (
            "Executable doesn't exist at /a/chrome | Protocol error (Page.navigate): Cannot navigate to invalid URL",
            "the executable is running | Page crashed | the distribution is installed",
        ),
        (
            "strict mode violation: locator('a') resolved to 2 elements | 'a[' is not a valid selector",
            "Timeout 5000ms exceeded. | waiting for selector 'a' | the token was supported",
        ),
        (
            "Max redirect count exceeded | Page.goto: Download is starting",
            "redirect to /a | Download finished | decompressed 5 bytes",
        ),
        ("Page crashed | Target crashed", "Page closed | the page has loaded | Page reloaded after the crash test"),
        (
            "Execution context was destroyed | Frame was detached",
            "Execution finished | the frame is attached to the DOM | interrupted by the user",
        ),
        (
            "APIRequestContext.get: socket hang up | Target page, context or browser has been closed",
            'Timeout 5000ms exceeded. | the page is open | Unknown engine "x"',
        ),
    ],
    "libraries.playwright._STATUS": [
        (
            "APIRequestContext.get: 503 Service Unavailable | APIRequestContext.post: 404 Not Found",
            "Page.goto: 503 | APIRequestContext.get: 200 OK | see APIRequestContext.get: 503 x",
        )
    ],
    "libraries.playwright._NODE_ERRORS": [
        ("connect ECONNREFUSED 127.0.0.1:1 | getaddrinfo ENOTFOUND h", "ECONNREFUSEDX | ENOENT | connect refused"),
    ],
    "libraries.playwright._RETRY_AFTER": [
        ("  - retry-after: 30 |   - Retry-After: 5", "retry-after: 30 |   - retry: 5 |   - x-retry-after-x"),
    ],
    "libraries.playwright._CREDENTIALS": [
        ("  - authorization: Bearer x |   - Cookie: a=b", "authorization: x |   - set-cookie: a=b |   - accept: x"),
    ],
    "libraries.psycopg._CONNECTING": [
        (
            'password authentication failed for user "a" | fe_sendauth: no password supplied',
            "authentication took 5 s | Connection refused | the password was supplied",
        ),
        (
            'role "a" does not exist | role "a" is not permitted to log in',
            'relation "a" does not exist | role a exists | the role of "a"',
        ),
        (
            'database "a" does not exist | no such database: a',
            'table "a" does not exist | database "a" is open | no such table: a',
        ),
        (
            "unsupported startup parameter: x | server does not support SSL, but SSL was required",
            "the parameter was changed | SSL connection closed | server does not respond",
        ),
        (
            'root certificate file "/a" does not exist | root certificate file "b.crt" does not exist',
            'certificate file "a" has expired | root certificate is trusted | file "a" does not exist',
        ),
        (
            "sorry, too many clients already | remaining connection slots are reserved",
            "many clients | the slots are open | connection refused",
        ),
        (
            "the database system is starting up | the database system is not yet accepting connections",
            "the database system is ready | the system is starting up | database is shut",
        ),
        (
            'invalid connection option "x" | missing "=" after "x" in connection info string',
            "invalid input syntax | connection options are read | invalid port",
        ),
    ],
    "libraries.redis._TEXT_PATTERNS": [
        (
            "ERR max number of clients reached | max number of clients + cluster",
            "ERR max value | clients: 5 | number of args",
        ),
        (
            "ERR max daily request limit exceeded. Limit: 500 | max monthly request limit exceeded",
            "max requests | daily report | request limit: 5",
        ),
        (
            "ERR Background save already in progress | Failover in progress",
            "ERR progress | save finished | transaction in progress",
        ),
        (
            "ERR This instance has cluster support disabled | ERR DB index is out of range",
            "ERR index out of range | cluster is enabled | ERR value is out of range",
        ),
        (
            "ERR operation not permitted | ERR Client sent AUTH, but no password is set",
            "ERR operation timed out | the password is set | ERR syntax error",
        ),
        ("ERR no such key | ERR no such user", "ERR no such command | ERR unknown user flag | ERR key too long"),
    ],
    "libraries.selenium._LOST": [
        (
            "tab crashed | Chrome failed to start: exited abnormally",
            "tab opened | the crash report was sent | page loaded",
        ),
        (
            "chrome not reachable | unable to connect to renderer | Timed out receiving message",
            "the page is reachable | connected | element not found",
        ),
        (
            "Service /a unexpectedly exited. | Unable to obtain driver for chrome | cannot find Chrome binary",
            "cannot find element | the service exited | unable to click",
        ),
    ],
    "libraries.selenium._NO_SESSION": [
        (
            "New session request timed out | no free slots | the node is busy",
            "session deleted | a busybox image | chrome version must be 120",
        ),
        (
            "Chrome failed to start | DevToolsActivePort file doesn't exist",
            "chrome version must be 120 | started | the file exists",
        ),
    ],
    "libraries.sqlite3._STATEMENT": [
        ("no such table: t | unknown database x", "no such savepoint: s | the table exists | database is locked"),
        ("malformed json | integer overflow", 'the json is fine | stack overflow | near "x": syntax error'),
        ('near "x": syntax error | too many sql variables', "no such table: t | disk i/o error | integer overflow"),
    ],
    "libraries.yt_dlp.PHRASES": [
        ("[Errno 28] no space left on device | disk quota exceeded", "no space in the name | quota | a disk image"),
        (
            "sign in to confirm you're not a bot | rate-limited by youtube",
            "a video about bots | the rate is 5 | not available",
        ),
        (
            "premieres in 5 hours | this live event will begin in 2 hours | we are processing this video",
            "the premiere was yesterday | a live event | process finished",
        ),
        (
            "the uploader has not made this video available in your country | geo-restricted",
            "a video about your country house | available | the country of origin",
        ),
        (
            "private video | this video has been removed by the uploader | video unavailable",
            "a private channel | remove the video from the list | available video formats",
        ),
        (
            "sign in to confirm your age | this video requires a subscription | login required",
            "the age of ice | a subscription box | login page changed",
        ),
        (
            "ffmpeg not found. please install | ffprobe is not installed",
            "ffmpeg found | not found | ffmpeg exited with code 1",
        ),
        (
            "requested format is not available | unsupported url: http://h/",
            "available formats | the url is supported | format 5 downloaded",
        ),
    ],
    "quota.SHORT": [
        (
            "limit of 20 requests per minute | 500 rpm | requestspersecond | please try again in 20s",
            "the monthly quota of developer hours | limit of 1000 requests per day | you have used all credits",
        )
    ],
    "vendor_codes._ENHANCED_STATUS": [("5.7.1 blocked | 4.2.0 Greylisted", "3.7.1 x | 5.7 x | version v6.1.0")],
}

# By family, in the order of `TEXT_CODES`: texts in which a code must be found, texts in which it must not.
CODES: list[tuple[str, str, str]] = [
    ("Oracle", "ORA-00054: busy | ORA-12541: TNS:no listener", "ORA-99999: x | AURORA-00054 | ORA-1: x"),
    ("Oracle", "DPY-6005: cannot connect | DPY-4011: closed", "DPY-9999: x | SPDPY-6005 | DPY-1: x"),
    (
        "SQL Server",
        "Msg 2627, Level 14, State 1 | Msg 1205, Level 13, State 51",
        "Msg 2627 was sent | 5 Msg 1, Level 2 | Msg 99999, Level 1",
    ),
    (
        "SQL Server",
        "[SQL Server]Denied (229) (SQLExecDirectW) | [SQL Server]Deadlock. (1205) (SQLExecDirectW)",
        "[SQL Server]Denied (229) | [SQL Server] 229 (SQL) | [SQL Server]x (99999) (SQL",
    ),
    (
        "DB2",
        "SQL0911N  The current transaction | DB2 SQL Error: SQLCODE=-803, SQLSTATE=23505",
        "SQL0911W a warning | SQLCODE=100 | MSSQL0911N",
    ),
    (
        "ClickHouse",
        "Code: 60. DB::Exception: Table x | DB::Exception: code: 202, too many",
        "DB::Exception without a number | Code: 8888. DB::Exception | Barcode: 60. DB::Exception",
    ),
    (
        "MySQL",
        "ERROR 1062 (23000): Duplicate | ERROR 1045 (28000): Access denied",
        "ERROR 1062 rows | ERROR 9999 (HY000) | ERROR 10620 (23000)",
    ),
    (
        "Snowflake",
        "002003 (42S02): Object | 000625 (57014): Statement has locked table",
        "order 002003 (42S02) | 2003 (42S02) | 999999 (None): x",
    ),
    (
        "SQLSTATE",
        "failed, SQLSTATE: 28P01 | SQLSTATE[40001]: Serialization failure",
        "SQLSTATE[HY000]: General error | SQLSTATE is set | the SQLSTATE 42 column",
    ),
    (
        "Neo4j",
        "{code: Neo.ClientError.Security.Unauthorized} | Neo.TransientError.Transaction.Outdated",
        "Neo.Matrix | Neo.ClientNotification.Statement.EagerOperatorWarning | neo.ClientError.Security.Unauthorized",
    ),
    (
        "query engine",
        "TrinoUserError(type=USER_ERROR, name=SYNTAX_ERROR, m) | x(type=EXTERNAL, name=HIVE_ERROR, m)",
        "type=UNKNOWN, name=UNKNOWN | name=SYNTAX_ERROR | type=user, name=jane",
    ),
    (
        "search engine",
        "(429, 'es_rejected_execution_exception') | index_not_found_exception",
        "my_own_exception | INDEX_NOT_FOUND_EXCEPTION | index_not_found_exceptions",
    ),
    (
        "AMQP",
        "ACCESS_REFUSED - Login was refused | (404, NOT_FOUND - no queue 'q')",
        "NOT_FOUND: no queue | HELLO_WORLD - x | not_found - x",
    ),
    ("NATS", "nats: timeout | nats: 'Authorization Violation'", "nats: key was deleted | my nats: timeout | timeout"),
    (
        "gRPC",
        "status = StatusCode.UNAVAILABLE | status_code: <StatusCode.NOT_FOUND",
        "StatusCode.UNAVAILABLE | status = StatusCode.WHATEVER | estatus = StatusCode.UNAVAILABLE",
    ),
    (
        "WebSocket",
        "Shard ID None WebSocket closed with 4004 | Shard ID 1 WebSocket closed with 4014",
        "WebSocket closed with 1006 | closed with 4004 files | WebSocket closed with 40040",
    ),
    ("curl", "curl: (6) Could not resolve | x, curl: (28) Timeout", "curl: (999) x | libcurl: (6) x | curl: 6"),
    ("curl", "curlCode: 28, Timeout was reached | x curlCode: 6", "curlCode: 999 | libcurlCode: 6 | curlCode 6"),
    (
        "AWS",
        "AWS Error SLOW_DOWN during HeadObject operation | AWS Error ACCESS_DENIED during PutObject operation",
        "AWS Error UNKNOWN during x | MY_AWS Error SLOW_DOWN | AWS Error Slow down",
    ),
    (
        "AWS",
        "An error occurred (Throttling) when calling the X operation | An error occurred (AccessDenied) when calling x",
        "An error occurred (x) when calling y | An error occurred (Throttling) | An error occurred (in a) when calling",
    ),
    (
        "JSON-RPC",
        "{'code': -32005, 'message': 'request rate exceeded'} | {\"code\": -32603}",
        "{'code': -32000} | code -32005 | {'mycode': -32005}",
    ),
    (
        "mail reply",
        "450 4.2.0 Greylisted | (550, '5.1.1 User unknown')",
        "550 4.1.1 x | version 450 of 4.2 | 10.450 4.2.0",
    ),
]

# Functions with patterns inside: whether a text matches, texts that must match, texts that must not.
FUNCTIONS: dict[str, tuple[Callable[[str], object], str, str]] = {
    "vendor_codes._mailbox": (
        lambda text: vendor_codes._mailbox(ValueError(), text),
        "NO [UNAVAILABLE] Temporary failure | b'[AUTHENTICATIONFAILED] Invalid credentials'",
        "OK [UNAVAILABLE] x | the server said [UNAVAILABLE] | NO [WHATEVER] x",
    ),
    "vendor_codes._ldap": (
        lambda text: vendor_codes._ldap(ValueError(), text),
        "bind not successful - invalidCredentials | noSuchObject: dc=x",
        "invalid credentials | myinvalidCredentials | the server is busy",
    ),
    "vendor_codes._odbc_sqlstate": (
        lambda text: vendor_codes._odbc_sqlstate(ValueError(*text.split("; "))),
        "40001; [40001] [ACME] x | 28000; [28000] login",
        "40001; x | HY000; [HY000] x | 4000; [4000] x",
    ),
    "rpc_status._judge_exhausted": (
        lambda text: rpc._judge_exhausted(text, C.UNKNOWN, has_delay=False) is C.INVALID_PARAMETERS,
        "Received message larger than max (5 vs. 4) | metadata size exceeds soft limit",
        "quota exceeded | the message is large | metadata of size 5",
    ),
    "rpc_status.judge_limit": (
        lambda text: rpc.judge_limit(text, C.UNKNOWN) is not C.UNKNOWN,
        "quota 'requests per day' | limit of 5 per minute | exceeded your current quota",
        "quota of the project | the limit is 5 | a daily report",
    ),
    "rpc_status.read_rpc": (
        lambda text: rpc.read_rpc("UNKNOWN", text).http_status,
        "Received http2 header with status: 503 | received http2 header with status: 404",
        "received http2 header | status: 503 | received http2 header with status: 200",
    ),
    "rpc_status._judge_transport_status": (
        lambda text: rpc._judge_transport_status(C.UNKNOWN, text, has_delay=False) is not C.UNKNOWN,
        (
            "Getting metadata from plugin failed with error: invalid_grant | Exception deserializing response! | "
            "Failed to serialize request"
        ),
        "invalid_grant | the parser is ready | serialized 5 rows",
    ),
    "heuristics.stands_for_status": (
        heuristics.stands_for_status,
        "InternalServerError | RateLimitExceeded | BadGatewayException",
        "SQLServerError | RateError | GatewayNotFound",
    ),
    "codes.read_proxy_status": (
        lambda text: codes.read_proxy_status(OSError(text), "Tunnel connection failed: "),
        "Tunnel connection failed: 503 Service Unavailable | Tunnel connection failed: 407",
        "Tunnel connection failed: 200 OK | Tunnel connection failed: 5031 | Tunnel connection failed: refused",
    ),
    "libraries.urllib3.read_response_error": (
        lambda text: getattr(urllib3.read_response_error(ValueError(text)), "http_status", None),
        "too many 503 error responses | too many 429 error responses",
        "too many error responses | too many 503 error responses today | two many 503 error responses",
    ),
}

# Patterns with texts in the two other files; parts of larger patterns; shapes of names, fields, headers and URLs,
# which read no sentences and have tests of their own.
_ELSEWHERE = """
    data_errors.CLASS_NAMES data_errors.DATA_TEXTS quota.CERTAIN quota.UNLESS_SHORT quota.PLAIN texts.PHRASES
    texts.STATUS_PATTERNS texts._NOT_AN_AMOUNT data_errors._KINDS data_errors._NOUNS quota._PERIOD quota._EACH
    quota._LIMIT quota._OVER statuses.REFUSAL statuses.RATE_LIMIT statuses.CREDENTIALS statuses.CONCURRENT_WRITES heuristics.CLASS_NAME_PATTERNS
    quota._SHORT_WAIT retry_after._MORE retry_after._ZONE_NAMES
    libraries.sqlite3._ABOUT_THE_TEXT libraries.yt_dlp._NOT_YET libraries.yt_dlp._ELSEWHERE
    libraries.yt_dlp._NOT_FOR_US libraries.yt_dlp._SIGN_IN retry_after._DURATION retry_after._KEY retry_after._ITEM
    retry_after._MEMBER retry_after._PARAMETER retry_after._SPAN vendor_codes._oracle vendor_codes._sqlstate
    vendor_codes._snowflake vendor_codes._query_engine vendor_codes._graph vendor_codes._search_engine
    vendor_codes._broker vendor_codes._mail vendor_codes._aws vendor_codes.TEXT_CODES reasons._NOT_A_NAME
    reasons.reason_name reasons.category_of_reason rpc_status._json_seconds retry_after._relative_seconds rules.Rule
    safe_access._URL_WITH_SECRET libraries.redis._CODE libraries.redis._PIPELINE libraries.amqp._CLOSED_WHILE_OPENING
    vendor_codes._NAME_PARTS vendor_codes._NAME_AFFIXES libraries.requests.DAEMON texts._ADDRESS texts._ANY_STATUS
"""
ELSEWHERE = frozenset(_ELSEWHERE.split())


def patterns_of(name: str) -> list[str]:
    """Return the patterns of a table, or the pattern, with this name."""
    module, _, variable = name.rpartition(".")
    table = getattr(import_module(f"outlast.classify.{module}"), variable)
    if isinstance(table, str | re.Pattern):
        return [table.pattern if isinstance(table, re.Pattern) else table]
    if isinstance(table, dict):
        return [value if isinstance(value, str) else key for key, value in table.items()]
    return [next(each for each in row if not isinstance(each, C)) for row in table]


def check(matches: Callable[[str], object], positive: str, negative: str) -> None:
    right, wrong = set(positive.split(" | ")), set(negative.split(" | "))
    assert len(right) >= 2
    assert len(wrong) >= 3
    assert [text for text in right if not matches(text)] == []
    assert [text for text in wrong if matches(text)] == []


MATCHES = {"browser_errors._FAMILIES": re.fullmatch, "vendor_codes._ENHANCED_STATUS": re.match}
IGNORING_CASE = {
    "vendor_codes.MQTT_TEXTS",
    "vendor_codes.NATS",
    "vendor_codes.MAILBOX_TEXTS",
    "retry_after._LIMIT_AND_REQUEST",
}
IGNORING_CASE |= {"rpc_status._TRANSPORT_PATTERN", "libraries.redis._TEXT_PATTERNS"}


@pytest.mark.parametrize("name", TEXTS)
def test_patterns(name: str) -> None:
    module, _, variable = name.rpartition(".")
    table = getattr(import_module(f"outlast.classify.{module}"), variable)
    flags = table.flags if isinstance(table, re.Pattern) else re.IGNORECASE if name in IGNORING_CASE else 0
    search = MATCHES.get(name, re.search)
    for pattern, (positive, negative) in zip(patterns_of(name), TEXTS[name], strict=True):
        regex = f"{pattern}$" if name == "reasons._ENDINGS" else pattern
        check(lambda text, regex=regex: search(regex, text, flags), positive, negative)


def test_codes_in_texts() -> None:
    for (needle, family, _, read), (name, positive, negative) in zip(vendor_codes.TEXT_CODES, CODES, strict=True):
        assert family == name
        check(lambda text, needle=needle, read=read: needle in text and read(text), positive, negative)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    check(*FUNCTIONS[name])


REGEX = re.compile(r"(?<![\w\"'])(?:r|rf|fr)[\"']|\bre\.(?:compile|search|(?:full)?match|find\w+|split|sub)\([\"']")
COMPILED_HERE = {"texts", "quota", "data_errors"}  # their functions only compile the tables


def statements_with_patterns() -> set[str]:
    """Return module and name of each top-level statement of `outlast.classify` with a regular expression in it."""
    root = Path(outlast.classify.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        source = path.read_text()
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for statement in ast.parse(source).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    pass
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if module not in COMPILED_HERE:
                    pass
                case _:
                    continue
            if REGEX.search(ast.get_source_segment(source, statement) or ""):
                found.add(f"{module}.{name}")
    return found


def test_every_pattern_has_texts() -> None:
    assert sorted(statements_with_patterns() - {*TEXTS, *FUNCTIONS, *ELSEWHERE}) == []
