"""The railway pipeline and the YouTube worker: each is run as its reader would, with the core alone."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ABSENT = ("httpx", "httpx2", "requests", "psycopg", "rich", "click")
PROGRAM = "import runpy, sys; sys.modules.update(dict.fromkeys({!r})); runpy.run_module({!r}, run_name='__main__')"


def output_of(module):
    command = [sys.executable, "-c", PROGRAM.format(ABSENT, module)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout.splitlines()


def test_the_pipeline_retries_falls_back_and_fails():
    """R5, R6: three attempts; a fallback after the last one; no retry of a 404."""
    assert output_of("examples.railway_pipeline") == [
        "flaky: saved [1, 2, 3]",
        "    fetch: ok, attempts: 3",
        "    check: ok, attempts: 1",
        "    save: ok, attempts: 1",
        "down: saved [4, 5]",
        "    fetch: fallback, attempts: 3",
        "    check: ok, attempts: 1",
        "    save: ok, attempts: 1",
        "gone: failed: HTTP Error 404: Not Found (not_found)",
        "    fetch: failed, attempts: 1",
        "stored: [('down', '[4, 5]'), ('flaky', '[1, 2, 3]')]",
    ]


def test_the_worker_retries_defers_and_keeps_dead_letters():
    """W: what may work later is queued again, the rest are dead letters with their category."""
    figures, *lines = output_of("examples.youtube_worker")

    assert figures == "tasks_deferred: 1, tasks_done: 1, tasks_failed: 4, tasks_retried: 4"
    assert lines[:7] == [
        "video that needs three attempts: DONE, failed attempts: 2, deferrals: 0",
        "video behind a rate limit: QUEUED, failed attempts: 0, deferrals: 1",
        "video that was deleted: FAILED, failed attempts: 1, deferrals: 0",
        "video whose server is broken: FAILED, failed attempts: 3, deferrals: 0",
        "video of tomorrow: FAILED, failed attempts: 1, deferrals: 0",
        "video without a URL: FAILED, failed attempts: 1, deferrals: 0",
        "dead letters:",
    ]
    assert sorted(lines[7:]) == [
        "    task 3: not_found, permanent: HTTP Error 404: Not Found",
        "    task 4: api_temporary, exhausted: HTTP Error 500: Internal Server Error",
        "    task 5: quota_exhausted, permanent: quota of the day used up",
        "    task 6: invalid_parameters, permanent: the task has no url",
    ]
