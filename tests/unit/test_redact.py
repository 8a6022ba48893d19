"""Secrets never leave the exception (pitfall 35), and text is safe to store (pitfall 34)."""

import time

import pytest

from outlast import Classifier, Redactor, classify
from outlast.redact import redact

SECRET = "s3cr3tV4lue9"


@pytest.mark.parametrize(
    "text",
    [
        f"GET https://user:{SECRET}@example.com/path failed",
        f"GET https://{SECRET}@example.com/path failed",
        f"could not connect to postgresql://app:{SECRET}@db:5432/main",
        f"redis://:{SECRET}@cache:6379/0 refused",
        f"could not connect: host=db user=app password={SECRET} dbname=x",
        f"password='{SECRET} with blanks' rejected",
        f"Authorization: Bearer {SECRET}",
        f"authorization: Basic {SECRET}",
        f"{{'Authorization': 'token {SECRET}', 'Accept': '*/*'}}",
        f"headers: {{'Cookie': 'session={SECRET}; theme=dark'}}",
        f"Set-Cookie: id={SECRET}; Path=/",
        f"x-api-key: {SECRET}",
        f"request with X-Auth-Token={SECRET} refused",
        f"bad bearer {SECRET} given",
        f"GET /v1/items?api_key={SECRET}&page=2",
        f"GET /v1/items?page=2&access_token={SECRET}",
        f"GET https://example.com/?applicationId={SECRET}&format=json",
        f"GET https://example.com/?key={SECRET}",
        f"https://bucket.example.com/x?X-Amz-Signature={SECRET}&X-Amz-Date=1",
        f'{{"client_secret": "{SECRET}", "grant": "x"}}',
        f"client_secret => {SECRET}",
        f"login(user='a', password='{SECRET}')",
        f"DB_PASSWORD={SECRET} is wrong",
        f"refresh_token: {SECRET}",
        "key AKIAIOSFODNN7EXAMPLE is inactive",
        "aws_secret_access_key = wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
        "token ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "slack xoxb-123456789012-abcdefGHIJKL",
        "openai sk-proj-abcdefghijklmnop1234",
        "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
        f"POST https://hooks.slack.com/services/T000/B000/{SECRET} failed",
        f"{'x' * 4000} password={SECRET * 40}",
    ],
)
def test_secrets_are_masked(text):
    secrets = [
        SECRET, "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI", "16C7e42F292c", "123456789012-abc", "abcdefghijklmnop1234",
        "eyJzdWIiOiIxIn0", "MIIEowIBAAKCAQEA",
    ]  # fmt: skip
    shown = redact(text)

    assert not [secret for secret in secrets if secret in shown], shown
    assert "***" in shown or "characters)" in shown


@pytest.mark.parametrize(
    "text",
    [
        "Connection to db.example.com:5432 refused",
        "404 Not Found: /tokens/list",
        "KeyError: 'name'",
        "primary key constraint violated for row 7",
        "author=Ann is unknown",
        "basic arithmetic failed",
        "a monkey = an animal",
        "see https://example.com/@ann for details",
        "Invalid parameter: timeout must be > 0",
        "The bearer of this letter",
    ],
)
def test_ordinary_text_is_left_alone(text):
    assert redact(text) == text


@pytest.mark.parametrize("text", ["token=***", "password=***; next", "**password:** ***", '{"token": "***"}'])
def test_what_is_masked_stays_as_it_is(text):
    assert "****" not in redact(text)


def test_the_text_around_a_secret_stays():
    assert redact("GET https://u:p@h/x?a=1&token=abc&b=2 failed") == "GET https://***@h/x?a=1&token=***&b=2 failed"


def test_capped_before_any_pattern_runs():
    start = time.perf_counter()
    shown = redact("password=" * 2_000_000)
    assert time.perf_counter() - start < 1
    assert len(shown) < 5000


def test_patterns_do_not_explode():
    start = time.perf_counter()
    for text in (
        "://" * 1300,
        "a_" * 2000,
        "authorization:" * 290,
        "'" * 4000,
        "eyJ" * 1300,
        "-----BEGIN A PRIVATE KEY-----" * 140,
        "a-" * 2000 + "=",
        "x-" * 2000,
    ):
        redact(text)
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize("bad", ["a\x00b", "a\ud800b", "a\x1b[31mb", "a\x85b", "a\u202eb"])
def test_nothing_that_a_database_or_a_terminal_chokes_on(bad):
    shown = redact(bad)

    shown.encode("utf-8")
    assert shown == "a\ufffd" + bad[2:]


def test_lines_and_scripts_survive():
    assert redact("ab\n\tc 接続 é") == "ab\n\tc 接続 é"


def test_own_patterns():
    shown = Redactor([r"(customer )\d+", r"project-\w+"])("customer 4711 of project-x, password=abc")

    assert shown == "customer *** of ***, password=***"


def test_a_bad_pattern_is_refused():
    with pytest.raises(ValueError, match="not a valid regular expression"):
        Redactor(["("])


def test_a_classifier_can_have_its_own():
    failure = Classifier(redactor=Redactor([r"customer \d+"])).classify(ValueError("customer 4711 is gone"))

    assert failure.message == "*** is gone"


def test_no_part_of_a_failure_shows_a_secret():
    class Leaky(Exception):
        pass

    error = Leaky(f"https://u:{SECRET}@h/?token={SECRET}")
    error.__cause__ = ConnectionError(f"password={SECRET}")
    failure = classify(error)

    assert SECRET not in failure.to_json()
    assert SECRET not in str(failure)
    assert SECRET not in repr(failure)


def test_explain_shows_no_secret_either():
    from outlast import explain

    assert SECRET not in str(explain(ValueError(f"quota exceeded for api_key={SECRET}, not found")))


@pytest.mark.parametrize(
    "text",
    [
        f"Illegal header value b'{SECRET}\\n'",
        f"Invalid leading whitespace, reserved character(s), or return character(s) in header value: '{SECRET}\\n'",
        f"Command '['mysql', '--password', '{SECRET}']' returned non-zero exit status 1.",
        f"Command 'mysql --password={SECRET}' failed",
        f"POST https://api.telegram.org/bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw{SECRET}/sendMessage",
        f"AccountKey={SECRET};EndpointSuffix=x",
        f"SECRET_KEY='{SECRET}'",
        f"pass={SECRET}",
        f"Password is '{SECRET}'",
        f"https://u:pa/{SECRET}@host/x",
        f"AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY{''} {{'token': '{SECRET}'}}",
    ],
)
def test_more_places_where_secrets_stand(text):
    shown = redact(text)

    assert SECRET not in shown, shown
    assert "wJalrXUtnFEMI" not in shown


@pytest.mark.parametrize(
    "text",
    [
        f"encryption_key={SECRET}",
        f"Ocp-Apim-Subscription-Key: {SECRET}",
        f'"{{\\"password\\": \\"{SECRET}\\"}}"',
        f'{{"password": "ab\\"{SECRET}"}}',
        f"password='foo\n{SECRET}'",
        f'Authorization: Digest username="bob", response="{SECRET}"',
        f'Cookie: sid="x"; tok={SECRET}',
        f"auth=('bob', '{SECRET}')",
        f"api_key=SecretStr('{SECRET}')",
        f"{{'token': ['{SECRET}']}}",
        f"{{'Authorization': ['Bearer {SECRET}']}}",
        f"('X-Api-Key', '{SECRET}')",
        f"(b'cookie', b'sid={SECRET}')",
        "('Authorization', 'Basic dXNlcjpwYXNz')",
        "got Bearer dXNlcjpwYXNzabcdef",
        f"postgres://bob:pa/{SECRET}@db/x",
        f"https://discord.com/api/webhooks/123/{SECRET}",
        f"whsec_{SECRET}abc",
        f"[SQL: INSERT INTO t VALUES (?, ?)]\n[parameters: ('bob', '{SECRET}')]\n(Background on this error)",
        f"Command '['curl', '-u', 'bob:{SECRET}', '--token', '{SECRET}']' timed out after 3 seconds",
        f"password1={SECRET}",
        f"<password>{SECRET}</password>",
        f"パスワード: {SECRET}",
        "word\n" * 812 + f"https://u:{SECRET * 30}@host",
        "x" * 4090 + "AKIAIOSFODNN7EXAMPLE",
        "y " * 2040 + f"password='correct {SECRET} and more'",
    ],
)
def test_forms_that_secrets_take(text):
    shown = redact(text)

    assert SECRET not in shown, shown[-300:]
    assert "dXNlcjpwYXNz" not in shown
    assert "AKIAIOSF" not in shown


def test_rule_and_code_show_no_secret():
    error = ConnectionError(f"connection to postgres://bob:{SECRET}@db:5432/x refused")
    error.code = f"x https://u:{SECRET}@h/ NotFound"
    failures = [
        classify(error),
        classify(Exception(f"connection to postgres://bob:{SECRET}@db:5432/x refused")),
        classify(Exception(f"permission to https://u:{SECRET}@h/x denied")),
        classify(type("Odd", (Exception,), {"code": f"token={SECRET} NotFound"})("x")),
        classify(type("Odd", (Exception,), {"code": "\ud800" + "x" * 5000 + "NotFound"})("x")),
    ]

    for failure in failures:
        assert SECRET not in failure.to_json()
        failure.to_json().encode()
        assert len(failure.code or "") <= 120
        assert len(failure.rule) <= 300


@pytest.mark.parametrize("text", ["token=***", "sync api_key=***", "**password:** ***"])
def test_a_text_that_is_masked_already_stays(text):
    assert redact(text) == text
