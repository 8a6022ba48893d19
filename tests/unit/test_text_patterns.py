"""Every pattern for texts matches what it is for, and not sentences about something else."""

import re

import pytest

from outlast import Category as C
from outlast.classify import statuses, texts
from outlast.classify.heuristics import CLASS_NAME_PATTERNS
from outlast.patterns import has_word

# By category, in the order of the patterns: texts that must match, texts that must not.
PHRASES: dict[C, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {
    C.AUTHENTICATION: [
        (
            ('password authentication failed for user "bob"', "Auth failed", "401 Unauthorized"),
            ("Temporary authentication failure", "authentication is disabled", "the authorized user list"),
        ),
        (
            ("The login failed.", "Access denied for user 'bob'@'localhost'", "Login was refused using PLAIN"),
            ("the login page has changed", "plugin failed", "access denied for the whole network"),
        ),
        (
            ("Invalid username or password", "wrong login/password", "invalid username-password pair"),
            ("username or password reset", "username and password are optional", "bad user and good password"),
        ),
        (
            ("Invalid API key", "auth token expired", "The password you entered is not correct"),
            (
                "invalid passwordless option",
                "invalid token at line 3",
                "(invalid token): line 1",
                "password length is 12",
            ),
        ),
        (
            ("Host key is not trusted for host h", 'no pg_hba.conf entry for host "h"', "JWT expired"),
            ("the host key was added", "pg_hba.conf reloaded", "invalid_grants table"),
        ),
        (
            ("You must be logged in", "unable to authenticate"),
            ("the error was logged in file a.log", "user bob logged in", "not logged"),
        ),
        (
            ("bad signature", "missing API key"),
            ("missing keyboard", "a login was bad", "the signature is fine"),
        ),
        (
            ("The session has expired", "request signature does not match"),
            ("session 5 started", "the method signature does not match", "sessions expired at noon"),
        ),
        (
            ("Login required", "Sign in to confirm your age"),
            ("the login page", "required fields: sign", "authorization header parsed"),
        ),
        (("認証に失敗しました", "認証が必要です"), ("認証済み", "認証の設定", "承認に失敗")),
        (("ログインが必要です", "ログインに失敗しました"), ("ログインしました", "ログイン画面", "ログの保存に失敗")),
        (
            ("トークンが無効です", "パスワードが間違っています"),
            ("トークンを取得", "パスワードを入力", "キーが無効"),
        ),
    ],
    C.ACCESS_DENIED: [
        (
            ("Access denied", "permission denied on object t", "You do not have the required permission"),
            ("forbidden character in the name", "access log rotated", "permission was granted"),
        ),
        (
            ("アクセスが拒否されました", "アクセスは禁止です"),
            ("アクセスが集中", "アクセスログ", "接続が拒否"),
        ),
        (("権限がありません", "権限が不足しています"), ("権限を付与", "権限があります", "期限がない")),
    ],
    C.CONFIGURATION: [
        (
            ("Invalid URL 'x'", "unsupported protocol: gopher"),
            ("invalid url parameter", "the url is fine", "no urls were left"),
        ),
        (
            ("malformed DSN", "unknown url type: 'x'"),
            ("endpoint returned nothing", "invalid endpoints count", "unknown schemes of colour"),
        ),
        (
            (
                "environment variable DATABASE_URL is not set",
                "credentials are missing",
                "the api_key option must be set",
            ),
            ("the setting was saved", "configuration loaded", "the environment is missing trees"),
        ),
        (
            ("Protocol not known: gopher", "scheme 'ftpx' is not supported"),
            ("a colour scheme", "the protocol is known to the printer", "protocols unknown"),
        ),
        (
            ("attempt to write a readonly database", "unable to open database file"),
            ("a read-only database user", "unable to open the door", "the database file is open"),
        ),
        (
            ("Module 'foo' not found", "command not found", "No module named 'x'", "Data source name not found"),
            ("the library opened", "driver's licence 7 expired", "page 5 of the plugin list"),
        ),
        (
            ("No matching encryption algorithm found", "Unsupported SSH version"),
            ("no matching rows found", "matching host keys found", "supported SSH version"),
        ),
        (
            ("No API key was provided.", "no api_key found"),
            ("an API key was provided", "no keys were provided", "no API keyword"),
        ),
        (
            ("Could not find a suitable TLS CA certificate bundle", "must specify one of the following schemes: a, b"),
            ("could not find a suitable seat", "the TLS CA certificate is fine", "specify one of the schemes"),
        ),
        (
            ("Unable to locate credentials", 'relation "x" does not exist'),
            ("the relation exists", "configured", "unable to locate the file"),
        ),
        (
            ("Unknown database 'shop'", 'Cannot open database "shop" requested by the login.'),
            ("unknown database error", "the database exists", "the database is open"),
        ),
        (("設定が不正です", "設定ファイルが見つかりません"), ("設定を保存", "設定しました", "想定が不正")),
        (
            ("環境変数が未設定です", "APIキーが設定されていません"),
            ("環境変数を読む", "APIキーを発行", "変数が未設定"),
        ),
    ],
    C.NOT_FOUND: [
        (
            ("Repository 'a/b' not found", "GetMetadataError('path', LookupError('not_found', None))"),
            (
                "Domain name not found",
                "Start tag expected, '<' not found",
                "Parquet magic bytes not found in footer",
                "command not found",
            ),
        ),
        (
            ("The bucket does not exist", "This item is no longer available"),
            ("the parameter does not exist", "the option doesn't exist", "it does exist"),
        ),
        (
            ("The report cannot be found", "item 5 could not be found"),
            ("the server could not be found", "it can be found in the manual", "to be founded"),
        ),
        (
            ("No such file or directory", "no such key: a", "no such customer: 'cus_1'"),
            ("no such luck", "no such filename extension", "there is such a file"),
        ),
        (
            ("No files found that match the pattern", "no matching file was found"),
            ("no filesystem found", "5 files found", "no file was foundered"),
        ),
        (
            ("The post has been deleted", "Private video"),
            ("the parameter was removed", "support was removed in version 3", "3 rows were deleted"),
        ),
        (
            ("NoSuchKey", "error NoSuchBucket"),
            ("nosuchkeys", "mynosuchkey", "such a bucket"),
        ),
        (
            ("ページが見つかりません", "ファイルは存在しません"),
            ("見つかりました", "存在します", "削除してください"),
        ),
    ],
    C.INVALID_PARAMETERS: [
        (
            ("Invalid parameter: a", "unknown field 'x'"),
            ("the parameter is fine", "bad weather", "invalid fieldset"),
        ),
        (
            ("field 'name' is required", "the argument x is invalid"),
            ("the field is green", "inputs were read", "the playing fieldwork is required"),
        ),
        (
            ("Invalid expression", "invalid bucket name a", "malformed query"),
            ("invalid host name", "invalid name resolution", "the query is valid"),
        ),
        (
            ('syntax error at or near "SELEC"', 'near "SELEC": syntax error', "You have an error in your SQL syntax"),
            ("a syntax error in page.html", "the SQL was near", "syntax highlighting"),
        ),
        (
            ("Object of type datetime is not JSON serializable", "can not serialize 'Decimal' object"),
            ("could not serialize access due to concurrent update", "serializable isolation", "serialized object"),
        ),
        (
            ("This model's maximum context length is 8192 tokens", "context window exceeded"),
            ("the context is long", "maximum length", "context lengths of wires"),
        ),
        (
            ("required field name", "argument missing"),
            ("required reading", "arguments about money", "the field invalidated the cache"),
        ),
        (
            ("Parameter 'zone' not found", "option x does not exist"),
            ("the parameter was found", "the optional page not found", "user 7 not found"),
        ),
        (
            ("timeout must be > 0", "Parameter 'id' must be a positive number"),
            ("timeout of 5 s", "it must be positively Monday", "the value may be between"),
        ),
        (
            ("connection pool size must be 5", "rate limit cannot be negative"),
            ("rate limit exceeded", "the pool should be cleaned", "timeout after 5 s"),
        ),
        (
            ("object too large for cache", "Request Entity Too Large"),
            ("the delay is too long", "too large a crowd", "a file with a big name"),
        ),
        (
            ("maximum payload exceeded", "validation failed"),
            ("maximum speed exceeded", "validation passed", "the method is allowed"),
        ),
        (("不正なパラメータです", "無効な値"), ("正しいパラメータ", "不正アクセス", "無効化しました")),
        (("引数が不正です", "パラメータが足りません"), ("引数を渡す", "パラメータの一覧", "残高が不足")),
        (("必須項目です", "必須パラメータ"), ("任意項目", "必須ではない", "項目を確認")),
    ],
    C.INTEGRITY: [
        (
            ("UNIQUE constraint failed: t.a", "Duplicate entry '5' for key 'a'"),
            (
                "no unique or exclusion constraint matching the ON CONFLICT specification",
                "a unique constrained type",
                "duplicate code was found",
            ),
        ),
        (
            ("constraint violation", "CHECK constraint failed"),
            ("constraint added", "time constraints failed us", "the constraint was not violated"),
        ),
        (
            ("Merge keys are not unique in either dataset", "column name is not unique"),
            ("every shop is unique", "uniqueness of keys", "the author is not unique in this"),
        ),
        (("一意制約に違反", "重複キーです"), ("制約はありません", "重複を除く", "一意の値")),
    ],
    C.DATA: [
        (
            ("Invalid JSON in line 4", "corrupted data", "response is not valid JSON"),
            ("valid json", "invalid database name", "unexpected responses of users"),
        ),
        (
            ("JSON decode error", "could not parse the page"),
            ("the json was parsed", "not well-known", "cannot decoderate"),
        ),
        (
            ("checksum mismatch", "Expecting value: line 1 column 1 (char 0)"),
            ("the checksum is right", "expecting values of 5", "unexpected end of the world"),
        ),
        (("解析に失敗しました", "不正な形式です"), ("解析しました", "正しい形式", "失敗しました")),
    ],
    C.RATE_LIMIT: [
        (
            ("Rate limit exceeded", "You are being rate limited."),
            (
                "upgrade to a Production key with higher rate limits",
                "the exchange rate limit was 1.2",
                "rate limiting is disabled",
            ),
        ),
        (
            ("You have exceeded our rate limits", "blocked by rate limits"),
            ("see the page on rate limits", "higher rate limits are available", "exchange rate limits"),
        ),
        (
            ("Too many requests", "request was throttled"),
            ("throttling is disabled", "throttling settings", "many requests"),
        ),
        (
            ("SlowDown", "request limit exceeded", "Calls per second limit exceeded"),
            ("5 calls per second", "a slowdowntime", "speed limit exceeded", "the bot slowed down"),
        ),
        (("レート制限", "リクエストが多すぎます"), ("レートを確認", "リクエストを送信", "アクセスが拒否")),
    ],
    C.DATABASE_BUSY: [
        (
            ("database is locked", "Lock request time out period exceeded."),
            ("the database is open", "the door is locked", "lock timeout must be positive"),
        ),
        (
            ("could not serialize access", "too many connections", "canceled due to conflict with recovery"),
            ("could not serialise", "a merge conflict", "statement of timeouts"),
        ),
        (
            (
                "failed to acquire the write lock",
                "Could not set lock on file 'a.db'",
                "TransactionContext: Conflict on update!",
            ),
            ("conflict on update policy", "unable to get lock file name", "could not obtain a locksmith"),
        ),
        (
            ("connection pool exhausted", "the database system is starting up"),
            ("the swimming pool is full", "connection slots: 5", "the system is starting up"),
        ),
        (("デッドロックが発生", "データベースがロック"), ("ロックを解除", "データベースを開く", "接続数を表示")),
    ],
    C.SYSTEM: [
        (
            ("No space left on device", "out of memory", "java.lang.OutOfMemoryError: Java heap space"),
            ("no space between words", "disk full check passed", "many open files"),
        ),
        (
            ("not enough memory", "Read-only file system"),
            ("not enough players", "memory of 5 GB", "a read-only file"),
        ),
        (("容量が不足しています", "ディスクがいっぱいです"), ("容量を確認", "ディスクを交換", "人手が不足")),
    ],
    C.API_TEMPORARY: [
        (
            ("The service is temporarily unavailable", "temporarily unable to service your request"),
            ("Temporary failure in name resolution", "this is not a temporary error", "the service is available"),
        ),
        (
            ("Internal Server Error", "Server error: try later", "The server encountered an internal error"),
            ("Microsoft SQL Server error 208", "Report Server Error log", "unknown server error policy 'ignore'"),
        ),
        (
            ("502 Bad Gateway", "The model is overloaded", "backend fetch failed", "not supported in state standby"),
            ("no matching overloaded function", "overloaded method f", "the gateway is bad"),
        ),
        (
            ("Please try again later", "please retry your request", "try again in 5 minutes"),
            ("Correct the errors and try again later", "Wrong PIN, try again", "Do not retry the request"),
        ),
        (
            ("An unexpected error occurred. Please try again.", "wait a minute and try again"),
            ("The code is wrong. Please try again.", "an error went unnoticed", "wait and see"),
        ),
        (
            (
                *("No cluster leader", "leader is not available", "no healthy upstream", "not enough in-sync replicas"),
                *(
                    "This server is not the leader for that topic-partition",
                    "etcdserver: leader changed",
                    "no primary available for writes",
                ),
            ),
            ("no leader was named", "she is not the leader of the team", "enough replicas", "no primary key"),
        ),
        (
            ("maximum connections exceeded", "No nodes available to run query"),
            ("the maximum was exceeded", "no seats available", "5 nodes available"),
        ),
        (
            (
                *("The server is busy", "a temporary problem", "The server is currently unable to handle the request"),
                *("Model m is currently loading", "the node is still starting up"),
            ),
            (
                *(
                    "the line is busy",
                    "a temporary table",
                    "it is not a temporary problem",
                    "unable to handle type int",
                ),
                *("currently loading 5 rows", "loading the file failed"),
            ),
        ),
        (
            ("メンテナンス中です", "サーバーエラー"),
            ("メンテナンスの予定", "サーバーを起動", "一時的なファイル"),
        ),
    ],
    C.NETWORK: [
        (
            ("The operation timed out", "Login timeout expired", "Timeout was reached", "aborted due to timeout"),
            ("session timeout expired", "the timeout is 5", "timeout=30", "invalid due to timeout setting"),
        ),
        (
            ("read timeout", "Request timeout"),
            ("connect timeout must be set", "the read timeout value", "a spread timeout"),
        ),
        (
            ("Timeout", "fetch failed: timeout"),
            ("Timeout value", "no timeout here", "timeouts"),
        ),
        (
            ("context deadline exceeded", "lookup db: no such host"),
            ("the deadline is Monday", "no such hostess", "the listener is there"),
        ),
        (
            ("x509: certificate signed by unknown authority", "certificate verify failed"),
            ("the certificate is valid", "a gift certificate", "verify the certificates"),
        ),
        (
            ("network error", "a network problem occurred"),
            ("network errors are counted", "neural network error is 0.3", "network of 5 nodes"),
        ),
        (
            ("No response received after 3 retries", "no reply from 10.0.0.1"),
            ("no response body", "no answers received", "no reply address"),
        ),
        (
            ("Connection refused", "connection was closed"),
            ("connection closed normally", "connection string error in DSN", "a connecting flight was lost"),
        ),
        (
            ("connection to server at 'h' (10.0.0.1) refused", "connection to db lost", "connection to … refused"),
            ("connection to the past", "reset the connection to factory", "connections to h closed"),
        ),
        (
            ("read ECONNRESET", "net::ERR_CONNECTION_REFUSED"),
            ("econnresets", "err_invalid_arg", "epipes"),
        ),
        (
            (
                *("could not connect to server", "Broken pipe", "Lost connection to MySQL server"),
                *("Client disconnected", "Can't contact LDAP server", "Could not reach host db.internal"),
                "terminating connection due to administrator command",
            ),
            (
                *("could not connectedly", "a pipe", "client disconnected: false is not a bool"),
                *("could not reach consensus", "cannot contact the owner of the database"),
            ),
        ),
        (
            ("Network is unreachable", "MySQL server has gone away"),
            ("the network is fine", "gone for lunch", "the countdown of the host"),
        ),
        (
            ("curl: (6) Could not resolve host: h", "Failed to resolve 'db.example.com'"),
            (
                "Could not resolve to a Repository with the name",
                "could not resolve the conflict",
                "cannot resolve symbol x",
            ),
        ),
        (
            ("Host not found", "DNS lookup failed", "Domain name not found"),
            ("Email address not found", "the name was not found", "an unknown hostel"),
        ),
        (
            ("SSL handshake failed", "Remote end closed connection", "IncompleteRead(0 bytes read)"),
            ("the ssl setting", "the remote end of the world", "a complete read"),
        ),
        (
            ("タイムアウトしました", "接続が拒否されました"),
            ("タイムアウトの設定", "接続しました", "通信中"),
        ),
    ],
}

STATUSES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (
        ("HTTP 503", "status code: 404"),
        ("exit code 500", "error 500 USD was charged", "http://h/404"),
    ),
    (("failed with 404", "failed: 503"), ("failed: 500 rows", "failed with 4040", "failed 404 times")),
    (("503エラー", "404 エラー"), ("1503エラー", "503件", "エラーなし")),
    (
        ("upstream returned 503", "got 502 from h"),
        ("returned 404 rows", "got 500 dollars", "received 5000"),
    ),
    (
        ("503 Service Unavailable", "429 too many requests"),
        (
            *("404 pages", "port 5030 not found", "v4.404 not found", "row 429: too many columns"),
            *("Order 503 not found", "Invoice 429: too many line items"),
        ),
    ),
    (("404", " 503 "), ("404 x", "4040", "303")),
]

REASONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    statuses.RATE_LIMIT: (
        ("You have exceeded a secondary rate limit", "Too Many Requests"),
        ("a key with higher rate limits", "see the page on rate limits", "the exchange rate is limited"),
    ),
    statuses.CONCURRENT_WRITES: (
        ("Conflict occurred while saving. Please try again.", "Another request is running; retry later"),
        ("Conflict: the name is taken. Try again with another one.", "Please try again", "the row has a conflict"),
    ),
    statuses.CREDENTIALS: (
        ("Resource not accessible by personal access token", "insufficient_scope"),
        ("Forbidden", "the key of the map", "you are not welcome"),
    ),
}

NAMES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (
        ("InvalidTimeoutError", "ConnectionSettings", "NegativeTimeoutError"),
        ("ConnectTimeout", "BadGatewayTimeoutError", "UnknownConnectionError"),
    ),
    (("QuotaExceeded", "PaymentRequired"), ("QuotaReader", "PaymentReceived", "Quotation")),
    (
        ("LoginFailure", "CredentialUnavailableError", "WrongPasswordConnectionError"),
        ("AuthorNotFound", "SignatureReader", "TokenizerError"),
    ),
    (("Forbidden", "UnavailableForLegalReasons"), ("AccessLog", "PermissionGranted", "Denial")),
    (
        ("ItemNotFound", "VideoUnavailable", "CodecLookupError"),
        ("LookupError", "NoSuchness", "GoneWithTheWind", "HeaderNotFoundError"),
    ),
    (("DuplicateKey", "IntegrityError"), ("Deduplicated", "ConstraintSolver", "UniqueId")),
    (
        ("ConfigurationError", "FeatureNotAvailable", "UnknownDialect"),
        ("ConfigReader", "NotSupportedErrorPage", "LeaderNotAvailable"),
    ),
    (("BadRequest", "ConflictError"), ("RequestSent", "WriteConflictError", "Inputs")),
    (
        ("ResponseParseError", "DataException", "HeaderNotFoundError", "OutOfBoundsDatetime", "XMLSyntaxError"),
        ("Sparse", "MetadataError", "WrongPasswordError"),
    ),
    (
        ("ProgrammingError", "QuerySyntaxError", "RequestEntityTooLarge"),
        ("ProgrammingErrorPage", "SyntaxTree", "GoodQuery"),
    ),
    (("RateLimited", "SlowDown"), ("RateError", "Thrown", "LimitError")),
    (("DeadlockDetected", "SerializationConflict", "ResourceLocked"), ("LockedDoor", "ConflictError", "Serializer")),
    (("OutOfMemory", "DiskFull"), ("MemoryReader", "FullDisclosure", "OpenFiles")),
    (
        ("ServiceUnavailable", "InternalServerError", "BrokerDown"),
        ("SessionTerminatedByServerError", "NonTransientError", "TemporaryFileError", "PermanentlyUnavailable"),
    ),
    (
        ("ConnectTimeout", "ConnectionLoss", "NoBrokersAvailable", "SocketClosedError", "HTTPStreamClosedError"),
        ("Connector", "NoServersideScript", "TimerError"),
    ),
]


def found(pattern: str, text: str) -> bool:
    bounded = rf"(?<!\w)(?:{pattern})(?!\w)" if pattern.isascii() else pattern
    return re.search(bounded, text.lower(), re.ASCII if pattern.isascii() else 0) is not None


def check(matches, examples, words=None):
    positive, negative = examples
    assert len(set(positive)) >= 2
    assert len(set(negative)) >= 3
    assert [text for text in positive if not matches(text)] == []
    assert [text for text in negative if matches(text)] == []
    assert words is None or [text for text in positive if not has_word(text, words)] == []


@pytest.mark.parametrize("category", texts.PHRASES)
def test_phrases(category):
    for (words, pattern), (positive, negative) in zip(texts.PHRASES[category].items(), PHRASES[category], strict=True):
        examples = [text.lower() for text in positive], negative
        check(lambda text, pattern=pattern: found(pattern, text), examples, words)


def test_statuses_in_texts():
    for (words, pattern), (positive, negative) in zip(texts.STATUS_PATTERNS.items(), STATUSES, strict=True):
        examples = [text.lower() for text in positive], negative
        check(lambda text, pattern=pattern: re.search(pattern, text.lower()), examples, words)


@pytest.mark.parametrize("pattern", REASONS, ids=range(len(REASONS)))
def test_reasons_in_texts(pattern):
    check(lambda text: re.search(pattern, text, re.IGNORECASE), REASONS[pattern])


def test_class_names():
    for (_, parts, pattern), examples in zip(CLASS_NAME_PATTERNS, NAMES, strict=True):
        check(lambda name, pattern=pattern: re.search(pattern, name), examples, parts)
