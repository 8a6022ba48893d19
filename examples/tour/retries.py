"""Retries against the flaky server, with real waits: one that recovers, one that waits as asked, and a breaker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import outlast
from examples.tour.faults import get

if TYPE_CHECKING:
    from collections.abc import Callable

POLICY = outlast.RetryPolicy(
    max_attempts=4, retry_on=outlast.RETRYABLE, backoff="exponential", base_delay=0.25, jitter="equal", deadline=10
)
SHOP = "shop.example.com"
outlast.resource(SHOP, breaker=outlast.BreakerSettings(consecutive=3, open_for=1.0))


@outlast.retry(policy=POLICY)
def fetch(url: str) -> bytes:
    """Fetch a page, with retries."""
    return get(url)


@outlast.retry(policy=outlast.RetryPolicy(max_attempts=1, resource=SHOP))
def buy(url: str) -> bytes:
    """Call the shop once, if its breaker lets us."""
    return get(url)


def retried(server: str) -> None:
    """Call what fails at first, and what asks for a wait."""
    print("Retries. The policy, as policy.preview() draws it:\n")
    print(_indented(str(POLICY.preview())))
    print("\nA server that is unwell twice. What the log says comes from the standard library's logging:\n")
    _timed(lambda: fetch(f"{server}/flaky"))
    print("\nA server that answers 429 with Retry-After: 1. The wait is never shorter than that:\n")
    _timed(lambda: fetch(f"{server}/crowded"))
    print("\nA page that is gone. Nothing is retried:\n")
    try:
        fetch(f"{server}/gone")
    except Exception as error:
        print("".join(f"    {line}\n" for line in (str(error), *error.__notes__)))


def guarded(server: str) -> None:
    """Let a breaker open after three failures and close again."""
    print("A breaker: three failures in a row open it for a second; then one call is let through.\n")
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"    {time.monotonic() - start:4.1f} s  {text}")

    def tell(event: outlast.events.Event) -> None:
        why = f", {event.reason}" if isinstance(event, outlast.events.BreakerOpened) else ""
        say(f"         {type(event).__name__}{why}")

    kinds = (outlast.events.BreakerOpened, outlast.events.BreakerHalfOpened, outlast.events.BreakerClosed)
    unsubscribe = outlast.subscribe(tell, *kinds)
    try:
        for number in range(1, 9):
            try:
                answer = buy(f"{server}/shop").decode()
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            say(f"call {number}: {answer}")
            if answer == "fine":
                break
            time.sleep(0.3)
    finally:
        unsubscribe()
    print()


def _timed(call: Callable[[], bytes]) -> None:
    start = time.monotonic()
    answer = call().decode()
    print(f"    → {answer!r} after {time.monotonic() - start:.1f} s")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
