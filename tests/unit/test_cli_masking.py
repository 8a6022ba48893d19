"""Payloads as they are shown: without secrets, whatever form they have."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.classify import Classifier, default_classifier, use_classifier
from outlast.queue.masking import masked_parameters, masked_text, masked_value
from outlast.redact import Redactor
from outlast.secret_names import is_secret_name

SECRET = "s3cr3t-0f-mine"


@pytest.mark.parametrize(
    "name",
    [
        "password", "db_password", "dbPassword", "PASSWORD", "userpassword", "passwd", "pwd", "passphrase", "smtp_pass",
        "token", "access_token", "accessToken", "refresh-token", "accesstoken", "tokens", "secret", "client_secret", "clientSecret",
        "api_key", "apiKey", "apikey", "APIKey", "x-api-key", "private_key", "AWSSecretAccessKey", "access_keys", "session_id",
        "sessionid", "authorization", "Proxy-Authorization", "auth", "cookie", "Set-Cookie", "cookies", "jwt", "csrf_token",
        "X-Amz-Signature", "credentials", "パスワード", "dbpass", "smtpPass", "db_userpass", "passcode", "pin", "cardPin", "totp",
        "totp_seed", "hmac_key", "hmacKey", "ssh_key", "sshkey", "master_key", "masterKey", "encryption_key", "signing-key",
        "kennwort", "Kennwort", "datenbank_passwort", "passwörter", "mot_de_passe", "motDePasse", "motdepasse", "contraseña",
        "CONTRASEÑA", "contrasena", "session", "consumerKey", "connection_string", "database_url", "webhookUrl", "contrasen\u0303a", "senha", "senhaDoBanco", "ｐａｓｓｗｏｒｄ",
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
        ("bypass", "x"), ("lowpass", 3), ("spinning", "x"), ("pint", "x"), ("opinion", "x"), ("ssh_public_key", "x"), ("hash", "x"),
        ("password", None), ("has_token", True), ("", "x"), ("123", "x"),
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
        {"headers": [{"Name": "Authorization", "Value": SECRET}]},
        {"headers": [{"Key": "Set-Cookie", "Values": [SECRET]}]},
        {"headers": ["Accept", "text/html", "Authorization", SECRET]},
        {"headers": ["Authorization", SECRET, "Accept", "text/html"]},
        {"headers": [["Set-Cookie", [SECRET]]]},
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


def test_a_list_of_names_and_values_keeps_what_is_no_secret():
    masked = json.loads(masked_parameters(json.dumps(["Accept", "text/html", "Authorization", "x", "Age", "3"])))

    assert masked == ["Accept", "text/html", "Authorization", "***", "Age", "3"]


@pytest.mark.parametrize(
    "text", ['{"x":NaN,"dbpass":"a b"}', '{"x":-Infinity,"dbpass":"a b"}', '{"x":1e999,"dbpass":"a b"}']
)
def test_numbers_that_json_does_not_have_are_text(text):
    number = text[5:].partition(",")[0]

    assert masked_value(text) == {"x": number, "dbpass": "***"}
    assert json.loads(masked_parameters(text)) == {"x": number, "dbpass": "***"}


@pytest.mark.parametrize("depth", [90, 200, 900, 5000])
def test_payloads_of_any_depth(depth):
    for text in ("[" * depth, "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        masked_parameters(text)
        json.dumps(masked_value(text), indent=2, allow_nan=False)


def test_text_without_a_secret_is_left_as_it_is():
    assert masked_text("a\x1b[2J\u202e\n") == "a\x1b[2J\u202e\n"
    assert masked_text(f"postgresql://me:{SECRET}@db/shop") == "postgresql://***@db/shop"


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
        assert masked_text("invoice of customer 4711") == "invoice of ***"
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
