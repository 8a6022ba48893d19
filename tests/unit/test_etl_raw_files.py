"""Keys contain the hash and never leave their folder; a file is there whole or not at all."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import InvalidParametersError
from outlast.jobs.etl import FileRawStore, content_hash, raw_key

HASH = content_hash("x")
TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1)


@pytest.fixture
def raw(tmp_path):
    return FileRawStore(tmp_path / "raw")


def test_a_key_is_readable_and_contains_the_hash():
    assert raw_key("rakuten", "item", "shop.a-1_2", HASH) == f"rakuten/item/shop.a-1_2/{HASH}"
    assert raw_key("rakuten", "item", "shop:1/2", HASH) == f"rakuten/item/shop%3A1%2F2/{HASH}"


@pytest.mark.parametrize(
    "odd", ["..", ".", "../../etc/passwd", "a/../b", "/root", "C:\\x", "~", "%2F", ".hidden", "楽天", " "]
)
def test_no_id_leaves_its_folder(raw, odd):
    key = raw_key("rakuten", "item", odd, HASH)
    raw.put(key, b"x")
    assert key.count("/") == 3
    [path] = [each for each in raw.folder.rglob("*") if each.is_file()]
    assert path.parent.parent == raw.folder / "rakuten" / "item"
    assert list(raw.keys()) == [key]


@given(st.lists(TEXTS | st.sampled_from(["a" * 300, "a" * 301, "é" * 90, "~"]), min_size=2, max_size=2, unique=True))
def test_two_ids_never_share_a_key(names):
    first, second = (raw_key("s", "e", name, HASH) for name in names)
    assert first != second
    assert all(len(part) <= 200 for part in first.split("/"))


def test_an_id_too_long_for_a_file_is_cut(raw):
    keys = [raw_key("rakuten", "item", "楽" * 500 + end, HASH) for end in "ab"]
    for key in keys:
        raw.put(key, key.encode())
    assert [raw.get(key) for key in keys] == [key.encode() for key in keys]


@pytest.mark.parametrize("wrong", ["", "a\x00b", "\ud83d", None, True, 5.0])
def test_an_id_that_cannot_be_stored_is_refused(wrong):
    with pytest.raises(InvalidParametersError, match="source_id"):
        raw_key("rakuten", "item", wrong, HASH)


@pytest.mark.parametrize("wrong", ["", "..", "../x", "a b c d e", HASH + "/x"])
def test_what_is_no_hash_is_refused(wrong):
    with pytest.raises(InvalidParametersError, match="hash"):
        raw_key("rakuten", "item", "1", wrong)


@pytest.mark.parametrize("key", ["../x", "a/../../x", "/etc/x", "a//x", "", "a/.x", "a\\..\\x", "C:/x", "a/\x00", "a/"])
def test_a_key_that_leaves_the_folder_is_refused(raw, tmp_path, key):
    for use in (lambda: raw.put(key, b"x"), lambda: raw.get(key), lambda: raw.exists(key)):
        with pytest.raises(InvalidParametersError):
            use()
    assert list(tmp_path.rglob("*")) == []


def test_what_is_put_is_there_and_a_second_put_changes_nothing(raw):
    key = raw_key("rakuten", "item", "1", HASH)
    assert not raw.exists(key)
    with pytest.raises(FileNotFoundError):
        raw.get(key)
    raw.put(key, b"one")
    raw.put(key, b"one")
    assert raw.exists(key)
    assert raw.get(key) == b"one"
    assert list(raw.keys("rakuten/item/")) == [key]
    assert list(raw.keys("rakuten/tag/")) == []
    assert [each.name for each in (raw.folder / "rakuten/item/1").iterdir()] == [HASH]


def test_a_put_that_fails_leaves_what_was_there_and_nothing_else(raw, monkeypatch):
    key = raw_key("rakuten", "item", "1", HASH)
    raw.put(key, b"one")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        raw.put(key, b"another")
    assert raw.get(key) == b"one"
    assert [each.name for each in (raw.folder / "rakuten/item/1").iterdir()] == [HASH]


def test_the_file_and_its_folders_are_confirmed_before_the_put_returns(raw, monkeypatch):
    """What is not confirmed is lost in a power cut, and a row would point to nothing."""
    done, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda number: (done.append(str(Path(f"/proc/self/fd/{number}").readlink())), fsync(number))
    )
    monkeypatch.setattr(os, "replace", lambda old, new: (done.append("renamed"), replace(old, new)))
    raw.put(f"a/b/{HASH}", b"x")
    inner = str(raw.folder / "a" / "b")
    *made, written, renamed, confirmed = done
    assert made == [str(raw.folder.parent), str(raw.folder), str(raw.folder / "a")]
    assert written.startswith(f"{inner}/.")
    assert (renamed, confirmed) == ("renamed", inner)


def test_readers_and_writers_at_once_see_whole_files_only(raw):
    key, size, stop, torn = f"a/{HASH}", 200_000, threading.Event(), []
    raw.put(key, b"0" * size)

    def write(byte):
        for _ in range(40):
            raw.put(key, byte * size)

    def read():
        while not stop.is_set():
            found = raw.get(key)
            if len(found) != size or len(set(found)) != 1:
                torn.append(found[:20])

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(byte,)) for byte in (b"1", b"2")]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    assert torn == []
    assert [each.name for each in (raw.folder / "a").iterdir()] == [HASH]


def test_what_a_killed_writer_left_behind_is_no_object(raw):
    raw.put(f"a/{HASH}", b"x")
    (raw.folder / "a" / ".0123.tmp").write_bytes(b"half")
    assert list(raw.keys()) == [f"a/{HASH}"]
