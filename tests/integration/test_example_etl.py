"""The example of an ETL, and the batch job of the tour: each is run as its reader would, and what it prints adds up."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from servers.s3 import S3Server

ROOT = Path(__file__).parents[2]
ABSENT = ("httpx", "httpx2", "boto3", "botocore", "psycopg", "rich", "typer", "requests")
CORE_ALONE = f"import sys; sys.modules.update(dict.fromkeys({ABSENT!r}))"
ENTITIES = ("ranking", "genre", "tag", "item")

pytestmark = pytest.mark.xdist_group("example_etl")  # so that each is run once


def ran(*arguments, **environment):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@cache
def example():
    """Run it with nothing but the standard library and Outlast itself."""
    program = f"{CORE_ALONE}\nfrom examples.rakuten_etl.__main__ import main\nsys.argv = ['x']\nsys.exit(main())"
    code, text = ran("-c", program)
    assert code == 0, text
    return text


@cache
def tour_scene():
    program = (
        f"{CORE_ALONE}\nfrom examples.tour.batch import batched\nfrom examples.tour.flaky import flaky_server\n"
        "with flaky_server() as server: batched(server)"
    )
    code, text = ran("-c", program)
    assert code == 0, text
    return text


def summaries(text):
    """Return the figures of every summary by its job, in the order in which they were printed."""
    pattern = (
        r"^ +(\w+) \S+: (?:passed|failed), exit code (\d)\n"
        r" +(\d+) targets = (\d+) success \+ (\d+) failed \+ (\d+) deferred \+ (\d+) skipped \+ (\d+) not attempted"
    )
    return [
        (match[1], int(match[2]), [int(each) for each in match.groups()[2:]])
        for match in re.finditer(pattern, text, re.MULTILINE)
    ]


def loads(text):
    """Return what every summary says of its records: new, unchanged, raw objects put, applied."""
    pattern = r"(\d+) new \+ (\d+) unchanged; (\d+) raw objects put, (\d+) records applied"
    return [tuple(map(int, each)) for each in re.findall(pattern, text)]


def test_every_summary_of_the_example_adds_up():
    """Pitfall 63."""
    found = summaries(example())
    assert [name for name, _, _ in found] == [*ENTITIES, *ENTITIES]
    for _, _, (total, *parts) in found:
        assert total == sum(parts)
    for (_, _, (_, success, *_)), (new, unchanged, put, applied) in zip(found, loads(example()), strict=True):
        assert success == new + unchanged
        assert new == put == applied


def test_the_first_run_fails_for_the_items_alone():
    """E5: 1 of 100 tags is 1 %, which may fail; 18 of 300 items are 6 %."""
    assert [(code, figures[0], figures[2]) for _, code, figures in summaries(example())[:4]] == [
        (0, 4, 0),
        (0, 30, 0),
        (0, 100, 1),
        (1, 300, 18),
    ]
    assert "18 of 300 targets failed (at most 5 % allowed)" in example()
    assert "18 x rate_limit: HTTPError: HTTP Error 429: Too Many Requests" in example()
    assert [each[:2] for each in loads(example())[:4]] == [(4, 0), (30, 0), (99, 0), (282, 0)]


def test_the_second_run_finds_what_is_done_unchanged_and_does_the_rest():
    """E12: 18 items are recovered, 5 have another price."""
    assert [(code, figures[2]) for _, code, figures in summaries(example())[4:]] == [(0, 0), (0, 0), (0, 1), (0, 0)]
    assert [each[:2] for each in loads(example())[4:]] == [(0, 4), (0, 30), (0, 99), (23, 277)]
    assert re.findall(r"(\d+) fixed, (\d+) broken", example()) == [("0", "0")] * 3 + [("18", "0")]


def test_in_the_end_every_row_is_applied_and_has_its_raw_object():
    assert "433 staging rows, 433 applied; 433 raw objects behind them" in example()
    assert "In the application: 40 rankings, 30 genres, 99 tags, 300 items" in example()


def test_the_exit_code_of_a_bad_day_is_1():
    code, text = ran("-m", "examples.rakuten_etl", "--runs", "1")
    assert code == 1
    assert len(summaries(text)) == 4


def test_what_is_fetched_may_go_to_s3():
    server = S3Server()
    server.start()
    try:
        client = server.client()
        client.create_bucket(Bucket="examples")
        settings = {
            "AWS_ENDPOINT_URL_S3": server.endpoint,
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        code, text = ran("-m", "examples.rakuten_etl", "--s3", "examples", **settings)
        assert code == 0, text
        assert loads(text) == loads(example())
        assert client.list_objects_v2(Bucket="examples")["KeyCount"] == 438  # 5 items have two versions
    finally:
        server.stop()


def test_the_tours_job_fails_by_its_rate_and_later_does_what_failed():
    assert summaries(tour_scene()) == [
        ("pages", 1, [200, 197, 3, 0, 0, 0]),
        ("pages", 1, [3, 1, 2, 0, 0, 0]),
    ]
    assert "3 of 200 targets failed (at most 1 % allowed)" in tour_scene()
    assert "since then: 1 fixed, 2 still failing" in tour_scene()
