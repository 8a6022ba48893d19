"""What goes on in the live tour: an app with tasks, a job and a monitor, and a process for each of the three.

``python -m examples.tour.world worker|job|monitor``, with OUTLAST_TOUR_DB and OUTLAST_TOUR_SERVER set.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time

import outlast
from examples.tour.batch import PAGES
from examples.tour.batch import POLICY as OF_THE_JOB
from examples.tour.faults import get
from examples.tour.monitor import PROFILE, fetch

DATABASE, SERVER = "OUTLAST_TOUR_DB", "OUTLAST_TOUR_SERVER"
"""Variables that tell where the tasks are, and whom they call."""
BANK, MAIL = "bank.example.com", "mail.example.com"
POLL_EVERY, REST = 3.0, 20.0  # seconds between two polls of a feed, and between two runs of the job

app = outlast.App(os.environ.get(DATABASE, "memory://"), lease=4, crash_limit=2, grace=2)
POLICY = outlast.RetryPolicy(
    max_attempts=4, retry_on=outlast.RETRYABLE, backoff="exponential", base_delay=0.5, jitter="equal"
)
outlast.resource(BANK, breaker=outlast.BreakerSettings(consecutive=4, open_for=6.0))


def _asked(path: str) -> bytes:
    return get(f"{os.environ[SERVER]}{path}", timeout=0.8)


@app.task(policy=POLICY)
def fetch_page(path: str) -> None:
    """Fetch a page: most are there, some servers are unwell, some pages are gone."""
    _asked(path)


@app.task(policy=POLICY)
def read_prices(shop: str) -> int:
    """Read JSON; now and then it is a page in HTML that says something else."""
    prices = json.loads(_asked(f"/prices?shop={shop}"))
    return len(prices)


@app.task(policy=POLICY, queue="mail", resource=MAIL)
def send_mail(to: str) -> None:
    """Send a mail; the server asks for a pause now and then, and then all mail waits."""
    _asked(f"/mail?to={to}")


@app.task(policy=POLICY, resource=BANK)
def pay(order: int) -> None:
    """Pay an order, unless the breaker of the bank is open."""
    _asked(f"/bank?order={order}")


@app.task(policy=POLICY)
def sync_account(user: str, password: str) -> None:
    """Log in somewhere that does not know us."""
    _asked(f"/login?user={user}&password={password}")


@app.task(policy=POLICY.replace(max_attempts=2), timeout=0.5)
def convert(seconds: float) -> None:
    """Hang for too long; a process of its own runs this, and is killed."""
    time.sleep(seconds)


@app.task(policy=POLICY)
def poison() -> None:
    """Take the whole worker down, as a library written in C might."""
    os.kill(os.getpid(), signal.SIGKILL)


@app.job("catalogue", max_failure_rate=0.01, policy=OF_THE_JOB, targets=lambda: PAGES)
def catalogue(context: outlast.JobContext, page: str) -> None:
    """Load a page of the catalogue, without hurry."""
    time.sleep(0.1)
    context.count("bytes", len(_asked(PAGES[page])))


def work() -> None:
    """Run tasks."""
    app.worker(concurrency=8, name="tour").run()


def run_jobs() -> None:
    """Run the job, then what failed of it, again and again."""
    while True:
        first = catalogue.run(concurrency=8)
        if first.state == "stopped":
            return
        time.sleep(2)
        if catalogue.run(only_failed=first.run_id).state == "stopped":
            return
        time.sleep(REST)


def monitor() -> None:
    """Poll the feeds."""
    app.monitor(PROFILE, fetch=fetch, every=POLL_EVERY, name="tour").run()


ROLES = {"worker": work, "job": run_jobs, "monitor": monitor}


def _end_with_the_tour() -> None:
    """Stop when the process that started this has ended, in any way."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    logging.basicConfig(level=logging.CRITICAL)  # the dashboard tells it
    threading.Thread(target=_end_with_the_tour, daemon=True).start()
    ROLES[sys.argv[1]]()
    app.close()
