"""Commands that are imported when they are used, so that ``outlast --help`` and completion answer at once."""

import difflib
import errno
import importlib
import os
import re
import sys
from typing import IO, Any

import click
from click.shell_completion import CompletionItem

from outlast.errors import ConfigError, OutlastError, PayloadError
from outlast.redact import MASK, safe_text


class LazyGroup(click.Group):
    """A group that knows its commands by name and one line of help, and imports the one that is called.

    Args:
        lazy: For each name, ``module:attribute`` and the line that ``--help`` shows.
    """

    def __init__(self, *args: Any, lazy: dict[str, tuple[str, str]], **kwargs: Any) -> None:
        """Import nothing."""
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they were given."""
        return [*self.lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.lazy[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # as click calls it
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.lazy.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[Any]]":
        """Complete the names of commands without importing them; options as every command does."""
        names = [
            CompletionItem(name, help=line) for name, (_, line) in self.lazy.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


# What to do about an error whose own text does not say: the second line under it.

_DRIVERS = {"sqlite3", "psycopg", "psycopg_pool"}
_DEFAULT_DATABASE_HINT = "is the URL right? outlast db check says when it is"
_DATABASE_HINTS = (
    (r"was moved to PostgreSQL", "give the new URL, here and to your App"),
    (r"being moved to PostgreSQL", "wait for the end of outlast move; then give the new URL, here and to your App"),
    (r"the move is not over", "run outlast move again until it says that it is, or give it up by --cancel"),
    (r"not a database|file is encrypted", "the URL names a file of another kind; is it the right one?"),
    (r"malformed|corrupt", "the file is damaged; put back a copy of it"),
    (r"disk I/O", "the disk may be full, gone or failing: look at that first, and leave the file as it is"),
    (r"too many clients|connection slots", "the server has no connection left; close some, or raise max_connections"),
    (r"statement timeout|lock timeout", "it took longer than the server allows; try again, or raise that time"),
    (r"locked|busy", "another program holds it; try again in a moment"),
    (r"readonly|read-only|permission denied|InsufficientPrivilege", "whoever runs this needs the right to write there"),
    (r"unable to open", "is the folder there, and may you write into it?"),
    (r"password|authentication|role .* does not exist", "are name and password in the URL right?"),
    (r"database .* does not exist", "create the database, or correct its name in the URL"),
    (r"refused|connect|timeout|resolve|translate host|No such file", f"is the server up? {_DEFAULT_DATABASE_HINT}"),
    (r"full|No space", "make room on the disk"),
)  # fmt: skip
_MESSAGE_HINTS = (
    (r"^there is no task \d", "outlast tasks list shows what there is"),
    (r"^there is no dead letter \d", "outlast dlq list shows what there is"),
    (r"cannot be read: No such file", "is the name right, and is it in this folder?"),
    (r"cannot be read: Permission", "whoever runs this needs the right to it"),
    (r"this is not OPML", "give an OPML file, or a text file with one URL on each line"),
    (r"^\S*\.toml: ", "correct it there; outlast init --path other.toml writes one with every setting explained"),
    (r"^the folder of the database", "create the folder, or correct the URL"),
    (r"^the dashboard cannot listen", "for example --port 8788; --port 0 picks a free one"),
    (r"^SQLite \S+ is too old", "use a Python with a newer SQLite"),
)
_FILE_HINTS = {
    errno.ENOENT: "is the name right?",
    errno.EISDIR: "name a file in it",
    errno.EACCES: "whoever runs this needs the right to it",
    errno.EPERM: "whoever runs this needs the right to it",
    errno.ENOSPC: "make room, or send it elsewhere",
    errno.EADDRINUSE: "choose another port, or end the program that listens there",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
}


def database_hint(error: BaseException) -> str | None:
    """Return what to do about the error of a database's driver; None if it is none."""
    if not any(kind.__module__.partition(".")[0] in _DRIVERS for kind in type(error).__mro__):
        return None
    text = f"{type(error).__name__}: {error}"
    for pattern, hint in _DATABASE_HINTS:
        if re.search(pattern, text, re.IGNORECASE):
            return hint
    return _DEFAULT_DATABASE_HINT


def file_hint(error: OSError) -> str:
    """Return what to do about an error of the operating system."""
    return _FILE_HINTS.get(error.errno or 0, "put that right, and try again")


def message_hint(text: str) -> str:
    """Return what to do about an error that Outlast tells in one line; nothing where the line itself says it."""
    return next((hint for pattern, hint in _MESSAGE_HINTS if re.search(pattern, text)), "")


# Errors as the command line tells them: a line of what is wrong, one of what to do, and an exit code for scripts.
#
# Exit codes: 0 done; 1 it could not be done (no such task, tables missing, database not reached, a conflict); 2 what
# was asked for makes no sense (options, settings, arguments of a task); 130 Ctrl-C.

EXIT_FAILED, _EXIT_USAGE, _EXIT_INTERRUPTED = 1, 2, 130
_LIST_SEPARATOR = "\n  "  # before each of several mistakes
_HINT_SEPARATOR = "; "  # what is wrong, and what to do about it
_URL_PASSWORD = re.compile(r"(://[^\s:/@]{0,200}:)[^\s@]{1,500}@")


class CommandError(click.ClickException):
    """An error that is told in a red line, and a second one that says what to do.

    Args:
        message: What is wrong. Where no hint is given, what stands behind its first semicolon is the second line.
        hint: What to do about it.
    """

    exit_code = EXIT_FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        """Keep both."""
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the lines; what a terminal would obey is taken out, and secrets are."""
        message, hint = self.safe(self.message), self.safe(self.hint)
        if not hint:
            message, _, hint = message.partition(_HINT_SEPARATOR)
        click.secho(f"Error: {message}", file=file or sys.stderr, fg="red")
        if hint:
            click.echo(f"  {hint}", file=file or sys.stderr)

    def safe(self, text: str) -> str:
        """Return a text as it is written."""
        return _redacted_line(text)


class InvalidUsageError(CommandError):
    """The same for what makes no sense as it was asked for."""

    exit_code = _EXIT_USAGE


class _ClickUsageError(InvalidUsageError):
    """The same for words that cannot be read; they are ours or were just typed, and ``KEY=VALUE`` is no secret."""

    def safe(self, text: str) -> str:
        """Return the text with nothing that a terminal would obey, and without the password of a URL."""
        return _URL_PASSWORD.sub(rf"\1{MASK}@", " ".join(safe_text(text).split()))


class MultipleMistakesError(InvalidUsageError):
    """The same for a list of what makes no sense: its heading, then a line each."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Write all lines, each made safe by itself."""
        heading, *lines = self.message.split(_LIST_SEPARATOR)
        click.secho(f"Error: {_redacted_line(heading)}", file=file or sys.stderr, fg="red")
        for line in lines:
            click.echo(f"  {_redacted_line(line)}", file=file or sys.stderr)


def _redacted_line(text: str) -> str:
    from outlast.classify import default_classifier  # noqa: PLC0415  # only where something went wrong

    return " ".join(default_classifier().redact(text).split())


class RootGroup(LazyGroup):
    """The outermost group: turns the errors of all commands into lines and exit codes."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line; whoever stops reading its output gets no word about it."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:  # of --help and --version, which are written before any command runs
            _flush_output()
            CommandError(_output_error_text(error), _OUTPUT_ERROR_HINT).show()
            sys.exit(EXIT_FAILED)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the words before the first command."""
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            raise _usage_error(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            if sys.stderr.isatty():
                click.echo(err=True)  # behind the ^C that the terminal shows
            ctx.exit(_EXIT_INTERRUPTED)
        except BrokenPipeError:
            _flush_output()
            ctx.exit(EXIT_FAILED)
        except click.UsageError as error:
            raise _usage_error(error) from None
        except Exception as error:
            if isinstance(error, OSError) and not _flush_output():
                raise CommandError(_output_error_text(error), _OUTPUT_ERROR_HINT) from error
            told = _to_command_error(error)
            if told is None:
                raise
            raise told from error


def _flush_output() -> bool:
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


_OUTPUT_ERROR_HINT = "make room, or send it elsewhere"


def _output_error_text(error: OSError) -> str:
    return f"the output cannot be written: {error.strerror or error}"


def _usage_error(error: click.UsageError) -> click.ClickException:
    """Return the lines for words that cannot be read; the help that click shows for no words at all stays as it is."""
    if type(error).__name__ == "NoArgsIsHelpError":  # not there before click 8.2
        return error
    message = error.format_message().removesuffix(".")
    path = error.ctx.command_path if error.ctx is not None else "outlast"
    meant = _similar_command(message, error.ctx)
    if meant:
        return _ClickUsageError(message, f"did you mean {path} {meant}?")
    return _ClickUsageError(message, "" if _HINT_SEPARATOR in message else f"see {path} --help")


def _similar_command(message: str, ctx: click.Context | None) -> str:
    """Return the command that was meant by one that is not there, or nothing."""
    found = re.fullmatch(r"No such command '([^']+)'", message)
    if found is None or ctx is None or not isinstance(ctx.command, click.Group):
        return ""
    return next(iter(difflib.get_close_matches(found[1], ctx.command.list_commands(ctx), n=1)), "")


def _to_command_error(error: Exception) -> CommandError | None:
    """Return the lines for an error that needs no traceback; None for a fault of ours."""
    if isinstance(error, ConfigError) and _LIST_SEPARATOR in str(error):
        return MultipleMistakesError(str(error))

    text = str(error)
    if isinstance(error, ConfigError | PayloadError):
        return InvalidUsageError(text, message_hint(text))
    if isinstance(error, OutlastError) or type(error) is LookupError:  # a KeyError would be a fault of ours
        return CommandError(text, message_hint(text))
    if (hint := database_hint(error)) is not None:
        return CommandError(f"the database says: {type(error).__name__}: {text}", hint)
    if isinstance(error, UnicodeEncodeError):
        return InvalidUsageError("something that was given is no valid UTF-8", "type it again, rather than paste it")
    if isinstance(error, OSError) and error.errno is not None:
        return CommandError(text, file_hint(error))
    return None
