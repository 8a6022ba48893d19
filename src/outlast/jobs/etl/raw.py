"""Stores for raw documents: files or S3, under keys that contain the hash."""

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
from outlast.jobs.target_feed import id_text
from outlast.private_files import private_opener

_MAX_PART_LENGTH = 200  # file systems allow 255 bytes in a name
_LONG_PART_PREFIX = 120
_HASH = re.compile(r"[0-9A-Za-z]{8,128}")
_FORBIDDEN = re.compile(r'[\x00-\x1f\\:*?"<>|]')


class RawStore(Protocol):
    """Interface of a raw store. It raises errors unchanged, for the classifier."""

    def put(self, key: str, data: bytes) -> None:
        """Store data under a key. It is durable when this returns. Storing it again changes nothing."""

    def get(self, key: str) -> bytes:
        """Return the data under a key."""

    def exists(self, key: str) -> bool:
        """Return whether a key exists."""

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that start with the prefix."""


def raw_key(source: str, entity: str, source_id: str | int, hash: str) -> str:  # noqa: A002  # the name of the column
    """Return the key of one version of one record: ``source/entity/source_id/hash``.

    Names are percent-encoded, so that no id can leave its folder. A name that is too long for a file name is cut, and
    ends in a hash of the whole name.

    Raises:
        InvalidParametersError: If a name is empty or cannot be stored, or the hash is not valid.
    """
    if not _HASH.fullmatch(hash):
        raise InvalidParametersError(f"hash is {hash!r:.100}; pass the result of content_hash")
    parts = (_key_part("source", source), _key_part("entity", entity), _key_part("source_id", id_text(source_id)))
    return "/".join((*parts, hash))


def _key_part(what: str, name: object) -> str:
    if not isinstance(name, str) or not name or "\x00" in name:
        raise InvalidParametersError(f"{what} is {name!r:.100}; it must be text that is not empty and contains no NUL")
    try:
        encoded = quote(name, safe="").replace("~", "%7E")  # "~" marks a name that was cut
    except UnicodeEncodeError:
        raise InvalidParametersError(
            f"{what} is {name!r:.100}; it contains half of a surrogate pair, which cannot be stored"
        ) from None
    if encoded.startswith("."):  # "..", and files that are hidden
        encoded = f"%2E{encoded[1:]}"
    if len(encoded) > _MAX_PART_LENGTH:
        return f"{encoded[:_LONG_PART_PREFIX]}~{hashlib.sha256(name.encode()).hexdigest()}"
    return encoded


class FileRawStore:
    """Stores every object in a file of a folder.

    A file is complete or does not exist, even after a power cut or with several writers. A process that is killed may
    leave a hidden temporary file behind, which has no key. Only this user can use what it creates.

    Args:
        folder: Created when it is first needed.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()

    def put(self, key: str, data: bytes) -> None:
        """Store data under a key: write a temporary file, sync it to disk, rename it."""
        path = self._path(key)
        _make_folder(path.parent)
        temporary = path.with_name(f".{token_hex(8)}.tmp")
        try:
            with open(temporary, "xb", opener=private_opener) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)  # noqa: PTH105  # tests make it fail
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        _fsync_folder(path.parent)

    def get(self, key: str) -> bytes:
        """Return the data under a key.

        Raises:
            FileNotFoundError: If the key does not exist.
        """
        return self._path(key).read_bytes()

    def exists(self, key: str) -> bool:
        """Return whether a key exists."""
        return self._path(key).is_file()

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that start with the prefix, folder by folder, sorted by name."""
        for folder, folders, names in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            inside = Path(folder).relative_to(self.folder)
            for name in sorted(names):
                key = (inside / name).as_posix()
                if key.startswith(prefix) and not name.startswith("."):
                    yield key

    def _path(self, key: str) -> Path:
        """Return the path of a key.

        Raises:
            InvalidParametersError: If the path would be outside of the folder, or a hidden file.
        """
        parts = key.split("/")
        if _FORBIDDEN.search(key) or any(not part or part.startswith(".") for part in parts):
            raise InvalidParametersError(f"{key!r:.200} is not a valid key of a raw store; use raw_key")
        return self.folder.joinpath(*parts)


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents, each synced to disk: a file is only as durable as its folder."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(0o700, exist_ok=True)  # another writer may have created it
    _fsync_folder(folder.parent)


def _fsync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk."""
    if os.name == "nt":  # Windows cannot open folders, and does not need it
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class S3RawStore:
    """Stores every object in a bucket.

    Turn off the retries of the client, with ``Config(retries={"total_max_attempts": 1})``: the policy retries, and two
    layers of retries multiply. If the client retries too, that is logged once.

    Args:
        client: A boto3 client for S3.
        bucket: Name of the bucket.
        prefix: Folder in front of every key.
    """

    def __init__(self, client: Any, bucket: str, prefix: str = "") -> None:
        self.client = client
        self.bucket = bucket
        self.prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    def put(self, key: str, data: bytes) -> None:
        """Store data under a key, with a checksum: S3 refuses damaged data."""
        digest = hashlib.md5(data, usedforsecurity=False).digest()
        self.client.put_object(
            Bucket=self.bucket, Key=self.prefix + key, Body=data, ContentMD5=base64.b64encode(digest).decode()
        )

    def get(self, key: str) -> bytes:
        """Return the data under a key."""
        with closing(self.client.get_object(Bucket=self.bucket, Key=self.prefix + key)["Body"]) as body:
            data: bytes = body.read()
        return data

    def exists(self, key: str) -> bool:
        """Return whether a key exists; without permission to list the bucket, S3 answers a missing key with 403."""
        try:
            self.client.head_object(Bucket=self.bucket, Key=self.prefix + key)
        except self.client.exceptions.ClientError as error:
            if error.response.get("Error", {}).get("Code") in {"404", "NoSuchKey", "NotFound"}:
                return False
            raise
        return True

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that start with the prefix, sorted."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix + prefix)
        for page in pages:
            for found in page.get("Contents", ()):
                yield found["Key"][len(self.prefix) :]
