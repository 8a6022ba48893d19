"""``outlast doctor``: check settings, store, workers and counters."""

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from outlast.classify import classify
from outlast.cli.alerts import untried_alerts_hint
from outlast.cli.app_options import flag, json_option, next_command, with_app
from outlast.cli.output import print_json, print_text
from outlast.errors import ConfigError, SchemaError
from outlast.queue.audit import write_audit
from outlast.report.doctor import DoctorFinding, clock_finding, finding_text, ledger_findings
from outlast.report.text_format import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.app import App


_MIN_FREE_SHARE = 0.05  # share of the disk
_MAX_WAITING = 1000  # alerts that are counted
_COUNTER_CHECKS = {"ledger", "pairs"}


@click.command()
@flag("--repair", "Recount the counters if they differ from the rows.")
@json_option
@with_app
def doctor(app: "App", *, repair: bool, as_json: bool) -> None:
    """Check settings, store and workers, and that no task was lost.

    Every task that was ever enqueued is done, dead, live, cancelled or discarded. Counters keep how many there are of
    each; this command compares them with the rows, read at the same time. Workers may keep running. The exit code is 1
    if a check fails.

    \b
    Examples:
      outlast doctor --app jobs:app
      outlast doctor --json
      outlast doctor --repair
    """  # noqa: D301  # click reads the control character, not a backslash
    found: list[DoctorFinding] = []

    def report(finding: DoctorFinding) -> None:
        found.append(finding)
        if not as_json:
            print_text(finding_text(finding), {True: "green", False: "red", None: ""}[finding.ok])

    for each in _run_checks(app):
        report(each)
    failing = [each for each in found if each.ok is False]
    off = [each.text for each in failing if each.check in _COUNTER_CHECKS]
    if repair and off:
        failing = [each for each in failing if each.check not in _COUNTER_CHECKS]
        after = [*_repair_counters(app, off), *ledger_findings(*app.store.counter_check())]
        if not as_json:
            print_text("the counters were recounted from the rows")
        for each in after:
            report(each)
        failing += [each for each in after if each.ok is False]
    if as_json:
        print_json({"store": app.store.location, "ok": not failing, "findings": [each._asdict() for each in found]})
    if failing:
        raise SystemExit(1)


def _run_checks(app: "App") -> "Iterator[DoctorFinding]":
    """Yield the result of each check; a store that cannot be used is the last one."""
    yield DoctorFinding("settings", "outlast.toml and the environment are valid")  # or the app would not exist
    try:
        began = time.perf_counter()
        app.store.check_schema()
        took = f"{(time.perf_counter() - began) * 1000:.0f} ms"
        yield DoctorFinding("store", f"{app.store.location} answers within {took}, its tables have the right version")
        yield clock_finding(time.time() - app.store.now().timestamp())
        app.store.check_dead_letters()
        yield DoctorFinding("writing", "a dead letter can be written")
    except Exception as error:  # noqa: BLE001  # any error is a finding
        failure = classify(error)
        text = f"{failure.exception_name}: {failure.message}"
        todo = "Check the URL, that the server is running, and that the user can write. The other checks are skipped."
        if isinstance(error, ConfigError) and "; " in text:
            text, _, todo = text.partition("; ")
            todo = f"{todo[0].upper()}{todo[1:]}."
        if isinstance(error, SchemaError):
            todo = "outlast db init creates and migrates the tables." if not error.advice else ""
        yield DoctorFinding("store", text, todo, ok=False)
        return
    yield from _check_environment(app)
    yield from ledger_findings(*app.store.counter_check())


def _check_environment(app: "App") -> "Iterator[DoctorFinding]":
    spool = app.settings.spool
    left, refused = (len([*spool.glob(f"*.{kind}")]) for kind in ("jsonl", "refused"))
    if left:
        todo = "A worker applies them when it starts; start one on this machine."
        text = f"{_files_text(left, spool)} {'is' if left == 1 else 'are'} not stored yet"
        yield DoctorFinding("spool", text, todo, ok=False)
    if refused:
        todo = "No worker applies them; tasks without an outcome ran again. Check and delete the files (*.refused)."
        text = f"{_files_text(refused, spool)} could not be applied completely"
        yield DoctorFinding("refused", text, todo, ok=None)
    if not left:
        yield DoctorFinding("spool", "no outcomes are waiting to be stored")
    file = getattr(getattr(app.store, "db", None), "path", None)
    if isinstance(file, Path) and not app.store.in_process:
        disk = shutil.disk_usage(file.parent)
        free = disk.free / disk.total
        text, ok = f"{free:.0%} free, {disk.free / 2**30:.1f} GiB", free >= _MIN_FREE_SHARE
        todo = "" if ok else "Free some disk space: a full disk stops all workers."
        yield DoctorFinding("disk", text, todo, ok)
        if not os.access(file.parent, os.W_OK):
            yield DoctorFinding("folder", f"{file.parent} is not writable", "SQLite needs it.", ok=False)
    workers = app.tasks.workers()
    alive = sum(worker.alive for worker in workers)
    silent = len(workers) - alive
    todo = "" if alive else "outlast worker MODULE:APP starts one."
    text = f"{alive} alive" + (f", {silent} without a heartbeat: other workers take over their tasks" if silent else "")
    yield DoctorFinding("workers", text, todo, True if alive else None)
    waiting = app.store.alerts(waiting=True, limit=_MAX_WAITING)
    if waiting:
        hint = untried_alerts_hint(waiting)
        todo = f"{hint[0].upper()}{hint[1:]}" if hint else f"{next_command('alerts', 'list', '--waiting')} shows why."
        yield DoctorFinding("alerts", f"{len(waiting)} not delivered yet", todo, ok=None)


def _repair_counters(app: "App", off: list[str]) -> "list[DoctorFinding]":
    """Recount the counters, with an audit entry of what is off; return how many dead letters were rebuilt, if any."""
    write_audit(app.store, "repair_counters", "counters", {"off": off})
    if not (count := app.store.recount().get("rebuilt", 0)):
        return []
    dead_letters = counted(count, "dead letter was", "dead letters were")
    text = f"{dead_letters} rebuilt from the failed task and its last attempt"
    return [DoctorFinding("rebuilt", text, "outlast dlq list shows them; nothing was lost.", ok=None)]


def _files_text(count: int, spool: Path) -> str:
    return f"{counted(count, 'file')} of outcomes in {spool}"
