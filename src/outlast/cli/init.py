"""``outlast init``: write a first outlast.toml."""

from pathlib import Path

import click

from outlast.cli.app_options import flag
from outlast.cli.output import print_text
from outlast.errors import ConfigError

_FILE = "outlast.toml"
TEMPLATE = Path(__file__).with_name(_FILE)


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
            file.write(TEMPLATE.read_text("utf-8"))
    except FileExistsError:
        raise ConfigError(f"{path} already exists; --force overwrites it") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from None
    print_text(f"wrote {path}; next: outlast db init", "green")
