"""`fetch_with_retry` and `handle_rate_limit` against a real server (B2, B3, C7, C8, and what the seed's own code got wrong)."""

import logging
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import anyio
import pytest

import outlast
from integration.http_ways import LIBRARIES
from outlast import RETRYABLE, RetryPolicy
from outlast.http import AsyncRetryTransport, fetch_with_retry, handle_rate_limit
from outlast.testing import fake_clock
from servers.faults import FaultServer
from servers.feeds import Answer, FeedServer

BACKENDS = ["asyncio", "trio"]
pytestmark = [pytest.mark.parametrize("backend", BACKENDS), pytest.mark.parametrize("library", LIBRARIES)]
START = 1_700_000_000.0


@pytest.fixture
def server():
    with FeedServer() as server:
        yield server


def fetch(library, backend, url, *, client=None, **settings):
    async def main():
        async with library.AsyncClient(**(client or {})) as opened:
            return await fetch_with_retry(opened, url, **settings)

    return anyio.run(main, backend=backend)


def test_b2_a_success_is_returned(library, backend, server):
    assert fetch(library, backend, server.script("/", Answer(body="well"))).text == "well"


@pytest.mark.parametrize("status", [408, 425, 500, 501, 502, 503, 504, 599])
def test_b2_three_calls_after_two_and_four_seconds(library, backend, server, status, caplog):
    with fake_clock() as clock, pytest.raises(library.HTTPStatusError) as caught, caplog.at_level("WARNING"):
        fetch(library, backend, server.script("/", Answer(status, body="no")))
    assert (server.count(), clock.waits) == (3, [2, 4])
    assert (caught.value.response.status_code, caught.value.response.text) == (status, "no")
    assert len(caught.value.__notes__) == 3
    said = [record for record in caplog.records if "retrying in" in record.message]
    assert [record.levelno for record in said] == [logging.WARNING] * 2
    assert all(record.message.startswith("GET http://127.0.0.1") for record in said)


def test_b2_the_waits_go_on_to_thirty_seconds(library, backend, server):
    policy = outlast.http.fetch.FETCH_POLICY.replace(max_attempts=8)
    with fake_clock() as clock, pytest.raises(library.HTTPStatusError):
        fetch(library, backend, server.script("/", 503), policy=policy)
    assert clock.waits == [2, 4, 8, 16, 30, 30, 30]


@pytest.mark.parametrize("fault", ["reset", "close", "truncated"])
def test_b_defect_whatever_breaks_is_asked_for_again(library, backend, server, fault):
    url = server.script("/", [Answer(fault=fault), Answer(fault=fault), Answer(body="well")])
    with fake_clock() as clock:
        assert fetch(library, backend, url).text == "well"
    assert clock.waits == [2, 4]


def test_b2_timeouts_and_refused_connections_are_asked_for_again(library, backend, server):
    faults = FaultServer()
    faults.start()
    try:
        with fake_clock() as clock, pytest.raises(library.ConnectError):
            fetch(library, backend, faults.refused_url)
    finally:
        faults.stop()
    assert clock.waits == [2, 4]
    url = server.script("/", [Answer(fault="stall"), Answer(body="well")])
    with fake_clock():
        assert fetch(library, backend, url, client={"timeout": 0.1}).text == "well"


def test_b1_a_name_that_is_not_known_is_asked_for_again(library, backend, server):
    with fake_clock() as clock, pytest.raises(library.ConnectError):
        fetch(library, backend, server.dead_url)
    assert clock.waits == [2, 4]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 421, 422, 423, 451])
def test_b2_other_answers_are_returned_at_once(library, backend, server, status):
    response = fetch(library, backend, server.script("/", Answer(status, body="no")))
    assert (response.status_code, response.text, server.count()) == (status, "no", 1)


def test_an_address_that_cannot_be_used_is_asked_for_once(library, backend, server):
    with fake_clock() as clock, pytest.raises(library.UnsupportedProtocol):
        fetch(library, backend, "gopher://a.test/")
    assert clock.waits == []


@pytest.mark.parametrize("status", [429, 503])
def test_c7_a_hint_is_waited_for_and_then_asked_again(library, backend, server, status):
    url = server.script("/", [Answer(status, {"Retry-After": "90"}), Answer(body="well")])
    with fake_clock() as clock:
        assert fetch(library, backend, url).text == "well"
    assert clock.waits == [90]


def test_c7_a_hint_is_a_lower_bound(library, backend, server):
    url = server.script("/", [Answer(429, {"Retry-After": "0"}), Answer(429, {"Retry-After": "1"}), 200])
    with fake_clock() as clock:
        fetch(library, backend, url)
    assert clock.waits == [2, 4]


def test_c7_a_date_is_read_by_the_servers_clock(library, backend, server):
    there = datetime.fromtimestamp(START, UTC) + timedelta(hours=5)
    date, later = (format_datetime(there + timedelta(seconds=each), usegmt=True) for each in (0, 45))
    url = server.script("/", [Answer(429, {"Retry-After": later, "Date": date}), 200])
    with fake_clock(START) as clock:
        fetch(library, backend, url)
    assert clock.waits == [45]


def test_c7_a_hint_beyond_an_hour_is_handed_back(library, backend, server):
    url = server.script("/", Answer(429, {"Retry-After": "86400"}))
    with fake_clock(START) as clock, pytest.raises(library.HTTPStatusError) as caught:
        fetch(library, backend, url)
    report = caught.value.__outlast__
    assert (clock.waits, report.reason, report.retry_at) == ([], "deferred", START + 3600)


def test_c8_a_rate_limit_without_a_hint_is_waited_out_from_a_minute_on(library, backend, server):
    with fake_clock() as clock, pytest.raises(library.HTTPStatusError):
        fetch(library, backend, server.script("/", 429))
    assert clock.waits == [60, 120]


def test_c4_a_403_with_the_evidence_of_a_rate_limit_is_one(library, backend, server):
    url = server.script("/", [Answer(403, {"Retry-After": "90"}), 200])
    with fake_clock() as clock:
        assert fetch(library, backend, url).status_code == 200
    assert clock.waits == [90]


def test_another_policy_decides(library, backend, server):
    policy = RetryPolicy(max_attempts=2, base_delay=7)
    with fake_clock() as clock, pytest.raises(library.HTTPStatusError):
        fetch(library, backend, server.script("/", 503), policy=policy)
    assert clock.waits == [7]
    assert fetch(library, backend, server.script("/gone", 404), policy=policy).status_code == 404


def test_every_attempt_asks_in_the_same_way(library, backend, server):
    with fake_clock():
        fetch(library, backend, server.script("/", [503, 200]), headers={"If-None-Match": "a"})
    first, second = server.requests
    assert first == second
    assert first.headers["if-none-match"] == "a"


def test_the_loop_is_not_blocked_by_a_wait(library, backend, server):
    url = server.script("/", [503, Answer(body="well")])
    turns = []

    async def main():
        async def turn():
            while True:
                turns.append(1)
                await anyio.sleep(0.001)

        async with library.AsyncClient() as client, anyio.create_task_group() as group:
            group.start_soon(turn)
            policy = RetryPolicy(max_attempts=2, base_delay=0.2)
            response = await fetch_with_retry(client, url, policy=policy)
            group.cancel_scope.cancel()
            return response.text

    assert anyio.run(main, backend=backend) == "well"
    assert len(turns) > 20


@pytest.mark.parametrize("attempts", [3, 1])
def test_pitfall_11_a_transport_that_retries_is_not_asked_three_times_as_often(library, backend, server, attempts):
    inner = RetryPolicy(max_attempts=attempts, retry_on=RETRYABLE, base_delay=0)
    with fake_clock(), pytest.raises(library.HTTPStatusError):
        fetch(library, backend, server.script("/", 503), client={"transport": AsyncRetryTransport(policy=inner)})
    assert server.count() == 3


def test_secrets_in_the_address_are_not_logged(library, backend, server, caplog):
    url = server.script("/", 503).replace("://", "://me:secret@") + "?token=secret"
    with fake_clock(), pytest.raises(library.HTTPStatusError) as caught:
        fetch(library, backend, url)
    assert "secret" not in caplog.text + str(caught.value) + str(caught.value.__notes__)


def test_thrown_away_answers_leave_their_connection(library, backend, server):
    url = server.script("/", [503, 503, Answer(body="well")])
    with fake_clock():
        fetch(library, backend, url)
    assert server.connections == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0"}, 0),
        ({"Retry-After": "120.5"}, 121),
        ({"Retry-After": "999999"}, 3600),
        ({"Retry-After": "-5"}, 60),
        ({"Retry-After": "1_000"}, 60),
        ({"Retry-After": format_datetime(datetime.fromtimestamp(START + 30, UTC), usegmt=True)}, 30),
        ({"Retry-After": datetime.fromtimestamp(START + 30, UTC).strftime("%a %b %e %H:%M:%S %Y")}, 30),
        ({"Retry-After": datetime.fromtimestamp(START + 30, UTC).strftime("%a, %d %b %Y %H:%M:%S")}, 30),
        ({}, 60),
    ],
    ids=str,
)
def test_b3_a_rate_limit_is_waited_for_as_asked(library, backend, server, headers, seconds, caplog):
    url = server.script("/", Answer(429, headers)).replace("://", "://me:secret@") + "?token=secret"

    async def main():
        async with library.AsyncClient() as client:
            return await handle_rate_limit(await client.get(url))

    with fake_clock(START) as clock, caplog.at_level("WARNING"):
        waited = anyio.run(main, backend=backend)
    (record,) = [each for each in caplog.records if each.name == "outlast.http"]
    assert (waited, clock.waits) == (seconds, [seconds])
    assert (record.url, record.retry_after_seconds) == (server.url("/"), seconds)
    assert record.levelno == logging.WARNING
    assert "secret" not in caplog.text.replace("HTTP Request: GET http://me:secret@", "")


def test_b3_the_default_is_the_callers(library, backend, server):
    with fake_clock() as clock:
        anyio.run(lambda: handle_rate_limit(library.Response(429), default=5), backend=backend)
    assert clock.waits == [5]
