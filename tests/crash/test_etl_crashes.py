"""An ETL that is killed at every point of its order: the next run ends as an undisturbed one, and nothing points nowhere.

E6, E7, E8, E12.
"""

import os
import signal
from itertools import count
from pathlib import Path

import pytest

import forked
from crash.etl_program import ITEMS, load_all, open_raw
from integration.etl_world import document, new_shop, normalize
from outlast.jobs.etl import content_hash

TESTS = Path(__file__).parents[1]
POINTS = ("fetched", "renaming", "put", "staged", "deleted", "applied", "marked", "committed")
CASES = [(point, keeper) for point in POINTS for keeper in ("files", "s3") if (point, keeper) != ("renaming", "s3")]
DONE_BEFORE = {point: 2 if point == "committed" else 1 for point in POINTS}
"""How many items are as the new run wants them when it dies at the second one."""
_numbers = count(1)
pytestmark = pytest.mark.xdist_group("etl_crashes")  # one S3 for all of them


@pytest.fixture(scope="module")
def s3():
    from servers.s3 import S3Server

    server = S3Server()
    server.start()
    yield server
    server.stop()


class World:
    """A database and a raw store."""

    def __init__(self, request, folder, kind, keeper):
        server = request.getfixturevalue("postgres_server") if kind == "postgres" else None
        self.folder = folder
        self.shop = new_shop(kind, folder, server)
        if keeper == "files":
            self.where = str(folder / f"raw{next(_numbers)}")
        else:
            s3, bucket = request.getfixturevalue("s3"), f"raw{next(_numbers)}"
            s3.client().create_bucket(Bucket=bucket)
            self.where = f"{s3.endpoint}/{bucket}"
        self.raw = open_raw(self.where)

    def load(self, version):
        return load_all(self.shop.kind, self.shop.address, self.where, version)

    def dies(self, version, at):
        """Run the program until it kills itself."""
        arguments = [self.shop.kind, self.shop.address, self.where, str(version)]
        paths = [*filter(None, [os.environ.get("PYTHONPATH")]), str(TESTS)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "ETL_AT": at}
        command = [str(TESTS / "crash" / "etl_program.py"), *arguments]
        with (self.folder / "said").open("w+b") as said:
            process = forked.start(command, environment, said, "boto3")
            code = process.wait(60)
            assert code == -signal.SIGKILL, (said.seek(0), said.read().decode()[-4000:])

    def objects(self):
        keys = list(self.raw.keys())
        return {key: self.raw.get(key) for key in keys}

    def check_nothing_points_nowhere(self):
        """Every row leads to its raw object, and what it says was applied is what the user's tables hold."""
        contents, objects = self.shop.contents(), self.objects()
        items = {each[0]: each for each in contents["items"]}
        assert {row[0] for row in contents["staging"]} == set(items)
        for source_id, found, raw_key, applied_hash, _ in contents["staging"]:
            assert raw_key in objects
            assert applied_hash == found
            _, name, price = items[source_id]
            tags = [tag for item, tag in contents["tags"] if item == source_id]
            assert content_hash({"id": source_id, "name": name, "price": price, "tags": tags}) == found
        return contents


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize(("point", "keeper"), CASES)
def test_a_run_that_is_killed_is_finished_by_the_next(request, tmp_path, point, kind, keeper):
    world, undisturbed = (World(request, tmp_path, kind, keeper) for _ in range(2))
    for each in (world, undisturbed):
        assert each.load(version=2) == ["new"] * len(ITEMS)
    undisturbed.load(version=3)
    world.dies(3, f"{point}:2")
    after = world.check_nothing_points_nowhere()
    as_wanted = [
        normalize(document(number, 3))["price"] == price
        for number, (_, _, price) in zip(ITEMS, after["items"], strict=True)
    ]
    assert sum(as_wanted) == DONE_BEFORE[point]
    outcomes = world.load(version=3)
    assert outcomes == ["unchanged"] * DONE_BEFORE[point] + ["new"] * (len(ITEMS) - DONE_BEFORE[point])
    world.check_nothing_points_nowhere()
    assert world.shop.contents() == undisturbed.shop.contents()
    assert world.objects() == undisturbed.objects()
    assert world.load(version=3) == ["unchanged"] * len(ITEMS)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_first_run_that_is_killed_again_and_again_ends_as_an_undisturbed_one(request, tmp_path, kind):
    world, undisturbed = (World(request, tmp_path, kind, "files") for _ in range(2))
    undisturbed.load(version=1)
    for point in POINTS:
        if point != "committed":  # which would get on
            world.dies(1, point)
            assert world.check_nothing_points_nowhere()["staging"] == []
    assert world.load(version=1) == ["new"] * len(ITEMS)
    assert world.shop.contents() == undisturbed.shop.contents()
    assert world.objects() == undisturbed.objects()
