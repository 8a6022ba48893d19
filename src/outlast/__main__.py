"""The command line entry point: ``outlast``, or ``python -m outlast``."""

import sys


def main() -> None:
    """Run the command line; exit with a message if click or rich is not installed."""
    try:
        from outlast.cli import cli  # noqa: PLC0415  # the core has no dependencies, so this may fail

        cli(prog_name="outlast")  # a command imports what it needs, so this may fail too
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"click", "rich"}:
            raise
        if sys.argv[1:] == ["--version"]:
            from outlast import __version__  # noqa: PLC0415  # only needed here

            print(f"outlast {__version__}")  # noqa: T201  # the output of the command
            return
        sys.exit("The command line needs click and rich. Install them: pip install 'outlast[cli]'")


if __name__ == "__main__":
    main()
