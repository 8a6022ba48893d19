"""``outlast policy``: list the named policies and preview their waits."""

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
    """A policy and where it is defined."""

    name: str
    place: str
    policy: "RetryPolicy"
    of_task: bool = False


class _JitterType(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """A kind of jitter, or a fraction of the wait."""

    name = "jitter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a word or a number; the policy checks both."""
        try:
            return float(value)
        except ValueError:
            if value in {"none", "full", "equal", "decorrelated"}:
                return value
            expected = "none, full, equal, decorrelated, or a fraction such as 0.1"
            self.fail(f"{value!r} is not a valid jitter; give {expected}", param, ctx)


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
@click.option("--app", "reference", metavar="MODULE:APP", help="Show the policy of the task NAME of this app.")
@click.option("--max-attempts", type=click.IntRange(1, _MAX_ATTEMPTS), metavar="N", help="Calls in total.")
@click.option("--backoff", type=click.Choice(["fixed", "linear", "exponential"]), help="How waits grow.")
@click.option("--base-delay", type=DURATION, metavar="SPAN", help="The first wait: seconds, or 90s, 15m, 2h.")
@click.option("--max-delay", type=DURATION, metavar="SPAN", help="The longest wait.")
@click.option(
    "--jitter", type=_JitterType(), metavar="KIND", help="none, full, equal, decorrelated, or a fraction: 0.1."
)
@click.option("--deadline", type=DURATION, metavar="SPAN", help="Time limit for all attempts and waits together.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def preview(name: str | None, *, reference: str | None, as_json: bool, **settings: Any) -> None:
    """Draw the waits of a policy, if every call fails at once and no answer has a Retry-After.

    NAME is a policy from outlast policy list or, with --app, a task. Options override its settings. With options but
    without a NAME, they are the policy, as in RetryPolicy(...). With neither, the policy of a bare @retry is shown.

    \b
    Examples:
      outlast policy preview worker
      outlast policy preview worker --max-attempts 8 --deadline 10m
      outlast policy preview scrape --app jobs:app
      outlast policy preview --backoff exponential --base-delay 1 --jitter full
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_json, print_text  # noqa: PLC0415  # not for --help

    changes = {key: value for key, value in settings.items() if value is not None}
    named = _resolve_policy(name, reference, changes)
    retried = _retry_on_text(named.policy, of_task=named.of_task)
    if as_json:
        print_json({"name": named.name, "from": named.place, **_policy_data(named.policy), "retried": retried})
        return
    print_text(f"{named.name}, from {named.place}; retries {retried}", "bold")
    _print_waits(named.policy)
    for category, other in named.policy.overrides.items():
        print_text(f"\nafter {category}, without a Retry-After", "bold")
        _print_waits(other)
    if named.policy.jitter is None and reference is not None:
        print_text("a worker adds 10 % jitter to these waits", "dim")


def _print_waits(policy: "RetryPolicy") -> None:
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    schedule = policy.preview()
    print_text(schedule)
    if not schedule.waits and policy.max_attempts > 1:
        first = policy.get_delay(1, chance=lambda: 0.0)
        print_text(
            f"  no second attempt: the first wait would be {first:g} s, but the deadline is {policy.deadline:g} s",
            "yellow",
        )


@policy.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
def list_policies(*, as_json: bool) -> None:
    """List the named policies: the built-in ones and those of outlast.toml.

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
        "POLICY": 16, "TRIES": None, "WAITS": None, "JITTER": None, "DEADLINE": None, "FROM": 13,
        "RETRIES": None,
    }  # fmt: skip
    make_console().print(make_table(columns, (_policy_row(each) for each in found)))
    if not config.policies:
        print_text("add your own under [policies.NAME] in outlast.toml; outlast init writes that file", "dim")


def _named_policies(config: "Config") -> "Iterator[_NamedPolicy]":
    """Yield all named policies; one in the file replaces a built-in one of the same name."""
    from outlast.decide.policy import DEFAULT_POLICY  # noqa: PLC0415  # not for --help
    from outlast.decide.presets import PRESETS  # noqa: PLC0415  # not for --help

    file = config.source.name if config.source is not None else ""
    yield from (_NamedPolicy(name, file, each) for name, each in config.policies.items())
    built_in = {_DEFAULT_NAME: DEFAULT_POLICY, **PRESETS}
    yield from (_NamedPolicy(name, "Outlast", each) for name, each in built_in.items() if name not in config.policies)


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
            f"policy {name!r} does not exist; choose one of {', '.join(known)}. For the policy of a task give --app"
        )
        raise ConfigError(message)
    return known[name]


def _policy_of_task(reference: str, name: str | None) -> _NamedPolicy:
    from outlast.cli.loader import load_app  # noqa: PLC0415  # not for --help
    from outlast.cli.tasks import task_definition  # noqa: PLC0415  # not for --help

    app: App = load_app(reference)
    try:
        if name is None:
            tasks = ", ".join(sorted(app.tasks_by_name))
            message = f"the name of a task is missing; {reference} has {f'the tasks {tasks}' if tasks else 'no tasks'}"
            raise click.UsageError(message)
        return _NamedPolicy(f"task {name}", reference, task_definition(app, name).policy, of_task=True)
    finally:
        app.close()


def _policy_row(named: _NamedPolicy) -> tuple[object, ...]:
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


def _retry_on_text(policy: "RetryPolicy", *, of_task: bool = False) -> str:
    """Return which errors are retried, in a few words; without retry_on, a worker retries by category."""
    from outlast.failure import RETRYABLE  # noqa: PLC0415  # not for --help

    retry_on: Any = policy.retry_on
    if retry_on is None:
        return "temporary failures" if of_task else "any error but a PermanentError"
    if isinstance(retry_on, frozenset):
        return "temporary failures" if retry_on == RETRYABLE else ", ".join(sorted(retry_on))
    kinds = retry_on if isinstance(retry_on, tuple) else (retry_on,)
    return ", ".join(getattr(each, "__name__", "a predicate") for each in kinds) or "nothing"


def _policy_settings(policy: "RetryPolicy") -> dict[str, Any]:
    return {
        "max_attempts": policy.max_attempts,
        "backoff": policy.backoff if isinstance(policy.backoff, str) else None,
        "base_delay": policy.base_delay,
        "max_delay": policy.max_delay,
        "jitter": policy.jitter,
        "deadline": policy.deadline,
        "retried": _retry_on_text(policy),
    }


def _policy_data(policy: "RetryPolicy") -> dict[str, Any]:
    waits = [
        {"after": wait.after, "least": wait.least, "most": wait.most, "total": wait.total}
        for wait in policy.preview().waits
    ]
    overrides = {str(category): _policy_data(other) for category, other in policy.overrides.items()}
    return {**_policy_settings(policy), "waits": waits, "overrides": overrides}
