"""Errors as the command line tells them: a line of what is wrong, one of what to do, and an exit code for scripts.

Exit codes: 0 done; 1 it could not be done (no such task, tables missing, database not reached, a conflict); 2 what was
asked for makes no sense (options, settings, arguments of a task); 130 Ctrl-C.
"""

import difflib
import os
import re
import sys
from typing import IO, Any

import click

from outlast.cli.lazy import LazyGroup
from outlast.errors import ConfigError, OutlastError, PayloadError
from outlast.redact import MASK, safe_text

__all__ = ["FAILED", "FailingGroup", "ListedError", "MisusedError", "OneLineError"]

FAILED, _MISUSED, _INTERRUPTED = 1, 2, 130
_NEXT = "\n  "  # before each of several mistakes
_BETWEEN = "; "  # what is wrong, and what to do about it
_PASSWORD = re.compile(r"(://[^\s:/@]{0,200}:)[^\s@]{1,500}@")


class OneLineError(click.ClickException):
    """An error that is told in a red line, and a second one that says what to do.

    Args:
        message: What is wrong. Where no hint is given, what stands behind its first semicolon is the second line.
        hint: What to do about it.
    """

    exit_code = FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        """Keep both."""
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the lines; what a terminal would obey is taken out, and secrets are."""
        message, hint = self.safe(self.message), self.safe(self.hint)
        if not hint:
            message, _, hint = message.partition(_BETWEEN)
        click.secho(f"Error: {message}", file=file or sys.stderr, fg="red")
        if hint:
            click.echo(f"  {hint}", file=file or sys.stderr)

    def safe(self, text: str) -> str:
        """Return a text as it is written."""
        return _safe(text)


class MisusedError(OneLineError):
    """The same for what makes no sense as it was asked for."""

    exit_code = _MISUSED


class _UsageError(MisusedError):
    """The same for words that cannot be read; they are ours or were just typed, and ``KEY=VALUE`` is no secret."""

    def safe(self, text: str) -> str:
        """Return the text with nothing that a terminal would obey, and without the password of a URL."""
        return _PASSWORD.sub(rf"\1{MASK}@", " ".join(safe_text(text).split()))


class ListedError(MisusedError):
    """The same for a list of what makes no sense: its heading, then a line each."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Write all lines, each made safe by itself."""
        heading, *lines = self.message.split(_NEXT)
        click.secho(f"Error: {_safe(heading)}", file=file or sys.stderr, fg="red")
        for line in lines:
            click.echo(f"  {_safe(line)}", file=file or sys.stderr)


def _safe(text: str) -> str:
    from outlast.classify import default_classifier  # noqa: PLC0415  # only where something went wrong

    return " ".join(default_classifier().redact(text).split())


class FailingGroup(LazyGroup):
    """The outermost group: turns the errors of all commands into lines and exit codes."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line; whoever stops reading its output gets no word about it."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:  # of --help and --version, which are written before any command runs
            _is_written()
            OneLineError(_unwritten(error), _UNWRITTEN_HINT).show()
            sys.exit(FAILED)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the words before the first command."""
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            raise _misused(error) from None

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
        except click.UsageError as error:
            raise _misused(error) from None
        except Exception as error:
            if isinstance(error, OSError) and not _is_written():
                raise OneLineError(_unwritten(error), _UNWRITTEN_HINT) from error
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


_UNWRITTEN_HINT = "make room, or send it elsewhere"


def _unwritten(error: OSError) -> str:
    return f"the output cannot be written: {error.strerror or error}"


def _misused(error: click.UsageError) -> click.ClickException:
    """Return the lines for words that cannot be read; the help that click shows for no words at all stays as it is."""
    if type(error).__name__ == "NoArgsIsHelpError":  # not there before click 8.2
        return error
    message = error.format_message().removesuffix(".")
    path = error.ctx.command_path if error.ctx is not None else "outlast"
    meant = _meant(message, error.ctx)
    if meant:
        return _UsageError(message, f"did you mean {path} {meant}?")
    return _UsageError(message, "" if _BETWEEN in message else f"see {path} --help")


def _meant(message: str, ctx: click.Context | None) -> str:
    """Return the command that was meant by one that is not there, or nothing."""
    found = re.fullmatch(r"No such command '([^']+)'", message)
    if found is None or ctx is None or not isinstance(ctx.command, click.Group):
        return ""
    return next(iter(difflib.get_close_matches(found[1], ctx.command.list_commands(ctx), n=1)), "")


def _told(error: Exception) -> OneLineError | None:
    """Return the lines for an error that needs no traceback; None for a fault of ours."""
    if isinstance(error, ConfigError) and _NEXT in str(error):
        return ListedError(str(error))
    from outlast.cli.hints import of_a_database, of_a_file, of_our_own  # noqa: PLC0415  # only where it is needed

    text = str(error)
    if isinstance(error, ConfigError | PayloadError):
        return MisusedError(text, of_our_own(text))
    if isinstance(error, OutlastError) or type(error) is LookupError:  # a KeyError would be a fault of ours
        return OneLineError(text, of_our_own(text))
    if (hint := of_a_database(error)) is not None:
        return OneLineError(f"the database says: {type(error).__name__}: {text}", hint)
    if isinstance(error, UnicodeEncodeError):
        return MisusedError("something that was given is no valid UTF-8", "type it again, rather than paste it")
    if isinstance(error, OSError) and error.errno is not None:
        return OneLineError(text, of_a_file(error))
    return None
