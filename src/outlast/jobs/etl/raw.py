"""Where what was fetched is kept as it came: files or S3, under keys that contain the hash."""

import base64
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol
from urllib.parse import quote

from outlast.errors import InvalidParametersError

_LONGEST_PART = 200  # file systems allow 255 bytes, and temporary files need some of them
_PREFIX_OF_LONG_PART = 120
_HASH = re.compile(r"[0-9A-Za-z]{8,128}")
_FORBIDDEN = re.compile(r'[\x00-\x1f\\:*?"<>|]')


class RawStore(Protocol):
    """What is asked of a raw store. Whatever goes wrong is raised as it comes: the classifier judges it."""

    def put(self, key: str, data: bytes) -> None:
        """Keep data under a key; after the return it is there for good. Putting it once more changes nothing."""

    def get(self, key: str) -> bytes:
        """Return what is kept under a key."""

    def exists(self, key: str) -> bool:
        """Tell whether there is something under a key."""

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that begin so."""


def raw_key(source: str, entity: str, source_id: str, hash: str) -> str:  # noqa: A002  # the seed's name
    """Return the key of one version of one record: ``source/entity/source_id/hash``.

    Names are percent-encoded, so that no id leaves its folder; one that is too long for a file's name is cut, and ends
    in a hash of the whole.

    Raises:
        InvalidParametersError: If a name is empty or cannot be stored, or the hash is none.
    """
    if not _HASH.fullmatch(hash):
        message = f"hash is {hash!r:.100}; give the one that content_hash returns"
        raise InvalidParametersError(message)
    parts = (_key_part("source", source), _key_part("entity", entity), _key_part("source_id", source_id))
    return "/".join((*parts, hash))


def _key_part(what: str, name: object) -> str:
    if not isinstance(name, str) or not name or "\x00" in name:
        message = f"{what} is {name!r:.100}; give a text that is not empty and has no NUL in it"
        raise InvalidParametersError(message)
    try:
        encoded = quote(name, safe="").replace("~", "%7E")  # which marks what was cut
    except UnicodeEncodeError:
        message = f"{what} is {name!r:.100}; it has half a character in it, which cannot be stored"
        raise InvalidParametersError(message) from None
    if encoded.startswith("."):  # "..", and files that are hidden
        encoded = f"%2E{encoded[1:]}"
    if len(encoded) > _LONGEST_PART:
        return f"{encoded[:_PREFIX_OF_LONG_PART]}~{hashlib.sha256(name.encode()).hexdigest()}"
    return encoded


class FileRawStore:
    """Keeps every object in a file of a folder.

    A file is there whole or not at all, also after a power cut, and whoever writes it at the same time. A process that
    is killed may leave a hidden file behind, which no key leads to.

    Args:
        folder: Made when it is first needed.
    """

    def __init__(self, folder: str | Path) -> None:
        """Touch nothing yet."""
        self.folder = Path(folder).absolute()

    def put(self, key: str, data: bytes) -> None:
        """Keep data under a key: written aside, confirmed by the disk, then renamed."""
        path = self._path(key)
        _make_folder(path.parent)
        aside = path.with_name(f".{token_hex(8)}.tmp")
        try:
            with open(aside, "xb") as file:  # noqa: PTH123  # the same
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)  # noqa: PTH105  # the same
        except BaseException:
            with suppress(OSError):
                aside.unlink()
            raise
        _fsync_folder(path.parent)

    def get(self, key: str) -> bytes:
        """Return what is kept under a key.

        Raises:
            FileNotFoundError: If there is nothing.
        """
        return self._path(key).read_bytes()

    def exists(self, key: str) -> bool:
        """Tell whether there is something under a key."""
        return self._path(key).is_file()

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that begin so, folder by folder in the order of their names."""
        for folder, folders, names in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            inside = Path(folder).relative_to(self.folder)
            for name in sorted(names):
                key = (inside / name).as_posix()
                if key.startswith(prefix) and not name.startswith("."):
                    yield key

    def _path(self, key: str) -> Path:
        """Return the file of a key.

        Raises:
            InvalidParametersError: If the key would lead out of the folder, or to a hidden file.
        """
        parts = key.split("/")
        if _FORBIDDEN.search(key) or any(not part or part.startswith(".") for part in parts):
            message = f"{key!r:.200} is no key of a raw store; use raw_key"
            raise InvalidParametersError(message)
        return self.folder.joinpath(*parts)


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each confirmed by the disk: a file is no safer than its folder."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)  # another writer may have been quicker
    _fsync_folder(folder.parent)


def _fsync_folder(folder: Path) -> None:
    """Have the disk confirm what a folder lists."""
    if os.name == "nt":  # where folders cannot be opened, and need not
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class S3RawStore:
    """Keeps every object in a bucket.

    Let the client try once, ``Config(retries={"total_max_attempts": 1})``: the policy around it tries again, and two
    layers of retries multiply. Where the client does it too, the log says so once.

    Args:
        client: A boto3 client for S3.
        bucket: Name of the bucket.
        prefix: Stands before every key, as a folder.
    """

    def __init__(self, client: Any, bucket: str, prefix: str = "") -> None:
        """Ask nothing yet."""
        self.client = client
        self.bucket = bucket
        self.prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    def put(self, key: str, data: bytes) -> None:
        """Keep data under a key; S3 refuses it where it arrives damaged."""
        digest = hashlib.md5(data, usedforsecurity=False).digest()
        self.client.put_object(
            Bucket=self.bucket, Key=self.prefix + key, Body=data, ContentMD5=base64.b64encode(digest).decode()
        )

    def get(self, key: str) -> bytes:
        """Return what is kept under a key."""
        with closing(self.client.get_object(Bucket=self.bucket, Key=self.prefix + key)["Body"]) as body:
            data: bytes = body.read()
        return data

    def exists(self, key: str) -> bool:
        """Tell whether there is something under a key; a role that may not list the bucket gets a 403 for nothing."""
        try:
            self.client.head_object(Bucket=self.bucket, Key=self.prefix + key)
        except self.client.exceptions.ClientError as error:
            if error.response.get("Error", {}).get("Code") in {"404", "NoSuchKey", "NotFound"}:
                return False
            raise
        return True

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that begin so, in their order."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix + prefix)
        for page in pages:
            for found in page.get("Contents", ()):
                yield found["Key"][len(self.prefix) :]
