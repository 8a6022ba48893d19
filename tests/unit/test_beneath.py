"""A client whose own retries run beneath ours is noticed where it can be, and told of once."""

import httpx
import openai
import pytest
import requests
from botocore.exceptions import ClientError
from requests.adapters import HTTPAdapter
from tests.servers.faults import FaultServer
from urllib3 import Retry

import outlast
from outlast import RetryPolicy
from outlast.run import nested_clients
from outlast.testing import fake_clock


@pytest.fixture(autouse=True)
def _untold(monkeypatch):
    monkeypatch.setattr(nested_clients, "_warned", set())
    with fake_clock():
        yield


@pytest.fixture(scope="module")
def server():
    server = FaultServer()
    server.start()
    yield server
    server.stop()


def from_boto3(retries):
    return ClientError(
        {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503, "RetryAttempts": retries}}, "Get"
    )


def from_openai(server, retries):
    client = openai.OpenAI(
        api_key="x", base_url=server.base(503), max_retries=retries, http_client=httpx.Client(trust_env=False)
    )
    with pytest.MonkeyPatch.context() as patch, client, pytest.raises(openai.InternalServerError) as caught:
        patch.setattr("openai._base_client.time.sleep", lambda seconds: None)
        client.models.list()
    return caught.value


def from_requests(server, retries):
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=Retry(retries, status_forcelist=[503], raise_on_status=False)))
        with pytest.raises(requests.HTTPError) as caught:
            session.get(server.answer(503), timeout=2).raise_for_status()
    return caught.value


@pytest.mark.parametrize("retries", [0, 2])
def test_what_the_errors_of_real_clients_show(server, retries):
    assert nested_clients.client_retries(from_boto3(retries)) == retries
    assert nested_clients.client_retries(from_openai(server, retries)) == retries
    assert nested_clients.client_retries(from_requests(server, retries)) == retries


def test_it_is_told_once(caplog):
    def fetch():
        raise from_boto3(4)

    for _ in range(2):
        with pytest.raises(ClientError):
            outlast.call(fetch, policy=RetryPolicy())
    told = [record.getMessage() for record in caplog.records if "by itself" in record.getMessage()]
    assert len(told) == 1
    assert "botocore retried 4 times by itself" in told[0]
    assert "total_max_attempts" in told[0]


def test_a_client_that_does_not_retry_is_not_told_of(caplog):
    with pytest.raises(ClientError):
        outlast.call(_raising(from_boto3(0)), policy=RetryPolicy())
    assert "by itself" not in caplog.text


@pytest.mark.parametrize("odd", [None, {}, {"ResponseMetadata": None}, {"ResponseMetadata": {"RetryAttempts": "4"}}])
def test_odd_errors_show_nothing(odd):
    error = from_boto3(0)
    error.response = odd
    assert nested_clients.client_retries(error) == 0
    assert nested_clients.client_retries(ValueError("x")) == 0


def _raising(error):
    def fetch():
        raise error

    return fetch
