"""Bodies that are packed: never more of them is unpacked than is asked for."""

import gzip
import tracemalloc
import zlib

import pytest

from outlast.errors import BodyTooLargeError, ContentError
from outlast.http.bodies import body_counter, decompress_beginning, streamable_encodings

BOMB = gzip.compress(bytes(50_000_000), mtime=0)


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (None, b"well" * 10),
        ("identity", b"well" * 10),
        ("gzip", gzip.compress(b"well" * 10, mtime=0)),
        ("X-GZIP", gzip.compress(b"well" * 10, mtime=0)),
        ("deflate", zlib.compress(b"well" * 10)),
        ("deflate", raw_deflate(b"well" * 10)),
        ("identity, gzip", gzip.compress(b"well" * 10, mtime=0)),
    ],
)
def test_what_is_packed_once_is_unpacked_to_a_limit(header, body):
    assert decompress_beginning(header, body, 100) == b"well" * 10
    assert decompress_beginning(header, body, 6) == b"wellwe"
    body_counter(header, 40).count(body)
    with pytest.raises(BodyTooLargeError):
        body_counter(header, 39).count(body)


def test_the_beginning_of_one_that_is_cut_off_is_unpacked():
    body = gzip.compress(bytes(range(256)) * 1000, mtime=0)
    assert decompress_beginning("gzip", body[:-20], 300) == (bytes(range(256)) * 2)[:300]


@pytest.mark.parametrize(
    ("header", "body"),
    [("gzip, gzip", BOMB), ("br", b"abc"), ("gzip", b"no"), ("deflate", b"no")],
    ids=["twice", "br", "no gzip", "no deflate"],
)
def test_anything_else_is_left_as_it_is(header, body):
    assert decompress_beginning(header, body, 100) is None


@pytest.mark.parametrize("header", ["gzip, gzip", "gzip,deflate", "br", "zstd", "ZSTD", "identity, br"])
def test_what_cannot_be_counted_in_pieces_is_refused(header):
    with pytest.raises(ContentError, match="compressed as"):
        body_counter(header, 100)


def test_a_few_bytes_never_become_many():
    tracemalloc.start()
    try:
        assert len(decompress_beginning("gzip", BOMB, 1000)) == 1000
        with pytest.raises(BodyTooLargeError):
            body_counter("gzip", 1_000_000).count(BOMB)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def test_all_parts_are_counted_however_they_come():
    body = gzip.compress(b"a" * 1000, mtime=0) + gzip.compress(b"b" * 1000, mtime=0)
    counter = body_counter("gzip", 2000)
    for number in range(len(body)):
        counter.count(body[number : number + 1])
    with pytest.raises(BodyTooLargeError):
        counter.count(gzip.compress(b"c", mtime=0))


def test_what_is_not_packed_as_it_says_is_counted_as_it_comes():
    counter = body_counter("gzip", 10)
    counter.count(b"0123456789")
    with pytest.raises(BodyTooLargeError):
        counter.count(b"0")


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("gzip, deflate, br, zstd", "gzip, deflate"),
        ("br;q=1.0, gzip", "gzip, deflate"),
        ("gzip", "gzip"),
        ("identity", "identity"),
        ("*", "*"),
    ],
)
def test_what_cannot_be_counted_is_not_asked_for(given, asked):
    assert streamable_encodings(given) == asked
