"""Loads items of the test shop, and kills itself at a point. The points stand in what a user would give to the Etl.

``fetched``    after the fetch
``renaming``   inside the put of a file: it is written aside, and not yet there under its name
``put``        after the put, before the transaction
``staged``     inside the transaction, after the row of staging, before anything is applied
``deleted``    inside it, when the sync has deleted and not yet inserted
``applied``    inside it, after all was applied, before it is marked and committed
``marked``     inside it, right before COMMIT
``committed``  after COMMIT

``name:2`` means at the second item.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import contextmanager

from integration.etl_world import Shop, document, make_etl
from outlast.jobs.etl import FileRawStore, S3RawStore

ITEMS = (1, 2, 3)
_left = {"point": "", "passes": 0}


def passed(point):
    """Die if this is the point, and the pass."""
    if point == _left["point"]:
        _left["passes"] -= 1
        if _left["passes"] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # the signal is on its way


def open_raw(where):
    """Return the raw store: a folder, or a bucket as ``http://host:port/bucket``."""
    if not where.startswith("http"):
        return FileRawStore(where)
    from servers.s3 import s3_client

    endpoint, _, bucket = where.rpartition("/")
    return S3RawStore(s3_client(endpoint), bucket)


class _Raw:
    def __init__(self, inner):
        self._inner = inner

    def put(self, key, data):
        self._inner.put(key, data)
        passed("put")

    def get(self, key):
        return self._inner.get(key)


class _Staging:
    """The ledger, with a point right before COMMIT."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    @contextmanager
    def transaction(self):
        with self._inner.transaction() as transaction:
            yield transaction
            passed("marked")


def load_all(kind, address, where, version):
    """Load every item; return the outcomes."""
    shop, raw = Shop(kind, address), open_raw(where)

    def fetch(source_id):
        answer = document(int(source_id.rpartition(":")[2]), version)
        passed("fetched")
        return answer

    replace = os.replace

    def renaming(old, new):
        passed("renaming")
        replace(old, new)

    os.replace = renaming
    try:
        etl = make_etl(
            shop,
            _Raw(raw),
            fetch,
            staging=_Staging(shop.staging()),
            apply=lambda connection, record: shop.apply(connection, record, passed),
        )
        outcomes = []
        for number in ITEMS:
            outcomes.append(etl.load(f"shop:{number}").outcome)
            passed("committed")
        return outcomes
    finally:
        os.replace = replace
        shop.close()


if __name__ == "__main__":
    point, _, number = os.environ["ETL_AT"].partition(":")
    _left.update(point=point, passes=int(number or 1))
    load_all(*sys.argv[1:4], int(sys.argv[4]))
