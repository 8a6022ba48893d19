"""Errors as the command line tells them: one line, and an exit code that a script can tell apart.

Exit codes: 0 done; 1 it could not be done (no such task, tables missing, database not reached, a conflict); 2 what was
asked for makes no sense (options, settings, arguments of a task); 130 Ctrl-C.
"""

import sys
from typing import IO, Any

import click

from holdfast.cli.lazy import LazyGroup
from holdfast.errors import ConfigError, HoldfastError, PayloadError

__all__ = ["FAILED", "FailingGroup", "MisusedError", "OneLineError"]

FAILED, _MISUSED, _INTERRUPTED = 1, 2, 130
_DRIVERS = {"sqlite3", "psycopg", "psycopg_pool"}


class OneLineError(click.ClickException):
    """An error that is told in one red line.

    Args:
        message: What is wrong, and what to do about it.
    """

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the line; what a terminal would obey is taken out, and secrets are."""
        from holdfast.redact import redact  # noqa: PLC0415  # only where something went wrong

        line = " ".join(redact(self.message).split())
        click.secho(f"Error: {line}", file=file or sys.stderr, fg="red")


class MisusedError(OneLineError):
    """The same for what makes no sense as it was asked for."""

    exit_code = _MISUSED


class FailingGroup(LazyGroup):
    """The outermost group: turns the errors of all commands into lines and exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            if sys.stderr.isatty():
                click.echo(err=True)  # behind the ^C that the terminal shows
            ctx.exit(_INTERRUPTED)
        except Exception as error:
            told = _told(error)
            if told is None:
                raise
            raise told from error


def _told(error: Exception) -> OneLineError | None:
    """Return the line for an error that needs no traceback; None for a fault of ours."""
    if isinstance(error, ConfigError | PayloadError):
        return MisusedError(str(error))
    if isinstance(error, HoldfastError) or type(error) is LookupError:  # a KeyError would be a fault of ours
        return OneLineError(str(error))
    if any(kind.__module__.partition(".")[0] in _DRIVERS for kind in type(error).__mro__):
        return OneLineError(f"the database says: {type(error).__name__}: {error}")
    if isinstance(error, UnicodeEncodeError):
        return MisusedError("something that was given is no valid UTF-8")
    if isinstance(error, PermissionError | FileNotFoundError | ConnectionError):
        return OneLineError(str(error))
    return None
