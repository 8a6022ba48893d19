"""Answers of hostile and broken servers: headers, statuses and packed bodies. A judgement, a bounded wait, no surprise."""

import contextlib
import gzip
import zlib

import httpx
import httpx2
import pytest
from hypothesis import example
from hypothesis import strategies as st

import outlast
from fuzz.fuzzing import ODD, SECRET, fuzz, mutated_bytes, odd_texts
from outlast.classify.retry_after import MAX_RETRY_AFTER_SECONDS, allowance_is_exhausted
from outlast.errors import BodyTooLargeError, ContentError, CoolingDownError
from outlast.http import RetryTransport
from outlast.http.bodies import body_counter, content_codings, decompress_beginning, streamable_encodings

NAMES = [
    "Retry-After", "retry-after-ms", "x-ms-retry-after-ms", "RateLimit", "RateLimit-Reset", "RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Remaining",
    "X-RateLimit-Reset-After", "x-ratelimit-reset-requests", "x-ratelimit-remaining-requests", "X-Rate-Limit-Reset", "Date", "Content-Type", "WWW-Authenticate",
    "Location", "Server", "cf-mitigated", "Content-Encoding", "X-Limit-Reset", "-limit-reset-remaining-", "limitreset",
]  # fmt: skip
moments = st.sampled_from([
    "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 00 Jan 0000 00:00:00 GMT",
    "Fri, 31 Dec 9999 23:59:59 -2359", "Mon, 01 Jan 0001 00:00:00 +2359", "2026-13-45T99:99:99Z", "9999-12-31T23:59:59-23:59", "Tue, 29 Feb 2100 10:00:00", ":" * 200,
])  # fmt: skip
numbers = (
    st.integers(-5, 10**20).map(str)
    | st.floats().map(str)
    | st.sampled_from(
        [
            "0",
            "1.5",
            "1e3",
            "٣",
            "1_000",
            "+5",
            "9" * 4000,
            "0." + "0" * 400 + "1",
            "6m0s",
            "1d" * 200,
            "9" * 300 + "d",
            '"a";r=0;t=30',
            "limit=1, remaining=0, reset=" + "9" * 400,
        ]
    )
)
fields = st.dictionaries(st.sampled_from(NAMES), numbers | moments | odd_texts, max_size=6)
statuses = st.sampled_from(
    [200, 301, 304, 400, 401, 403, 404, 408, 413, 418, 425, 429, 430, 500, 503, 521, 529, 598, 599]
)
bodies = (
    st.sampled_from(
        [
            "",
            "{}",
            '{"error": {"code": "quota", "message": "slow down"}}',
            '{"error":' * 5000,
            "<Error><Code>SlowDown</Code></Error>",
            "\0",
            "x" * 10_000,
        ]
    )
    | odd_texts
)


@fuzz(300, fields)
def test_any_headers_give_a_bounded_wait_or_none(headers):
    for limited in (True, False):
        hint = outlast.rate_limit_hint(headers, limited=limited)
        assert hint is None or 0 <= hint.seconds <= MAX_RETRY_AFTER_SECONDS
    for date in headers.values():
        assert 0 <= outlast.parse_retry_after(headers.get("Retry-After"), date=date) <= MAX_RETRY_AFTER_SECONDS
    assert allowance_is_exhausted({name.lower(): value for name, value in headers.items()}) in {True, False}


@fuzz(200, statuses, fields, bodies, st.none() | st.booleans())
def test_any_answer_is_a_failure_that_can_be_stored(status, headers, body, sent):
    failure = outlast.classify(outlast.Evidence(http_status=status, headers=headers, body=body, credentials_sent=sent))
    assert failure.retry_after is None or 0 <= failure.retry_after <= MAX_RETRY_AFTER_SECONDS
    assert failure.from_json(failure.to_json()) == failure


@fuzz(100, statuses, fields, odd_texts)
def test_no_secret_of_an_answer_is_told(status, headers, text):
    told = f"{text} https://user:{SECRET}@example.com/ Authorization: Bearer {SECRET}\npassword={SECRET} {text}"
    failure = outlast.classify(outlast.Evidence(http_status=status, headers=headers, body=told, message=told))
    assert SECRET not in failure.to_json()


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


plain = st.binary(max_size=300) | st.just(bytes(70_000))
packed = st.one_of(
    plain,
    plain.map(lambda data: gzip.compress(data, mtime=0)),
    plain.map(lambda data: gzip.compress(data, mtime=0) * 3),
    plain.map(zlib.compress),
    plain.map(raw_deflate),
)
sent_bodies = packed | packed.flatmap(mutated_bytes)
codings = (
    st.sampled_from(
        [
            "",
            "identity",
            "gzip",
            " GZIP ",
            "x-gzip",
            "deflate",
            "br",
            "zstd",
            "gzip, gzip",
            "deflate,gzip",
            ",,",
            "gzip;q=0",
            "compress",
        ]
    )
    | odd_texts
)


@fuzz(200, codings, sent_bodies, st.integers(0, 1000), st.integers(1, 50))
@example("gzip", gzip.compress(b"x" * 100, mtime=0), 0, 1)
def test_any_packed_body_is_bounded_and_counted(coding, body, limit, size):
    streamable_encodings(coding)
    assert all(content_codings(coding))
    beginning = decompress_beginning(coding, body, limit)
    assert beginning is None or len(beginning) <= limit
    with contextlib.suppress(BodyTooLargeError, ContentError):
        counter = body_counter(coding, limit)
        for start in range(0, len(body), size * 100):
            counter.count(body[start : start + size * 100])
        if not content_codings(coding):
            assert len(body) <= limit


# Through the transports, which read all of it.


def written(text):
    """A header's bytes as no proxy would pass them, but a socket would."""
    return text.encode("utf-8", "replace").replace(b"\0", b"").replace(b"\r", b"").replace(b"\n", b"").strip()


@st.composite
def answers(draw):
    coding = draw(st.sampled_from(["", "gzip", "deflate", "br", "gzip, gzip"]))
    body = draw(sent_bodies)
    headers = draw(fields) | ({"Content-Encoding": coding} if coding else {})
    raw = [(name.encode(), written(value)) for name, value in headers.items()]
    return draw(statuses), raw, body


def never(seconds):
    """Sleep not at all; how long it would have been is judged."""
    assert 0 <= seconds <= 5


@pytest.fixture(autouse=True, scope="module")
def _no_waits():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outlast.clock.sleep", never)
        yield


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
@fuzz(120, st.lists(answers(), min_size=1, max_size=3), st.sampled_from([None, 50, 100_000]), st.booleans())
def test_a_transport_returns_an_answer_or_raises_what_the_library_has(library, given, max_body, raises):
    asked = iter([*given, given[-1], given[-1]])

    def answer(_request):
        status, headers, body = next(asked)
        return library.Response(status, headers=headers, stream=library.ByteStream(body))

    policy = outlast.RetryPolicy(max_attempts=3, base_delay=0.1, max_delay=1.0)
    transport = RetryTransport(
        library.MockTransport(answer), policy=policy, patience=2.0, max_body=max_body, raises=raises
    )
    with library.Client(transport=transport) as client:
        try:
            found = client.get("https://example.com/x?token=" + SECRET)
        except (library.HTTPError, BodyTooLargeError, ContentError, CoolingDownError) as error:
            failure = outlast.classify(error)
            assert SECRET not in failure.to_json()
        else:
            assert found.status_code in {status for status, _, _ in given}


@fuzz(60, st.sampled_from(ODD))
def test_what_a_server_says_of_urls_is_kept_out(text):
    with contextlib.suppress(httpx2.InvalidURL, ValueError):
        url = httpx2.URL(f"https://user:{SECRET}@example.com/{text}")
        assert SECRET not in outlast.classify(httpx2.ConnectError(f"cannot reach {url}: {text}")).to_json()
