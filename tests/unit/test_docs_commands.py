"""The commands on the pages exist: those of `outlast` with their options and arguments, and the modules of `python -m`."""

import importlib.util
import re
import shlex

import click
import pytest

from doc_pages import DOCS, FENCE, ROOT, name_of, shell_commands
from outlast.cli import cli

ALL = [
    page
    for page in (*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), ROOT / "examples" / "container" / "README.md")
    if page.parent.name != "decisions" and page.name != "CHANGELOG.md"  # which tell of the past
]
_VARIABLE = re.compile(r"[A-Z_]+=.*")


def programs(line):
    """The programs that a line of a shell starts, each as its words."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = []
    for word in [*lexer, ";"]:
        if set(word) <= set(";|&()"):
            yield words
            words = []
        elif words or not _VARIABLE.fullmatch(word):
            words.append(word)


def problem(words, *, whole=True):
    """What is wrong with the words after ``outlast``; of a part of a command only names are checked."""
    command, path = cli, "outlast"
    while isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        if path == "outlast dlq replays" and (not words or words[0] in {"ID", *map(str, range(10))}):
            words = ["show", *words] if words else ["list"]  # what it does without a command
        try:
            words = command.make_parser(context).parse_args(list(words))[1]
        except click.UsageError as error:
            return f"{path}: {error.message}"
        if not words:
            return f"{path} needs a command" if whole else None
        command, path = command.get_command(context, words[0]), f"{path} {words[0]}"
        words = words[1:]
    if command is None:
        return f"{path} does not exist"
    context = click.Context(command, info_name=path)
    if not whole:
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        wrong = [
            word for word in words if word.startswith("-") and word.partition("=")[0] not in known | {"--help", "--"}
        ]
        return f"{path} has no {wrong[0]}" if wrong else None
    try:
        given, left, _ = command.make_parser(context).parse_args(list(words))
        for parameter in command.params:
            _check(parameter, given.get(parameter.name), context)
    except click.UsageError as error:
        return f"{path}: {error.message}"
    return f"{path}: {' '.join(left)} is one argument too many" if left else None


def _check(parameter, value, context):
    if parameter.required and (value is None or parameter.value_is_missing(value)):
        raise click.UsageError(f"{parameter.human_readable_name} is missing")
    if isinstance(parameter.type, click.Choice | click.IntRange | click.FloatRange) and not getattr(
        parameter, "is_flag", False
    ):
        parameter.type_cast_value(context, value)


def commands_of(page):
    for line in shell_commands(page):
        for words in programs(line.partition("  #")[0]):
            if words and words[0].rpartition("/")[2] == "outlast":
                yield shlex.join(words), words[1:]


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_the_commands_of_a_page_exist(page):
    assert {text: wrong for text, words in commands_of(page) if (wrong := problem(words))} == {}


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_the_commands_in_the_sentences_of_a_page_exist(page):
    named = re.findall(r"`outlast ([a-z][^`]*)`", FENCE.sub("", page.read_text("utf-8")))
    plain = {" ".join(name.split()): re.split(r"[\[…<|]", name)[0] for name in named}

    assert {name: wrong for name, text in plain.items() if (wrong := problem(shlex.split(text), whole=False))} == {}


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_the_modules_that_a_page_runs_exist(page):
    modules = set(re.findall(r"python3? -m ((?:outlast|examples)[\w.]*)", page.read_text("utf-8")))

    assert [name for name in modules if importlib.util.find_spec(name) is None] == []


def test_there_are_commands_to_check():
    assert sum(len(list(commands_of(page))) for page in ALL) > 50


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("sourcs list", "outlast sourcs does not exist"),
        ("queues", "outlast queues needs a command"),
        ("status --jsno", "outlast status: No such option"),
        ("policy preview --backoff never", "outlast policy preview: 'never' is not one of"),
        ("tasks show", "outlast tasks show: ID is missing"),
        ("status here", "outlast status: here is one argument too many"),
    ],
)
def test_a_wrong_command_is_found(line, wrong):
    assert problem(line.split()).startswith(wrong)
