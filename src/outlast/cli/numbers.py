"""Numbers as options and arguments take them: what every database can hold."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _OfNumbers = click.ParamType[int]
else:
    _OfNumbers = click.ParamType  # not generic before click 8.4

__all__ = ["LIMIT", "NUMBER"]

_LONGEST = 20  # digits


class _Number(_OfNumbers):
    """A whole number from 1 on; click's own range would put the largest one into every help."""

    name = "number"

    def __init__(self, largest: int) -> None:
        self.largest = largest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        text = str(value)
        number = int(text) if len(text) <= _LONGEST and text.isascii() and text.isdecimal() else 0
        if not 1 <= number <= self.largest:
            self.fail(f"{value!r} is none; give a whole number from 1 to {self.largest}", param, ctx)
        return number


NUMBER, LIMIT = _Number(2**63 - 1), _Number(2**31 - 1)
"""The types of options: the number of a task or a dead letter; how many at most."""
