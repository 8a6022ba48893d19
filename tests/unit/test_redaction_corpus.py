"""No secret of the corpus survives, wherever it is, and texts without secrets stay as they are."""

import json
from urllib.parse import quote

import pytest

from heldout.measure import cases
from heldout.rebuild import rebuild
from outlast.classify.safe_access import text_of
from outlast.redact import MESSAGE_LIMIT, redact, safe_text
from unit.redaction_corpus import secrets, texts_without_secrets, tokens

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
    texts = [place(text) for text in texts_without_secrets()]
    assert len(texts) > 600
    assert [text for text in texts if redact(text) != text] == []


def test_error_texts_without_a_secret_stay():
    texts = {case["id"]: text_of(rebuild(case["error"])) for case in cases() if case["id"] not in WITH_VALUES.split()}
    assert len(texts) > 800
    changed = {key for key, text in texts.items() if len(text) < MESSAGE_LIMIT and redact(text) != safe_text(text)}
    assert sorted(changed) == []
