"""The Celery app of a shop: three tasks, one of which is broken until somebody mends it."""

from __future__ import annotations

import os
from pathlib import Path

from celery import Celery  # type: ignore[import-untyped]

import outlast
from outlast.engines.celery import attach

FOLDER = Path(os.environ.get("SHOP_FOLDER", "."))
BROKER = os.environ.get("SHOP_BROKER", "redis://localhost:6379/0")

outlast_app = outlast.App(f"sqlite:///{FOLDER / 'shop.db'}")
celery_app = Celery("shop", broker=BROKER)
attach(celery_app, outlast_app, policy=outlast.RetryPolicy(max_attempts=3, base_delay=0.2))


@celery_app.task(acks_late=True)
def send_mail(to: str) -> None:
    """Succeed: the store does not hear of it."""
    print(f"mail to {to}")


@celery_app.task(acks_late=True, resource="warehouse.example.com")
def reserve(item: str) -> None:
    """Fail twice, as a warehouse does whose connection breaks: it is tried again by the policy."""
    tries = FOLDER / f"tries-{item}"
    count = len(tries.read_text()) + 1 if tries.exists() else 1
    tries.write_text("x" * count)
    if count < 3:
        message = "the warehouse hung up"
        raise ConnectionResetError(message)


@celery_app.task(acks_late=True)
def invoice(order: int, api_token: str) -> None:  # noqa: ARG001  # shown masked, as its name asks for
    """Fail for good while the template is missing: it becomes a dead letter."""
    if not (FOLDER / "template").exists():
        message = f"no template for order {order}"
        raise ValueError(message)
