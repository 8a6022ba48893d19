"""``outlast explain``: what Outlast makes of an error, and how to make it something else."""

import json
import sys

import click
from rich.console import Console
from rich.text import Text

from outlast.classify import default_classifier
from outlast.classify.classifier import NOTHING_MATCHED
from outlast.cli.subjects import subject_of
from outlast.cli.tracebacks import error_in
from outlast.config import configure
from outlast.decide.explain import Explanation
from outlast.decide.explain import explain as explain_error
from outlast.failure import Category, Evidence
from outlast.redact import MASK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["explain"]

_MOST_READ = 100_000_000
_LONGEST_INPUT = 1_000_000
_LONGEST_RULE = 200


@click.command()
@click.argument("words", nargs=-1)
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME:VALUE", help="A response header; may be repeated."
)
@click.option(
    "--credentials/--no-credentials", default=None, help="Whether the request carried credentials (decides a 403)."
)
@click.option("--config", type=click.Path(dir_okay=False), help="An outlast.toml with rules of your own.")
@click.option("--unknown", is_flag=True, help="Propose rules for the failures in a store that no rule is sure of.")
@click.option("--app", "reference", metavar="MODULE:APP", help="With --unknown: the app whose store is meant.")
@click.option("--url", metavar="URL", help="With --unknown: the store. Default: as for all commands.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
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
    """Say what an error is, how sure that is, and what a policy does about it.

    WORDS is an HTTP status, a SQLSTATE, an errno name or an API's error code, the name of an exception, or the text of
    a message. Without WORDS, or with -, a traceback or a log is read from standard input and its last error explained.
    With --unknown, the failures in a store that are unknown or judged by weak signs are shown, each with a rule for
    outlast.toml and how many it would have matched; nothing is written.

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
            message = "--unknown looks at a store, and goes with --app, --url and --json alone"
            raise click.UsageError(message)
        from outlast.cli.suggesting import show_suggestions  # noqa: PLC0415  # most calls need no store

        show_suggestions(reference=reference, url=url, as_json=as_json)
        return
    if reference is not None or url is not None:
        message = "--app and --url go with --unknown, for instance: outlast explain --unknown --app jobs:app"
        raise click.UsageError(message)
    configure(config)
    subject = (
        _from_input()
        if words in {(), ("-",)}
        else subject_of(" ".join(words), _parsed(headers), credentials_sent=credentials)
    )
    if (headers or credentials is not None) and not (isinstance(subject, Evidence) and subject.http_status):
        message = "--header and --credentials go with an HTTP status, for instance: outlast explain 403 --credentials"
        raise click.UsageError(message)
    explained = explain_error(subject, classifier=default_classifier())
    if as_json:
        click.echo(json.dumps(_data(explained, subject), ensure_ascii=False, indent=2))
    else:
        _show(explained, subject)


def _from_input() -> BaseException:
    if sys.stdin.isatty():
        message = "say what to explain, or pipe a traceback into it; see outlast explain --help"
        raise click.UsageError(message)
    text = sys.stdin.read(_MOST_READ)[-_LONGEST_INPUT:]  # the last error is what counts
    error = error_in(text)
    if error is not None:
        return error
    if not text.strip():
        message = "standard input is empty: neither a traceback nor a text"
        raise click.UsageError(message)
    return Exception(text.strip())


def _parsed(headers: tuple[str, ...]) -> dict[str, str]:
    parsed = {}
    for header in headers:
        name, colon, value = header.partition(":")
        if not colon or not name.strip():
            message = f"{header!r} is no header; write it as 'Retry-After: 120'"
            raise click.BadParameter(message, param_hint="--header")
        parsed[name.strip()] = value.strip()
    return parsed


def _data(explained: Explanation, subject: BaseException | Evidence) -> "dict[str, Any]":
    return {
        **explained.failure.to_dict(),
        "strength": explained.strength.value,
        "others": [
            {"category": other.category.value, "rule": other.rule, "strength": other.strength.value}
            for other in explained.others
        ],
        "policy": explained.action,
        "rule_to_change_it": _rule(explained, subject),
    }


def _show(explained: Explanation, subject: BaseException | Evidence) -> None:
    console = Console(highlight=False, soft_wrap=True)
    colour = "green" if explained.failure.retryable else "red"
    for number, line in enumerate(str(explained).splitlines()):
        shown = Text(line, style="bold" if number == 0 else "")
        if line.startswith("  verdict"):
            shown.stylize(colour, 12, 12 + len(explained.failure.category))
        shown.highlight_regex(r"^  (?:verdict|because|agrees|differs|asked|policy)", "dim")
        console.print(shown)
    console.print(Text("\nTo have it judged otherwise, put this into outlast.toml:", style="dim"))
    console.print(Text(_rule(explained, subject), style="dim"))


def _rule(explained: Explanation, subject: BaseException | Evidence) -> str:
    """Return the lines of outlast.toml that would change the verdict, with another category to choose."""
    failure = explained.failure
    conditions = []
    if failure.http_status:
        conditions.append(f"status = {failure.http_status}")
    elif failure.code and failure.rule != NOTHING_MATCHED:
        conditions.append(f"code = {json.dumps(failure.code)}")
    if isinstance(subject, Exception) and (kind := type(subject)).__module__ not in {"builtins", "__main__"}:
        conditions.append(f"type = {json.dumps(f'{kind.__module__}.{kind.__qualname__}')}")
    words = failure.message
    if not conditions and isinstance(subject, Exception) and words and MASK not in words and len(words) < _LONGEST_RULE:
        conditions.append(f"text = {json.dumps(words, ensure_ascii=False)}")
    if not conditions:
        return "# nothing in it tells it apart from other errors; raise an exception class of your own"
    other = Category.INVALID_PARAMETERS if failure.retryable else Category.API_TEMPORARY
    return "\n".join(["[[classify.rules]]", *conditions, f'category = "{other}"  # or any other category'])
