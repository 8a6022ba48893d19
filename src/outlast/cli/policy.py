"""``outlast policy``: list the named policies and preview their waits."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlast.cli.app_options import json_option, list_options, option
from outlast.cli.completion import policy_names
from outlast.cli.formats import DURATION, ParsedType
from outlast.cli.output import Cells, JsonObject, make_console, print_json, print_text, table
from outlast.cli.tasks import task_definition
from outlast.config import configure
from outlast.decide.policy import DEFAULT_POLICY
from outlast.decide.presets import PRESETS
from outlast.decide.schedule import Schedule
from outlast.errors import ConfigError
from outlast.failure import RETRYABLE, Category, Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.app import App
    from outlast.config import Config
    from outlast.decide.policy import RetryPolicy


_MAX_ATTEMPTS = 10_000
_FROM_OPTIONS = "the options"
_DEFAULT_NAME = "default"  # what a bare @outlast.retry does


class NamedPolicy(NamedTuple):
    """A policy, and the file, module or options that define it."""

    name: str
    place: str
    policy: "RetryPolicy"


def _parse_jitter(text: str) -> float | str | None:
    """Return a number or a word; the policy checks the number."""
    try:
        return float(text)
    except ValueError:
        return text if text in {"none", "full", "equal", "decorrelated"} else None


_JITTER = ParsedType(
    "jitter", _parse_jitter, "is not a valid jitter; give none, full, equal, decorrelated, or a fraction such as 0.1"
)


@click.group()
def policy() -> None:
    """Show what a policy does: how often it tries, and how long it waits.

    \b
    Examples:
      outlast policy list
      outlast policy preview worker
    """  # noqa: D301  # click reads the control character, not a backslash


@policy.command("preview")
@click.argument("name", required=False, metavar="[NAME]", shell_complete=policy_names)
@option("--app", "MODULE:APP", "Show the policy of the task NAME of this app.", "reference")
@option("--max-attempts", "N", "Calls in total.", type=click.IntRange(1, _MAX_ATTEMPTS))
@click.option("--backoff", type=click.Choice(["fixed", "linear", "exponential"]), help="How waits grow.")
@option("--base-delay", "SPAN", "The first wait: seconds, or 90s, 15m, 2h.", type=DURATION)
@option("--max-delay", "SPAN", "The longest wait.", type=DURATION)
@option("--jitter", "KIND", "none, full, equal, decorrelated, or a fraction: 0.1.", type=_JITTER)
@option("--deadline", "SPAN", "Time limit for all attempts and waits together.", type=DURATION)
@json_option
def preview(name: str | None, *, reference: str | None, as_json: bool, **settings: Any) -> None:
    """Show the waits of a policy.

    This assumes that every call fails at once and that no response has a Retry-After header.

    NAME is a policy from outlast policy list or, with --app, a task. Options override its settings. With options but
    without a NAME, they change the policy of @retry, as in @retry(max_attempts=3). With neither, it is the policy of a
    bare @retry.

    \b
    Examples:
      outlast policy preview worker
      outlast policy preview worker --max-attempts 8 --deadline 10m
      outlast policy preview scrape --app jobs:app
      outlast policy preview --backoff exponential --base-delay 1 --jitter full
    """  # noqa: D301  # click reads the control character, not a backslash
    changes = {key: value for key, value in settings.items() if value is not None}
    named = _resolve_policy(name, reference, changes)
    retried = _retry_on_text(named.policy)
    if as_json:
        print_json({"name": named.name, "from": named.place, **_policy_data(named.policy), "retried": retried})
        return
    print_text(f"{named.name}, from {named.place}; retries {retried}", "bold")
    _print_waits(named.policy)
    for category, other in named.policy.overrides.items():
        print_text(f"\nafter {category}, without a Retry-After", "bold")
        _print_waits(other)
    limited = _rate_limit_schedule(named.policy)
    if limited is not None:
        print_text(f"\nafter {Category.RATE_LIMIT}, without a Retry-After", "bold")
        print_text(limited)
    if named.policy.jitter is None and reference is not None:
        print_text("a worker adds 10 % jitter to these waits", "dim")


def _rate_limit_schedule(policy: "RetryPolicy") -> Schedule | None:
    """Return the waits after a rate limit, which are longer; None if an override sets them, or it is not retried."""
    retry_on: Any = policy.retry_on
    parts = retry_on if isinstance(retry_on, tuple) else (retry_on,)
    retried = retry_on is None or any(isinstance(each, frozenset) and Category.RATE_LIMIT in each for each in parts)
    if not retried or Category.RATE_LIMIT in policy.overrides:
        return None
    return Schedule.of(policy, Failure(Category.RATE_LIMIT, retryable=True))


def _print_waits(policy: "RetryPolicy") -> None:
    schedule = policy.preview()
    print_text(schedule)
    if not schedule.waits and policy.max_attempts > 1:
        first = policy.get_delay(1, chance=lambda: 0.0)
        print_text(
            f"  no second attempt: the first wait would be {first:g} s, but the deadline is {policy.deadline:g} s",
            "yellow",
        )


@policy.command("list")
@list_options()
def list_policies(*, as_json: bool) -> None:
    """List the named policies: built-in ones and those of outlast.toml.

    \b
    Examples:
      outlast policy list
      outlast policy list --json
    """  # noqa: D301  # click reads the control character, not a backslash
    config = configure()
    found = list(_named_policies(config))
    if as_json:
        print_json([{"name": each.name, "from": each.place, **_policy_settings(each.policy)} for each in found])
        return
    make_console().print(_policies_table(found))
    if not config.policies:
        print_text("add your own under [policies.NAME] in outlast.toml; outlast init writes that file", "dim")


def _named_policies(config: "Config") -> "Iterator[NamedPolicy]":
    """Yield all named policies; one in the file replaces a built-in one of the same name."""
    file = config.source.name if config.source is not None else ""
    yield from (NamedPolicy(name, file, each) for name, each in config.policies.items())
    built_in = {_DEFAULT_NAME: DEFAULT_POLICY, **PRESETS}
    yield from (NamedPolicy(name, "Outlast", each) for name, each in built_in.items() if name not in config.policies)


def _resolve_policy(name: str | None, reference: str | None, changes: dict[str, Any]) -> NamedPolicy:
    config = configure()
    if name is None and reference is None and changes:
        return NamedPolicy("a policy", _FROM_OPTIONS, DEFAULT_POLICY.replace(**changes))
    found = _policy_of_task(reference, name) if reference is not None else policy_by_name(config, name or _DEFAULT_NAME)
    if not changes:
        return found
    return found._replace(place=f"{found.place} and {_FROM_OPTIONS}", policy=found.policy.replace(**changes))


def policy_by_name(config: "Config", name: str, others: str = "for the policy of a task give --app") -> NamedPolicy:
    """Return a policy of the settings, or a built-in one.

    Args:
        config: The settings.
        name: Name of the policy.
        others: How to give policies of other kinds, for the error.

    Raises:
        ConfigError: If it does not exist.
    """
    known = {each.name: each for each in _named_policies(config)}
    if name not in known:
        raise ConfigError(f"policy {name!r} does not exist; choose one of {', '.join(known)}; {others}")
    return known[name]


def _policy_of_task(reference: str, name: str | None) -> NamedPolicy:
    from outlast.cli.loader import load_app  # noqa: PLC0415  # not for --help

    app: App = load_app(reference)
    try:
        if name is None:
            tasks = ", ".join(sorted(app.tasks_by_name))
            raise click.UsageError(
                f"the name of a task is missing; {reference} has {f'the tasks {tasks}' if tasks else 'no tasks'}"
            )
        return NamedPolicy(f"task {name}", reference, task_definition(app, name).policy)
    finally:
        app.close()


@table("POLICY, TRIES, WAITS, JITTER, DEADLINE, FROM:13, RETRIES")
def _policies_table(named: NamedPolicy) -> Cells:
    policy = named.policy
    backoff = policy.backoff if isinstance(policy.backoff, str) else "own"
    delays = f"{policy.base_delay:g}s" if backoff == "fixed" else f"{policy.base_delay:g}-{policy.max_delay:g}s"
    return (
        named.name,
        policy.max_attempts,
        f"{backoff} {delays}",
        policy.jitter,
        None if policy.deadline is None else f"{policy.deadline:g}s",
        named.place,
        _retry_on_text(policy),
    )


def _retry_on_text(policy: "RetryPolicy") -> str:
    """Return which errors are retried, in a few words."""
    retry_on: Any = policy.retry_on
    if retry_on is None or retry_on == RETRYABLE:
        return "temporary failures"
    kinds = retry_on if isinstance(retry_on, tuple) else (retry_on,)
    names = (
        sorted(each) if isinstance(each, frozenset) else [getattr(each, "__name__", "a predicate")] for each in kinds
    )
    return ", ".join(name for each in names for name in each) or "nothing"


def _policy_settings(policy: "RetryPolicy") -> JsonObject:
    return {
        "max_attempts": policy.max_attempts,
        "backoff": policy.backoff if isinstance(policy.backoff, str) else None,
        **{name: getattr(policy, name) for name in ("base_delay", "max_delay", "jitter", "deadline")},
        "retried": _retry_on_text(policy),
    }


def _policy_data(policy: "RetryPolicy") -> JsonObject:
    waits = [asdict(wait) for wait in policy.preview().waits]
    overrides = {str(category): _policy_data(other) for category, other in policy.overrides.items()}
    limited = _rate_limit_schedule(policy)
    limited_waits = None if limited is None else [asdict(wait) for wait in limited.waits]
    return {**_policy_settings(policy), "waits": waits, "rate_limit_waits": limited_waits, "overrides": overrides}
