"""Numbers as options and arguments take them: what every database can hold."""

import click

__all__ = ["LIMIT", "NUMBER"]

NUMBER = click.IntRange(1, 2**63 - 1)
"""The number of a task or a dead letter."""
LIMIT = click.IntRange(1, 2**31 - 1)
"""How many at most."""
