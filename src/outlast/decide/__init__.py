"""Decide: a failure becomes a decision. Pure functions and values: no clock, no waiting, no input or output."""
