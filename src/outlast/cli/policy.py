"""``outlast policy``: what a policy does, before anything fails."""

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlast.cli.completion import policy_names
from outlast.cli.formats import DURATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.app import App
    from outlast.config import Config
    from outlast.decide.policy import RetryPolicy


_MAX_ATTEMPTS = 10_000
_FROM_OPTIONS = "the options"
_DEFAULT_NAME = "default"  # what a bare @outlast.retry does


class _NamedPolicy(NamedTuple):
    """A policy, and where it is from."""

    name: str
    place: str
    policy: "RetryPolicy"
    of_task: bool = False


class _JitterType(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
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
@click.option("--max-attempts", type=click.IntRange(1, _MAX_ATTEMPTS), metavar="N", help="Calls in all.")
@click.option("--backoff", type=click.Choice(["fixed", "linear", "exponential"]), help="How waits grow.")
@click.option("--base-delay", type=DURATION, metavar="SPAN", help="The first wait: seconds, or 90s, 15m, 2h.")
@click.option("--max-delay", type=DURATION, metavar="SPAN", help="What no wait exceeds.")
@click.option("--jitter", type=_JitterType(), metavar="KIND", help="none, full, equal, decorrelated, or a share: 0.1.")
@click.option("--deadline", type=DURATION, metavar="SPAN", help="The time for everything together.")
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
    from outlast.cli.output import print_json, print_text  # noqa: PLC0415  # not for --help

    changes = {key: value for key, value in settings.items() if value is not None}
    meant = _resolve_policy(name, reference, changes)
    if as_json:
        retried = {"retried": _retry_on_text(meant.policy, of_task=meant.of_task)}
        print_json({"name": meant.name, "from": meant.place, **_policy_data(meant.policy), **retried})
        return
    print_text(
        f"{meant.name}, from {meant.place}; tries again after {_retry_on_text(meant.policy, of_task=meant.of_task)}",
        "bold",
    )
    _print_waits(meant.policy)
    for category, other in meant.policy.overrides.items():
        print_text(f"\nafter {category}, unless the answer says how long", "bold")
        _print_waits(other)
    if meant.policy.jitter is None and reference is not None:
        print_text("a worker spreads these waits by a tenth", "dim")


def _print_waits(chosen: "RetryPolicy") -> None:
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    schedule = chosen.preview()
    print_text(schedule)
    if not schedule.waits and chosen.max_attempts > 1:
        first = chosen.get_delay(1, chance=lambda: 0.0)
        said = f"  the first wait would be {first:g} s, and {chosen.deadline:g} s are all the time there is"
        print_text(f"{said}: no second attempt is made", "yellow")


@policy.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
def list_policies(*, as_json: bool) -> None:
    """List the policies that have names: those that come with Outlast, and those of outlast.toml.

    \b
    Examples:
      outlast policy list
      outlast policy list --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import make_console, make_table, print_json, print_text  # noqa: PLC0415  # not for --help
    from outlast.config import configure  # noqa: PLC0415  # not for --help

    config = configure()
    found = list(_named_policies(config))
    if as_json:
        print_json([{"name": each.name, "from": each.place, **_policy_settings(each.policy)} for each in found])
        return
    columns = {
        "POLICY": 16, "TRIES": None, "WAITS": None, "JITTER": None, "IN ALL": None, "FROM": 13,
        "TRIES AGAIN AFTER": None,
    }  # fmt: skip
    make_console().print(make_table(columns, (_policy_row(each) for each in found)))
    if not config.policies:
        print_text("outlast.toml adds more, under [policies.NAME]; outlast init writes one", "dim")


def _named_policies(config: "Config") -> "Iterator[_NamedPolicy]":
    """Yield all policies that have names; one of the file goes before one of ours."""
    from outlast.decide.policy import DEFAULT_POLICY  # noqa: PLC0415  # not for --help
    from outlast.decide.presets import PRESETS  # noqa: PLC0415  # not for --help

    file = config.source.name if config.source is not None else ""
    yield from (_NamedPolicy(name, file, each) for name, each in config.policies.items())
    ours = {_DEFAULT_NAME: DEFAULT_POLICY, **PRESETS}
    yield from (_NamedPolicy(name, "Outlast", each) for name, each in ours.items() if name not in config.policies)


def _resolve_policy(name: str | None, reference: str | None, changes: dict[str, Any]) -> _NamedPolicy:
    from outlast.config import configure  # noqa: PLC0415  # not for --help
    from outlast.decide.policy import RetryPolicy  # noqa: PLC0415  # not for --help

    config = configure()
    if name is None and reference is None and changes:
        return _NamedPolicy("a policy", _FROM_OPTIONS, RetryPolicy(**changes))
    found = (
        _policy_of_task(reference, name) if reference is not None else _policy_by_name(config, name or _DEFAULT_NAME)
    )
    if not changes:
        return found
    return found._replace(place=f"{found.place} and {_FROM_OPTIONS}", policy=found.policy.replace(**changes))


def _policy_by_name(config: "Config", name: str) -> _NamedPolicy:
    from outlast.errors import ConfigError  # noqa: PLC0415  # not for --help

    known = {each.name: each for each in _named_policies(config)}
    if name not in known:
        message = (
            f"there is no policy {name!r}; there are: {', '.join(known)}. For that of a task give --app MODULE:APP"
        )
        raise ConfigError(message)
    return known[name]


def _policy_of_task(reference: str, name: str | None) -> _NamedPolicy:
    from outlast.cli.loader import load_app  # noqa: PLC0415  # not for --help
    from outlast.cli.tasks import task_definition  # noqa: PLC0415  # not for --help

    app: App = load_app(reference)
    try:
        if name is None:
            message = f"say which task is meant; {reference} has: {', '.join(sorted(app.tasks_by_name)) or 'none'}"
            raise click.UsageError(message)
        return _NamedPolicy(f"task {name}", reference, task_definition(app, name).policy, of_task=True)
    finally:
        app.close()


def _policy_row(named: _NamedPolicy) -> tuple[object, ...]:
    chosen = named.policy
    grows = chosen.backoff if isinstance(chosen.backoff, str) else "own"
    return (
        named.name,
        chosen.max_attempts,
        f"{grows} {chosen.base_delay:g}-{chosen.max_delay:g}s" if grows != "fixed" else f"fixed {chosen.base_delay:g}s",
        chosen.jitter,
        None if chosen.deadline is None else f"{chosen.deadline:g}s",
        named.place,
        _retry_on_text(chosen),
    )


def _retry_on_text(chosen: "RetryPolicy", *, of_task: bool = False) -> str:
    """Return what is tried again, in a few words; a worker asks the classifier where a policy does not say."""
    from outlast.failure import RETRYABLE  # noqa: PLC0415  # not for --help

    what: Any = chosen.retry_on
    if what is None:
        return "what may heal" if of_task else "any error but a PermanentError"
    if isinstance(what, frozenset):
        return "what may heal" if what == RETRYABLE else ", ".join(sorted(what))
    kinds = what if isinstance(what, tuple) else (what,)
    return ", ".join(getattr(each, "__name__", "a predicate") for each in kinds) or "nothing"


def _policy_settings(chosen: "RetryPolicy") -> dict[str, Any]:
    return {
        "max_attempts": chosen.max_attempts,
        "backoff": chosen.backoff if isinstance(chosen.backoff, str) else None,
        "base_delay": chosen.base_delay,
        "max_delay": chosen.max_delay,
        "jitter": chosen.jitter,
        "deadline": chosen.deadline,
        "retried": _retry_on_text(chosen),
    }


def _policy_data(chosen: "RetryPolicy") -> dict[str, Any]:
    waits = [
        {"after": wait.after, "least": wait.least, "most": wait.most, "total": wait.total}
        for wait in chosen.preview().waits
    ]
    overrides = {str(category): _policy_data(other) for category, other in chosen.overrides.items()}
    return {**_policy_settings(chosen), "waits": waits, "overrides": overrides}
