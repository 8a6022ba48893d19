"""Payloads as they are shown: without secrets, whatever form they have."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.classify import Classifier, default_classifier, use_classifier
from holdfast.queue.masking import is_secret_name, masked_parameters
from holdfast.redact import Redactor

SECRET = "s3cr3t-0f-mine"


@pytest.mark.parametrize(
    "name",
    [
        "password", "db_password", "dbPassword", "PASSWORD", "userpassword", "passwd", "pwd", "passphrase", "smtp_pass",
        "token", "access_token", "accessToken", "refresh-token", "accesstoken", "tokens", "secret", "client_secret", "clientSecret",
        "api_key", "apiKey", "apikey", "APIKey", "x-api-key", "private_key", "AWSSecretAccessKey", "access_keys", "session_id",
        "sessionid", "authorization", "Proxy-Authorization", "auth", "cookie", "Set-Cookie", "cookies", "jwt", "csrf_token",
        "X-Amz-Signature", "credentials", "パスワード",
    ],
)  # fmt: skip
def test_what_stands_under_a_secret_name_is_masked_whole(name):
    for value in (SECRET, [SECRET], {"a": SECRET}, 123456):
        if isinstance(value, int) and name.endswith("s"):
            continue
        assert is_secret_name(name, value)
        masked = masked_parameters(json.dumps({"deep": [{name: value}]}))
        assert json.loads(masked) == {"deep": [{name: "***"}]}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url", "x"), ("author", "x"), ("key", "a/b.csv"), ("s3_key", "a/b.csv"), ("sort_key", "day"), ("keyboard", "x"),
        ("max_tokens", 500), ("token_count", 3), ("tokenizer", "bpe"), ("secretary", "x"), ("passenger", "x"), ("compass", "x"),
        ("password", None), ("has_token", True), ("session", "a"), ("", "x"), ("123", "x"),
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(name, value):
    assert not is_secret_name(name, value)
    assert json.loads(masked_parameters(json.dumps({name: value}))) == {name: value}


@pytest.mark.parametrize(
    "payload",
    [
        {"headers": [["Authorization", SECRET]]},
        {"headers": [{"name": "Authorization", "value": SECRET}]},
        {"command": ["curl", "--token", SECRET, "https://example.com"]},
        {"url": f"https://me:{SECRET}@example.com/"},
        {"url": f"https://example.com/?api_key={SECRET}"},
        {"text": f'{{"password": "{SECRET}"}}'},
        {f"https://me:{SECRET}@example.com/": 1},
    ],
)
def test_secrets_in_other_places(payload):
    masked = masked_parameters(json.dumps(payload))

    assert SECRET not in masked
    assert json.loads(masked)


def test_what_is_no_json_is_redacted_as_text():
    assert masked_parameters(f'{{"password": "{SECRET}') == '{"password": ***'
    deep = "[" * 100_000
    assert len(masked_parameters(deep)) < 10_000


def test_large_numbers_and_other_scripts_survive():
    text = '{"id":9007199254740993,"name":"雪","price":1.5}'

    assert masked_parameters(text) == text


def test_patterns_of_the_users_own_count():
    before = default_classifier()
    use_classifier(Classifier(redactor=Redactor([r"customer \d+"])))
    try:
        assert masked_parameters('{"who":"customer 4711"}') == '{"who":"***"}'
    finally:
        use_classifier(before)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=12), children, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_it_never_raises_and_stays_json(value):
    json.loads(masked_parameters(json.dumps(value)))


@given(st.text(max_size=200))
def test_any_text_is_taken(text):
    masked_parameters(text)
