"""Every exception class that a supported library exports has a verdict (pitfall 36), and nobody imports the library.

A class has a verdict when the nearest described class among its bases gives a category or has a reader, or when the
class itself is listed as silent. A silence is not inherited: a new exception under a silent base has to be looked at
by a person, who then writes its name into the library's file.

What is tested follows from `FILES`; a new library file with its packages is covered without a change here.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import pkgutil
import subprocess
import sys
import sysconfig
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import outlast
from outlast.classify.classifier import Classifier
from outlast.classify.codes import judge_sqlstate
from outlast.classify.libraries import FILES, entry_of, load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

pytestmark = pytest.mark.xdist_group("libraries")  # which take their time to be imported: once
NOT_INSTALLED = {
    "MySQLdb": "mysqlclient would need MySQL's client library to be built; its errors carry numbers as PyMySQL's do",
    "asyncmy": "its errors are PyMySQL's under other names; PyMySQL is installed",
    "cimpl": "the compiled part of confluent-kafka, which calls itself so and is imported as confluent_kafka.cimpl",
    "mysql": "MySQL Connector/Python carries the same numbers as PyMySQL, which is installed",
    "psycopg2": "psycopg 3 is what Outlast itself uses; psycopg2 would need libpq's headers to be built",
}

# Modules that a program does not meet in production, or that only repeat another package.
_LEFT_OUT = frozenset(
    {
        "__main__",
        "conftest",
        "packages",
        "pytest_plugin",
        "test",
        "test_utils",
        "testing",
        "tests",
        "vendored",
        "_testbase",
        "_winapi",
        "win_openssh",
        "win_pageant",
    }
)

# Names that the installed versions do not have, and why they are described all the same.
NAMES_OF_OTHER_VERSIONS = {
    # google-genai, which is not installed for the tests
    "google.APIError",
    # Python 3.13
    "asyncio.QueueShutDown",
    "builtins.PythonFinalizationError",
    "builtins._IncompleteInputError",
    "pathlib.UnsupportedOperation",
    "queue.ShutDown",
    "re.PatternError",
    # before Python 3.13
    "re.error",
    # confluent_kafka.schema_registry, which imports only where authlib is installed
    "confluent_kafka.OAuthTokenError",
    "confluent_kafka.SchemaRegistryError",
    # kafka-python 2
    "kafka.NoBrokersAvailable",
    # httpx2.websockets, which imports only where wsproto is installed
    "httpx2.ASGIWebSocketTransportError",
    "httpx2.EndOfStream",
    "httpx2.HTTPXWSException",
    "httpx2.QueueShutDown",
    "httpx2.ShouldClose",
    "httpx2.UnhandledASGIMessageType",
    "httpx2.UnhandledWebSocketEvent",
    "httpx2.WebSocketDisconnect",
    "httpx2.WebSocketInvalidTypeReceived",
    "httpx2.WebSocketNetworkError",
    "httpx2.WebSocketUpgradeError",
}

STANDARD_MODULES = """
    argparse asyncio.* base64 binascii builtins bz2 calendar codecs concurrent.futures concurrent.futures._base
    concurrent.futures.process concurrent.futures.thread configparser contextlib copy csv ctypes dataclasses datetime
    decimal email.errors email.utils enum fractions getopt graphlib gzip hashlib html.parser http.client http.cookiejar
    http.cookies importlib.metadata importlib.resources ipaddress json locale lzma mailbox mmap multiprocessing
    multiprocessing.connection multiprocessing.managers multiprocessing.pool multiprocessing.shared_memory netrc optparse
    os pathlib pickle plistlib queue re sched secrets select selectors shelve shutil signal socket socketserver ssl
    statistics string struct subprocess tarfile tempfile threading time tomllib urllib.error urllib.parse urllib.request
    urllib.robotparser uuid weakref xml.dom xml.dom.minidom xml.etree.ElementTree xml.parsers.expat xml.sax
    xml.sax.expatreader xmlrpc.client zipfile zipimport zlib zoneinfo
""".split()  # noqa: SIM905  # words read better than a hundred quotes

# All that `import outlast` and `from outlast import RetryPolicy, classify, retry` load, beyond a bare interpreter.
MODULES_LOADED = """
    _collections _collections_abc _contextvars _functools _operator _sre _stat collections contextvars copyreg enum errno
    functools genericpath
    importlib importlib._bootstrap importlib._bootstrap_external itertools keyword math operator os os.path posixpath re
    re._casefix re._compiler re._constants re._parser reprlib stat types unicodedata warnings
""".split()  # noqa: SIM905  # the same
_LOADED_AT_START = {(3, 13): {"warnings"}}  # what later versions have loaded before any program runs

PACKAGES = sorted(FILES)
INSTALLED = [package for package in PACKAGES if package not in NOT_INSTALLED]
LIBRARY_FILES = ["standard", *sorted(set(FILES.values()))]


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _modules(name: str) -> Iterator[ModuleType]:
    """Import a package and what is in it; modules whose optional dependency is missing are passed over."""
    try:
        with warnings.catch_warnings(action="ignore"):
            module = importlib.import_module(name)
    except Exception:  # openai raises an error of its own for a missing numpy
        return
    yield module
    found = {inner.name for inner in pkgutil.iter_modules(getattr(module, "__path__", ()))}
    for inner in sorted((found | _namespaces(module)) - _LEFT_OUT):
        yield from _modules(f"{name}.{inner}")


def _namespaces(module: ModuleType) -> set[str]:
    """Return the folders of a namespace package, which may be such packages again, as google.cloud is in google."""
    if getattr(module, "__file__", None) is not None:
        return set()
    folders = [each for path in getattr(module, "__path__", ()) for each in Path(path).iterdir() if each.is_dir()]
    return {folder.name for folder in folders if folder.name.isidentifier() and folder.name != "__pycache__"}


def _exceptions(owner: ModuleType | type) -> Iterator[type[BaseException]]:
    """Yield the exception classes of a module, also those inside its classes, as `imaplib.IMAP4.error`."""
    for value in list(vars(owner).values()):
        if not isinstance(value, type):
            continue
        if issubclass(value, BaseException):
            yield value
        elif not isinstance(owner, type) and value.__module__ == owner.__name__:
            yield from _exceptions(value)


@cache
def _exported(package: str) -> frozenset[type[BaseException]]:
    return frozenset(kind for module in _modules(package) for kind in _exceptions(module) if _package(kind) == package)


@cache
def _standard() -> frozenset[type[BaseException]]:
    modules: list[ModuleType] = []
    for name in STANDARD_MODULES:
        modules += _modules(name[:-2]) if name.endswith(".*") else [importlib.import_module(name)]
    return frozenset(
        kind
        for module in modules
        for kind in _exceptions(module)
        if _package(kind) in sys.stdlib_module_names and _package(kind) not in FILES
    )


def _has_verdict(kind: type[BaseException], *, foreign: bool) -> bool:
    for each in kind.__mro__:
        entry = entry_of(_package(each), each.__name__)
        if entry is None or (foreign and each.__module__ == "builtins" and entry.category is None):
            continue
        return entry.category is not None or entry.read is not None or (entry.says_nothing and each is kind)
    return False


def _without_verdict(kinds: frozenset[type[BaseException]], *, foreign: bool) -> list[str]:
    return sorted(
        f"{kind.__module__}.{kind.__qualname__}"
        for kind in kinds
        if not issubclass(kind, Warning) and not _has_verdict(kind, foreign=foreign)
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_installed_or_excused(package):
    found = package in sys.modules or importlib.util.find_spec(package) is not None  # kombu hides its spec

    assert found is (package not in NOT_INSTALLED), "install it for the tests, or say in NOT_INSTALLED why not"


@pytest.mark.parametrize("package", INSTALLED)
def test_every_exported_exception_has_a_verdict(package):
    kinds = _exported(package)

    assert kinds, f"{package} exports no exception at all; is the walk broken?"
    assert not _without_verdict(kinds, foreign=True), f"describe them in classify/libraries/{FILES[package]}.py"


def test_every_exception_of_the_standard_library_has_a_verdict():
    assert not _without_verdict(_standard(), foreign=False), "describe them in classify/libraries/standard.py"


@pytest.mark.parametrize("file", LIBRARY_FILES)
def test_every_described_name_exists(file):
    described = {name for name in load(file).entries() if name.partition(".")[0] not in NOT_INSTALLED}
    kinds = _standard() if file == "standard" else {kind for each in INSTALLED for kind in _exported(each)}
    real = {f"{_package(kind)}.{kind.__name__}" for kind in kinds}

    assert sorted(described - real - NAMES_OF_OTHER_VERSIONS) == [], "these names can never match an error"


@pytest.mark.parametrize("file", LIBRARY_FILES)
def test_every_described_name_stands_in_a_file_of_its_package(file):
    astray = [name for name in load(file).entries() if FILES.get(name.partition(".")[0], "standard") != file]

    assert astray == [], "these names are looked up in another file"


@pytest.mark.parametrize("file", LIBRARY_FILES)
def test_nothing_is_said_twice(file):
    library = load(file)
    said = [name for names in library.categories.values() for name in names.split()]
    silent = library.says_nothing.split()

    assert sorted(name for name in {*said} if said.count(name) > 1) == []
    assert sorted(name for name in {*silent} if silent.count(name) > 1) == []
    assert sorted({*said} & {*silent}) == [], "a class that says something is not silent"


@pytest.mark.parametrize("package", INSTALLED)
def test_a_silent_class_inherits_no_category(package):
    classifier = Classifier()
    loud = [
        kind.__name__
        for kind in _exported(package)
        if (entry := entry_of(package, kind.__name__))
        and entry.says_nothing
        and classifier._info_of(kind).category is not None
    ]

    assert loud == [], "its text and causes should be judged, but the category of a base would decide"


@pytest.mark.parametrize("package", ["asyncpg", "psycopg"])
def test_every_sqlstate_of_the_drivers_has_a_verdict(package):
    states = {state for kind in _exported(package) if isinstance(state := getattr(kind, "sqlstate", None), str)}
    no_failures = {state for state in states if state[:2] in {"00", "01"}}

    assert len(states) > 200
    assert sorted(state for state in states - no_failures if judge_sqlstate(state) is None) == []


_PREPARE = """
import sys
at_start = set(sys.modules)
sys.path[:0] = {paths!r}
import outlast
from outlast import RetryPolicy, classify, retry
"""
_REPORT = """
loaded = sorted(name for name in set(sys.modules) - at_start if name.partition(".")[0] != "outlast")
import json
print(json.dumps(loaded))
"""
_CLASSIFY_FAKES = """
for package, names in {names!r}.items():
    for name in names:
        kind = type(name, (Exception,), {{"__module__": package + ".exceptions", "__qualname__": name}})
        classify(kind("HTTP 503: connection refused"))
        classify(type("Mine", (kind,), {{"__module__": "mine"}})("no words that mean anything"))
"""


def _loaded_by(program: str) -> list[str]:
    """Run a program in a bare interpreter that could import everything installed, and return what it loaded.

    Without `site`, no file of site-packages runs at the start; the folder is on the path all the same.
    """
    paths = [str(Path(outlast.__file__).parents[1]), sysconfig.get_path("purelib")]
    code = _PREPARE.format(paths=paths) + program + _REPORT
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded: list[str] = json.loads(done.stdout)
    return loaded


def test_classifying_loads_no_foreign_library_and_no_asyncio():
    names: dict[str, list[str]] = {package: ["Nameless"] for package in FILES}
    for file in LIBRARY_FILES:
        for name in load(file).entries():
            package, _, own = name.partition(".")
            names.setdefault(package, []).append(own)

    loaded = _loaded_by(_CLASSIFY_FAKES.format(names=names))

    foreign = [name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names]
    assert [name for name in foreign if not name.startswith("_sysconfigdata")] == []  # that one is Python's own
    assert {"asyncio", "logging", "socket", "ssl", *FILES} & {*loaded} == set()


def test_importing_outlast_loads_these_modules_and_no_more():
    expected = {*MODULES_LOADED} - _LOADED_AT_START.get(sys.version_info[:2], set())

    assert _loaded_by("") == sorted(expected)
