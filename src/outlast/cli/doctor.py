"""``outlast doctor``: is all well, and are the books right?"""

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from outlast.cli.alerts import untried_alerts_hint
from outlast.cli.app_options import next_command, store_label, with_app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.app import App
    from outlast.report.doctor import DoctorFinding


_MIN_FREE_SHARE = 0.05  # share of the disk
_MAX_WAITING = 1000  # alerts that are counted


@click.command()
@click.option("--mend", is_flag=True, help="Write the books anew from what is there, if they are off.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def doctor(app: "App", *, mend: bool, as_json: bool) -> None:
    """Check settings, store and workers, and that no task was lost.

    Every task that was ever enqueued is done, dead, live, cancelled or discarded: the books say how many of each there
    are, and they are compared with the rows, counted at the same moment. Workers may go on meanwhile. Exits with 1 if
    something is off.

    \b
    Examples:
      outlast doctor --app jobs:app
      outlast doctor --json
      outlast doctor --mend
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_json, print_text  # noqa: PLC0415  # not for --help
    from outlast.report.doctor import finding_text  # noqa: PLC0415  # not for --help

    found = []
    for finding in _run_checks(app):
        found.append(finding)
        if not as_json:
            print_text(finding_text(finding), {True: "green", False: "red", None: ""}[finding.ok])
    sick = any(each.ok is False for each in found)
    if mend and any(each.ok is False and each.check in {"ledger", "pairs"} for each in found):
        rebuilt = _repair_finding(app, found)
        if rebuilt:
            found.append(rebuilt)
        found += _check_ledger(app)
        sick = any(each.ok is False for each in found if each.check not in {"ledger", "pairs"}) or not found[-1].ok
        if not as_json:
            print_text("the books were written anew from what is there")
            if rebuilt:
                print_text(finding_text(rebuilt))
            print_text(finding_text(found[-1]), "green" if found[-1].ok else "red")
    if as_json:
        print_json({"store": store_label(app), "ok": not sick, "findings": [each._asdict() for each in found]})
    if sick:
        raise SystemExit(1)


def _run_checks(app: "App") -> "Iterator[DoctorFinding]":
    """Check one thing after the other; what cannot be reached ends it."""
    from outlast.classify import classify  # noqa: PLC0415  # not for --help
    from outlast.errors import SchemaError  # noqa: PLC0415  # not for --help
    from outlast.report.doctor import DoctorFinding, clock_finding  # noqa: PLC0415  # not for --help

    yield DoctorFinding("settings", ok=True, text="outlast.toml and the environment can be used")  # or we were not here
    try:
        began = time.perf_counter()
        app.store.check_schema()
        took = time.perf_counter() - began
        yield DoctorFinding(
            "store", ok=True, text=f"{store_label(app)} answers within {took * 1000:.0f} ms, its tables fit"
        )
        yield clock_finding(time.time() - app.store.now().timestamp())
        app.store.check_dead_letters()
        yield DoctorFinding("writing", ok=True, text="a dead letter can be written")
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what was asked for
        failure = classify(error)
        text = f"{failure.exception_name}: {failure.message}"
        tables = "outlast db init creates the tables and brings them up to date."
        reached = "Is the address right, does the server run, and may this user write? Nothing more can be checked."
        yield DoctorFinding("store", ok=False, text=text, todo=tables if isinstance(error, SchemaError) else reached)
        return
    yield from _check_environment(app)
    yield from _check_ledger(app)


def _check_environment(app: "App") -> "Iterator[DoctorFinding]":
    from outlast.report.doctor import DoctorFinding  # noqa: PLC0415  # not for --help

    spool = app.settings.spool
    left, refused = (len([*spool.glob(f"*.{kind}")]) for kind in ("jsonl", "refused"))
    if left:
        todo = "They are applied when a worker starts; start one where this folder is."
        text = f"{_files_text(left)} that could not be stored {'lies' if left == 1 else 'lie'} in {spool}"
        yield DoctorFinding("spool", ok=False, text=text, todo=todo)
    if refused:
        todo = "No worker applies them: those tasks ran again. Look at them (*.refused), then delete or move them."
        text = f"{_files_text(refused)} that the store refused for good {'lies' if refused == 1 else 'lie'} in {spool}"
        yield DoctorFinding("refused", ok=None, text=text, todo=todo)
    if not left:
        yield DoctorFinding("spool", ok=True, text="no outcome waits to be stored")
    file = getattr(getattr(app.store, "db", None), "path", None)
    if isinstance(file, Path) and not app.store.in_process:
        disk = shutil.disk_usage(file.parent)
        free = disk.free / disk.total
        todo = "" if free >= _MIN_FREE_SHARE else "Make room: a full disk stops all workers."
        yield DoctorFinding(
            "disk", ok=free >= _MIN_FREE_SHARE, text=f"{free:.0%} free, {disk.free / 2**30:.1f} GiB", todo=todo
        )
        if not os.access(file.parent, os.W_OK):
            yield DoctorFinding("folder", ok=False, text=f"{file.parent} cannot be written to", todo="SQLite needs it.")
    workers = app.tasks.workers()
    alive = sum(worker.alive for worker in workers)
    silent = len(workers) - alive
    todo = "outlast worker MODULE:APP starts one." if not alive else ""
    text = f"{alive} alive" + (f", {silent} silent: what they held is given to others" if silent else "")
    yield DoctorFinding("workers", ok=True if alive else None, text=text, todo=todo)
    waiting = app.store.alerts(waiting=True, limit=_MAX_WAITING)
    if waiting:
        why = untried_alerts_hint(waiting)
        todo = f"{why[0].upper()}{why[1:]}" if why else f"{next_command('alerts', 'list', '--waiting')} says why."
        yield DoctorFinding("alerts", ok=None, text=f"{len(waiting)} not delivered yet", todo=todo)


def _check_ledger(app: "App") -> "list[DoctorFinding]":
    from outlast.report.doctor import ledger_findings  # noqa: PLC0415  # not for --help

    return ledger_findings(*app.store.counter_check())


def _repair_finding(app: "App", found: "list[DoctorFinding]") -> "DoctorFinding | None":
    """Write down who mends what, then mend; tell how many dead letters were rebuilt, if any were."""
    from outlast.queue.audit import write_audit  # noqa: PLC0415  # not for --help
    from outlast.report.doctor import DoctorFinding  # noqa: PLC0415  # not for --help

    off = [each.text for each in found if each.ok is False and each.check in {"ledger", "pairs"}]
    write_audit(app.store, "mend_books", "books", {"off": off})
    count = app.store.recount().get("rebuilt", 0)
    if not count:
        return None
    letters = "1 dead letter was" if count == 1 else f"{count:,} dead letters were"
    text = f"{letters} rebuilt from the failed task and its last attempt"
    return DoctorFinding("rebuilt", ok=None, text=text, todo="outlast dlq list shows them; nothing was given up.")


def _files_text(count: int) -> str:
    return "1 file of outcomes" if count == 1 else f"{count:,} files of outcomes"
