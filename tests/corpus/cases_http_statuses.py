"""Every status that matters, how long the answer asks to wait, and what a 403 means by its evidence."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from corpus.case import Case
from corpus.http_clients import CLIENTS, Ask, error_of
from corpus.http_faults import STATUSES, TEMPORARY
from outlast import Category, Origin
from outlast.classify.safe_access import read_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from corpus.case import World

_RAISES = ("httpx", "httpx2", "requests", "aiohttp", "urllib", "urllib3-retry")
_SHOWS_HEADERS = ("httpx", "httpx2", "requests", "aiohttp", "urllib")
_SHOWS_REQUEST = ("httpx", "httpx-async", "httpx2", "requests", "aiohttp")
_SHOWS_BODY = ("httpx", "httpx2", "requests")
_KEEPS_BODY = ("urllib3", "aiohttp")  # in the response, where it was read, though not in an error


def _date(seconds: float) -> str:
    """Write the moment so many seconds from now as an HTTP-date."""
    return formatdate(time.time() + seconds, usegmt=True)


def _epoch(seconds: float, unit: int = 1) -> str:
    return str(int((time.time() + seconds) * unit))


@dataclass(frozen=True)
class Answer:
    """An answer and what it means.

    Attributes:
        name: What is special about it.
        status: Its status.
        category: What it means.
        headers: Makes its headers; called when the request is made, since some hold the time.
        body: Its text.
        wait: Seconds it asks for.
        capped: Whether it asks for more than the cap.
        query: Query string of the request.
        user: User information in the request's URL.
        sent: Headers of the request.
    """

    name: str
    status: int
    category: Category
    headers: Callable[[], dict[str, str]] = dict
    body: str = ""
    wait: float | None = None
    capped: bool = False
    query: str = ""
    user: str = ""
    sent: dict[str, str] = field(default_factory=dict)

    def ask(self, server: Any, *, raises: bool = True) -> Ask:
        url = server.answer(self.status, self.headers(), self.body, query=self.query, user=self.user)
        return Ask(url, self.sent, raises=raises)


_LIMIT, _TEMPORARY = Category.RATE_LIMIT, Category.API_TEMPORARY

HINTS = [
    Answer("seconds", 429, _LIMIT, lambda: {"Retry-After": "120"}, wait=120),
    Answer("zero", 429, _LIMIT, lambda: {"Retry-After": "0"}, wait=0),
    Answer("date", 429, _LIMIT, lambda: {"Retry-After": _date(90)}, wait=90),
    Answer("date-past", 429, _LIMIT, lambda: {"Retry-After": _date(-90)}, wait=0),
    Answer("date-skewed", 429, _LIMIT, lambda: {"Retry-After": _date(-3540), "Date": _date(-3600)}, wait=60),
    Answer("date-beyond-cap", 429, _LIMIT, lambda: {"Retry-After": _date(86400)}, wait=3600, capped=True),
    Answer("beyond-cap", 429, _LIMIT, lambda: {"Retry-After": "999999"}, wait=3600, capped=True),
    Answer("negative", 429, _LIMIT, lambda: {"Retry-After": "-5"}),
    Answer("words", 429, _LIMIT, lambda: {"Retry-After": "soon"}),
    Answer("milliseconds", 429, _LIMIT, lambda: {"retry-after-ms": "1500"}, wait=1.5),
    Answer(
        "reset-epoch",
        429,
        _LIMIT,
        lambda: {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": _epoch(45)},
        wait=45,
    ),
    Answer("reset-epoch-ms", 429, _LIMIT, lambda: {"X-RateLimit-Reset": _epoch(45, 1000)}, wait=45),
    Answer("reset-relative", 429, _LIMIT, lambda: {"X-RateLimit-Reset": "42"}, wait=42),
    Answer("reset-after", 429, _LIMIT, lambda: {"X-RateLimit-Reset-After": "2.5"}, wait=2.5),
    Answer("reset-duration", 429, _LIMIT, lambda: {"x-ratelimit-reset-requests": "6m0s"}, wait=360),
    Answer("reset-draft", 429, _LIMIT, lambda: {"RateLimit": "limit=10, remaining=0, reset=30"}, wait=30),
    Answer("seconds", 503, _TEMPORARY, lambda: {"Retry-After": "30"}, wait=30),
    Answer("date", 503, _TEMPORARY, lambda: {"Retry-After": _date(30)}, wait=30),
    Answer("beyond-cap", 503, _TEMPORARY, lambda: {"Retry-After": "86400"}, wait=3600, capped=True),
    Answer("exhausted", 503, _LIMIT, lambda: {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "20"}, wait=20),
    Answer("not-exhausted", 500, _TEMPORARY, lambda: {"X-RateLimit-Remaining": "7", "X-RateLimit-Reset": "20"}),
    Answer("seconds", 408, _TEMPORARY, lambda: {"Retry-After": "5"}, wait=5),
]

_DENIED, _LOGIN = Category.ACCESS_DENIED, Category.AUTHENTICATION

WITH_QUERY = [
    *(
        Answer(f"query-{key}", 403, _LOGIN, query=f"{key}=s3cret")
        for key in ("api_key", "applicationId", "access_token")
    ),
    Answer("query-harmless", 403, _DENIED, query="keyword=tokens&page=2&monkey=1"),
]

WITH_CREDENTIALS = [
    Answer("authorization", 403, _LOGIN, sent={"Authorization": "Bearer s3cret"}),
    Answer("cookie", 403, _LOGIN, sent={"Cookie": "session=s3cret"}),
    Answer("x-api-key", 403, _LOGIN, sent={"X-Api-Key": "s3cret"}),
    Answer("x-shopify-access-token", 403, _LOGIN, sent={"X-Shopify-Access-Token": "s3cret"}),
    Answer("user-info", 403, _LOGIN, user="name:s3cret"),
    Answer("harmless-headers", 403, _DENIED, sent={"Accept-Language": "ja", "X-Request-Id": "7"}),
]

WITH_LIMITS = [
    Answer("retry-after", 403, _LIMIT, lambda: {"Retry-After": "60"}, wait=60),
    Answer("remaining-0", 403, _LIMIT, lambda: {"X-RateLimit-Remaining": "0"}),
    Answer(
        "remaining-0-and-reset",
        403,
        _LIMIT,
        lambda: {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": _epoch(50)},
        sent={"Authorization": "token s3cret"},
        wait=50,
    ),
    Answer("remaining-9", 403, _DENIED, lambda: {"X-RateLimit-Remaining": "9"}),
]


def _reason(reason: str) -> str:
    return f'{{"error": {{"code": 403, "errors": [{{"domain": "usageLimits", "reason": "{reason}"}}]}}}}'


WITH_BODY = [
    Answer("body-secondary-limit", 403, _LIMIT, body='{"message": "You have exceeded a secondary rate limit."}'),
    Answer("body-rateLimitExceeded", 403, _LIMIT, body=_reason("rateLimitExceeded"), query="key=s3cret"),
    Answer("body-quotaExceeded", 403, Category.QUOTA_EXHAUSTED, body=_reason("quotaExceeded"), query="key=s3cret"),
    Answer("body-dailyLimitExceeded", 403, Category.QUOTA_EXHAUSTED, body=_reason("dailyLimitExceeded")),
    Answer("body-insufficient_quota", 429, Category.QUOTA_EXHAUSTED, body='{"error": {"type": "insufficient_quota"}}'),
    Answer("body-slow-down", 503, _LIMIT, body="<Error><Code>SlowDown</Code></Error>"),
    Answer("body-says-nothing", 403, _DENIED, body="<h1>Forbidden</h1>"),
]


def _case(client: str, answer: Answer) -> Case:
    def produce(world: World) -> Any:
        return error_of(client, answer.ask(world.faults))

    return _labelled(f"{client}/{answer.status}-{answer.name}", produce, answer)


def _evidence_case(client: str, answer: Answer) -> Case:
    """A response that nobody raised."""

    def produce(world: World) -> Any:
        return read_response(CLIENTS[client](answer.ask(world.faults, raises=False)))

    return _labelled(f"{client}-response/{answer.status}-{answer.name}", produce, answer)


def _labelled(name: str, produce: Callable[[World], Any], answer: Answer) -> Case:
    return Case(
        name,
        produce,
        answer.category,
        answer.category in TEMPORARY,
        retry_after=answer.wait,
        capped=answer.capped,
        http_status=answer.status,
        origin=Origin.HTTP,
    )


CASES = [
    *(_case(client, Answer("plain", *status)) for status in STATUSES.items() for client in _RAISES),
    *(_case(client, answer) for answer in HINTS for client in _SHOWS_HEADERS),
    *(_case(client, answer) for answer in WITH_QUERY for client in _SHOWS_HEADERS),
    *(_case(client, answer) for answer in WITH_CREDENTIALS for client in _SHOWS_REQUEST),
    *(_case(client, answer) for answer in WITH_LIMITS for client in _SHOWS_HEADERS),
    *(_case(client, answer) for answer in WITH_BODY for client in _SHOWS_BODY),
    *(_evidence_case(client, answer) for answer in WITH_BODY for client in (*_SHOWS_BODY, *_KEEPS_BODY)),
    *(_evidence_case("http.client", answer) for answer in HINTS if answer.wait == 120 or answer.status == 503),
]
