"""Every pattern for malformed input and exhausted quotas matches two texts at least, and not three that resemble them."""

import re._parser as parser  # the only description of a pattern that has its alternatives
from itertools import chain

import pytest

from outlast.classify import statuses, texts
from outlast.classify.data_errors import DATA_TEXTS
from outlast.classify.heuristics import CLASS_NAME_PATTERNS
from outlast.classify.quota import CERTAIN, PLAIN, UNLESS_SHORT
from outlast.patterns import first_match, has_word

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
        ["File is not a zip file", "not a valid 7z archive", "Not an Arrow file", "not a valid ACME database file"],
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
        [
            "unsupported file format",
            "cannot identify image file 'x'",
            "Unrecognized image format",
            "Error opening 'x.wav': Format not recognised.",
            "'x.tif' not recognized as being in a supported file format.",
            "broken data stream when reading image file",
        ],
        ["unsupported operation", "invalid date format", "broken stream", "user not recognized as an admin"],
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
        [
            "File has not been decrypted",
            "the workbook is password-protected",
            "Bad password for file 'x'",
            "File 'a.txt' is encrypted",
        ],
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
        ["record does not match schema", "an integer is required on field a", "Incorrect padding", "Schema mismatch"],
        ["the host key does not match", "a token is required", "password does not conform to the policy"],
    ),
]

QUOTA = [
    (
        ["You will regain access on 2026-12-01 at 00:00 UTC.", "you regain access on Monday"],
        ["access granted on Monday", "users lose access on 2026-12-01", "on-call access"],
    ),
    (
        ["Account exceeded the 50 daily messages limit", "exceeded your API Key's monthly rate limit"],
        ["exceeded 100 requests per minute", "reached the daily backup window", "monthly report exceeded 10 pages"],
    ),
    (
        [
            "Daily request limit exceeded",
            "Usage cap exceeded: Monthly product cap",
            "reached your limit for the current month",
        ],
        ["daily limit: 500", "the monthly limit is 1000", "limit exceeded: concurrent requests"],
    ),
    (
        ["limited to 1000 API calls / month", "100 requests per day exceeded", "24-hour send limit reached"],
        ["limited to 20 requests per second", "limited to 5 MB per file", "a limit of 5 requests per day applies"],
    ),
    (
        ["GenerateRequestsPerDayPerProject", "403 dailyLimitExceeded", "TotalRequests Limit exceeded."],
        ["rate limit exceeded", "requests per day: 5", "RequestsPerMinute"],
    ),
    (
        ["Your credit balance is too low", "Insufficient balance"],
        ["the load balance is uneven", "balance is 12.50", "account is locked"],
    ),
    (
        ["You are out of credits", "Your account has run out of searches.", "purchase more credits"],
        ["credits roll", "no credit card on the page", "out of memory"],
    ),
    (
        ["insufficient_quota", "billing hard limit reached", "402 Payment Required", "spending limit reached"],
        ["quota is sufficient", "billing address missing", "the payment was received"],
    ),
    (
        ["You have reached your specified API usage limits.", "You have hit your Claude usage limit"],
        ["reached your inbox", "exceeded the file size limit", "over your head"],
    ),
    (
        ["You exceeded your current quota", "you have exhausted the free credits"],
        ["exceeded your current timeout", "the free tier is available", "your current plan is Pro"],
    ),
    (
        ["Quota exceeded for project 7", "Your credits are used up"],
        ["Disk quota exceeded", "the quota of 5 files is fine", "credits: Jane Doe, 2019"],
    ),
    (
        ["You have exceeded your quota", "out of credits"],
        ["exceeded the maximum depth", "reached page 5", "out of 5 items, 3 failed"],
    ),
    (
        ["quotaExceeded", "error: quota_exceeded"],
        ["quotaExceededHandler is not defined", "the quota was not exceeded", "myquotaexceededflag"],
    ),
    (
        ["Usage limit reached", "usage plan limit has been exceeded"],
        ["the usage limit is 500", "upper limit reached", "usage: limit [options]"],
    ),
    (["クォータを超過しました", "クォータの上限です"], ["クォータを設定", "クォータの確認", "上限を超過しました"]),
    (
        ["利用回数の上限に達しました", "1日の制限を超えました"],
        ["利用規約に同意してください", "上限は100件です", "使用量を確認"],
    ),
]
QUOTA_TEXTS = {**CERTAIN, **UNLESS_SHORT, **PLAIN}


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
    low = text.lower()
    assert (first_match(low, {low.split()[0]: pattern}) is not None) is expected


@pytest.mark.parametrize(("patterns", "table"), [(DATA_TEXTS, DATA), (QUOTA_TEXTS, QUOTA)], ids=["data", "quota"])
def test_no_text_that_matches_is_skipped(patterns: dict[str, str], table: list[tuple[list[str], list[str]]]) -> None:
    skipped = [
        text
        for words, (right, _) in zip(patterns, table, strict=True)
        for text in right
        if not has_word(text.lower(), words)
    ]
    assert skipped == []


def texts_of(tree: parser.SubPattern) -> list[str]:
    """Return texts that match a parsed pattern, with each of its alternatives in one of them at least."""
    options = [options_of(str(kind), value) for kind, value in tree]
    first = [each[0] for each in options]
    found = ["".join(first)]
    for index, each in enumerate(options):
        found += ["".join([*first[:index], option, *first[index + 1 :]]) for option in each[1:]]
    return found


def options_of(kind: str, value: object) -> list[str]:
    match kind, value:
        case "LITERAL", code:
            return [chr(code)]
        case "IN", [*items]:
            literals = [chr(code) for each, code in items if str(each) == "LITERAL"]
            return literals if len(literals) == len(items) else ["0" if "DIGIT" in str(items) else "x"]
        case "BRANCH", (_, branches):
            return list(chain.from_iterable(map(texts_of, branches)))
        case "SUBPATTERN", (*_, tree):
            return texts_of(tree)
        case "MAX_REPEAT" | "MIN_REPEAT", (least, _, tree):
            return [text * (least or 1) for text in texts_of(tree)] if least else ["", *texts_of(tree)]
        case "ASSERT", (1, tree):  # what follows
            return texts_of(tree)
        case "ASSERT" | "ASSERT_NOT" | "AT", _:
            return [""]
    return ["x"]


TABLES = [DATA_TEXTS, QUOTA_TEXTS, texts.STATUS_PATTERNS, statuses.REFUSAL, *texts.PHRASES.values()]
FILTERED = [*chain.from_iterable(table.items() for table in TABLES), *(row[1:] for row in CLASS_NAME_PATTERNS)]


@pytest.mark.parametrize(("words", "pattern"), FILTERED)
def test_each_alternative_of_a_pattern_has_one_of_its_words(words: str, pattern: str) -> None:
    assert [text for text in texts_of(parser.parse(pattern)) if not has_word(text, words)] == []
