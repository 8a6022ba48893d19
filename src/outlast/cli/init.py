"""``outlast init``: write a first outlast.toml."""

from pathlib import Path

import click

from outlast.cli.app_options import flag
from outlast.cli.output import print_text
from outlast.errors import ConfigError

_FILE = "outlast.toml"
TEMPLATE = """\
# Settings of Outlast. Programs read them with outlast.configure(); the command `outlast` reads them too.
# Settings that are commented out show the default; rules, policies and patterns are examples. Nothing in this file
# changes what Outlast does until you edit it, except where tasks are stored.

[app]
# Where tasks are stored. The commands use it, and so does a program with App(**outlast.configure().for_app).
# The variable OUTLAST_URL overrides it; put a password there, not into this file.
url = "sqlite:///outlast.db"  # four slashes for an absolute path; or "postgresql://host/database"

# How many tasks a worker (`outlast worker`) runs at once, and from which queues.
# concurrency = 10
# queues = ["default", "mail"]  # default: all queues that the app's tasks name

# Where alerts go: Slack webhooks, or any Apprise URL (extra `notify`). Without a channel, alerts are logged.
# Used by programs that pass it on, as above; `outlast alerts test` tests it. The address is a secret: you can put it
# into the variable OUTLAST_NOTIFY instead, several separated by commas.
# notify = ["https://hooks.slack.com/services/T000/B000/XXXX"]  # default: none
# dashboard_url = "https://ops.example.com/outlast"  # alerts link to its pages

# Used by programs that pass them on, as above.
# lease = 20.0       # seconds without a heartbeat after which other workers take over a worker's tasks
# heartbeat = 5.0    # seconds between two heartbeats; a quarter of the lease
# crash_limit = 3    # processes that a task may crash, running alone, before it becomes a dead letter
# grace = 30.0       # seconds that running tasks have to finish when a worker stops

# Your rules are checked before the built-in ones. `outlast explain` explains an error and shows the rule that would
# change the result. Conditions: type, status, code, text; all conditions of a rule must match.
# [[classify.rules]]
# name = "the vendor is being deployed"
# status = 418
# category = "api_temporary"
# retry_after = 30

# A named policy: outlast.configure().policies["patient"].
# [policies.patient]
# max_attempts = 8
# base_delay = 2.0
# max_delay = 300.0

# [policies.patient.overrides.rate_limit]  # other settings for one category
# max_attempts = 20

# Regular expressions for more secrets that are masked in errors and payloads.
# [redact]
# patterns = ["customer \\\\d+"]
"""


@click.command()
@click.option(
    "--path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=_FILE,
    show_default=True,
    help="The file to write.",
)
@flag("--force", "Overwrite the file if it exists.")
def init(path: Path, *, force: bool) -> None:
    """Write an outlast.toml with every setting explained.

    \b
    Examples:
      outlast init
      outlast init --path config/outlast.toml
    """  # noqa: D301  # click reads the control character, not a backslash
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError:
        raise ConfigError(f"{path} already exists; --force overwrites it") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from None
    print_text(f"wrote {path}; next: outlast db init", "green")
