"""The commands on the page of the command line, from their help. What stands before the notice is written by hand."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
from reference_api import NOTICE

from outlast.cli import cli

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"


def commands() -> str:
    """Return the page: its part by hand, a table of all commands, and a section for each."""
    sections = list(_commands(cli, click.Context(cli, info_name="outlast")))
    rows = [
        f"| [`{path}`](#{path.replace(' ', '-')}) | {_escaped(ctx.command.get_short_help_str(200))} |"
        for path, ctx in sections
    ]
    parts = ["## Commands", "\n".join(["| command | what it does |", "|---|---|", *rows])]
    parts += [_section(path, ctx) for path, ctx in sections]
    by_hand = PAGE.read_text("utf-8").partition(NOTICE)[0]
    return by_hand + NOTICE + "\n\n" + "\n\n".join(parts) + "\n"


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
        else:
            yield inner.command_path, inner


def _section(path: str, context: click.Context) -> str:
    command = context.command
    text, examples = [], ""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        lines = paragraph.removeprefix("\b\n")
        if re.match(r"Examples?:\n", lines):
            examples = textwrap.dedent(lines.partition("\n")[2])
        elif lines != paragraph:  # click leaves its lines as they are
            text.append(f"```\n{lines}\n```")
        else:
            text.append(_escaped(" ".join(paragraph.split())))
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    parts = [f"## {path}", f"`{usage}`", *text]
    rows = [_row(each, context) for each in command.params if isinstance(each, click.Option)]
    if rows:
        parts.append("\n".join(["| option | meaning |", "|---|---|", *rows]))
    if examples:
        parts.append(f"```\n{examples}\n```")
    return "\n\n".join(parts)


def _row(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None
    spelled = ", ".join(f"`{each}`" for each in re.split(r" / |, (?=-)", record[0].replace("|", "\\|")))
    return f"| {spelled} | {_escaped(record[1])} |"


def _escaped(text: str) -> str:
    """Return a text in which Markdown sees no markup, other than code between backquotes."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<|])", r"\\\1", part) for part in parts)
