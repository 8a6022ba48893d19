"""``outlast policy``: what a policy does, before anything fails."""

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlast.cli.completing import policy_names
from outlast.cli.moments import SPAN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.app import App
    from outlast.config import Config
    from outlast.decide.policy import RetryPolicy

__all__ = ["policy"]

_MOST_ATTEMPTS = 10_000
_GIVEN = "the options"
_BARE = "default"  # what a bare @outlast.retry does


class _Named(NamedTuple):
    """A policy, and where it is from."""

    name: str
    place: str
    policy: "RetryPolicy"
    of_task: bool = False


class _Jitter(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """A kind of jitter, or a share of the wait."""

    name = "jitter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a word or a number; the policy checks both."""
        try:
            return float(value)
        except ValueError:
            if value in {"none", "full", "equal", "decorrelated"}:
                return value
            self.fail(f"{value!r} is none; give none, full, equal, decorrelated, or a share such as 0.1", param, ctx)


@click.group()
def policy() -> None:
    """See what a policy does: how often it tries, and how long it waits.

    \b
    Examples:
      outlast policy list
      outlast policy preview worker
    """  # noqa: D301  # click reads the control character, not a backslash


@policy.command("preview")
@click.argument("name", required=False, metavar="[NAME]", shell_complete=policy_names)
@click.option("--app", "reference", metavar="MODULE:APP", help="NAME is a task of this app, and its policy is meant.")
@click.option("--max-attempts", type=click.IntRange(1, _MOST_ATTEMPTS), metavar="N", help="Calls in all.")
@click.option("--backoff", type=click.Choice(["fixed", "linear", "exponential"]), help="How waits grow.")
@click.option("--base-delay", type=SPAN, metavar="SPAN", help="The first wait: seconds, or 90s, 15m, 2h.")
@click.option("--max-delay", type=SPAN, metavar="SPAN", help="What no wait exceeds.")
@click.option("--jitter", type=_Jitter(), metavar="KIND", help="none, full, equal, decorrelated, or a share: 0.1.")
@click.option("--deadline", type=SPAN, metavar="SPAN", help="The time for everything together.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def preview(name: str | None, *, reference: str | None, as_json: bool, **settings: Any) -> None:
    """Draw the waits of a policy, where calls fail at once and nobody asks for more.

    NAME is one of those that outlast policy list shows, or a task with --app. Options change what it says; without a
    name they are the policy, as RetryPolicy(...) has them. With neither it is what a bare @retry does.

    \b
    Examples:
      outlast policy preview worker
      outlast policy preview worker --max-attempts 8 --deadline 10m
      outlast policy preview scrape --app jobs:app
      outlast policy preview --backoff exponential --base-delay 1 --jitter full
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import print_json, say  # noqa: PLC0415  # not for --help

    changes = {key: value for key, value in settings.items() if value is not None}
    meant = _meant(name, reference, changes)
    if as_json:
        retried = {"retried": _retried(meant.policy, of_task=meant.of_task)}
        print_json({"name": meant.name, "from": meant.place, **_data(meant.policy), **retried})
        return
    say(f"{meant.name}, from {meant.place}; tries again after {_retried(meant.policy, of_task=meant.of_task)}", "bold")
    _draw(meant.policy)
    for category, other in meant.policy.overrides.items():
        say(f"\nafter {category}, unless the answer says how long", "bold")
        _draw(other)
    if meant.policy.jitter is None and reference is not None:
        say("a worker spreads these waits by a tenth", "dim")


def _draw(chosen: "RetryPolicy") -> None:
    from outlast.cli.showing import say  # noqa: PLC0415  # not for --help

    schedule = chosen.preview()
    say(schedule)
    if not schedule.waits and chosen.max_attempts > 1:
        first = chosen.get_delay(1, chance=lambda: 0.0)
        said = f"  the first wait would be {first:g} s, and {chosen.deadline:g} s are all the time there is"
        say(f"{said}: no second attempt is made", "yellow")


@policy.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
def list_policies(*, as_json: bool) -> None:
    """List the policies that have names: those that come with Outlast, and those of outlast.toml.

    \b
    Examples:
      outlast policy list
      outlast policy list --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import print_json, say, screen, table  # noqa: PLC0415  # not for --help
    from outlast.config import configure  # noqa: PLC0415  # not for --help

    config = configure()
    found = list(_named(config))
    if as_json:
        print_json([{"name": each.name, "from": each.place, **_settings(each.policy)} for each in found])
        return
    columns = {
        "POLICY": 16, "TRIES": None, "WAITS": None, "JITTER": None, "IN ALL": None, "FROM": 13,
        "TRIES AGAIN AFTER": None,
    }  # fmt: skip
    screen().print(table(columns, (_row(each) for each in found)))
    if not config.policies:
        say("outlast.toml adds more, under [policies.NAME]; outlast init writes one", "dim")


def _named(config: "Config") -> "Iterator[_Named]":
    """Yield all policies that have names; one of the file goes before one of ours."""
    from outlast.decide.policy import DEFAULT_POLICY  # noqa: PLC0415  # not for --help
    from outlast.decide.presets import PRESETS  # noqa: PLC0415  # not for --help

    file = config.source.name if config.source is not None else ""
    yield from (_Named(name, file, each) for name, each in config.policies.items())
    ours = {_BARE: DEFAULT_POLICY, **PRESETS}
    yield from (_Named(name, "Outlast", each) for name, each in ours.items() if name not in config.policies)


def _meant(name: str | None, reference: str | None, changes: dict[str, Any]) -> _Named:
    from outlast.config import configure  # noqa: PLC0415  # not for --help
    from outlast.decide.policy import RetryPolicy  # noqa: PLC0415  # not for --help

    config = configure()
    if name is None and reference is None and changes:
        return _Named("a policy", _GIVEN, RetryPolicy(**changes))
    found = _of_a_task(reference, name) if reference is not None else _of_a_name(config, name or _BARE)
    if not changes:
        return found
    return found._replace(place=f"{found.place} and {_GIVEN}", policy=found.policy.replace(**changes))


def _of_a_name(config: "Config", name: str) -> _Named:
    from outlast.errors import ConfigError  # noqa: PLC0415  # not for --help

    known = {each.name: each for each in _named(config)}
    if name not in known:
        message = (
            f"there is no policy {name!r}; there are: {', '.join(known)}. For that of a task give --app MODULE:APP"
        )
        raise ConfigError(message)
    return known[name]


def _of_a_task(reference: str, name: str | None) -> _Named:
    from outlast.cli.enqueue import definition_of  # noqa: PLC0415  # not for --help
    from outlast.cli.loading import load_app  # noqa: PLC0415  # not for --help

    app: App = load_app(reference)
    try:
        if name is None:
            message = f"say which task is meant; {reference} has: {', '.join(sorted(app.tasks_by_name)) or 'none'}"
            raise click.UsageError(message)
        return _Named(f"task {name}", reference, definition_of(app, name).policy, of_task=True)
    finally:
        app.close()


def _row(named: _Named) -> tuple[object, ...]:
    chosen = named.policy
    grows = chosen.backoff if isinstance(chosen.backoff, str) else "own"
    return (
        named.name,
        chosen.max_attempts,
        f"{grows} {chosen.base_delay:g}-{chosen.max_delay:g}s" if grows != "fixed" else f"fixed {chosen.base_delay:g}s",
        chosen.jitter,
        None if chosen.deadline is None else f"{chosen.deadline:g}s",
        named.place,
        _retried(chosen),
    )


def _retried(chosen: "RetryPolicy", *, of_task: bool = False) -> str:
    """Return what is tried again, in a few words; a worker asks the classifier where a policy does not say."""
    from outlast.failure import RETRYABLE  # noqa: PLC0415  # not for --help

    what: Any = chosen.retry_on
    if what is None:
        return "what may heal" if of_task else "any error but a PermanentError"
    if isinstance(what, frozenset):
        return "what may heal" if what == RETRYABLE else ", ".join(sorted(what))
    kinds = what if isinstance(what, tuple) else (what,)
    return ", ".join(getattr(each, "__name__", "a predicate") for each in kinds) or "nothing"


def _settings(chosen: "RetryPolicy") -> dict[str, Any]:
    return {
        "max_attempts": chosen.max_attempts,
        "backoff": chosen.backoff if isinstance(chosen.backoff, str) else None,
        "base_delay": chosen.base_delay,
        "max_delay": chosen.max_delay,
        "jitter": chosen.jitter,
        "deadline": chosen.deadline,
        "retried": _retried(chosen),
    }


def _data(chosen: "RetryPolicy") -> dict[str, Any]:
    waits = [
        {"after": wait.after, "least": wait.least, "most": wait.most, "total": wait.total}
        for wait in chosen.preview().waits
    ]
    overrides = {str(category): _data(other) for category, other in chosen.overrides.items()}
    return {**_settings(chosen), "waits": waits, "overrides": overrides}
