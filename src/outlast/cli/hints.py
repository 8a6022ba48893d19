"""What to do about an error whose own text does not say: the second line under it."""

import errno
import re

__all__ = ["of_a_database", "of_a_file", "of_our_own"]

_DRIVERS = {"sqlite3", "psycopg", "psycopg_pool"}
_CHECK = "is the URL right? outlast db check says when it is"
_OF_A_DATABASE = (
    (r"was moved to PostgreSQL", "give the new URL, here and to your App"),
    (r"being moved to PostgreSQL", "wait for the end of outlast move; then give the new URL, here and to your App"),
    (r"the move is not over", "run outlast move again until it says that it is, or give it up by --cancel"),
    (r"not a database|file is encrypted", "the URL names a file of another kind; is it the right one?"),
    (r"malformed|corrupt", "the file is damaged; put back a copy of it"),
    (r"disk I/O", "the disk may be full, gone or failing: look at that first, and leave the file as it is"),
    (r"too many clients|connection slots", "the server has no connection left; close some, or raise max_connections"),
    (r"statement timeout|lock timeout", "it took longer than the server allows; try again, or raise that time"),
    (r"locked|busy", "another program holds it; try again in a moment"),
    (r"readonly|read-only|permission denied|InsufficientPrivilege", "whoever runs this needs the right to write there"),
    (r"unable to open", "is the folder there, and may you write into it?"),
    (r"password|authentication|role .* does not exist", "are name and password in the URL right?"),
    (r"database .* does not exist", "create the database, or correct its name in the URL"),
    (r"refused|connect|timeout|resolve|translate host|No such file", f"is the server up? {_CHECK}"),
    (r"full|No space", "make room on the disk"),
)  # fmt: skip
_OF_OUR_OWN = (
    (r"^there is no task \d", "outlast tasks list shows what there is"),
    (r"^there is no dead letter \d", "outlast dlq list shows what there is"),
    (r"cannot be read: No such file", "is the name right, and is it in this folder?"),
    (r"cannot be read: Permission", "whoever runs this needs the right to it"),
    (r"this is not OPML", "give an OPML file, or a text file with one URL on each line"),
    (r"^\S*\.toml: ", "correct it there; outlast init --path other.toml writes one with every setting explained"),
    (r"^the folder of the database", "create the folder, or correct the URL"),
    (r"^the dashboard cannot listen", "for example --port 8788; --port 0 picks a free one"),
    (r"^SQLite \S+ is too old", "use a Python with a newer SQLite"),
)
_OF_A_FILE = {
    errno.ENOENT: "is the name right?",
    errno.EISDIR: "name a file in it",
    errno.EACCES: "whoever runs this needs the right to it",
    errno.EPERM: "whoever runs this needs the right to it",
    errno.ENOSPC: "make room, or send it elsewhere",
    errno.EADDRINUSE: "choose another port, or end the program that listens there",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
}


def of_a_database(error: BaseException) -> str | None:
    """Return what to do about the error of a database's driver; None if it is none."""
    if not any(kind.__module__.partition(".")[0] in _DRIVERS for kind in type(error).__mro__):
        return None
    text = f"{type(error).__name__}: {error}"
    for pattern, hint in _OF_A_DATABASE:
        if re.search(pattern, text, re.IGNORECASE):
            return hint
    return _CHECK


def of_a_file(error: OSError) -> str:
    """Return what to do about an error of the operating system."""
    return _OF_A_FILE.get(error.errno or 0, "put that right, and try again")


def of_our_own(text: str) -> str:
    """Return what to do about an error that Outlast tells in one line; nothing where the line itself says it."""
    return next((hint for pattern, hint in _OF_OUR_OWN if re.search(pattern, text)), "")
