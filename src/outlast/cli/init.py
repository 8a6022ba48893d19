"""``outlast init``: an outlast.toml to begin with."""

from pathlib import Path

import click

_FILE = "outlast.toml"
TEMPLATE = """\
# Settings of Outlast. Programs read them with outlast.configure(), and so does the command `outlast`.
# What is commented out shows the default, unless it says otherwise.

[app]
# Where tasks are kept. The commands use it, and a program that says App(**outlast.configure().for_app).
# The variable OUTLAST_URL goes before it: a password belongs there rather than in this file.
url = "sqlite:///outlast.db"  # four slashes for an absolute path; or "postgresql://host/database"

# How many tasks a worker (`outlast worker`) runs at once, and in which queues it looks.
concurrency = 10
# queues = ["default", "mail"]  # default: all queues that the app's tasks name

# Where alerts about sources go: Slack webhooks, or what Apprise knows (extra `notify`). Without any they are logged.
# For programs that pass it on, as above; `outlast alerts test` tries it. An address is a secret: rather put it into
# the variable OUTLAST_NOTIFY, several with commas between them.
# notify = ["https://hooks.slack.com/services/T000/B000/XXXX"]  # default: none

# For programs that pass them on, as above.
# lease = 20.0       # seconds that a worker may be silent before its tasks are given to others
# heartbeat = 5.0    # seconds between two signs of life; a quarter of the lease
# crash_limit = 3    # processes that a task may take down, running alone, before it is a dead letter
# grace = 30.0       # seconds that running tasks have to end when a worker stops

# Rules go before what Outlast knows by itself. `outlast explain` says what it makes of an error, and shows the rule
# that would change it. Conditions: type, status, code, text; all that are given have to fit.
[[classify.rules]]
name = "the vendor is being deployed"
status = 418
category = "api_temporary"
retry_after = 30

# A policy by name, for outlast.configure().policies["patient"].
[policies.patient]
max_attempts = 8
base_delay = 2.0
max_delay = 300.0

# [policies.patient.overrides.rate_limit]  # another pace for one category
# max_attempts = 20

# Further secrets that are masked in errors and payloads: regular expressions.
# [redact]
# patterns = ["customer \\\\d+"]
"""


@click.command()
@click.option(
    "--path", type=click.Path(dir_okay=False, path_type=Path), default=_FILE, show_default=True, help="The file."
)
@click.option("--force", is_flag=True, help="Overwrite the file if it is there.")
def init(path: Path, *, force: bool) -> None:
    """Write an outlast.toml with every setting explained.

    \b
    Examples:
      outlast init
      outlast init --path config/outlast.toml
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help
    from outlast.errors import ConfigError  # noqa: PLC0415  # not for --help

    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError:
        message = f"{path} is there already; --force overwrites it"
        raise ConfigError(message) from None
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}"
        raise ConfigError(message) from None
    print_text(f"{path} is written; next: outlast db init", "green")
