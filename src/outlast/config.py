"""Settings from ``outlast.toml``. Errors name the file and the key.

Nothing is read at import: a program calls `configure` once. Arguments override the environment, which overrides the
file, which overrides the defaults.
"""

import os
import re
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from outlast.classify import Classifier, use_classifier
from outlast.classify.rules import Rule
from outlast.decide.policy import OVERRIDE_SETTINGS, RetryPolicy
from outlast.errors import ConfigError
from outlast.failure import RETRYABLE, Category
from outlast.redact import Redactor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

CONFIG_FILE = "outlast.toml"
CONFIG_VARIABLE = "OUTLAST_CONFIG"
NOTIFY_VARIABLE = "OUTLAST_NOTIFY"

_RULE_KEYS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "category": (str,),
    "type": (str, list),
    "status": (int, list),
    "code": (str, list),
    "text": (str,),
    "retryable": (bool,),
    "retry_after": (int, float),
}
_POLICY_KEYS: dict[str, tuple[type, ...]] = {
    "max_attempts": (int,),
    "max_retries": (int,),
    "retry_on": (str, list),
    "backoff": (str,),
    "base_delay": (int, float),
    "max_delay": (int, float),
    "jitter": (str, int, float),
    "deadline": (int, float),
    "attempt_timeout": (int, float),
    "overrides": (dict,),
    "resource": (str,),
    "nested": (bool,),
}
_OVERRIDE_KEYS = {key: kinds for key, kinds in _POLICY_KEYS.items() if key in OVERRIDE_SETTINGS}
_APP_KEYS: dict[str, tuple[type, ...]] = {
    "url": (str,),
    "lease": (int, float),
    "heartbeat": (int, float),
    "crash_limit": (int,),
    "grace": (int, float),
    "concurrency": (int,),
    "queues": (list,),
    "notify": (list,),
    "dashboard_url": (str,),
}
_APP_MINIMUMS: dict[str, float] = {"lease": 0.1, "heartbeat": 0.01, "crash_limit": 1, "grace": 0, "concurrency": 1}
_APP_SCHEMES = ("sqlite", "postgresql", "postgres", "memory")
_LEASE = 20.0  # seconds; the default of App
_LONGEST_NAME = 200
_INTEGER_LIMIT = 2**63  # TOML integers have 64 bits
_LONGEST_DURATION = 100 * 366 * 86400.0
_RETRYABLE_WORD = "retryable"
_URL_SEPARATOR = re.compile(r"[\s,]+(?=[A-Za-z][\w+.-]*://)")  # a URL may contain a comma
_SECTIONS: dict[str, dict[str, tuple[type, ...]]] = {"classify": {"rules": (list,)}, "redact": {"patterns": (list,)}}
_TOML_NAMES = {
    str: "text",
    list: "a list",
    int: "a whole number",
    bool: "true or false",
    float: "a number",
    dict: "a table",
}


@dataclass(frozen=True)
class Config:
    """The settings of a file.

    Attributes:
        rules: Rules for the classifier, in the file's order.
        redact_patterns: Additional regular expressions whose matches are masked.
        source: Path of the file, or None for the defaults.
        policies: Policies by name, from the tables ``[policies.NAME]``.
        app: The settings in the table ``[app]``: ``url``, ``lease``, ``heartbeat``, ``crash_limit``, ``grace``,
            ``concurrency``, ``queues``, ``notify`` and ``dashboard_url``; only those that are set.
    """

    rules: tuple[Rule, ...] = ()
    redact_patterns: tuple[str, ...] = ()
    source: Path | None = field(default=None, compare=False)
    policies: "Mapping[str, RetryPolicy]" = field(default_factory=dict)
    app: "Mapping[str, Any]" = field(default_factory=dict, repr=False)  # its URLs may contain secrets

    @property
    def for_app(self) -> "dict[str, Any]":
        """The settings under ``[app]`` that `App` accepts: ``outlast.App(**outlast.configure().for_app)``."""
        return {key: value for key, value in self.app.items() if key not in {"concurrency", "queues"}}

    def classifier(self) -> Classifier:
        """Return a classifier with these rules and patterns."""
        return Classifier(self.rules, redactor=Redactor(self.redact_patterns))


def load_config(path: str | os.PathLike[str]) -> Config:
    """Read and check a file.

    Raises:
        ConfigError: If the file cannot be read or is not valid; the message names the file, the line of a syntax error
            or the key of a bad value, and the valid choices.
    """
    return _ConfigReader(Path(path)).config(read_toml(path))


def read_toml(path: str | os.PathLike[str]) -> "dict[str, Any]":
    """Return the tables of a TOML file.

    Raises:
        ConfigError: If it cannot be read.
    """
    file = Path(path)
    try:
        data = tomllib.loads(file.read_text("utf-8"))
        _check_numbers(data)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # not TOML, not UTF-8, an integer with thousands of digits, or an impossible file name
        raise ConfigError(f"{file}: {error}") from error
    except RecursionError:
        raise ConfigError(f"{file}: nested too deeply; no setting is more than a few tables deep") from None
    return data


def configure(path: str | os.PathLike[str] | None = None, *, rules: "Iterable[Rule]" = ()) -> Config:
    """Load the settings and use them for the whole process.

    The environment variable OUTLAST_NOTIFY, URLs separated by commas, overrides ``notify`` under ``[app]``.

    Args:
        path: The file. By default the value of the environment variable OUTLAST_CONFIG, else ``outlast.toml`` in the
            current folder if it exists.
        rules: Rules to try before those of the file.

    Raises:
        ConfigError: If the file is not valid, or a named file does not exist.
    """
    named = path or os.environ.get(CONFIG_VARIABLE)
    chosen = Path(named or CONFIG_FILE)
    config = load_config(chosen) if named or chosen.is_file() else Config()
    app = dict(config.app)
    if notify := os.environ.get(NOTIFY_VARIABLE, "").strip(" ,\t\r\n"):
        app["notify"] = tuple(_URL_SEPARATOR.split(notify))
    config = replace(config, rules=(*rules, *config.rules), app=app)
    use_classifier(config.classifier())
    return config


class _ConfigReader:
    """Reads the tables of one file; its errors name the place of the mistake."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def config(self, data: "Mapping[str, Any]") -> Config:
        self._check_keys(data, (*_SECTIONS, "policies", "app"), "")
        tables = {
            section: self._checked_table(data.get(section, {}), known, section) for section, known in _SECTIONS.items()
        }
        rules = tables["classify"].get("rules", [])
        patterns = tables["redact"].get("patterns", [])
        return Config(
            tuple(self._rule(rule, f"classify.rules[{number}]") for number, rule in enumerate(rules)),
            tuple(self._pattern(pattern, f"redact.patterns[{number}]") for number, pattern in enumerate(patterns)),
            self.file,
            self._policies(data.get("policies", {})),
            self._app(data.get("app", {})),
        )

    def _fail(self, place: str, what: str) -> "ConfigError":
        return ConfigError(f"{self.file}: {place}: {what}")

    @contextmanager
    def _errors_at(self, place: str) -> "Iterator[None]":
        """Name the place in a ConfigError or ValueError of the block."""
        try:
            yield
        except ValueError as error:
            raise self._fail(place, str(error)) from None

    def _check_keys(self, table: "Mapping[str, Any]", known: "Iterable[str]", place: str) -> None:
        for key in table:
            if key not in known:
                raise self._fail(f"{place}.{key}" if place else key, f"unknown key; choose from: {', '.join(known)}")

    def _pattern(self, pattern: object, place: str) -> str:
        if not isinstance(pattern, str):
            raise self._fail(place, f"must be text, not {_toml_type_name(pattern)}")
        with self._errors_at(place):
            Redactor([pattern])
        return pattern

    def _checked_table(self, table: object, known: "Mapping[str, tuple[type, ...]]", place: str) -> "dict[str, Any]":
        """Return the table after checking that its keys are known and its values have the right types."""
        if not isinstance(table, dict):
            raise self._fail(place, f"must be a table, not {_toml_type_name(table)}")
        self._check_keys(table, known, place)
        for key, value in table.items():
            kinds = known[key]
            if type(value) not in kinds:
                wanted = " or ".join(_TOML_NAMES[kind] for kind in kinds)
                raise self._fail(f"{place}.{key}", f"must be {wanted}, not {_toml_type_name(value)}")
        return table

    def _app(self, table: object) -> "dict[str, Any]":
        settings = self._checked_table(table, _APP_KEYS, "app")
        for key, minimum in _APP_MINIMUMS.items():
            value = settings.get(key, minimum)
            if not minimum <= value <= _LONGEST_DURATION:  # false for NaN too
                where, what = f"app.{key}", "whole number" if _APP_KEYS[key] == (int,) else "number of seconds"
                raise self._fail(where, f"is {value!r}; give a {what}, {minimum:g} or more")
        lease = settings.get("lease", _LEASE)
        if settings.get("heartbeat", 0) * 2 > lease:
            raise self._fail(
                "app.heartbeat",
                f"is {settings['heartbeat']:g} s; a lease of {lease:g} s must be at least two heartbeats long",
            )
        if "url" in settings and not _is_url(settings["url"]):
            # the URL is not shown: it may contain a password
            raise self._fail(
                "app.url", "must be sqlite:///file.db, sqlite:////absolute/file.db, postgresql://… or memory://"
            )
        if "queues" in settings:
            settings = {**settings, "queues": self._queues(settings["queues"])}
        if "notify" in settings:
            settings = {**settings, "notify": self._notify(settings["notify"])}
        return settings

    def _queues(self, names: "list[Any]") -> "tuple[str, ...]":
        for number, name in enumerate(names):
            if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
                raise self._fail(f"app.queues[{number}]", f"must be text of 1 to {_LONGEST_NAME} characters")
        if not names:
            raise self._fail(
                "app.queues", "is empty; name a queue, or remove the key to use all queues of the app's tasks"
            )
        return tuple(names)

    def _notify(self, urls: "list[Any]") -> "tuple[str, ...]":
        for number, url in enumerate(urls):
            if not isinstance(url, str) or not url.strip():
                # the URL is not shown: it is a secret
                raise self._fail(f"app.notify[{number}]", "must be the URL of a Slack webhook, or an Apprise URL")
        return tuple(url.strip() for url in urls)

    def _policies(self, tables: object) -> "dict[str, RetryPolicy]":
        if not isinstance(tables, dict):
            raise self._fail("policies", f"must be a table, not {_toml_type_name(tables)}")
        return {name: self._policy(table, f"policies.{name}") for name, table in tables.items()}

    def _policy(self, table: object, place: str) -> RetryPolicy:
        given = dict(self._checked_table(table, _POLICY_KEYS, place))
        if "retry_on" in given:
            given["retry_on"] = self._retry_on(given["retry_on"], f"{place}.retry_on")
        overrides = given.pop("overrides", {})
        base = self._make_policy(given, place)
        settings: dict[str, Any] = {}
        for name, changes in overrides.items():
            where = f"{place}.overrides.{name}"
            settings[self._category(name, where)] = self._checked_table(changes, _OVERRIDE_KEYS, where)
            self._make_policy(changes, where)
        return base.replace(overrides=settings)

    def _make_policy(self, settings: "Mapping[str, Any]", place: str) -> RetryPolicy:
        for key, value in settings.items():  # one by one, so that the error names the key
            with self._errors_at(f"{place}.{key}"):
                RetryPolicy(**{key: value})
        with self._errors_at(place):
            return RetryPolicy(**settings)

    def _retry_on(self, value: object, place: str) -> "frozenset[Category]":
        if value == _RETRYABLE_WORD:
            return RETRYABLE
        if isinstance(value, str):
            raise self._fail(place, f"must be a list of categories, or {_RETRYABLE_WORD!r}")
        named = value if isinstance(value, list) else []
        return frozenset(self._category(each, f"{place}[{number}]") for number, each in enumerate(named))

    def _category(self, name: object, place: str) -> Category:
        with self._errors_at(place):
            return Category.parse(name)

    def _rule(self, table: object, place: str) -> Rule:
        table = self._checked_table(table, _RULE_KEYS, place)
        if "category" not in table:
            raise self._fail(f"{place}.category", f"is missing; choose one of: {', '.join(Category)}")
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
        }
        try:
            return Rule(**given)
        except ConfigError as error:
            raise self._fail(_error_place(place, str(error)), str(error)) from None


def _check_numbers(value: object) -> None:
    """Raise ValueError for integers beyond 64 bits: Python parses any length, but cannot print all of them."""
    if isinstance(value, int) and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
        raise ValueError("a whole number must fit into 64 bits")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _check_numbers(each)


def _is_url(url: str) -> bool:
    """Return whether `App` would accept a URL: the scheme is known, and a SQLite URL names a file and no host."""
    scheme, colon, rest = url.partition(":")
    if not colon or scheme.lower() not in _APP_SCHEMES:
        return False
    return scheme.lower() != "sqlite" or (rest.strip("/") != "" and (not rest.startswith("//") or rest[2] == "/"))


def _error_place(place: str, message: str) -> str:
    for key, words in (("category", "is not a category"), ("status", "HTTP status"), ("retry_after", "retry_after is")):
        if words in message:
            return f"{place}.{key}"
    return place


def _toml_type_name(value: object) -> str:
    return _TOML_NAMES.get(type(value), type(value).__name__)
