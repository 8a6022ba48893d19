"""What is said where a move cannot be done."""

from outlast.errors import OutlastError

__all__ = ["CANCEL", "MoveError"]

CANCEL = "outlast move --cancel gives it up, and the file is used as before"
"""What can be done instead of going on."""


class MoveError(OutlastError):
    """A move that cannot begin, go on or end; the message says what to do."""
