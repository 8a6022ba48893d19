"""A policy as urllib3's Retry, against a real server, with the real urllib3 and requests."""

import time

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter
from tests.servers.faults import FaultServer

from outlast import RetryPolicy
from outlast.http.urllib3 import as_urllib3_retry

POLICY = RetryPolicy(max_attempts=3, base_delay=0)


class CountingServer(FaultServer):
    """Counts the requests it reads, and answers them all alike."""

    def __init__(self):
        super().__init__()
        self.asked = 0

    def _serve(self, connection):
        self.asked += 1
        super()._serve(connection)


@pytest.fixture
def server():
    server = CountingServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def waits(monkeypatch):
    noted = []
    monkeypatch.setattr("urllib3.util.retry.time.sleep", noted.append)
    return noted


def pool(policy, **settings):
    return urllib3.PoolManager(retries=as_urllib3_retry(policy, **settings), timeout=2)


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
def test_statuses_that_the_classifier_calls_retryable(server, waits, status):
    response = pool(POLICY).request("GET", server.answer(status))
    assert (response.status, server.asked) == (status, 3)


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 501])
def test_others_are_asked_for_once(server, waits, status):
    assert pool(POLICY).request("GET", server.answer(status)).status == status
    assert server.asked == 1


def test_connections_that_break_are_made_again(server, waits):
    with pytest.raises(urllib3.exceptions.MaxRetryError):
        pool(POLICY).request("GET", server.fault("close"))
    assert server.asked == 3


def test_pitfall_28_a_post_is_not_repeated(server, waits):
    assert pool(POLICY).request("POST", server.answer(503), body=b"x").status == 503
    with pytest.raises(urllib3.exceptions.HTTPError):
        pool(POLICY).request("POST", server.fault("close"), body=b"x")
    assert server.asked == 2


def test_it_waits_as_the_policy_says(server, waits):
    policy = RetryPolicy(max_attempts=4, backoff="exponential", base_delay=0.5, max_delay=1.5)
    pool(policy).request("GET", server.answer(503))
    assert waits == [0.5, 1, 1.5]


def test_it_really_waits(server):
    began = time.monotonic()
    pool(RetryPolicy(max_attempts=2, base_delay=0.1)).request("GET", server.answer(503))
    assert time.monotonic() - began >= 0.1


def test_redirects_do_not_lengthen_the_waits(server, waits):
    policy = RetryPolicy(max_attempts=9, backoff="exponential", base_delay=1)
    target = server.answer(503)
    pool(policy, status=1).request("GET", server.answer(302, {"Location": target}))
    assert waits[0] == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_spends_no_attempt(server, waits, status):
    target = server.answer(503)
    response = pool(POLICY).request("GET", server.answer(status, {"Location": target}))
    assert (response.status, server.asked) == (503, 1 + 3)


def test_several_redirects_spend_none_and_one_attempt_follows_them(server, waits):
    url = server.answer(200, body="there")
    for _ in range(6):
        url = server.answer(302, {"Location": url})
    response = pool(RetryPolicy(max_attempts=1)).request("GET", url)
    assert (response.status, response.data, server.asked) == (200, b"there", 7)


def test_a_pool_of_one_host_follows_them_alike(server, waits):
    url = urllib3.util.parse_url(server.answer(302, {"Location": server.answer(503)}))
    with urllib3.HTTPConnectionPool(url.host, url.port, retries=as_urllib3_retry(POLICY), timeout=2) as one:
        assert one.request("GET", url.request_uri).status == 503
    assert server.asked == 1 + 3


def test_a_redirect_in_a_circle_ends(server, waits):
    with pytest.raises(urllib3.exceptions.MaxRetryError, match="too many redirects"):
        pool(POLICY).request("GET", server.fault("redirect-loop"))
    assert server.asked == 21
    with pytest.raises(urllib3.exceptions.MaxRetryError, match="too many redirects"):
        pool(POLICY, redirect=4).request("GET", server.fault("redirect-loop"))
    assert server.asked == 21 + 5


def test_pitfall_19_redirects_as_urllib3_counts_them_where_it_is_told_so(server, waits):
    with pytest.raises(urllib3.exceptions.MaxRetryError, match="too many redirects"):
        pool(POLICY, redirect=None).request("GET", server.fault("redirect-loop"))  # falls back on total there
    assert server.asked == 3
    assert pool(POLICY, redirect=False).request("GET", server.fault("redirect-loop")).status == 302
    assert server.asked == 4


def test_requests_follows_redirects_by_itself(server, waits):
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=as_urllib3_retry(POLICY)))
        assert session.get(server.answer(302, {"Location": server.answer(503)}), timeout=2).status_code == 503
    assert server.asked == 1 + 3


def test_c7_retry_after_comes_first(server, waits):
    pool(RetryPolicy(max_attempts=2, base_delay=1)).request("GET", server.answer(429, {"Retry-After": "7"}))
    assert waits == [7]


@pytest.mark.parametrize(("asked", "deadline"), [("99999", None), ("90", 60)])
def test_pitfall_24_a_wait_beyond_cap_or_deadline_is_handed_back(server, waits, asked, deadline):
    policy = RetryPolicy(max_attempts=5, deadline=deadline)
    response = pool(policy).request("GET", server.answer(429, {"Retry-After": asked}))
    assert (response.status, server.asked, waits) == (429, 1, [])


def test_requests(server, waits):
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=as_urllib3_retry(POLICY)))
        assert session.get(server.answer(503), timeout=2).status_code == 503
        assert server.asked == 3
        assert session.get(server.answer(429, {"Retry-After": "99999"}), timeout=2).status_code == 429
        assert server.asked == 4
        with pytest.raises(requests.ConnectionError):
            session.get(server.refused_url, timeout=2)


def test_one_policy_serves_many_requests(server, waits):
    """Pitfall 10: no request leaves a count behind for the next."""
    retry = as_urllib3_retry(POLICY)
    manager = urllib3.PoolManager(retries=retry)
    for total in (3, 6):
        manager.request("GET", server.answer(503))
        assert server.asked == total
    assert retry.history == ()


def test_pitfall_19_settings_of_urllib3_win(server, waits):
    assert pool(POLICY, status_forcelist=()).request("GET", server.answer(500)).status == 500
    assert server.asked == 1
    with pytest.raises(urllib3.exceptions.MaxRetryError):
        pool(POLICY, raise_on_status=True).request("GET", server.answer(500))
