"""docs/reference/cli.md names every command and every option, and nothing else; every help teaches."""

import re
from pathlib import Path

import click
import pytest

from outlast.cli import cli

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md").read_text("utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]}
SHARED = {
    "(#which-store)": "Which store",
    "(#which-dead-letters)": "Which dead letters",
    "(#changes-by-hand)": "Changes by hand",
}


def commands(group=cli, path="outlast"):
    """All commands that do something, by what is typed."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(commands())


def documented(section):
    rows = [line.split("|")[1] for line in SECTIONS[section].splitlines() if line.startswith("| `-")]
    return {option for row in rows for option in re.findall(r"`(-[\w-]+)", row)}


def test_the_commands():
    assert sorted(name for name in SECTIONS if name.startswith("outlast ")) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_a_command(name):
    options = [each for each in COMMANDS[name].params if isinstance(each, click.Option)]
    there = {word for option in options for word in (*option.opts, *option.secondary_opts)}
    told = documented(name)
    for link, section in SHARED.items():
        if link in SECTIONS[name]:
            told |= documented(section)

    assert told == there


@pytest.mark.parametrize("name", COMMANDS)
def test_a_default_is_told(name):
    for option in COMMANDS[name].params:
        if isinstance(option, click.Option) and option.show_default and not option.is_flag:
            row = next(line for line in SECTIONS[name].splitlines() if line.startswith(f"| `{option.opts[0]}"))
            assert str(option.default) in row


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_an_example_of_the_command(name):
    text = COMMANDS[name].get_help(click.Context(COMMANDS[name], info_name=name))

    assert re.search(rf"Examples?:\n +{name}\b", text)
    assert all(option.help for option in COMMANDS[name].params if isinstance(option, click.Option))
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_links_lead_somewhere():
    headings = {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in SECTIONS}

    assert set(re.findall(r"\(#([\w-]+)\)", PAGE)) <= headings
