"""Rates as people type them: ``10/s``, ``30/min``, ``100/h``."""

from typing import TYPE_CHECKING, Any

import click

from outlast.units import RATE_FORMAT, parse_rate

if TYPE_CHECKING:
    _OfRates = click.ParamType[float]
else:
    _OfRates = click.ParamType  # not generic before click 8.4

__all__ = ["RATE"]


class _Rate(_OfRates):
    """Tasks per second."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return tasks per second."""
        rate = parse_rate(value)
        if rate is None:
            self.fail(f"{value!r} is not a rate; {RATE_FORMAT}", param, ctx)
        return rate


RATE = _Rate()
"""The type of an option: tasks per second."""
