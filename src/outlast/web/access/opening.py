"""Opening a one-time link in a browser without showing it to others on the machine.

Whatever a browser is started with can be read by every user in the list of processes. So it is started with a file that
only this user can read, and that leads on.
"""

import shutil
import tempfile
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Self

__all__ = ["Opening"]

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Outlast</title>
</head>
<body><p><a href="{link}">Open the dashboard</a></p></body>
</html>
"""


class Opening:
    """A file that leads to a link; as a context manager it removes it.

    Args:
        start: Has a browser open the address of a file; returns whether it could.
    """

    def __init__(self, start: Callable[[str], bool]) -> None:
        """Keep how; nothing is written yet."""
        self._start = start
        self._folder: Path | None = None

    def open(self, link: str) -> bool:
        """Open a link; tell whether a browser could be started.

        Args:
            link: Where to lead.
        """
        self.forget()
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="outlast-web-"))  # for this user alone
            file = self._folder / "open.html"
            file.touch(0o600)
            file.write_text(_PAGE.format(link=escape(link)), "utf-8")
        except OSError:
            self.forget()
            return False
        return self._start(file.as_uri())

    def forget(self) -> None:
        """Remove the file; what it leads to has been used, or is over."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()
