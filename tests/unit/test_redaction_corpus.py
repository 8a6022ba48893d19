"""No secret of the corpus survives, wherever it is, and texts without secrets stay as they are."""

import json
from urllib.parse import quote

import pytest

from heldout.measure import cases
from heldout.rebuild import rebuild
from outlast.classify.safe_access import text_of
from outlast.redact import MESSAGE_LIMIT, redact, safe_text
from unit.redaction_corpus import read_texts, secrets, tokens

TRACEBACK = (
    'Traceback (most recent call last):\n  File "/srv/app/main.py", line 3, in run\n    connect()\nvendor.Error: {}'
)
SHORTEST_LEAK = 6

# Held-out errors whose texts show values that may be secrets: rows, inputs, headers, what follows the word "token".
# The text of sqlglot shows `<Token …>` like an element of XML.
WITH_VALUES = """
pg8000/not-null pg8000/check pydantic/json sqlglot/parse PyGithub/403-scope simple-salesforce/query box_sdk_gen/404
box_sdk_gen/403 box_sdk_gen/409 box_sdk_gen/429 box_sdk_gen/503 box_sdk_gen/403-storage
"""

SOURCE_LINES = """
key = raw_key(record)
return self._key_of(row)
cache_key = f"{prefix}:{name}"
for key, value in items.items():
KeyError: 'name'
primary key (id) of table orders
token = next(tokens)
if token.kind == "WORD":
SELECT id, name FROM users WHERE password IS NULL
UPDATE jobs SET session_count = session_count + 1 WHERE id = 7
CREATE TABLE tokens (id integer PRIMARY KEY, created_at timestamptz)
relation "api_tokens" does not exist
column "password" of relation "users" does not exist
commit 9fceb02d0ae598e95dc970b74767f19372d61af8
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
request 550e8400-e29b-41d4-a716-446655440000 failed
trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7
the password must have at least 12 characters
password authentication failed for user "app"
Access denied for user 'app'@'10.0.0.7' (using password: YES)
fe_sendauth: no password supplied
Invalid API key provided
Unauthorized: token expired
max_tokens=4096 is above the limit
This model's maximum context length is 8192 tokens
GET https://api.example.com/v1/items?page=2&limit=50 returned 503
http://127.0.0.1:41623
(see http://127.0.0.1:41623)
connect to db.internal:5432 timed out
mailto:ops@example.com
pull access denied for acme/etl, repository does not exist or may require 'docker login'
arn:aws:s3:::bucket/key
NoSuchKey: The specified key does not exist.
duplicate key value violates unique constraint "orders_pkey"
Could not resolve host: api.example.com
ssl.SSLCertVerificationError: certificate verify failed: unable to get local issuer certificate (_ssl.c:1006)
"""


def leaks(text: str, secret: str) -> list[str]:
    shown = redact(text)
    ends = range(len(secret) - SHORTEST_LEAK + 1)
    return [part for part in (secret[start : start + SHORTEST_LEAK] for start in ends) if part in shown]


PLACES = [
    pytest.param(lambda text: text, id="alone"),
    pytest.param(TRACEBACK.format, id="traceback"),
    pytest.param(lambda text: json.dumps({"level": "error", "message": text, "attempt": 2}), id="json"),
]


@pytest.mark.parametrize(
    "place",
    [
        *PLACES,
        pytest.param(lambda text: json.dumps({"log": json.dumps({"message": text})}), id="json in json"),
        pytest.param(lambda text: f"GET https://example.com/log?m={quote(text)}&n=2 failed", id="url"),
    ],
)
def test_no_secret_survives(place):
    found = [(label, text) for label, text, secret in secrets() if leaks(place(text), secret)]
    assert found == []


def test_every_token_is_masked_without_a_word_beside_it():
    values = [value for _, _, each in tokens() for value in each]
    assert [value for value in values if leaks(value, value)] == []
    assert [value for value in values if leaks(f"GET https://example.com/x?page={quote(value)} failed", value)] == []


@pytest.mark.parametrize("line_break", ["\n", "\\n", "\\\\n"])
def test_what_follows_an_inserted_row_stays(line_break):
    after = f"{line_break}the row (7) was refused"
    shown = redact(f"INSERT INTO users (name, password) VALUES ('bob', 'S3cr3tV4lue9'){after}")
    assert shown == f"INSERT INTO users (name, password) VALUES ***{after}"


@pytest.mark.parametrize("place", PLACES)
def test_a_text_without_a_secret_stays(place):
    texts = [place(text) for text in (*SOURCE_LINES.strip().splitlines(), *read_texts("texts_without_secrets.txt"))]
    assert len(texts) > 600
    assert [text for text in texts if redact(text) != text] == []


def test_error_texts_without_a_secret_stay():
    texts = {case["id"]: text_of(rebuild(case["error"])) for case in cases() if case["id"] not in WITH_VALUES.split()}
    assert len(texts) > 800
    changed = {key for key, text in texts.items() if len(text) < MESSAGE_LIMIT and redact(text) != safe_text(text)}
    assert sorted(changed) == []
