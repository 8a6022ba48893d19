"""The tables of docs/recipes: every row is made into the real error of the real library, and Outlast is asked about it."""

import inspect
import json
import re
import time
from contextlib import closing
from datetime import UTC, datetime

import boto3
import confluent_kafka
import google.api_core.exceptions
import httplib2
import httpx
import kafka.errors
import psycopg
import pytest
import requests
from googleapiclient.discovery import build
from googleapiclient.http import HttpRequest
from slack_sdk import WebClient

import outlast
from corpus.case import caught
from corpus.cases_language_models import _anthropic_body, _ask_anthropic, _ask_openai, _openai_body
from doc_pages import DOCS, FENCE
from outlast.classify.libraries.kafka import BROKER_ERRORS
from servers.faults import FaultServer
from servers.s3 import s3_client
from servers.s3_stub import error_document

JSON = {"Content-Type": "application/json"}
WORDS_OF_A_PAGE, WORDS_OF_ALL = 250, 2000
PAGES = sorted(DOCS.glob("recipes/*.md"))


class Row:
    """A row of a table: what the other side answers, in spans of code, and the verdict that the page promises."""

    def __init__(self, page, heading, cells):
        self.id = f"{page.stem}: {cells[0]}"
        self.heading, (self.answer, self.category, self.retried, self.wait) = heading, cells
        self.spans = re.findall(r"`([^`]+)`", self.answer)
        self.text = re.sub(r"`[^`]+`", "", self.answer).strip(" ,")
        self.status = next((int(each) for each in self.spans if re.fullmatch(r"\d{3}", each)), 200)
        self.body = next((each for each in self.spans if each[0] == "{"), "{}")
        self.code = next((each for each in self.spans if re.fullmatch(r"_?[A-Za-z]\w+", each)), "")

    @property
    def headers(self):
        """Times in them are as far ahead as the row says."""
        pairs = [re.fullmatch(r"([\w-]+): (.+)", each) for each in self.spans]
        return {each[1]: _moment(each[1], each[2]) for each in pairs if each}


def _moment(header, value):
    """Return the value of a header; `now + 90` is a time, as that service writes times."""
    if not value.startswith("now + "):
        return value
    at = int(time.time()) + int(value.removeprefix("now + ")) + 1  # it is written in whole seconds
    return str(at) if header.startswith("x-") else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _rows(page):
    heading = ""
    for line in FENCE.sub("", page.read_text("utf-8")).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if cells[1:2] == ["category"]:
            heading = cells[0]
        elif cells and heading and not line.startswith("|--"):
            yield Row(page, heading, cells)
        elif not cells:
            heading = ""


ROWS = [row for page in PAGES for row in _rows(page)]


@pytest.fixture(scope="module")
def server():
    server = FaultServer()
    server.start()
    yield server
    server.stop()


def github(row, server):
    with httpx.Client(headers={"Authorization": "Bearer s3cret"}) as client:
        answer = client.get(server.answer(row.status, JSON | row.headers, row.body))
        yield caught(answer.raise_for_status)


def slack(row, server):
    body = json.dumps({"ok": False, "error": row.code})
    base = server.base(row.status, JSON | row.headers, body) + "/"
    yield caught(WebClient("xoxb-s3cret", base_url=base, retry_handlers=[]).chat_postMessage, channel="C1", text="hi")


def openai(row, server):
    """An error of the type that the page does not name: the code alone decides."""
    body = _openai_body(row.code, "some_type")
    yield caught(_ask_openai, server.base(row.status, JSON | row.headers, body))


def anthropic(row, server):
    """A code of a spent limit comes beside the type of a rate limit."""
    details = row.code == "enforced_spend_limit_reached"
    body = _anthropic_body("rate_limit_error", error_code=row.code) if details else _anthropic_body(row.code)
    yield caught(_ask_anthropic, server.base(row.status, JSON | row.headers, body))


class GraphQLError(Exception):
    """What a program raises for an answer with errors, as on the page."""

    def __init__(self, errors):
        super().__init__(errors[0]["message"])
        self.errors = errors


def shopify(row, server):
    if row.code:
        yield GraphQLError([{"message": "some words", "extensions": {"code": row.code}}])
    else:
        with httpx.Client(headers={"X-Shopify-Access-Token": "s3cret"}) as client:
            yield caught(client.get(server.answer(row.status, JSON | row.headers, "{}")).raise_for_status)


def s3(row, server):
    base = server.base(row.status, {"Content-Type": "application/xml"}, error_document(row.code).decode())
    with closing(s3_client(base)) as client:
        yield caught(client.get_object, Bucket="bucket", Key="k")
        yield caught(client.put_object, Bucket="bucket", Key="k", Body=b"x")


def google_api(row, server):
    """Reasons are in camel case and in a list; the names of statuses are in capitals."""
    error = {"code": row.status, "message": "some words"}
    if row.code.isupper():
        error["status"] = row.code
    else:
        error["errors"] = [{"message": "some words", "domain": "global", "reason": row.code}]
    if wait := row.headers.get("retryDelay"):
        error["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": wait}]
    base = server.base(row.status, JSON, json.dumps({"error": error}))
    endpoint = {"api_endpoint": f"{base}/"}
    with closing(
        build("drive", "v3", http=httplib2.Http(timeout=5), developerKey="k", client_options=endpoint)
    ) as drive:
        yield caught(drive.files().list().execute)
    yield google.api_core.exceptions.from_http_response(requests.get(base, headers={"Authorization": "x"}, timeout=5))


def sqlstate(row, _server):
    yield psycopg.errors.lookup(row.spans[0])(row.text)


def kafka_error(row, _server):
    name = row.spans[0]
    if name.isdecimal():
        assert BROKER_ERRORS[int(name)][0] == row.text
        yield kafka.errors.for_code(int(name))("what the broker said")
        yield confluent_kafka.KafkaException(confluent_kafka.KafkaError(int(name)))
    elif name.startswith("_"):
        number = getattr(confluent_kafka.KafkaError, name)
        yield confluent_kafka.KafkaException(confluent_kafka.KafkaError(number))
    else:
        yield getattr(kafka.errors, name)()
    if "BufferError" in row.spans:
        yield BufferError("Local: Queue full")


ERRORS = {
    "GitHub answers": github,
    "Slack answers": slack,
    "OpenAI answers": openai,
    "Anthropic answers": anthropic,
    "Shopify answers": shopify,
    "S3 answers": s3,
    "A Google API answers": google_api,
    "SQLSTATE": sqlstate,
    "Kafka error": kafka_error,
}


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_the_verdict_is_what_the_page_says(row, server):
    retried, wait = {"yes": True, "no": False}[row.retried], {"policy": None, "–": None}.get(row.wait, row.wait)
    for error in ERRORS[row.heading](row, server):
        failure = outlast.classify(error)

        assert (f"`{failure.category}`", failure.retryable) == (row.category, retried), outlast.explain(error)
        if wait is None:
            assert failure.retry_after is None
        else:
            assert failure.retry_after == pytest.approx(float(wait.removesuffix(" s")), abs=2)


def test_a_row_that_is_not_retried_names_no_wait():
    assert [row.id for row in ROWS if (row.retried == "no") != (row.wait == "–")] == []


def test_every_page_has_a_table_and_every_table_is_read():
    assert {row.heading for row in ROWS} == ERRORS.keys()
    assert {row.id.partition(":")[0] for row in ROWS} == {page.stem for page in PAGES}


def test_the_clients_retry_by_themselves_as_the_pages_say():
    """Five attempts become fifteen requests where a client makes three."""
    from anthropic import DEFAULT_MAX_RETRIES as ANTHROPIC_RETRIES
    from anthropic import DEFAULT_TIMEOUT as ANTHROPIC_TIMEOUT
    from botocore.retries.standard import DEFAULT_MAX_ATTEMPTS
    from openai import DEFAULT_MAX_RETRIES, DEFAULT_TIMEOUT

    assert DEFAULT_MAX_RETRIES == ANTHROPIC_RETRIES == 2
    assert DEFAULT_TIMEOUT.read == ANTHROPIC_TIMEOUT.read == 600
    assert DEFAULT_MAX_ATTEMPTS == 3
    assert boto3.client("s3", region_name="us-east-1").meta.config.retries["mode"] == "standard"
    assert [each.max_retry_count for each in WebClient("xoxb-s3cret").retry_handlers] == [1]
    assert inspect.signature(HttpRequest.execute).parameters["num_retries"].default == 0


def test_topic_that_does_not_exist():
    """The exception that the page about Kafka names."""
    theirs = confluent_kafka.KafkaException(confluent_kafka.KafkaError(3))

    assert not outlast.classify(theirs).retryable
    assert outlast.classify(kafka.errors.for_code(3)()).retryable


def _prose(page):
    """The words of a page without its code and tables."""
    lines = FENCE.sub("", page.read_text("utf-8")).splitlines()
    return " ".join(line for line in lines if not line.startswith(("|", "#"))).split()


def test_the_pages_are_short():
    words = {page.stem: len(_prose(page)) for page in PAGES}

    assert {name: count for name, count in words.items() if count > WORDS_OF_A_PAGE} == {}
    assert sum(words.values()) <= WORDS_OF_ALL
