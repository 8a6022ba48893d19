"""Errors of the command line: a line with what is wrong, a line with what to do, and an exit code.

Also the group that imports a command when it is used, so that ``outlast --help`` and completion are fast.

Exit codes: 0 done; 1 it failed (no such task, missing tables, database not reached, a conflict); 2 wrong usage
(options, settings, arguments of a task); 130 Ctrl-C.
"""

import difflib
import errno
import importlib
import os
import re
import sys
from collections.abc import Iterable
from itertools import pairwise
from typing import IO, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from outlast.errors import ConfigError, OutlastError, PayloadError
from outlast.redact import MASK, safe_text

_DRIVERS = {"sqlite3", "psycopg", "psycopg_pool"}
_DEFAULT_DATABASE_HINT = "check the URL; outlast db check tests the connection"
_DATABASE_HINTS = (
    (r"was moved to PostgreSQL", "use the new URL, here and in your App"),
    (r"being moved to PostgreSQL", "wait until outlast move has finished; then use the new URL, here and in your App"),
    (r"the move is not (over|finished)", "run outlast move again to finish it, or cancel it with --cancel"),
    (r"not a database|file is encrypted", "the URL names a file that is not a SQLite database; check the path"),
    (r"malformed|corrupt", "the file is damaged; restore a backup"),
    (r"disk I/O", "the disk may be full, missing or failing: check it first, and leave the file as it is"),
    (r"too many clients|connection slots", "the server has no free connection; close some, or raise max_connections"),
    (r"statement timeout|lock timeout", "it took longer than the server allows; try again, or raise the time limit"),
    (r"locked|busy", "another program holds a lock; try again in a moment"),
    (r"readonly|read-only|permission denied|InsufficientPrivilege", "your user needs write permission there"),
    (r"unable to open", "check that the folder exists and that you can write to it"),
    (r"password|authentication|role .* does not exist", "check the user name and the password in the URL"),
    (r"database .* does not exist", "create the database, or correct its name in the URL"),
    (r"refused|connect|timeout|resolve|translate host|No such file",
     "check that the server is running, and the URL; outlast db check tests the connection"),
    (r"full|No space", "free some disk space"),
)  # fmt: skip
_MESSAGE_HINTS = (
    (r"^(there is no task \d|task \d+ does not exist)", "outlast tasks list shows the tasks"),
    (r"^(there is no dead letter \d|dead letter \d+ does not exist)", "outlast dlq list shows the dead letters"),
    (r"^group \S+ does not exist", "outlast dlq groups shows the groups"),
    (r"^replay \d+ does not exist", "outlast dlq replays shows the replays"),
    (r"^source (\S+ does not exist|\S+: no source)", "outlast sources list shows the sources"),
    (r"cannot be read: No such file", "check the name; a relative path starts in the current folder"),
    (r"cannot be read: Permission", "your user needs read permission"),
    (r"not (valid )?OPML", "give an OPML file, or a text file with one URL per line"),
    (r"^\S*\.toml: ", "correct the file; outlast init --path other.toml writes one with every setting explained"),
    (r"^the dashboard cannot listen", "for example --port 8788; --port 0 picks a free port"),
    (r"^SQLite \S+ is too old", "use a Python with a newer SQLite"),
)
_FILE_HINTS = {
    errno.ENOENT: "check the path",
    errno.EISDIR: "give the path of a file, not of a folder",
    errno.EACCES: "your user needs permission for it",
    errno.EPERM: "your user needs permission for it",
    errno.ENOSPC: "free some disk space, or write elsewhere",
    errno.EADDRINUSE: "choose another port, or stop the program that uses it",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
}


def database_hint(error: BaseException) -> str | None:
    """Return what to do about an error of a database driver; None for other errors."""
    if not any(kind.__module__.partition(".")[0] in _DRIVERS for kind in type(error).__mro__):
        return None
    text = f"{type(error).__name__}: {error}"
    found = (hint for pattern, hint in _DATABASE_HINTS if re.search(pattern, text, re.IGNORECASE))
    return next(found, _DEFAULT_DATABASE_HINT)


def message_hint(text: str) -> str:
    """Return what to do about an error of Outlast; empty if its text already says so."""
    return next((hint for pattern, hint in _MESSAGE_HINTS if re.search(pattern, text)), "")


EXIT_FAILED, _EXIT_USAGE, _EXIT_INTERRUPTED = 1, 2, 130
_LIST_SEPARATOR = "\n  "  # before each of several mistakes
_HINT_SEPARATOR = "; "  # between what is wrong and what to do
_COMMAND_KEY = "outlast.command"  # in the meta data of a context: the words of the command that is called
_URL_PASSWORD = re.compile(r"(://[^\s:/@]{0,200}:)[^\s@]{1,500}@")


def no_color() -> bool:
    """Return whether to print no escape sequences: NO_COLOR is set. It wins over FORCE_COLOR."""
    return bool(os.environ.get("NO_COLOR"))


def exit_failed() -> NoReturn:
    """End the command with exit code 1."""
    click.get_current_context().exit(EXIT_FAILED)


class CommandError(click.ClickException):
    """An error shown as a red line, with a second line that says what to do.

    Args:
        message: What is wrong. Without a hint, the text after its first semicolon becomes the second line.
        hint: What to do.
    """

    exit_code = EXIT_FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the lines, without secrets and control characters."""
        message, hint = self.safe(self.message), self.safe(self.hint)
        if not hint:
            message, _, hint = message.partition(_HINT_SEPARATOR)
        _show_lines([message, hint] if hint else [message], file)

    def safe(self, text: str) -> str:
        """Return the text without secrets and control characters, in one line."""
        return _redacted_line(text)


class InvalidUsageError(CommandError):
    """Wrong usage: options, settings or arguments that cannot be used. Exit code 2."""

    exit_code = _EXIT_USAGE


class _ClickUsageError(InvalidUsageError):
    """Wrong usage found by click. The words are ours or were just typed, so ``KEY=VALUE`` is not masked."""

    def safe(self, text: str) -> str:
        """Return the text without control characters and without the password of a URL."""
        return _URL_PASSWORD.sub(rf"\1{MASK}@", " ".join(safe_text(text).split()))


class MultipleMistakesError(InvalidUsageError):
    """Several mistakes: a heading, then one line for each."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Write all lines, each without secrets and control characters."""
        _show_lines(map(_redacted_line, self.message.split(_LIST_SEPARATOR)), file)


def _show_lines(lines: Iterable[str], file: IO[Any] | None) -> None:
    heading, *others = lines
    click.secho(f"Error: {heading}", file=file or sys.stderr, fg="red", color=False if no_color() else None)
    for line in others:
        click.echo(f"  {line}", file=file or sys.stderr)


def _redacted_line(text: str) -> str:
    from outlast.classify import default_classifier  # noqa: PLC0415  # only for errors

    return " ".join(default_classifier().redact(text).split())


class RootGroup(click.Group):
    """The outermost group: imports a command when it is called, and turns errors into messages and exit codes.

    Args:
        lazy: For each command name, ``module:attribute`` and the line that ``--help`` shows.
    """

    def __init__(self, *args: Any, lazy: dict[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order of the definition."""
        return [*self.lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it."""
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
        """Complete command names without importing the commands, and options."""
        names = [
            CompletionItem(name, help=line) for name, (_, line) in self.lazy.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line. A closed pipe ends it without a message."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:  # of --help and --version, which are written before any command runs
            _flush_output()
            _output_error(error).show()
            sys.exit(EXIT_FAILED)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the command that is called, check the values of its options, then parse the arguments."""
        ctx.color = False if no_color() else ctx.color
        called, words = ctx, list(args)
        while isinstance(group := called.command, click.Group) and words:
            command = group.get_command(called, words[0])
            if command is None:
                break
            command.context_class = _CommandContext
            called = command.context_class(command, called, words.pop(0))
        ctx.meta[_COMMAND_KEY] = called.command_path
        if not ctx.resilient_parsing:
            _check_option_values(called, words)
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the arguments before the first command."""
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
                click.echo(err=True)  # after the ^C that the terminal shows
            ctx.exit(_EXIT_INTERRUPTED)
        except BrokenPipeError:
            _flush_output()
            ctx.exit(EXIT_FAILED)
        except click.UsageError as error:
            raise _usage_error(error, ctx.meta[_COMMAND_KEY]) from None
        except Exception as error:
            if isinstance(error, OSError) and not _flush_output():
                raise _output_error(error) from error
            command_error = _to_command_error(error)
            if command_error is None:
                raise
            raise command_error from error


class _HelpFormatter(click.HelpFormatter):
    """Keeps room for the help of options on a narrow terminal."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and their help in two columns, the first with at most a third of the width."""
        super().write_dl([*rows], min(col_max, self.width // 3), col_spacing)


class _CommandContext(click.Context):
    formatter_class = _HelpFormatter


def _flush_output() -> bool:
    """Return whether the output can be written; if not, drop the rest of it, also at the end of the process."""
    try:
        if sys.stdout is not None:  # it is None where the process was started without one
            sys.stdout.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return False
    return True


def _output_error(error: OSError) -> CommandError:
    message = f"the output cannot be written: {error.strerror or error}"
    return CommandError(message, "free some disk space, or write elsewhere")


def _check_option_values(called: click.Context, words: list[str]) -> None:
    """Check that no option takes the next option as its value, as ``--group --canary`` does in click."""
    options = [each for each in called.command.get_params(called) if isinstance(each, click.Option)]
    with_value = {name for each in options if not each.is_flag for name in each.opts}
    for name, value in pairwise(words):
        if name == "--":
            return
        if name in with_value and value.startswith("--"):
            raise click.UsageError(
                f"{name} has no value: {value} looks like an option; give a value, or {name}={value} if you mean that",
                called,
            )


def _usage_error(error: click.UsageError, path: str = "outlast") -> click.ClickException:
    """Return the error to show for wrong usage; the help that click shows for no arguments stays as it is.

    Args:
        error: The error of click, which does not always know the command.
        path: The words of the command.
    """
    if type(error).__name__ == "NoArgsIsHelpError":  # since click 8.2
        return error
    message = error.format_message().removesuffix(".")
    path = error.ctx.command_path if error.ctx is not None else path
    if message.startswith("No such command") and error.ctx is not None:
        return _ClickUsageError(message, _command_hint(message, error.ctx))
    return _ClickUsageError(message, "" if _HINT_SEPARATOR in message else f"see {path} --help")


def _command_hint(message: str, ctx: click.Context) -> str:
    """Return the command whose name is closest to one that does not exist; if none is close, those of the group."""
    names = ctx.command.list_commands(ctx) if isinstance(ctx.command, click.Group) else []
    if similar := difflib.get_close_matches(message.split("'")[1], names, n=1):
        return f"did you mean {ctx.command_path} {similar[0]}?"
    return f"choose from: {', '.join(names)}" if ctx.parent else f"see {ctx.command_path} --help"


def _to_command_error(error: Exception) -> CommandError | None:
    """Return the error to show without a traceback; None for a bug in Outlast."""
    text = str(error)
    if isinstance(error, ConfigError) and _LIST_SEPARATOR in text:
        return MultipleMistakesError(text)
    if isinstance(error, ConfigError | PayloadError):
        return InvalidUsageError(text, message_hint(text))
    if isinstance(error, OutlastError) or type(error) is LookupError:  # a KeyError would be a bug
        return CommandError(text, message_hint(text))
    if (hint := database_hint(error)) is not None:
        return CommandError(f"database error: {type(error).__name__}: {text}", hint)
    if isinstance(error, UnicodeEncodeError):
        return InvalidUsageError("an argument is not valid UTF-8", "type it instead of pasting it")
    if isinstance(error, OSError) and error.errno is not None:
        return CommandError(text, _FILE_HINTS.get(error.errno, "fix the problem and try again"))
    return None
