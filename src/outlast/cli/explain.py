"""``outlast explain``: how Outlast classifies an error, and the rule that would change it."""

import builtins
import importlib
import importlib.util
import json
import os
import re
import sys
from typing import TYPE_CHECKING

import click
from rich.text import Text

from outlast.classify import default_classifier
from outlast.classify.classifier import NOTHING_MATCHED
from outlast.classify.codes import CODES, ERRNOS, judge_sqlstate
from outlast.classify.libraries import FILES
from outlast.cli.app_options import flag, json_option, option, with_app
from outlast.cli.output import JsonObject, make_console, print_json, print_text
from outlast.config import configure
from outlast.decide.explanation import Explanation
from outlast.decide.explanation import explain as explain_error
from outlast.failure import Category, Evidence, Origin
from outlast.queue.failure_groups import LARGEST_GROUPS, sampled_groups
from outlast.redact import MASK
from outlast.report.classification import suggestions
from outlast.report.text_format import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from outlast.app import App
    from outlast.report.classification import Suggestion


_STDLIB_MODULES = frozenset([
    "asyncio", "asyncio.exceptions", "binascii", "concurrent.futures", "concurrent.futures.process", "configparser",
    "csv", "decimal", "email.errors", "ftplib", "gzip", "http.client", "imaplib", "json", "json.decoder", "lzma",
    "multiprocessing", "pickle", "poplib", "queue", "shutil", "smtplib", "socket", "sqlite3", "ssl", "struct",
    "subprocess", "tarfile", "tomllib", "urllib.error", "xml.etree.ElementTree", "xml.parsers.expat", "zipfile",
    "zlib",
])  # fmt: skip
_DOTTED_NAME = re.compile(r"[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)*")
_ERRNO_PATTERN = re.compile(r"\[Errno (-?\d{1,6})\] ([^:]*)")


def parse_subject(
    words: str, headers: "Mapping[str, str]", *, credentials_sent: bool | None = None
) -> BaseException | Evidence:
    """Return the exception or evidence that the arguments of ``outlast explain`` describe.

    Args:
        words: A status ("503"), a SQLSTATE, an errno name, an API error code, an exception's name, or any text.
        headers: Response headers, for a status.
        credentials_sent: Whether the request carried credentials.
    """
    low = {name.lower(): value for name, value in headers.items()}
    if re.fullmatch(r"[1-5]\d\d", words):
        return Evidence(origin=Origin.HTTP, http_status=int(words), headers=low, credentials_sent=credentials_sent)
    if re.fullmatch(r"[0-9A-Z]{5}", words) and any(char.isdigit() for char in words) and judge_sqlstate(words):
        return Evidence(origin=Origin.DB, sqlstate=words)
    if words in ERRNOS:
        import errno  # noqa: PLC0415  # one case of several

        return Evidence(errno=getattr(errno, words, None), code=words)
    if words in CODES:
        return Evidence(code=words, headers=low)
    name, _, message = words.partition(": ")
    if (
        _DOTTED_NAME.fullmatch(name)
        and name.rpartition(".")[2][0].isupper()
        and (not message or exception_class(name) or "." in name)
    ):
        return make_error(name, message)
    return Exception(words)


def make_error(name: str, message: str) -> BaseException:
    """Return an error of the named class; if the class cannot be imported, of a new class with that name."""
    kind = exception_class(name)
    if kind is None:
        module, _, bare = name.rpartition(".")
        kind = type(bare, (Exception,), {"__module__": module or "__main__", "__qualname__": bare})
    error = _make_instance(kind, message)
    if isinstance(error, OSError) and (found := _ERRNO_PATTERN.match(message)):
        error.errno = int(found[1])
    return error


def _make_instance(kind: type[BaseException], message: str) -> BaseException:
    """Return an instance with a text, without calling the class, because its arguments are unknown."""
    body = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__str__": lambda _: message}
    shown: type[BaseException] = type(kind.__name__, (kind,), body)
    if issubclass(kind, BaseExceptionGroup):
        return shown(message, [Exception(message)])
    return shown.__new__(shown)


def exception_class(name: str) -> type[BaseException] | None:
    """Return an exception class by its qualified name, or None.

    The name may come from an untrusted traceback. So only known modules of the standard library are imported for it,
    and libraries that Outlast describes, if they are installed: never a file in the current folder.
    """
    module, _, bare = name.rpartition(".")
    if not module:
        return _as_exception_class(getattr(builtins, bare, None))
    package = module.partition(".")[0]
    if (
        module not in sys.modules
        and module not in _STDLIB_MODULES
        and not (package in FILES and _is_installed(package))
    ):
        return None
    try:
        return _as_exception_class(getattr(importlib.import_module(module), bare, None))
    except Exception:  # noqa: BLE001  # not installed, or broken; the name is enough
        return None


def _is_installed(package: str) -> bool:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    origin = (spec.origin or "") if spec is not None else ""
    return any(folder in origin for folder in (f"site-packages{os.sep}", f"dist-packages{os.sep}"))


def _as_exception_class(thing: object) -> type[BaseException] | None:
    return thing if isinstance(thing, type) and issubclass(thing, BaseException) else None


_TRACEBACK_START = "Traceback (most recent call last):"
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_ERROR_LINE = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?")
_LOG_LINE = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Timeout|TimedOut|Interrupt|Exit)): (?P<message>.*)"
)
_GROUP_FRAME = re.compile(r"^\s*[|+][-|+ ]*(?:\d+ -+)?\s?", re.MULTILINE)


def parse_error_text(text: str) -> BaseException | None:
    """Return the last error of a log or a traceback, linked to its causes; None if there is none."""
    if "Exception Group Traceback" in text:
        return _parse_group(text)
    error: BaseException | None = None
    link = ""
    for part in re.split(rf"({re.escape(_CAUSE)}|{re.escape(_CONTEXT)})", text):
        if part in {_CAUSE, _CONTEXT}:
            link = part
            continue
        found = _parse_traceback(part)
        if found is None:
            continue
        if link == _CAUSE:
            found.__cause__ = error
        elif link == _CONTEXT:
            found.__context__ = error
        error, link = found, ""
    return error or _parse_log(text)


def _parse_traceback(text: str) -> BaseException | None:
    """Parse the last traceback of a text: its frames are indented, the line after them names the error."""
    if _TRACEBACK_START not in text:
        return None
    for line in text.rpartition(_TRACEBACK_START)[2].splitlines():
        if line.strip() and line[0] not in " \t":
            match = _ERROR_LINE.fullmatch(line.strip())
            return make_error(match["name"], match["message"] or "") if match else None
    return None


def _parse_group(text: str) -> BaseException | None:
    """Parse the traceback of an exception group: its errors, each after its own frames."""
    parts = _GROUP_FRAME.sub("", text).split(_TRACEBACK_START)[1:]
    leaves = [
        leaf for part in parts if (leaf := _parse_traceback(_TRACEBACK_START + _restore_indent(part))) is not None
    ]
    plain = [leaf for leaf in leaves if isinstance(leaf, Exception) and not isinstance(leaf, BaseExceptionGroup)]
    return ExceptionGroup("the errors of the traceback", plain) if plain else None


def _restore_indent(part: str) -> str:
    """Indent the frames again after the box of the group was removed."""
    return re.sub(r"^(File \".*|(?<=\n)\s*\S.*(?=\n(?:File|\s*\^)))", r"  \1", part, flags=re.MULTILINE)


def _parse_log(text: str) -> BaseException | None:
    """Parse the last line of a log that has the name and message of an error."""
    for line in reversed(text.splitlines()):
        match = _LOG_LINE.search(line)
        if match:
            return make_error(match["name"], match["message"])
    return None


_NO_RULE = "# nothing distinguishes it from other errors; raise your own exception class"
_MAX_MESSAGE_CHARS = 160


@with_app
def show_suggestions(app: "App", *, as_json: bool) -> None:
    """Print a rule for each stored failure that is unknown or classified by weak evidence.

    Args:
        app: The app whose store to read.
        as_json: Whether to print JSON.
    """
    found = suggestions(sampled_groups(app.store), default_classifier().rules)
    if as_json:
        print_json([each._asdict() for each in found])
        return
    if not found:
        print_text("every failure is classified by strong evidence or by one of your rules")
        return
    print_text(
        f"Suggestions for the {LARGEST_GROUPS} largest groups of failures; put the right ones into outlast.toml:"
    )
    for each in found:
        print_text("")
        for line in (*_rule_comments(each), *(each.toml or _NO_RULE).splitlines()):
            print_text(line)


def _rule_comments(suggestion: "Suggestion") -> list[str]:
    """Return the comments above a rule, one line each, to be copied with it."""
    line = " ".join(suggestion.message.split())
    shown = f"{line[:_MAX_MESSAGE_CHARS]} …" if len(line) > _MAX_MESSAGE_CHARS else line
    matched = (
        f"Matches {counted(suggestion.failures, 'failure')} in {counted(len(suggestion.groups), 'group')}, "
        f"{counted(suggestion.dead, 'dead letter')}."
    )
    title = f"# {suggestion.title}: {shown}" if shown else f"# {suggestion.title}"
    return [title, f"# {suggestion.because} Now {suggestion.category}. {matched}"]


_MAX_READ_BYTES = 100_000_000
_MAX_INPUT_CHARS = 1_000_000
_MAX_RULE_CHARS = 200


@click.command()
@click.argument("words", nargs=-1)
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME:VALUE", help="A response header; repeatable.")
@click.option(
    "--credentials/--no-credentials", default=None, help="Whether the request carried credentials (decides a 403)."
)
@click.option("--config", type=click.Path(dir_okay=False), help="An outlast.toml with your rules.")
@flag("--unknown", "Suggest rules for stored failures that are unknown or uncertain.")
@option("--app", "MODULE:APP", "With --unknown: the app whose store to read.", "reference")
@option("--url", "URL", "With --unknown: the store. Default: as for all commands.")
@json_option
def explain(  # noqa: PLR0913  # its options
    words: tuple[str, ...],
    headers: tuple[str, ...],
    *,
    credentials: bool | None,
    config: str | None,
    unknown: bool,
    reference: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Explain an error, and what a policy does about it.

    WORDS is an HTTP status, a SQLSTATE, an errno name, an API's error code, the name of an exception, or the text of a
    message. Without WORDS, or with -, the last error of a traceback or log from standard input is explained. With
    --unknown, the stored failures that are unknown or classified by weak evidence are listed, each with a rule for
    outlast.toml and the number of failures it would match; nothing is changed.

    \b
    Examples:
      outlast explain 429 -H 'Retry-After: 120'
      outlast explain httpx.ReadTimeout
      outlast explain 40P01
      outlast explain 'database is locked'
      python job.py 2>&1 | outlast explain
      outlast explain --unknown --app jobs:app
    """  # noqa: D301  # click reads the control character, not a backslash
    if unknown:
        if words or headers or credentials is not None or config is not None:
            raise click.UsageError("--unknown can only be combined with --app, --url and --json")
        show_suggestions(reference=reference, url=url, as_json=as_json)
        return
    if reference is not None or url is not None:
        raise click.UsageError("--app and --url need --unknown; for example: outlast explain --unknown --app jobs:app")
    configure(config)
    subject = (
        _read_input()
        if words in {(), ("-",)}
        else parse_subject(" ".join(words), _parse_headers(headers), credentials_sent=credentials)
    )
    if (headers or credentials is not None) and not (isinstance(subject, Evidence) and subject.http_status):
        raise click.UsageError(
            "--header and --credentials need an HTTP status; for example: outlast explain 403 --credentials"
        )
    explained = explain_error(subject, classifier=default_classifier())
    if as_json:
        print_json(_explanation_data(explained, subject))
    else:
        _print_explanation(explained, subject)


def _read_input() -> BaseException:
    if sys.stdin.isatty():
        raise click.UsageError("there is nothing to explain; give an error, or pipe a traceback into this command")
    text = sys.stdin.read(_MAX_READ_BYTES)[-_MAX_INPUT_CHARS:]  # only the last error is explained
    error = parse_error_text(text)
    if error is not None:
        return error
    if not text.strip():
        raise click.UsageError("standard input is empty; pipe a traceback or a text into this command")
    return Exception(text.strip())


def _parse_headers(headers: tuple[str, ...]) -> dict[str, str]:
    parsed = {}
    for header in headers:
        name, colon, value = header.partition(":")
        if not colon or not name.strip():
            raise click.BadParameter(
                f"{header!r} is not a header; write it as 'Retry-After: 120'", param_hint="--header"
            )
        parsed[name.strip()] = value.strip()
    return parsed


def _explanation_data(explained: Explanation, subject: BaseException | Evidence) -> JsonObject:
    return {
        **explained.failure.to_dict(),
        "strength": explained.strength.value,
        "others": [
            {"category": other.category.value, "rule": other.rule, "strength": other.strength.value}
            for other in explained.others
        ],
        "policy": explained.action,
        "rule_to_change_it": _rule_lines(explained, subject),
    }


def _print_explanation(explained: Explanation, subject: BaseException | Evidence) -> None:
    console = make_console()
    colour = "green" if explained.failure.retryable else "red"
    for number, line in enumerate(str(explained).splitlines()):
        shown = Text(line, style="bold" if number == 0 else "")
        if line.startswith("  verdict"):
            shown.stylize(colour, 12, 12 + len(explained.failure.category))
        shown.highlight_regex(r"^  (?:verdict|because|agrees|differs|asked|policy)", "dim")
        console.print(shown, soft_wrap=True)
    print_text("\nTo classify it differently, put this into outlast.toml:", "dim")
    print_text(_rule_lines(explained, subject), "dim")


def _rule_lines(explained: Explanation, subject: BaseException | Evidence) -> str:
    """Return the lines for outlast.toml that would change the category."""
    failure = explained.failure
    conditions = []
    if failure.http_status:
        conditions.append(f"status = {failure.http_status}")
    elif failure.code and failure.rule != NOTHING_MATCHED:
        conditions.append(f"code = {json.dumps(failure.code)}")
    if isinstance(subject, Exception) and (kind := type(subject)).__module__ not in {"builtins", "__main__"}:
        conditions.append(f"type = {json.dumps(f'{kind.__module__}.{kind.__qualname__}')}")
    words = failure.message
    if (
        not conditions
        and isinstance(subject, Exception)
        and words
        and MASK not in words
        and len(words) < _MAX_RULE_CHARS
    ):
        conditions.append(f"text = {json.dumps(words, ensure_ascii=False)}")
    if not conditions:
        return _NO_RULE
    other = Category.INVALID_PARAMETERS if failure.retryable else Category.API_TEMPORARY
    return "\n".join(["[[classify.rules]]", *conditions, f'category = "{other}"  # or any other category'])
