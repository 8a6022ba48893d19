"""The command: ``outlast``, or ``python -m outlast``."""

import sys


def main() -> None:
    """Run the command line, or say what is missing for it."""
    try:
        from outlast.cli import cli  # noqa: PLC0415  # the core installs nothing, so this may fail

        cli()  # a command imports what it needs, so this may fail too
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"click", "rich"}:
            raise
        sys.exit("The command line needs click and rich: pip install '.[cli]' in a clone of Outlast")


if __name__ == "__main__":
    main()
