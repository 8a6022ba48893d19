"""The pages docs/reference/settings.md and events.md. Used by reference.py."""

import dataclasses
import inspect
import re
from collections.abc import Mapping
from pathlib import Path

from reference_api import NOTICE
from reference_docstrings import described, documented, paragraph

import outlast
from outlast import config

SOURCE = Path(outlast.__file__).parent
_VARIABLE = re.compile(r'"((?:OUTLAST|GITHUB)_[A-Z_]+)"')
KINDS = {str: "text", list: "list", int: "whole number", bool: "true or false", float: "number", dict: "table"}

# What each environment variable does. `variables` finds them in the code; none may be missing here.
VARIABLES = {
    "GITHUB_STEP_SUMMARY": "File to which `outlast job run` appends its summary; set by GitHub Actions and similar.",
    "OUTLAST_CONFIG": "The settings file, instead of `outlast.toml` in the current folder.",
    "OUTLAST_CRASH": "Set by `outlast.testing.crash_at` for the process that it ends; do not set it yourself.",
    "OUTLAST_ENV": "Where a batch job runs, by default `local`; recorded in the ledger, the logs and the summary.",
    "OUTLAST_HEALTH_TOKEN": "Secret that a request must send to read the reasons and metrics of `--health-port`.",
    "OUTLAST_NOTIFY": "Where alerts go: addresses separated by commas; overrides `notify` under `[app]`.",
    "OUTLAST_TEST_POSTGRES": "PostgreSQL server on which tests marked `outlast_stores` create their databases.",
    "OUTLAST_URL": "The store that a command uses; overrides `url` under `[app]`.",
    "OUTLAST_WEB_READ_TOKEN": "Token of readers of the dashboard.",
    "OUTLAST_WEB_TOKEN": "Token of operators of the dashboard.",
}

UNTOLD = "(describe it in tools/reference_settings.py)"

# Keys that accept less in the file than in code.
IN_A_FILE = {
    "url": "`sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://…` or `memory://`.",
    "notify": "Where alerts go: addresses of Slack webhooks, `json+https://…`, or Apprise URLs (extra `notify`). "
    "Without any, alerts are logged.",
    "max_retries": "Older name of `max_attempts`: it counts calls too, and 0 and 1 both mean one call.",
    "retry_on": 'Categories that are retried. Without it, or with `"retryable"`, those that the classifier calls '
    "retryable; `[]` retries nothing.",
    "backoff": '`"fixed"`, `"linear"` (base · n) or `"exponential"` (base · 2^(n-1)).',
    "jitter": '`"none"`, `"full"`, `"equal"`, `"decorrelated"` or a fraction. By default none for calls, a tenth '
    "in the queue.",
    "type": 'Qualified name of an exception class, such as `"vendor.errors.Busy"`, or a list; subclasses match too.',
    "category": "The category; required.",
}

INTRODUCTION = """\
Every key of `outlast.toml`, and every environment variable that is read. The file is loaded by
`outlast.configure()` and by the command `outlast`; `outlast init` writes one with comments. A key that is not listed
here is an error, and so is a value of another type; the message names its place in the file. Arguments override the
environment, which overrides the file, which overrides the defaults."""

TABLES = """\
`[app]` is for `outlast.App(**outlast.configure().for_app)` and for commands that use a store. `[policies.NAME]` is
`outlast.configure().policies["NAME"]`. `[[classify.rules]]` and `[redact]` apply to the whole process."""


def settings() -> str:
    """Return the page on settings."""
    app = described(outlast.App) | {key: text for key, text in described(outlast.App.worker).items() if key != "name"}
    defaults = _defaults(outlast.App) | _defaults(outlast.App.worker)
    policy = {name: getattr(outlast.RetryPolicy(), name) for name in outlast.RetryPolicy._fields}
    parts = [
        f"# Settings\n\n{NOTICE}\n\n{INTRODUCTION}\n\n{TABLES}",
        "## [app]\n\n" + _table(config._APP_KEYS, app, defaults),  # noqa: SLF001
        "## [policies.NAME]\n\n"
        + _table(config._POLICY_KEYS, described(outlast.RetryPolicy), _said(policy))  # noqa: SLF001
        + "\n\nA table `[policies.NAME.overrides.CATEGORY]` may hold: "
        + ", ".join(f"`{key}`" for key in config._OVERRIDE_KEYS)  # noqa: SLF001
        + ".",
        "## [[classify.rules]]\n\n" + _table(config._RULE_KEYS, described(outlast.Rule), {}),  # noqa: SLF001
        "## [redact]\n\n"
        + _table({"patterns": (list,)}, {"patterns": described(outlast.Config)["redact_patterns"]}, {}),
        "## Environment\n\n"
        + "\n".join(
            [
                "| variable | meaning |",
                "|---|---|",
                *(f"| `{key}` | {VARIABLES.get(key, UNTOLD)} |" for key in variables()),
            ]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def events() -> str:
    """Return the page on events."""
    parts = [
        f"# Events\n\n{NOTICE}",
        paragraph(
            "What happens, as values that a subscriber gets: `outlast.subscribe(function)` for all, or with the kinds "
            "of interest after it, such as `outlast.events.GaveUp`. It returns a function that ends it. A subscriber "
            "that raises is logged, and does not affect others. All are in `outlast.events`."
        ),
    ]
    for name in outlast.events.__all__:
        kind = getattr(outlast.events, name)
        fields = dataclasses.fields(kind)
        rows = [f"| `{each.name}` | `{_typed(each.type)}` | {described(kind)[each.name]} |" for each in fields]
        table = "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])
        said = documented(kind).partition("\n\nAttributes:")[0]
        parts.append(f"## {name}\n\n{said}" + (f"\n\n{table}" if rows else ""))
    return "\n\n".join(parts) + "\n"


def variables() -> list[str]:
    """Return the variables of the environment that the code names."""
    texts = (file.read_text("utf-8") for file in sorted(SOURCE.rglob("*.py")))
    return sorted({name for text in texts for name in _VARIABLE.findall(text)})


def _table(keys: Mapping[str, tuple[type, ...]], meanings: Mapping[str, str], defaults: Mapping[str, str]) -> str:
    rows = []
    for key, kinds in keys.items():
        named = [KINDS[kind] for kind in kinds if kind is not int or float not in kinds]
        meaning = IN_A_FILE.get(key) or meanings[key]
        rows.append(f"| `{key}` | {' or '.join(named)} | {defaults.get(key, '-')} | {meaning} |")
    return "\n".join(["| key | kind | default | meaning |", "|---|---|---|---|", *rows])


def _defaults(thing: object) -> dict[str, str]:
    """Return the defaults of what can be called, as a file would say them."""
    found = inspect.signature(thing).parameters.values()
    return _said({each.name: each.default for each in found if each.default is not each.empty})


def _said(values: Mapping[str, object]) -> dict[str, str]:
    """Return those of some values that a file can say."""
    shown = {str: '`"{}"`', bool: "{}", int: "{}", float: "{:g}"}
    return {key: shown[type(each)].format(each).lower() for key, each in values.items() if type(each) in shown}


def _typed(kind: object) -> str:
    return str(getattr(kind, "__name__", kind)).replace("|", r"\|")
