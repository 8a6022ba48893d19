"""Let Celery's tasks fail: ``python -m examples.celery_app``. Needs the extra ``celery`` and a broker.

The broker is a Redis on this machine, or what ``SHOP_BROKER`` says. A Celery worker is started, three tasks are sent, and
what became of them is read from the store. Then the cause is mended, and the dead letter is replayed into Celery.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE = 60.0  # seconds for what takes one, on a machine that has much else to do


def main() -> int:
    """Send, look, mend, replay."""
    with tempfile.TemporaryDirectory(prefix="outlast-celery-") as folder:
        os.environ["SHOP_FOLDER"] = folder
        with (Path(folder) / "worker.log").open("wb") as log:
            command = ["-m", "celery", "-A", "examples.celery_app.shop:celery_app", "worker", "--pool", "solo"]
            worker = subprocess.Popen([sys.executable, *command], stdout=log, stderr=log)
        try:
            _tell(Path(folder))
        finally:
            worker.terminate()
            worker.wait()
    return 0


def _tell(folder: Path) -> None:
    from examples.celery_app import shop  # once it is known where it works

    app = shop.outlast_app
    shop.send_mail.delay("ada@example.com")
    shop.reserve.delay(item="tea")
    shop.invoice.delay(7, api_token="hush")
    _until(lambda: app.store.counts()["DONE"] == 1 and app.store.counts()["FAILED"] == 1)
    for task in sorted(app.tasks.list(), key=lambda each: each.id):
        print(f"{task.task_type.rpartition('.')[2]:10} {task.status:8} failed attempts: {task.retry_count}")
    (letter,) = app.dead_letters.list()
    print(f"dead letter: {letter.error_type}: {letter.error_message}")
    (folder / "template").touch()
    app.dead_letters.replay(letter.id)
    _until(lambda: app.store.counts()["DONE"] == 2)
    print(f"replayed: {app.store.get(letter.original_task_id).status}")
    app.close()


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > end:
            message = "nothing happened for a minute; is the broker there?"
            raise SystemExit(message)
        time.sleep(0.05)


if __name__ == "__main__":
    raise SystemExit(main())
