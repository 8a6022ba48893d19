"""``outlast simulate``: what a policy does in an outage, compared with others, or against recorded history."""

from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.app_options import flag, json_option, option, resolve_app
from outlast.cli.completion import policy_names
from outlast.cli.output import Cells, make_console, print_json, print_text, table, throttled
from outlast.cli.policy import NamedPolicy, policy_by_name
from outlast.config import configure, load_config, read_toml
from outlast.decide.backoff import BACKOFFS, JITTERS
from outlast.errors import ConfigError
from outlast.simulate.scenario import Scenario
from outlast.units import parse_duration, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from outlast.decide.policy import RetryPolicy
    from outlast.simulate.result import Comparison

_DEFAULT_POLICY = "worker"
_OUTAGE_START = 60.0  # seconds of normal work before the outage of --down
_AFTER_OUTAGE = 300.0  # seconds of work after it, unless --for says otherwise
_PROGRESS_EVERY = 0.2  # seconds
_MAX_SWEPT = 1000  # values of one range
_OPTIONS = {"phases.length": "down", "duration": "for", "processes": "workers"}
"""Options with another name than the setting that they give."""
_TABLES_OF_FILES = ("budget", "limit")  # no option gives one, but --place may not go with one
_NUMBERS = {"max_attempts": int, "max_retries": int}


@click.command()
@click.argument("words", nargs=-1, metavar="[POLICY | SETTING=VALUES]...")
@option("--policy", "POLICY", "A name, FILE.toml, FILE.toml:NAME or MODULE:NAME.", "name", shell_complete=policy_names)
@option("--scenario", "FILE", "The scenario, in TOML; options override its settings.", "file")
@option("--rate", "RATE", "Work that arrives: 10/s, 30/min.")
@option("--for", "SPAN", "How long it arrives.", "duration")
@option("--arrivals", "KIND", "poisson, constant or burst.")
@option("--place", "PLACE", "task (a worker runs it) or call (a retry waits inside it).")
@option("--workers", "N", "Processes.", "processes")
@option("--down", "SPAN", "The other side is down for so long, after the first minute.")
@option("--errors", "SHARE", "Calls that fail: 30%.")
@option("--latency", "SPAN", "How long a call takes.")
@option("--capacity", "RATE", "Calls that the other side can serve; others wait and time out.")
@option("--limit", "RATE", "Calls that the other side allows; it answers 429 to others.", "side_limit")
@option("--retry-after", "SPAN", "The Retry-After of a 429.")
@flag("--compare", "Compare the policies that are given as POLICY.")
@flag("--sweep", "Compare all combinations of SETTING=VALUES: max_attempts=2..8 base_delay=0.5,1,2.")
@option("--history", "FROM..TO", "Replay what the store recorded between two times.")
@option("--app", "MODULE:APP", "The app whose history to replay.", "reference")
@option("--url", "URL", "The store whose history to replay.")
@option("--runs", "N", "Runs with different random numbers.", type=click.IntRange(1, 100), default=5)
@option("--seed", "N", "Makes the random numbers repeatable.", type=int, default=0)
@option("--svg", "FILE", "Write the chart of calls over time.")
@json_option
def simulate(  # noqa: PLR0913  # the options
    words: tuple[str, ...],
    *,
    name: str | None,
    file: str | None,
    down: str | None,
    compare: bool,
    sweep: bool,
    history: str | None,
    reference: str | None,
    url: str | None,
    runs: int,
    seed: int,
    svg: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Show what a policy does in an outage: calls, peak load, dead letters, time to recover.

    Nothing is called and nothing waits: the decisions of the real retries run on a simulated clock.

    \b
    Examples:
      outlast simulate --policy worker --rate 100/s --workers 8 --down 10m
      outlast simulate --down 10m --errors 30% --limit 50/s
      outlast simulate --scenario outage.toml --compare worker etl
      outlast simulate --scenario outage.toml --sweep max_attempts=2..8
      outlast simulate --history 2026-11-10..2026-11-11 --app jobs:app
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.simulate import result  # noqa: PLC0415  # not for --help

    is_compared = compare or sweep
    if compare and sweep:
        raise click.UsageError("give --compare or --sweep, not both; run the command twice")
    if words and not is_compared:
        raise click.UsageError(f"{words[0]!r} is not expected; add --compare or --sweep before it")
    if svg is not None and (is_compared or history is not None):
        raise click.UsageError("--svg draws one simulation; leave out --compare, --sweep and --history")
    if history is not None:
        others = (is_compared, down, file, *settings.values())
        _replay_history(name or _DEFAULT_POLICY, history, reference, url, others, seed=seed, as_json=as_json)
        return
    scenario, from_file = _scenario(file, down, settings)
    named = _resolve_policy(name or from_file or _DEFAULT_POLICY)
    if reference is not None or url is not None:
        raise click.UsageError("--app and --url are for --history; add --history FROM..TO, or leave them out")
    if is_compared:
        policies = _compared(words, name) if compare else result.sweep(named.policy, _parse_sweep(words))
        with _progress(f"of {len(policies)} policies") as show:
            comparison = result.compare(policies, scenario, progress=show, runs=runs, seed=seed)
        _print_comparison(comparison, as_json=as_json)
        return
    with _progress("calls in this run") as show:
        done = result.simulate(named.policy, scenario, runs=runs, seed=seed, name=named.name, progress=show)
    if svg is not None:
        Path(svg).write_text(done.svg(), "utf-8")
    if as_json:
        print_json(done.to_dict())
        return
    print_text(done)
    if svg is not None:
        print_text(f"the chart is in {svg}", "dim")


def _scenario(file: str | None, down: str | None, settings: dict[str, Any]) -> tuple[Scenario, str | None]:
    """Return the scenario of a file and of options, and the name of its policy."""
    table: dict[str, Any] = read_toml(file) if file is not None else {}
    policy = table.pop("policy", None)
    if policy is not None and not isinstance(policy, str):
        raise ConfigError(f"scenario {file}: policy is {policy!r}; give the name of a policy, as for --policy")
    try:
        Scenario.from_settings(table)
    except ConfigError as error:
        raise ConfigError(f"scenario {file}: {error}") from None
    given = {name: value for name, value in settings.items() if value is not None}
    own: dict[str, Any] = {
        key: given.pop(key) for key in ("errors", "latency", "capacity", "retry_after") if key in given
    }
    if "side_limit" in given:
        own["limit"] = given.pop("side_limit")
    side = table.get("other_side", {})
    if down is not None:
        outage = parse_duration(down)
        table.setdefault("duration", _OUTAGE_START + (outage or 0.0) + _AFTER_OUTAGE)
        own["phases"] = [{"start": _OUTAGE_START, "length": down, "down": True}]
    if own:
        table["other_side"] = side | own
    try:
        return Scenario.from_settings(table | given), policy
    except ConfigError as error:
        setting, _, problem = str(error).partition(" ")
        if setting in _TABLES_OF_FILES:
            raise
        name = _OPTIONS.get(setting, setting.removeprefix("other_side.").replace("_", "-"))
        raise ConfigError(f"--{name} {problem}") from None


def _resolve_policy(text: str) -> NamedPolicy:
    """Return the policy that ``--policy`` names: a name, a TOML file, or an object of a module."""
    config = configure()
    path, _, chosen = text.partition(".toml")
    if ".toml" in text and chosen[:1] in {"", ":"}:
        found = load_config(f"{path}.toml").policies
        choice = chosen[1:] or (next(iter(found)) if len(found) == 1 else "")
        if choice not in found:
            names = ", ".join(f"{path}.toml:{each}" for each in found) or "none; add a table [policies.NAME]"
            raise ConfigError(f"{text!r} does not name a policy of the file; choose from: {names}")
        return NamedPolicy(choice, f"{path}.toml", found[choice])
    if ":" not in text:
        return policy_by_name(config, text, "a policy of your code is MODULE:NAME")
    from outlast.cli.loader import load_object  # noqa: PLC0415  # not for --help
    from outlast.decide.policy import RetryPolicy  # noqa: PLC0415
    from outlast.queue.definition import TaskDefinition  # noqa: PLC0415

    kinds: tuple[type[Any], ...] = (RetryPolicy, TaskDefinition)
    named = load_object(text, *kinds)[1]
    return NamedPolicy(text, text, named if isinstance(named, RetryPolicy) else named.policy)


def _compared(words: tuple[str, ...], name: str | None) -> "dict[str, RetryPolicy]":
    texts = dict.fromkeys(([name] if name else []) + list(words))
    if len(texts) < 2:  # noqa: PLR2004  # two policies
        raise click.UsageError(
            f"--compare has too few different policies: {len(texts)}; give two or more: --compare worker etl"
        )
    named = [(text, _resolve_policy(text)) for text in texts]
    uses = Counter(each.name for _, each in named)
    return {text if uses[each.name] > 1 else each.name: each.policy for text, each in named}


def _parse_sweep(words: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return the values of each swept setting: ``max_attempts=2..8``, ``base_delay=0.5,1,2``, ``jitter=none,full``."""
    if not words:
        raise click.UsageError("--sweep has no settings; give some, such as max_attempts=2..8 base_delay=0.5,1,2")
    return {word.partition("=")[0]: _swept_values(word) for word in words}


def _swept_values(word: str) -> list[Any]:
    setting, _, text = word.partition("=")
    first, dots, last = text.partition("..")
    try:
        if dots:
            low, high = int(first), int(last)
            if not 0 <= high - low < _MAX_SWEPT:
                raise ValueError
            return list(range(low, high + 1))
        return [
            each if each in {*BACKOFFS, *JITTERS} else _NUMBERS.get(setting, float)(each) for each in text.split(",")
        ]
    except ValueError:
        raise click.UsageError(
            f"{word!r} is not a setting with values; give SETTING=2..8 for whole numbers, or SETTING=0.5,1,2"
        ) from None


@contextmanager
def _progress(what: str) -> "Iterator[Callable[[int], object] | None]":
    """Yield a function that shows a number on the terminal; None without a terminal."""
    console = make_console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status("simulating") as status:
        yield throttled(lambda number: status.update(f"simulating: {number:,} {what}"), _PROGRESS_EVERY)


def _print_comparison(comparison: "Comparison", *, as_json: bool) -> None:
    if as_json:
        print_json(comparison.to_dict())
        return
    make_console().print(_comparison_table(comparison.rows()))
    print_text("BEST: no other policy makes fewer calls and completes more of the work", "dim")


@table("POLICY, CALLS/WORK, COMPLETED, PEAK/S, DEAD, RECOVERY, P50, P95, P99, BEST")
def _comparison_table(row: dict[str, Any]) -> Cells:
    times = [None if row[key] is None else span(row[key]) for key in ("recovery", "p50", "p95", "p99")]
    numbers = [f"{row['amplification']:.2f}", f"{row['completed']:.1%}", int(row["peak"]), int(row["dead_letters"])]
    return [row["policy"], *numbers, *times, "*" if row["best"] else None]


def _replay_history(
    policy: str,
    text: str,
    reference: str | None,
    url: str | None,
    others: tuple[object, ...],
    *,
    seed: int,
    as_json: bool,
) -> None:
    if any(others):
        raise click.UsageError(
            "--history replays what was recorded; of the other options, give only --policy, --app, --url, --seed and "
            "--json"
        )
    from outlast.simulate.history import replay_history  # noqa: PLC0415  # not for --help

    named = _resolve_policy(policy)
    since, until = _parse_range(text)
    app = resolve_app(reference, url)
    try:
        with _progress("tasks read") as show:
            found = replay_history(app.store, named.policy, since, until, name=named.name, seed=seed, progress=show)
    finally:
        app.close()
    if as_json:
        print_json(found.to_dict())
    else:
        print_text(found)


def _parse_range(text: str) -> tuple[datetime, datetime]:
    """Return the two times of ``FROM..TO``, in UTC if they have no offset."""
    parts = text.split("..")
    try:
        since, until = (datetime.fromisoformat(each.strip()) for each in parts)
    except ValueError:
        since = until = datetime.now(UTC)
    since, until = (each if each.tzinfo is not None else each.replace(tzinfo=UTC) for each in (since, until))
    if since >= until:
        raise click.UsageError(
            f"--history is {text!r}, which is not a range of times; give FROM..TO, such as "
            "2026-11-10T00:00..2026-11-11T00:00 (UTC unless it has an offset)"
        )
    return since, until
