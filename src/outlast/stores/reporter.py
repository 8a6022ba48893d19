"""Who is named in a task's history where no worker had claimed it."""

__all__ = ["REPORTER"]

REPORTER = "ErrorHandler"
"""Stands for the loop that ran a task without a claim and reported how it ended."""
