"""Decide what to do about a failure. Pure functions and values: no clock, no waiting, no I/O."""
