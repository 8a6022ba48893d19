"""The pages of batch jobs: the list of runs, and one run with its gate, failures and remaining targets."""

import sys
from collections.abc import Mapping

from outlast.app import App
from outlast.operations import DIGEST_MARK, MAX_NAME_CHARS, NAME, Parameter, choice_kind, name_key, text_kind
from outlast.ports.job_rows import Run, RunState, TargetRow, TargetStatus
from outlast.ports.read_rows import MAX_ROWS_SCANNED
from outlast.ports.read_rows import Page as Rows
from outlast.queue.masking import masked_text, masked_value
from outlast.report import job_runs
from outlast.web.routing import PageData, PageRequest, PageRoute, require
from outlast.web.task_view import mask_optional, masked_line

_ROWS = 30
_TARGETS = 30
_GROUPS = 12
_REASONS = 5
_BATCH = 500
_SEARCH_BATCH = 5_000  # targets that one statement reads when searching for one
_MAX_LATER_RUNS = 200  # runs of a job that are searched for a later one
_JOB_PLACEHOLDER = "MODULE:JOB"  # a store has the name of a job, but not the location of its code
_TARGET_FIGURES = (
    "status", "attempts", "category", "origin", "http_status", "fingerprint", "retry_at", "finished_at",
)  # fmt: skip
_UNFINISHED = (TargetStatus.FAILED, TargetStatus.DEFERRED)


def _read_jobs(request: PageRequest) -> PageData:
    store = request.app.store
    job, before = _job_param(request), request.values["before"]
    found = store.runs(job, _ROWS + 1, before)
    rows = found[:_ROWS]
    names = {*request.app.jobs_by_name, *(run.job for run in rows), *([job] if job else [])}
    return {
        "rows": [_run_line(view) for view in job_runs.run_views(store, rows, store.now())],
        "next": rows[-1].id if len(found) > _ROWS else None,
        "job": None if job is None else name_key(job),
        "before": before,
        "names": sorted(map(masked_line, names)),
        "_choices": sorted((name_key(name), masked_line(name)) for name in names),
    }


def _job_param(request: PageRequest) -> str | None:
    """Return the requested job, by its name or by the digest of its name."""
    job: str | None = request.values["job"]
    if job is None or not job.startswith(DIGEST_MARK):
        return job
    known = {*request.app.jobs_by_name, *(run.job for run in request.app.store.runs(None, _MAX_LATER_RUNS))}
    return next((name for name in known if name_key(name) == job), job)


def _read_run(request: PageRequest) -> PageData:
    store = request.app.store
    run_id, status, group, after = (request.values[name] for name in ("run_id", "status", "group", "after"))
    run = require(store.run(run_id), f"run {run_id:.100} does not exist; old runs are pruned")
    (view,) = job_runs.run_views(store, [run], store.now())
    counts, state = view.counts, view.state
    left = counts["failed_targets"] + counts["deferred_targets"]
    job = request.app.jobs_by_name.get(run.job)
    after_id = _target_param(request.app, run.id, after)
    targets = _targets(request.app, run.id, status, group, after_id) if left else Rows([], None, 0)
    return {
        "run": _run_line(view),
        "holder": mask_optional(view.holder),
        "verdict": job_runs.gate_line(_masked_run(run), state, counts, job.gate if job is not None else None),
        "summary": _summary_figures(run),
        "groups": job_runs.failure_group_data(store.failure_groups(run.id, _GROUPS) if left else (), masked_line),
        "targets": [_target_line(row) for row in targets.rows],
        "next": None if targets.next is None else name_key(targets.next),
        "looked": targets.looked,
        "status": status,
        "group": group,
        "after": None if after is None else name_key(after_id or ""),
        "rest": _rest_command(request.app, run, state),
        "compared": _comparison(request.app, run),
    }


def _run_line(view: job_runs.JobRunView) -> PageData:
    """Return a run as the list shows it, masked."""
    run, state, counts = view.run, view.state, view.counts
    return {
        "run_id": run.id,
        "job": masked_line(run.job),
        "entity": mask_optional(run.entity),
        "env": masked_text(run.env),
        "state": state,
        "verdict": view.result,
        "total": run.total if run.ended_at is not None else sum(counts.values()),
        "counts": counts,
        "failure_rate": view.failure_rate,
        "reasons": _reasons(run),
        "duration": view.seconds,
        **{name: getattr(run, name) for name in ("parent", "exit_code", "started_at", "ended_at")},
    }


def _target_param(app: App, run_id: str, key: str | None) -> str | None:
    """Return the target id after which a page begins, given as it is or as a digest.

    Raises:
        LookupError: If no target of the run has that digest.
    """
    if key is None or not key.startswith(DIGEST_MARK):
        return key
    after = None
    while batch := app.store.targets(run_id, statuses=_UNFINISHED, after=after, limit=_SEARCH_BATCH):
        for row in batch:
            if name_key(row.source_id) == key:
                return row.source_id
        after = batch[-1].source_id
    raise LookupError("that position in the list does not exist any more; go back to the first page")


def _targets(app: App, run_id: str, status: str | None, group: str | None, after: str | None) -> Rows[TargetRow]:
    """Return a page of failed and deferred targets. It scans at most `MAX_ROWS_SCANNED` rows, like every list."""
    statuses = _UNFINISHED if status is None else (TargetStatus(status),)
    found: list[TargetRow] = []
    looked = 0
    while looked < MAX_ROWS_SCANNED:
        batch = app.store.targets(run_id, statuses=statuses, after=after, limit=_BATCH if group else _TARGETS + 1)
        for row in batch:
            if len(found) == _TARGETS:
                return Rows(found, after, looked)
            after, looked = row.source_id, looked + 1
            if group is None or row.fingerprint == group:
                found.append(row)
        if len(batch) < (_BATCH if group else _TARGETS + 1):
            return Rows(found, None, looked)
    return Rows(found, after, looked)


def _target_line(row: TargetRow) -> PageData:
    return {
        **{name: getattr(row, name) for name in _TARGET_FIGURES},
        "source_id": masked_line(row.source_id),
        "error": masked_line(job_runs.target_error(row)),
        "target": None if row.target is None else masked_value(row.target),
    }


def _summary_figures(run: Run) -> PageData | None:
    """Return the figures of an ended run's summary, which another version may have written; None without one."""
    if run.summary is None:
        return None
    figures = {name: run.summary.get(name) for name in job_runs.ETL_FIGURES if run.summary.get(name)}
    own = run.summary.get("figures")
    figures |= {masked_text(str(name)): count for name, count in own.items()} if isinstance(own, dict) else {}
    return {
        "attempts": run.summary.get("attempts"),
        "total_is_known": run.summary.get("total_is_known", True),
        "by_category": _plain_counts(run.summary.get("by_category")),
        "by_origin": _plain_counts(run.summary.get("by_origin")),
        "figures": _plain_counts(figures),
    }


def _plain_counts(value: object) -> dict[str, int]:
    """Return the entries of a mapping whose values are integers; empty for any other value."""
    if not isinstance(value, Mapping):
        return {}
    return {str(name): count for name, count in value.items() if isinstance(count, int)}


def _rest_command(app: App, run: Run, state: str) -> str | None:
    if state == str(RunState.RUNNING):
        return None
    left = run.summary or {"total_is_known": False}
    return job_runs.remaining_command({**left, "run_id": run.id}, [_job_reference(app, run.job)])


def _job_reference(app: App, name: str) -> str:
    """Return ``MODULE:JOB`` of a job for the command line, with its real location if its code is loaded."""
    job = app.jobs_by_name.get(name)
    handler = getattr(job, "handler", None)
    module, attribute = getattr(handler, "__module__", ""), getattr(handler, "__name__", "")
    if job is not None and module != "__main__" and getattr(sys.modules.get(module), attribute, None) is job:
        return f"{module}:{attribute}"
    return _JOB_PLACEHOLDER


def _comparison(app: App, run: Run) -> PageData | None:
    """Return how a run differs from its parent: as stored in its summary, or computed now. None without a parent."""
    compared = job_runs.stored_comparison(app.store, run)
    if run.parent is None or compared is None:
        return None
    figures = {name: int(compared.get(name) or 0) for name in ("fixed", "broken", "still")}
    return {"parent": run.parent, **figures}


def _reasons(run: Run) -> list[str]:
    """Return the first reasons why the gate failed, masked."""
    return [masked_line(str(each)) for each in ((run.summary or {}).get("reasons") or ())[:_REASONS]]


def _masked_run(run: Run) -> Run:
    return run if run.summary is None else run._replace(summary={**run.summary, "reasons": _reasons(run)})


_LIST = {"rows": list[PageData], "next": str | None, "names": list[str]}
_ONE = {"run": PageData, "verdict": job_runs.GateLine, "targets": list[PageData], "next": str | None}
_FILTERS = (
    Parameter("job", NAME, "Only runs of this job."),
    Parameter("before", NAME, "Only earlier runs: `next` of the previous page."),
)
_PARAMETERS = (
    Parameter("run_id", NAME, "The id of the run.", required=True),
    Parameter("status", choice_kind(_UNFINISHED), "Only targets with this status."),
    Parameter("group", NAME, "Only targets with this fingerprint."),
    Parameter("after", text_kind(MAX_NAME_CHARS), "Where the page begins: `next` of the previous page."),
)
PAGES = (
    PageRoute("jobs", "/jobs", "jobs.html", _read_jobs, _FILTERS, _LIST),
    PageRoute("run", "/jobs/{run_id}", "run.html", _read_run, _PARAMETERS, _ONE),
)
