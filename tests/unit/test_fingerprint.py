"""The same failure has the same fingerprint; another cause has another."""

import pytest

from outlast import Category, Failure, classify


def fingerprint(message, name="Error", **fields):
    return Failure(Category.UNKNOWN, retryable=False, exception_name=name, message=message, **fields).fingerprint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("user 17 not found", "user 40312 not found"),
        ("order A-1093 failed", "order B-77 failed"),
        ("GET https://api.example.com/v1/items/17?page=2 failed", "GET https://other.example.org/v1/items/99 failed"),
        ("no answer from api.example.com", "no answer from db-7.internal"),
        ("no answer from api.example.com:443", "no answer from localhost:8080"),
        ("connect to 10.0.0.1 port 5432 failed", "connect to 192.168.7.30 port 5433 failed"),
        ("connect to ::1 failed", "connect to fe80::1ff:fe23:4567:890a failed"),
        ("<Widget object at 0x7f3a10> is broken", "<Widget object at 0x55d2c8> is broken"),
        ("job 6fa459ea-ee8a-3ca4-894e-db77e160355e lost", "job 16fd2706-8baf-433b-82eb-8c7fada847da lost"),
        ("stale since 2026-01-02T03:04:05Z", "stale since 2025-11-30 23:59:59.123+09:00"),
        ("cannot open /srv/data/a.csv", "cannot open /home/x/b.csv"),
        ("no account for ann@example.com", "no account for bob.b@example.org"),
        ("object 9f86d081884c7d65 is gone", "object 60303ae22b998861 is gone"),
        ("waited 1.5 s", "waited 30.25 s"),
        ("waited 5ms", "waited 1,234ms"),
        ("no answer from api.foo.be", "no answer from api.bar.it"),
        ("GET https://a.example/" + "x" * 2000 + " failed", "GET https://a.example/y failed"),
        ("host='a1.example.net', port=1", "host='b.example.com', port=443"),
    ],
)
def test_ids_hosts_numbers_and_addresses_do_not_count(one, other):
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("user 17 not found", "user 17 is locked"),
        ("connection refused", "connection reset"),
        ("column name is missing", "column price is missing"),
        ("sha256 mismatch", "md5 mismatch"),
        ("oauth2 failed", "s3 failed"),
    ],
)
def test_another_cause_counts(one, other):
    assert fingerprint(one) != fingerprint(other)


def test_type_status_code_and_place_count():
    seen = {
        fingerprint("x"),
        fingerprint("x", name="Other"),
        fingerprint("x", http_status=404),
        fingerprint("x", http_status=503),
        fingerprint("x", code="40001"),
        fingerprint("x", location="app/a.py:fetch"),
        fingerprint("x", location="app/a.py:save"),
    }
    assert len(seen) == 7


def test_the_line_does_not_count():
    def fetch(flag):
        if flag:
            raise ValueError("bad")
        raise ValueError("bad")

    def judged(flag):
        try:
            fetch(flag)
        except ValueError as error:
            return classify(error)

    one, other = judged(flag=True), judged(flag=False)

    assert one.fingerprint == other.fingerprint
    assert one.location.endswith("unit/test_fingerprint.py:test_the_line_does_not_count.<locals>.fetch")


def test_the_innermost_frame_of_the_users_code_is_the_place():
    import json

    def parse():
        return json.loads("{")

    try:
        parse()
    except ValueError as error:
        assert classify(error).location.endswith(
            "test_fingerprint.py:test_the_innermost_frame_of_the_users_code_is_the_place.<locals>.parse"
        )
