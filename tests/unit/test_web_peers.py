"""From where somebody asks, with and without a proxy that is believed."""

import pytest

from outlast.errors import ConfigError
from outlast.web.access.hosts import client_address, parse_proxy


def asked(peer, *named):
    return {"client": (peer, 1), "headers": [(b"X-Forwarded-For", each.encode("latin-1")) for each in named]}


@pytest.mark.parametrize(
    ("peer", "named", "found"),
    [
        ("127.0.0.1", ["10.0.0.7"], "10.0.0.7"),
        ("::ffff:127.0.0.1", ["10.0.0.7"], "10.0.0.7"),
        ("127.0.0.1", ["10.0.0.1, 10.0.0.2 , 10.0.0.7"], "10.0.0.7"),  # the first ones anybody can write
        ("127.0.0.1", ["10.0.0.1", "10.0.0.7"], "10.0.0.7"),
        ("127.0.0.1", ["[2001:db8::1]:443"], "2001:db8::1"),
        ("127.0.0.1", ["10.0.0.7:5000"], "10.0.0.7"),
        ("127.0.0.1", ["unknown"], "127.0.0.1"),
        ("127.0.0.1", ["10.0.0.7, "], "127.0.0.1"),
        ("127.0.0.1", ["\xff"], "127.0.0.1"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("127.0.0.2", ["10.0.0.7"], "127.0.0.2"),
        ("10.0.0.9", ["127.0.0.1"], "10.0.0.9"),
        ("testclient", ["10.0.0.7"], "testclient"),
    ],
)
def test_only_the_proxy_is_believed_and_only_its_last_word(peer, named, found):
    assert client_address(asked(peer, *named), parse_proxy("127.0.0.1")) == found
    assert client_address(asked(peer, *named)) == peer


def test_somebody_without_an_address():
    assert client_address({"headers": []}, parse_proxy("::1")) == "an unknown address"


@pytest.mark.parametrize("given", ["", "proxy.example.com", "10.0.0.0/8", "*", "127.0.0.1,::1"])
def test_what_is_no_address_of_a_proxy(given):
    with pytest.raises(ConfigError, match="not a valid proxy address"):
        parse_proxy(given)
