"""What somebody means by ``outlast explain SOMETHING``: a status, a code, an exception's name, or a text."""

import builtins
import importlib
import importlib.util
import os
import re
import sys

from outlast.classify.codes import CODES
from outlast.classify.errnos import ERRNOS
from outlast.classify.libraries import FILES
from outlast.classify.sqlstates import judge_sqlstate
from outlast.failure import Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["error_named", "exception_class", "subject_of"]

_STANDARD = frozenset(
    [
        "asyncio",
        "asyncio.exceptions",
        "binascii",
        "concurrent.futures",
        "concurrent.futures.process",
        "configparser",
        "csv",
        "decimal",
        "email.errors",
        "ftplib",
        "gzip",
        "http.client",
        "imaplib",
        "json",
        "json.decoder",
        "lzma",
        "multiprocessing",
        "pickle",
        "poplib",
        "queue",
        "shutil",
        "smtplib",
        "socket",
        "sqlite3",
        "ssl",
        "struct",
        "subprocess",
        "tarfile",
        "tomllib",
        "urllib.error",
        "xml.etree.ElementTree",
        "xml.parsers.expat",
        "zipfile",
        "zlib",
    ]
)
_NAME = re.compile(r"[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)*")
_ERRNO = re.compile(r"\[Errno (-?\d{1,6})\] ([^:]*)")


def subject_of(
    words: str, headers: "Mapping[str, str]", *, credentials_sent: bool | None = None
) -> BaseException | Evidence:
    """Return what to judge.

    Args:
        words: A status ("503"), a SQLSTATE, an errno name, an API error code, an exception's name, or any text.
        headers: Response headers that go with a status.
        credentials_sent: Whether the request carried credentials.
    """
    low = {name.lower(): value for name, value in headers.items()}
    if re.fullmatch(r"[1-5]\d\d", words):
        return Evidence(origin=Origin.HTTP, http_status=int(words), headers=low, credentials_sent=credentials_sent)
    if re.fullmatch(r"[0-9A-Z]{5}", words) and any(char.isdigit() for char in words) and judge_sqlstate(words):
        return Evidence(origin=Origin.DB, sqlstate=words)
    if words in ERRNOS:
        import errno  # noqa: PLC0415  # one case of several

        return Evidence(errno=getattr(errno, words, None), code=words)
    if words in CODES:
        return Evidence(code=words, headers=low)
    name, _, message = words.partition(": ")
    if (
        _NAME.fullmatch(name)
        and name.rpartition(".")[2][0].isupper()
        and (not message or exception_class(name) or "." in name)
    ):
        return error_named(name, message)
    return Exception(words)


def error_named(name: str, message: str) -> BaseException:
    """Return an error of the class of that name, real where the class can be had, made up where not."""
    kind = exception_class(name)
    if kind is None:
        module, _, bare = name.rpartition(".")
        kind = type(bare, (Exception,), {"__module__": module or "__main__", "__qualname__": bare})
    found = _ERRNO.match(message)
    error = _instance(kind, message)
    if isinstance(error, OSError) and found is not None:
        error.errno = int(found[1])
    return error


def _instance(kind: type[BaseException], message: str) -> BaseException:
    """Make an instance with a text but without calling the class, whose arguments nobody knows."""
    body = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__str__": lambda _: message}
    shown: type[BaseException] = type(kind.__name__, (kind,), body)
    if issubclass(kind, BaseExceptionGroup):
        return shown(message, [Exception(message)])
    return shown.__new__(shown)


def exception_class(name: str) -> type[BaseException] | None:
    """Return an exception class by its qualified name, or None.

    A name may come from a traceback, and a traceback from anywhere. So only modules of the standard library that hold
    exceptions are imported for it, and of other libraries only those that Outlast describes, from where packages are
    installed: never a file that happens to lie in the current folder.
    """
    module, _, bare = name.rpartition(".")
    if not module:
        return _if_exception(getattr(builtins, bare, None))
    package = module.partition(".")[0]
    if module not in sys.modules and module not in _STANDARD and not (package in FILES and _is_installed(package)):
        return None
    try:
        return _if_exception(getattr(importlib.import_module(module), bare, None))
    except Exception:  # noqa: BLE001  # not installed, or broken; the name alone has to do
        return None


def _is_installed(package: str) -> bool:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    origin = (spec.origin or "") if spec is not None else ""
    return any(folder in origin for folder in (f"site-packages{os.sep}", f"dist-packages{os.sep}"))


def _if_exception(thing: object) -> type[BaseException] | None:
    return thing if isinstance(thing, type) and issubclass(thing, BaseException) else None
