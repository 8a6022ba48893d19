"""Every pattern for malformed input and exhausted quotas matches two texts at least, and not three that resemble them."""

import re

import pytest

from outlast.classify.data_errors import DATA_TEXTS
from outlast.classify.quota import QUOTA_TEXTS
from outlast.patterns import has_word

# For each pattern, in the order of the table: texts that must match, and realistic texts that must not.
DATA = [
    (
        ["corrupted or truncated gzip file", "truncated parquet footer", "Malformed header in block 3"],
        ["truncated table orders in 3 ms", "malformed request", "the log was truncated at 2 MB"],
    ),
    (
        ["the archive is corrupted", "image appears to be truncated", "PDF may be damaged"],
        ["the file is locked by another process", "the workbook is read-only", "the stream is closed"],
    ),
    (
        ["File is not a zip file", "not a valid 7z archive", "Not an Arrow file"],
        ["could not open image file x.png", "not allowed to read json file", "did not find csv file a.csv"],
    ),
    (
        ["Parquet magic bytes not found in footer", "file signature not found", "Start tag expected, '<' not found"],
        ["page not found", "header X-Api-Key missing", "root user not found"],
    ),
    (
        ["bad magic number in 'x'", "Expected BOF record; found b'this is '", "Expected 2 columns, got 3"],
        ["magic link expired", "expected 200 but got 503", "expected bytes, not str"],
    ),
    (
        ["CSV parse error: row 3", "ParseException: Expected number", "Error tokenizing data. C error"],
        ["error while parsing settings of the proxy", "json schema error in setting", "parser is busy"],
    ),
    (
        ["Invalid XML content received", "invalid JSON", "invalid YAML syntax"],
        ["invalid zip code", "invalid json path in option", "invalid doc id"],
    ),
    (
        ["brotli: decoder failed", "decompression error", "deserialization of record failed"],
        ["tlsv1 alert decode error", "decoded 5 rows, then the request failed", "unpacked release 3 without failures"],
    ),
    (
        ["failed to decompress block", "Error while decompressing data", "unable to deserialize value"],
        ["failed to connect", "unable to load the decompressor module", "could not start the unpacker"],
    ),
    (
        ["LZ4F_getFrameInfo failed with code: ERROR_frameType_unknown", "zstd: data corrupted", "zlib error -3"],
        ["gzip is not installed", "brotli enabled", "wrote backup.zstd to the failed-jobs folder"],
    ),
    (
        ["unsupported file format", "cannot identify image file 'x'", "Unrecognized image format"],
        ["unsupported operation", "unknown host", "invalid date format"],
    ),
    (
        ["unexpected end of archive", "Extra data: line 1 column 5", "trailing garbage after object"],
        ["unexpected end of stream on connection", "no extra data charges apply", "trailing slash missing"],
    ),
    (
        [
            "Conversion failed when converting the varchar value 'x' to data type int.",
            "Integer value 300 not in range: -128 to 127",
            "There is no item named 'a' in the archive",
        ],
        ["conversion of the lead failed", "port not in range", "no item named x in the cart"],
    ),
    (
        ["Parquet file size is 0 bytes", "the document is empty", "No columns to parse from file"],
        ["the queue is empty", "the file is being written", "empty response from upstream"],
    ),
    (
        ["File has not been decrypted", "the workbook is password-protected", "Bad password for file 'x'"],
        ["wrong password for user bob", "the connection is encrypted", "the file is open"],
    ),
    (
        ["Bad CRC-32 for file 'a'", "crc check failed", "checksum does not match"],
        ["crc is enabled", "the password does not match", "checksum sent"],
    ),
    (
        ["3 exceeds max_array_len(2)", "could not determine a constructor for the tag", "cannot read the header"],
        ["exceeds max_connections", "could not determine the region", "cannot read the header file: permission"],
    ),
    (
        ["record does not match schema", "an integer is required on field a", "Incorrect padding"],
        ["the host key does not match", "a token is required", "password does not conform to the policy"],
    ),
]

QUOTA = [
    (
        ["You will regain access on 2026-12-01 at 00:00 UTC.", "you regain access on Monday"],
        ["access granted on Monday", "users lose access on 2026-12-01", "on-call access"],
    ),
    (
        ["You have reached your specified API usage limits.", "exceeded your spending limit", "hit your usage limit"],
        ["reached your inbox", "exceeded the file size limit", "over your head"],
    ),
    (
        ["Account exceeded the 50 daily messages limit", "you have reached your monthly quota"],
        ["exceeded 100 requests per minute", "reached the daily backup window", "monthly report exceeded 10 pages"],
    ),
    (
        ["Daily request limit exceeded", "monthly included credits allowance reached"],
        ["daily limit: 500", "the monthly limit is 1000", "weekly cap not set"],
    ),
    (
        ["Usage cap exceeded: Monthly product cap", "Quota exceeded: daily"],
        ["limit exceeded: concurrent requests", "quota: monthly", "cap exceeded: burst"],
    ),
    (
        ["a Trial key, which is limited to 1000 API calls / month", "limited to 50 requests per day"],
        ["limited to 20 requests per second", "limited to 10 items", "limited to 5 MB per file"],
    ),
    (
        ["Your credit balance is too low", "account balance is insufficient"],
        ["the load balance is uneven", "balance is 12.50", "account is locked"],
    ),
    (
        ["You are out of credits", "no API credits left", "not enough credits remaining"],
        ["credits roll", "no credit card on the page", "out of memory"],
    ),
    (
        ["insufficient_quota", "billing hard limit reached", "title: UsageCapExceeded"],
        ["quota is sufficient", "billing address missing", "usage cap: none"],
    ),
    (
        ["You exceeded your current quota", "you have exhausted the free credits"],
        ["exceeded your current timeout", "the free tier is available", "your current plan is Pro"],
    ),
    (
        ["Please add credits to continue", "purchase more credits", "top up your credits"],
        ["add credit card", "buy milk", "purchase order missing"],
    ),
    (
        ["TotalRequests Limit exceeded.", "24-hour send limit reached", "per-day limit has been exceeded"],
        ["rate limit exceeded", "within the 24-hour window", "limit 24 reached per node"],
    ),
]


def test_every_pattern_has_texts() -> None:
    assert len(DATA) == len(DATA_TEXTS)
    assert len(QUOTA) == len(QUOTA_TEXTS)
    assert all(len(right) >= 2 and len(wrong) >= 3 for right, wrong in DATA + QUOTA)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (pattern, text, expected)
        for patterns, table in ((DATA_TEXTS, DATA), (QUOTA_TEXTS, QUOTA))
        for pattern, texts in zip(patterns.values(), table, strict=True)
        for expected, each in zip((True, False), texts, strict=True)
        for text in each
    ],
)
def test_pattern(pattern: str, text: str, expected: bool) -> None:
    assert (re.search(pattern, text.lower()) is not None) is expected


@pytest.mark.parametrize(("patterns", "table"), [(DATA_TEXTS, DATA), (QUOTA_TEXTS, QUOTA)], ids=["data", "quota"])
def test_no_text_that_matches_is_skipped(patterns: dict[str, str], table: list[tuple[list[str], list[str]]]) -> None:
    skipped = [
        text
        for words, (right, _) in zip(patterns, table, strict=True)
        for text in right
        if not has_word(text.lower(), words)
    ]
    assert skipped == []
