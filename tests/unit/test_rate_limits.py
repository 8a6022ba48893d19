"""Rate limits in process: of a resource, and of the hosts of an HTTP transport."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import pickle
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, pairwise

import httpx
import pytest
import requests
import trio

import outlast
from outlast import RetryPolicy
from outlast.errors import BreakerOpenError, ConfigError, LocalRateLimitError
from outlast.http import AsyncRetryTransport, RetryTransport
from outlast.http.requests import HTTPAdapter
from outlast.run.resources import RateLimiter
from outlast.testing import drain, fake_clock

_numbers = count(1)


def make(rate="10/s", **settings):
    return outlast.resource(f"rates {next(_numbers)}", rate=rate, **settings)


@pytest.fixture
def clock():
    with fake_clock() as clock:
        yield clock


class Starts:
    """Notes when it is called, on the fake or the real clock."""

    def __init__(self, *errors):
        self.times, self.errors = [], list(errors)

    def __call__(self, *_args):
        self.times.append(outlast.clock.monotonic())
        if self.errors:
            raise self.errors.pop(0)

    def without_arguments(self):
        self()

    async def in_coroutine(self):
        self()

    @property
    def gaps(self):
        return [round(later - earlier, 3) for earlier, later in pairwise(self.times)]


class TestResource:
    @pytest.mark.parametrize(("rate", "gap"), [("10/s", 0.1), ("30/min", 2.0), (0.5, 2.0), ("1/h", 3600.0)])
    def test_calls_start_at_the_rate(self, clock, rate, gap):
        starts, policy = Starts(), RetryPolicy(resource=make(rate).name)
        for _ in range(4):
            outlast.call(starts, policy=policy)
        assert starts.gaps == [gap] * 3

    def test_a_fast_rate_lets_a_tenth_of_a_second_through_at_once(self, clock):
        starts, policy = Starts(), RetryPolicy(resource=make("100/s").name)
        for _ in range(13):
            outlast.call(starts, policy=policy)
        assert starts.gaps == [0.0] * 9 + [0.01] * 3

    def test_after_a_pause_nothing_is_saved_up(self, clock):
        starts, policy = Starts(), RetryPolicy(resource=make("10/s").name)
        outlast.call(starts, policy=policy)
        clock.advance(60)
        for _ in range(3):
            outlast.call(starts, policy=policy)
        assert starts.gaps == [60.0, 0.1, 0.1]

    def test_each_attempt_counts(self, clock):
        starts = Starts(ConnectionError(), ConnectionError())
        outlast.call(starts, policy=RetryPolicy(resource=make("1/s").name, base_delay=0.25))
        assert starts.gaps == [1.0, 1.0]

    def test_in_a_block(self, clock):
        starts = Starts(ConnectionError(), ConnectionError())
        for attempt in outlast.attempts(RetryPolicy(resource=make("1/s").name, base_delay=0.25)):
            with attempt:
                starts()
        assert starts.gaps == [1.0, 1.0]

    def test_in_an_async_block(self, clock):
        starts = Starts(ConnectionError(), ConnectionError())

        async def main():
            async for attempt in outlast.attempts(RetryPolicy(resource=make("1/s").name, base_delay=0.25)):
                with attempt:
                    starts()

        asyncio.run(main())
        assert starts.gaps == [1.0, 1.0]

    def test_by_hand(self, clock):
        guard, starts = make("1/s"), Starts()
        for _ in range(3):
            with guard:
                starts()
        assert starts.gaps == [1.0, 1.0]

    @pytest.mark.parametrize("run", [asyncio.run, trio.run])
    def test_by_hand_on_an_event_loop(self, clock, run):
        guard, starts = make("1/s"), Starts()

        async def main():
            for _ in range(3):
                async with guard:
                    starts()
            with pytest.raises(ConfigError, match="use 'async with'"), guard:
                pass

        run(main) if run is trio.run else run(main())
        assert starts.gaps == [1.0, 1.0]

    def test_in_a_task(self, clock):
        starts, guard = Starts(), make("1/s")
        with closing(outlast.App("memory://")) as app:
            work = app.task(name="work", resource=guard.name)(starts.without_arguments)
            later = app.task(name="later", resource=guard.name)(starts.in_coroutine)
            work.enqueue()
            work.enqueue()
            later.enqueue()
            assert drain(app, concurrency=1).done == 3
        assert min(starts.gaps) >= 1.0

    def test_a_task_that_would_wait_for_long_is_deferred_and_uses_no_attempt(self, clock):
        """A thread of a worker that sleeps cannot be stopped, and its task would run a second time elsewhere."""
        starts, guard = Starts(), make("15/min")
        with closing(outlast.App("memory://")) as app:
            work = app.task(name="work", resource=guard.name, max_attempts=1)(starts.without_arguments)
            tickets = [work.enqueue() for _ in range(3)]
            assert app.worker(concurrency=3).drain() == 3
            tasks = [app.store.get(each.id) for each in tickets]
            assert sorted(each.status for each in tasks) == ["DONE", "QUEUED", "QUEUED"]
            assert [each.retry_count for each in tasks] == [0, 0, 0]
            assert clock.waits == []
            assert drain(app, concurrency=3).done == 2
        assert min(starts.gaps) >= 4.0

    def test_the_timeout_of_a_task_begins_after_the_wait(self, clock):
        starts, guard = Starts(), make("2/s")
        with closing(outlast.App("memory://")) as app:
            later = app.task(name="later", resource=guard.name, max_attempts=1, timeout=0.4)(starts.in_coroutine)
            for _ in range(4):
                later.enqueue()
            assert drain(app, concurrency=4).done == 4

    def test_settings_can_be_given_after_a_policy_has_used_the_name(self, clock):
        name, starts = f"rates {next(_numbers)}", Starts()
        retried = outlast.retry(starts, policy=RetryPolicy(resource=name))
        outlast.resource(name, rate="1/s")
        retried()
        retried()
        assert starts.gaps == [1.0]

    def test_another_test_clock_starts_anew(self):
        guard, starts = make("1/h"), Starts()
        for _ in range(2):
            with fake_clock() as clock:
                clock.advance(0 if starts.times else 5)
                with guard:
                    starts()
                assert clock.waits == []

    @pytest.mark.parametrize("rate", ["often", 0, -1, "10/w", True, float("nan")])
    def test_a_rate_that_is_none(self, rate):
        with pytest.raises(ConfigError, match=r"rate is .*; give a number per second, or a rate such as 10/s"):
            make(rate)

    def test_an_open_breaker_refuses_without_a_wait_or_a_turn(self, clock):
        guard = make("1/min", breaker=outlast.BreakerSettings())
        with guard:
            pass
        guard.open(10)
        with pytest.raises(BreakerOpenError), guard:
            pass
        assert clock.waits == []


class TestDeadline:
    def test_a_wait_beyond_it_fails_at_once(self, clock):
        policy = RetryPolicy(resource=make("1/min").name, deadline=30)
        outlast.call(Starts(), policy=policy)
        with pytest.raises(LocalRateLimitError, match="its rate limit of 1/m allows the next call in 60 s") as caught:
            outlast.call(Starts(), policy=policy)
        report = caught.value.__outlast__
        assert (report.reason, report.retry_at) == ("deferred", clock.now() + 60)
        assert clock.waits == []

    def test_it_takes_no_turn(self, clock):
        guard = make("1/min")
        outlast.call(Starts(), policy=RetryPolicy(resource=guard.name))
        for _ in range(3):
            with pytest.raises(LocalRateLimitError):
                outlast.call(Starts(), policy=RetryPolicy(resource=guard.name, deadline=30))
        outlast.call(Starts(), policy=RetryPolicy(resource=guard.name))
        assert clock.waits == [60.0]

    def test_async_and_in_blocks(self, clock):
        policy = RetryPolicy(resource=make("1/min").name, deadline=30)

        async def block():
            async for attempt in outlast.attempts(policy):
                with attempt:
                    pass

        outlast.call(Starts(), policy=policy)
        with pytest.raises(LocalRateLimitError):
            asyncio.run(outlast.call(Starts().in_coroutine, policy=policy))
        with pytest.raises(LocalRateLimitError):
            asyncio.run(block())
        with pytest.raises(LocalRateLimitError):
            for _ in outlast.attempts(policy):
                pass
        assert clock.waits == []

    def test_the_wait_counts_towards_it(self, clock):
        left, guard = [], make("1/min")

        def look():
            left.append(outlast.current_attempt().time_left)

        policy = RetryPolicy(resource=guard.name, deadline=100, attempt_timeout=50)
        outlast.call(look, policy=policy)
        outlast.call(look, policy=policy)
        assert left == [50.0, 40.0]

    def test_an_async_attempt_has_what_is_left(self):
        policy = RetryPolicy(max_attempts=1, resource=make("5/s").name, deadline=0.5)

        async def main():
            await outlast.call(asyncio.sleep, 0, policy=policy)
            await outlast.call(asyncio.sleep, 10, policy=policy)

        with pytest.raises(TimeoutError, match="cancelled after") as caught:
            asyncio.run(main())
        assert float(str(caught.value).split()[2]) <= 0.31  # the rate took 0.2 s of the deadline


class TestTurns:
    def test_threads_share_a_rate(self):
        starts, policy = Starts(), RetryPolicy(resource=make("50/s").name)
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: outlast.call(starts, policy=policy), range(20)))
        assert max(starts.times) - began >= 15 / 50  # five at once, then one each 20 ms

    def test_event_loops_in_threads_share_a_rate(self):
        starts, policy = Starts(), RetryPolicy(resource=make("50/s").name)

        async def main():
            await asyncio.gather(*(outlast.call(starts.in_coroutine, policy=policy) for _ in range(5)))

        async def main_trio():
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(lambda: outlast.call(starts.in_coroutine, policy=policy))

        began = time.monotonic()
        with ThreadPoolExecutor(3) as pool:
            for future in [
                pool.submit(asyncio.run, main()),
                pool.submit(asyncio.run, main()),
                pool.submit(trio.run, main_trio),
            ]:
                future.result()
        assert len(starts.times) == 15
        assert max(starts.times) - began >= 10 / 50

    def test_first_come_first_served(self):
        order, guard = [], make("50/s")

        async def call(number):
            async with guard:
                order.append(number)

        async def main():
            await asyncio.gather(*map(call, range(12)))

        asyncio.run(main())
        assert order == list(range(12))

    @pytest.mark.parametrize("cancelled", [[2], [1, 2], [2, 1], [0, 1, 2]])
    def test_the_last_ones_that_are_cancelled_leave_no_trace(self, clock, cancelled):
        limiter = RateLimiter("1/s")
        assert limiter.reserve("a", None) is None
        turns = [limiter.reserve("a", None) for _ in range(3)]
        for number in cancelled:
            turns[number].give_back()
        kept = 3 - len(cancelled)
        assert limiter.reserve("a", None).seconds_left() == kept + 1
        clock.advance(0.5)

    def test_a_turn_in_the_middle_goes_to_the_next_caller_and_delays_nobody(self, clock):
        limiter = RateLimiter("1/s")
        assert limiter.reserve("a", None) is None
        turns = [limiter.reserve("a", None) for _ in range(4)]
        turns[1].give_back()
        turns[0].give_back()
        assert [limiter.reserve("a", None).seconds_left() for _ in range(3)] == [1.0, 2.0, 5.0]
        assert [each.seconds_left() for each in turns[2:]] == [3.0, 4.0]

    def test_a_turn_that_has_passed_is_not_used(self, clock):
        limiter = RateLimiter("1/s")
        assert limiter.reserve("a", None) is None
        turns = [limiter.reserve("a", None) for _ in range(4)]
        turns[0].give_back()
        clock.advance(1.5)
        assert limiter.reserve("a", None).seconds_left() == 3.5

    def test_after_all_were_cancelled_a_call_starts_at_once_when_it_may(self, clock):
        limiter = RateLimiter("1/min")
        assert limiter.reserve("a", None) is None
        turns = [limiter.reserve("a", None) for _ in range(5)]
        for turn in turns:
            turn.give_back()
        clock.advance(90)
        assert limiter.reserve("a", None) is None
        assert limiter.reserve("a", None).seconds_left() == 60

    @pytest.mark.parametrize("library", ["asyncio", "trio"])
    def test_a_cancelled_waiter_gives_its_turn_back(self, library):
        guard = make("4/s")
        policy, starts = RetryPolicy(resource=guard.name), Starts()

        async def in_asyncio():
            await outlast.call(starts.in_coroutine, policy=policy)
            waiting = [asyncio.create_task(outlast.call(starts.in_coroutine, policy=policy)) for _ in range(20)]
            await asyncio.sleep(0.01)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            await outlast.call(starts.in_coroutine, policy=policy)

        async def in_trio():
            await outlast.call(starts.in_coroutine, policy=policy)
            with trio.move_on_after(0.01):
                async with trio.open_nursery() as nursery:
                    for _ in range(20):
                        nursery.start_soon(lambda: outlast.call(starts.in_coroutine, policy=policy))
            await outlast.call(starts.in_coroutine, policy=policy)

        began = time.monotonic()
        asyncio.run(in_asyncio()) if library == "asyncio" else trio.run(in_trio)
        assert len(starts.times) == 2
        assert time.monotonic() - began < 4  # not the five seconds of twenty turns

    def test_many_turns_of_threads_keep_the_rate(self):
        limiter, starts, lock = RateLimiter(1000), [], threading.Lock()
        stop = time.monotonic() + 0.5

        def work(number):
            while time.monotonic() < stop:
                turn = limiter.reserve("a", None)
                if turn is not None and number % 3 == 0:
                    turn.give_back()
                    continue
                if turn is not None:
                    time.sleep(turn.seconds_left())
                with lock:
                    starts.append(turn.start if turn is not None else None)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        reserved = sorted(each for each in starts if each is not None)
        assert min((later - earlier for earlier, later in pairwise(reserved)), default=1) > 0.00099
        assert len(starts) <= 0.5 * 1000 + 200

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_forked_child_has_turns_of_its_own(self):
        guard = make("1/h")
        limiter = guard.limiter
        with guard:
            pass
        limiter.reserve(guard.name, None)
        read, write = os.pipe()
        with limiter.lock:  # as if another thread held it
            child = os.fork()
            if child == 0:
                signal.alarm(10)  # should it hang
                with contextlib.suppress(BaseException), guard:
                    os.write(write, b"called")
                os._exit(0)
        os.close(write)
        assert os.read(read, 10) == b"called"
        os.waitpid(child, 0)
        assert limiter.reserve(guard.name, None) is not None

    def test_idle_names_are_forgotten(self, clock, monkeypatch):
        monkeypatch.setattr("outlast.run.resources._MANY_LINES", 100)
        limiter = RateLimiter("1/s")
        for number in range(1000):
            limiter.reserve(str(number), None)
            clock.advance(0.1)
        assert len(limiter._lines) <= 110
        assert limiter.reserve("999", None) is not None


class TestTransport:
    def test_each_host_has_its_rate(self, clock):
        starts = {"a.test": Starts(), "b.test": Starts()}
        inner = httpx.MockTransport(lambda request: starts[request.url.host]() or httpx.Response(200))
        with httpx.Client(transport=RetryTransport(inner, rate="2/s")) as client:
            for _ in range(3):
                client.get("https://a.test/x")
                client.get("https://b.test/y")
        assert starts["a.test"].gaps == starts["b.test"].gaps == [0.5, 0.5]

    def test_per_something_else(self, clock):
        starts = Starts()
        inner = httpx.MockTransport(lambda request: starts() or httpx.Response(200))
        transport = RetryTransport(inner, rate="2/s", per=lambda url, headers: "all")
        with httpx.Client(transport=transport) as client:
            for host in "abc":
                client.get(f"https://{host}.test/")
        assert starts.gaps == [0.5, 0.5]
        with pytest.raises(ConfigError, match="per is 'planet'; choose one of: host, url, credential"):
            RetryTransport(rate="2/s", per="planet")
        with pytest.raises(ConfigError, match="rate is 'often'"):
            RetryTransport(rate="often")

    def test_each_attempt_counts(self, clock):
        starts, statuses = Starts(), [503, 503, 200]
        inner = httpx.MockTransport(lambda request: starts() or httpx.Response(statuses.pop(0)))
        policy = RetryPolicy(base_delay=0.125)
        with httpx.Client(transport=RetryTransport(inner, policy=policy, rate="1/s")) as client:
            client.get("https://a.test/")
        assert starts.gaps == [1.0, 1.0]

    def test_async(self, clock):
        starts = Starts()
        inner = httpx.MockTransport(lambda request: starts() or httpx.Response(200))

        async def main():
            async with httpx.AsyncClient(transport=AsyncRetryTransport(inner, rate="2/s")) as client:
                for _ in range(3):
                    await client.get("https://a.test/")

        asyncio.run(main())
        trio.run(main)
        assert starts.gaps[:2] == starts.gaps[3:] == [0.5, 0.5]

    def test_a_wait_beyond_the_deadline_fails_at_once(self, clock):
        inner = httpx.MockTransport(lambda request: httpx.Response(200))
        transport = RetryTransport(inner, policy=RetryPolicy(deadline=30, retry_on=(OSError,)), rate="1/min")
        with httpx.Client(transport=transport) as client:
            client.get("https://a.test/")
            with pytest.raises(LocalRateLimitError) as caught:
                client.get("https://a.test/")
        assert caught.value.__outlast__.reason == "deferred"
        assert clock.waits == []

    def test_a_request_has_what_is_left(self, clock):
        timeouts = []

        def answer(request):
            timeouts.append(request.extensions["timeout"]["read"])
            return httpx.Response(200)

        policy = RetryPolicy(deadline=100, attempt_timeout=50)
        transport = RetryTransport(httpx.MockTransport(answer), policy=policy, rate="1/min")
        with httpx.Client(transport=transport, timeout=None) as client:
            client.get("https://a.test/")
            client.get("https://a.test/")
        assert timeouts == [50.0, 40.0]

    def test_a_cooldown_that_begins_during_the_wait_is_kept(self, clock):
        starts, cooling = Starts(), outlast.http.settings.Settings().cooling
        inner = httpx.MockTransport(lambda request: starts() or httpx.Response(200))
        sleep = clock.sleep

        def cool_down(seconds):
            if seconds == 1.0 and not cooling.waits():
                cooling.start_cooldown("a.test", 10.0, "asked for it")
            sleep(seconds)

        transport = RetryTransport(inner, rate="1/s", cooling=cooling)
        with httpx.Client(transport=transport) as client, pytest.MonkeyPatch.context() as patch:
            client.get("https://a.test/")
            patch.setattr(outlast.clock, "sleep", cool_down)
            client.get("https://a.test/")
        assert starts.gaps == [10.0]

    def test_a_cancelled_request_gives_its_turn_back(self):
        inner = httpx.MockTransport(lambda request: httpx.Response(200))

        async def main():
            async with httpx.AsyncClient(transport=AsyncRetryTransport(inner, rate="4/s")) as client:
                await client.get("https://a.test/")
                waiting = [asyncio.create_task(client.get("https://a.test/")) for _ in range(20)]
                await asyncio.sleep(0.05)
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)
                await client.get("https://a.test/")

        began = time.monotonic()
        asyncio.run(main())
        assert time.monotonic() - began < 4

    def test_requests(self):
        starts = Starts()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                starts()
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, requests.Session() as session:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            session.mount("http://", HTTPAdapter(rate="10/s"))
            began = time.monotonic()
            for _ in range(3):
                assert session.get(f"http://127.0.0.1:{server.server_port}/").ok
            server.shutdown()
        assert starts.times[-1] - began > 0.18  # a late one does not delay the next, so only the sum counts

    def test_a_copy_has_turns_of_its_own(self):
        adapter = HTTPAdapter(rate="1/h")
        adapter.settings.limiter.reserve("a", None)
        for copied in (copy.deepcopy(adapter), pickle.loads(pickle.dumps(adapter))):
            assert copied.settings.limiter.rate == adapter.settings.limiter.rate
            assert copied.settings.limiter.reserve("a", None) is None
