"""Errors as the command line tells them: one line, or a list, and an exit code that a script can tell apart.

Exit codes: 0 done; 1 it could not be done (no such task, tables missing, database not reached, a conflict); 2 what was
asked for makes no sense (options, settings, arguments of a task); 130 Ctrl-C.
"""

import os
import sys
from typing import IO, Any

import click

from holdfast.cli.lazy import LazyGroup
from holdfast.errors import ConfigError, HoldfastError, PayloadError

__all__ = ["FAILED", "FailingGroup", "ListedError", "MisusedError", "OneLineError"]

FAILED, _MISUSED, _INTERRUPTED = 1, 2, 130
_NEXT = "\n  "  # before each of several mistakes
_DRIVERS = {"sqlite3", "psycopg", "psycopg_pool"}


class OneLineError(click.ClickException):
    """An error that is told in one red line.

    Args:
        message: What is wrong, and what to do about it.
    """

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the line; what a terminal would obey is taken out, and secrets are."""
        click.secho(f"Error: {_safe(self.message)}", file=file or sys.stderr, fg="red")


class MisusedError(OneLineError):
    """The same for what makes no sense as it was asked for."""

    exit_code = _MISUSED


class ListedError(MisusedError):
    """The same for a list of what makes no sense: its heading, then a line each."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Write all lines, each made safe by itself."""
        heading, *lines = self.message.split(_NEXT)
        click.secho(f"Error: {_safe(heading)}", file=file or sys.stderr, fg="red")
        for line in lines:
            click.echo(f"  {_safe(line)}", file=file or sys.stderr)


def _safe(text: str) -> str:
    from holdfast.classify import default_classifier  # noqa: PLC0415  # only where something went wrong

    return " ".join(default_classifier().redact(text).split())


class FailingGroup(LazyGroup):
    """The outermost group: turns the errors of all commands into lines and exit codes."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line; whoever stops reading its output gets no word about it."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:  # of --help and --version, which are written before any command runs
            _is_written()
            OneLineError(_unwritten(error)).show()
            sys.exit(FAILED)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            if sys.stderr.isatty():
                click.echo(err=True)  # behind the ^C that the terminal shows
            ctx.exit(_INTERRUPTED)
        except BrokenPipeError:
            _is_written()
            ctx.exit(FAILED)
        except Exception as error:
            if isinstance(error, OSError) and not _is_written():
                raise OneLineError(_unwritten(error)) from error
            told = _told(error)
            if told is None:
                raise
            raise told from error


def _is_written() -> bool:
    """Tell whether the output can be written; if not, what is left of it is dropped, also at the end of the process."""
    try:
        if sys.stdout is not None:  # it is None where the process was started without one
            sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return False
    return True


def _unwritten(error: OSError) -> str:
    return f"the output cannot be written: {error.strerror or error}"


def _told(error: Exception) -> OneLineError | None:
    """Return the line for an error that needs no traceback; None for a fault of ours."""
    if isinstance(error, ConfigError) and _NEXT in str(error):
        return ListedError(str(error))
    if isinstance(error, ConfigError | PayloadError):
        return MisusedError(str(error))
    if isinstance(error, HoldfastError) or type(error) is LookupError:  # a KeyError would be a fault of ours
        return OneLineError(str(error))
    if any(kind.__module__.partition(".")[0] in _DRIVERS for kind in type(error).__mro__):
        return OneLineError(f"the database says: {type(error).__name__}: {error}")
    if isinstance(error, UnicodeEncodeError):
        return MisusedError("something that was given is no valid UTF-8")
    if isinstance(error, OSError) and error.errno is not None:
        return OneLineError(str(error))
    return None
