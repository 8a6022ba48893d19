"""How much is kept of a past that only grows."""

__all__ = ["CYCLES", "POLLS"]

CYCLES = 1000
"""Cycles of a profile."""
POLLS = 200
"""Lines in the history of a source."""
