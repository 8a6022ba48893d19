"""Run the tour: ``make run``, or ``make run ARGS="--for 30s"``."""

from __future__ import annotations

import argparse
import sys

from examples.scenery import seconds
from examples.tour.text import told
from outlast.errors import ConfigError

EXAMPLES = """
examples:
  make run                       the dashboard, alive, until Ctrl-C
  make run ARGS="--for 30s"      the same for half a minute
  make run ARGS=--text           no browser: every failure explained, scene by scene

A worker, a monitor and a batch job run on a SQLite file in a temporary folder,
against servers on this machine that fail by a script. Nothing leaves it.
"""


def main() -> int:
    """Show the dashboard with something going on, or tell the same in the terminal."""
    options = _options()
    try:
        if options.text:
            told(options.length, options.seed)
            return 0
        from examples.tour.live import lived  # needs the extra web

        lived(options.length, options.port, options.seed, browser=options.browser)
    except KeyboardInterrupt:
        print("\nstopped")
    except ConfigError as error:  # of the port
        print(error)
        return 2
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"starlette", "jinja2", "uvicorn"}:
            raise
        print(f"The dashboard needs {error.name}: pip install 'outlast[web]'. Without it there is --text.")
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make run",
        description="Real failures on this machine, what Outlast makes of them, and the dashboard to see it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--for", dest="length", type=seconds, metavar="TIME", help="end after so long, such as 30s or 2m"
    )
    parser.add_argument("--port", type=int, default=0, help="where the dashboard listens (default: a free port)")
    parser.add_argument("--no-browser", dest="browser", action="store_false", help="open none, print the link alone")
    parser.add_argument("--text", action="store_true", help="no dashboard: every failure explained in the terminal")
    parser.add_argument("--seed", type=int, default=7, help="makes the random part repeatable (default 7)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
