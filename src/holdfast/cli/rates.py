"""Rates as people type them: ``10/s``, ``30/min``, ``100/h``."""

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _OfRates = click.ParamType[float]
else:
    _OfRates = click.ParamType  # not generic before click 8.4

__all__ = ["RATE"]

_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*(?:/\s*(s|m|min|h))?", re.ASCII)
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SLOWEST, _FASTEST = 0.001, 100_000.0


class _Rate(_OfRates):
    """Tasks per second."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return tasks per second."""
        found = _RATE.fullmatch(str(value).strip().lower())
        rate = float(found[1]) / _UNITS[found[2] or "s"] if found else 0.0
        if not _SLOWEST <= rate <= _FASTEST:
            self.fail(f"{value!r} is no rate; write 10/s, 30/min or 100/h", param, ctx)
        return rate


RATE = _Rate()
"""The type of an option: tasks per second."""
