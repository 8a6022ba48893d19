"""Errors that say what they are in words alone, and words that only look as if they did.

The texts are what programs and APIs really say; the error around them is a plain RuntimeError. PITFALLS 33.
"""

from __future__ import annotations

from functools import partial

from corpus.case import Case, World
from outlast import Category as C

# Lists of REQUIREMENTS: what seed W failed to retry, retried in vain, and its own patterns; seed F's substring test.
SEEDS: dict[C, tuple[str, ...]] = {
    C.DATABASE_BUSY: ("database is locked", "SQLITE_BUSY", "SQLITE_BUSY: database is locked", "deadlock detected"),
    C.NETWORK: (
        "timed out",
        "Request timeout",
        "Connection timeout",
        "connection refused",
        "Connection to 10.0.0.5 was refused",
        "Connection reset by peer",
        "Temporary failure in name resolution",
        "Name or service not known",
        "getaddrinfo failed",
        "nodename nor servname provided, or not known",
    ),
    C.API_TEMPORARY: (
        "HTTP 500",
        "503 Service Unavailable",
        "502 Bad Gateway",
        "504 Gateway Timeout",
        "temporarily unavailable",
        "The service is temporarily unavailable",
        "http error: 503",
    ),
    C.RATE_LIMIT: (
        "HTTP 429",
        "rateLimitExceeded",
        "userRateLimitExceeded",
        "rate limit",
        "Rate limit exceeded",
        "too many requests",
        "429 Too Many Requests",
    ),
    C.NOT_FOUND: (
        "not found",
        "404",
        "404 Not Found",
        "404 Not Found: timeout parameter missing",
        "The video was deleted",
        "Video has been deleted by the uploader",
        "private video",
        "http error: 404 Not Found",
    ),
    C.INVALID_PARAMETERS: ("Invalid parameter: timeout must be > 0", "invalid parameter", "Invalid API parameter"),
    C.AUTHENTICATION: ("authentication failed", "unauthorized", "401 Unauthorized"),
    C.ACCESS_DENIED: ("403 Forbidden", "http error: 403 Forbidden", "HTTP 403"),
    C.QUOTA_EXHAUSTED: ("quota exceeded", "quota exceeded: rate limit", "quotaExceeded"),
}

WORDS: dict[C, tuple[str, ...]] = {
    C.NETWORK: (
        "curl: (6) Could not resolve host: api.example",
        "net::ERR_CONNECTION_REFUSED at https://shop.example/",
        "net::ERR_NAME_NOT_RESOLVED",
        "read ECONNRESET",
        "Remote end closed connection without response",
        "SSL handshake failed",
        "No route to host",
        "Network is unreachable",
        "context deadline exceeded",
        "broken pipe",
        "MySQL server has gone away",
    ),
    C.API_TEMPORARY: (
        "upstream returned 503",
        "got 502 from https://api.example/items",
        "Server Error (status code: 500)",
        "Internal Server Error",
        "The server is overloaded, please try again later",
        "site is under maintenance",
    ),
    C.RATE_LIMIT: (
        "You are being rate limited.",
        "Request was throttled. Expected available in 42 seconds.",
        "SlowDown: Please reduce your request rate.",
        "status=429",
    ),
    C.DATABASE_BUSY: (
        "FATAL: sorry, too many clients already",
        "Lock wait timeout exceeded; try restarting transaction",
        "could not serialize access due to concurrent update",
        "QueuePool limit of size 5 overflow 10 reached, connection timed out",
        "the database system is starting up",
    ),
    C.SYSTEM: (
        "[Errno 28] No space left on device",
        "database or disk is full",
        "OSError: [Errno 24] Too many open files: '/data/a.csv'",
        "Cannot allocate memory",
    ),
    C.AUTHENTICATION: (
        "Invalid API key provided",
        "token has expired",
        'password authentication failed for user "app"',
        "Login required",
    ),
    C.NOT_FOUND: ("NoSuchKey", "This page does not exist", "Error 410", "no such file or directory: 'a.csv'"),
    C.INVALID_PARAMETERS: ("HTTP 400: missing field 'itemCode'", "422 Unprocessable Entity", "validation failed"),
    C.CONFIGURATION: ("API key is not set", "unsupported URL scheme 'ftps'", "no such table: items", "Invalid URL"),
    C.INTEGRITY: (
        'duplicate key value violates unique constraint "item_pkey"',
        "UNIQUE constraint failed: item.id",
        "FOREIGN KEY constraint failed",
    ),
    C.DATA: ("Expecting value: line 1 column 1 (char 0)", "malformed JSON", "failed to parse response"),
    C.QUOTA_EXHAUSTED: (
        "You exceeded your current quota, please check your plan and billing details.",
        "Daily limit exceeded",
        "insufficient_quota",
    ),
}

JAPANESE: dict[C, tuple[str, ...]] = {
    C.NETWORK: (
        "接続がタイムアウトしました",
        "接続が拒否されました",
        "ネットワークエラーが発生しました",
        "名前解決に失敗しました",
    ),
    C.API_TEMPORARY: (
        "ただいまメンテナンス中です",
        "サーバーエラーが発生しました",
        "一時的に利用できません",
        "エラーコード503",
    ),
    C.RATE_LIMIT: ("リクエストが多すぎます", "アクセスが集中しています", "レート制限を超えました"),
    C.DATABASE_BUSY: ("データベースがロックされています", "デッドロックが検出されました"),
    C.SYSTEM: ("ディスク容量が不足しています", "メモリ不足です"),
    C.NOT_FOUND: ("商品が見つかりません", "ページが存在しません", "この動画は削除されました", "この動画は非公開です"),
    C.AUTHENTICATION: ("認証に失敗しました", "ログインが必要です", "トークンが無効です"),
    C.ACCESS_DENIED: ("アクセスが拒否されました", "権限がありません"),
    C.INVALID_PARAMETERS: ("不正なパラメータです", "必須パラメータがありません", "パラメーターが不正です"),
    C.QUOTA_EXHAUSTED: ("利用回数の上限に達しました", "１日の上限を超えました"),
    C.CONFIGURATION: ("環境変数が設定されていません", "設定ファイルが見つかりません"),
    C.DATA: ("JSONの解析に失敗しました",),
    C.INTEGRITY: ("一意制約に違反しています",),
}

# Numbers and words that are part of something else; nothing is known of these errors, and nothing is to be retried.
NOTHING: tuple[str, ...] = (
    "failed at https://blog.example/post/403",
    "could not render /post/404/comments",
    "connected to db:5404",
    "listening on port 5404",
    "wrote 40312 bytes",
    "read 404 rows",
    "took 500 ms",
    "processed 429 items",
    "order 503",
    "id=50312",
    "id 404",
    "item 429 of 500",
    "version 4.0.3",
    "release 5.0.0-rc.429",
    "host 10.50.40.3",
    "192.168.4.29:8080",
    "2024-04-03 05:00:29",
    "checksum e503a404f429",
    "account 4034",
    "line 404, column 12",
    "price 500 yen",
    "page 429",
    "+1 503 555 0100",
    "0x404",
    "got 403 results",
    "returned 500 rows",
    "the answer is 42",
    "something went wrong",
    "oops",
    "",
    "assertion failed",
    "list index out of range",
    "処理に失敗しました",
    "商品番号404を処理中",
    "500件を処理しました",
    "unfoundable",
    "timeouts_total is a counter",
    "x" * 5000,
)

RETRIED = {C.NETWORK, C.API_TEMPORARY, C.RATE_LIMIT, C.DATABASE_BUSY, C.SYSTEM}


def said(text: str, world: World) -> BaseException:
    return RuntimeError(text)


WAITS = {"Request was throttled. Expected available in 42 seconds.": 42}


def _cases() -> list[Case]:
    cases = []
    for table, texts_by_category in (("seed", SEEDS), ("words", WORDS), ("japanese", JAPANESE)):
        for category, texts in texts_by_category.items():
            for text in texts:
                make = partial(said, text)
                wait = WAITS.get(text)
                cases.append(
                    Case(
                        f"text-{table}/{text}", make, category, category in RETRIED, retry_after=wait, constructed=True
                    )
                )
    cases += [
        Case(f"text-nothing/{text[:40]}", partial(said, text), C.UNKNOWN, retryable=False, constructed=True)
        for text in NOTHING
    ]
    return cases


CASES: list[Case] = _cases()
