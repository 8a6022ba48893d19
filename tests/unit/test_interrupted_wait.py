"""A wait that is interrupted leaves nothing behind (pitfall 12)."""

import contextlib
import gc
import weakref

import pytest

import outlast
from outlast import RetryPolicy
from outlast.errors import NetworkError

THREE = RetryPolicy(max_attempts=3)


@pytest.mark.parametrize("form", ["call", "block"])
def test_pitfall_12_a_wait_that_is_interrupted_keeps_nothing_alive(form, monkeypatch):
    class Body:
        pass

    def interrupted(seconds):
        raise KeyboardInterrupt

    def fetch(body):
        raise NetworkError("x")

    def block(body, policy):
        for attempt in outlast.attempts(policy):
            with attempt:
                fetch(body)

    monkeypatch.setattr("outlast.clock.sleep", interrupted)
    gc.collect()
    gc.disable()
    try:
        body, policy = Body(), THREE.replace(deadline=60)
        gone = weakref.ref(body)
        with contextlib.suppress(KeyboardInterrupt):
            outlast.call(fetch, body, policy=policy) if form == "call" else block(body, policy)
        del body
        assert gone() is None
    finally:
        gc.enable()
