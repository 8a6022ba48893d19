"""A thousand items of which each has a fate: what its API, its raw store and its database do, and what that must cost."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections import Counter
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import outlast
from integration.etl_world import ENTITY, SOURCE, Shop, document, make_etl, normalize
from outlast.jobs.etl import content_hash, raw_key
from servers.rakuten import RESET, Fault, RakutenServer, S3Front, fetching

POLICY = outlast.preset("etl").replace(base_delay=0.001)


class Fate(NamedTuple):
    """What happens to an item in the first run, and what that costs.

    Attributes:
        items: How many have it.
        requests: Of the API, for one item.
        puts: To S3, refused ones included.
        tries: Of its transaction.
        warnings: Attempts of which the log says that another follows.
        success: Whether it ends well.
        known: Whether an older version is there before; None for every second.
    """

    items: int
    requests: int = 1
    puts: int = 1
    tries: int = 1
    warnings: int = 0
    success: bool = True
    known: bool | None = None


FATES = {
    "unchanged": Fate(450, puts=0, tries=0, known=True),
    "changed": Fate(200, known=True),
    "new": Fate(150, known=False),
    "503 twice": Fate(60, requests=3, warnings=2),
    "reset once": Fate(10, requests=2, warnings=1),
    "429 once": Fate(10, requests=2, warnings=1),
    "S3 503 twice": Fate(20, puts=3, warnings=2),
    "deadlock twice": Fate(50, tries=3, warnings=2),
    "S3 503 for ever": Fate(20, puts=5, tries=0, warnings=4, success=False),
    "404": Fate(15, puts=0, tries=0, success=False),
    "429 for ever": Fate(15, requests=5, puts=0, tries=0, warnings=4, success=False),
}


class Items:
    """The items, mixed, each with its fate."""

    def __init__(self) -> None:
        fates = [name for name, fate in FATES.items() for _ in range(fate.items)]
        random.Random(7).shuffle(fates)
        self.fates = {f"shop:{number}": fate for number, fate in enumerate(fates, 1)}
        seen: Counter[str] = Counter()
        self.known: set[str] = set()
        for name, fate in self.fates.items():
            seen[fate] += 1
            known = FATES[fate].known
            if seen[fate] % 2 if known is None else known:
                self.known.add(name)

    def __iter__(self) -> Any:
        return iter(self.fates)

    def of(self, *fates: str) -> list[str]:
        return [name for name, fate in self.fates.items() if fate in fates]

    def cost(self, what: str) -> Counter[str]:
        """Return what the first run must cost, by item; those that cost nothing are left out."""
        return +Counter({name: getattr(FATES[fate], what) for name, fate in self.fates.items()})

    def version(self, name: str, *, loaded: bool) -> dict[str, Any] | None:
        """Return the answer of the API that is applied: the last one, the one before, or none."""
        number = int(name.partition(":")[2])
        if loaded or self.fates[name] == "unchanged":
            return document(number, 2)
        return document(number, 1) if name in self.known else None


class World:
    """API, S3 and database of a thousand items."""

    def __init__(self, api: RakutenServer, front: S3Front, shop: Shop, raw: Any, app: outlast.App) -> None:
        self.items, self.api, self.front, self.shop, self.raw, self.app = Items(), api, front, shop, raw, app
        self.database = PostgresTrouble(shop) if shop.kind == "postgres" else SqliteTrouble(shop)
        self.etl = make_etl(shop, raw, fetching(api.url), staging=self.database, policy=POLICY)
        self.job = app.job("items", entity=ENTITY, policy=POLICY, env="test")(self._load)

    def _load(self, context: outlast.JobContext, target: str) -> None:
        self.database.target.name = target
        context.count(self.etl.load(target, context).outcome)

    def prepare(self) -> None:
        """Load what was known before, then let the faults loose."""
        items = self.items
        for name in items.known:
            self.api.documents[name] = items.version(name, loaded=False)
            self.etl.load(name)
        for name in items:
            self.api.documents[name] = items.version(name, loaded=True)
        for name, fate in items.fates.items():
            self._break(name, fate)
        self.database.curse(dict.fromkeys(items.of("deadlock twice"), 2))
        self.forget()

    def _break(self, name: str, fate: str) -> None:
        match fate:
            case "503 twice":
                self.api.fail(name, 503, 503)
            case "reset once":
                self.api.fail(name, RESET)
            case "429 once":
                self.api.fail(name, Fault(429, {"Retry-After": "0"}))
            case "429 for ever":
                self.api.fail(name, 429, forever=True)
            case "404":
                del self.api.documents[name]
            case "S3 503 twice":
                self.front.refuse(name, 503, 2)
            case "S3 503 for ever":
                self.front.refuse(name, 503)

    def forget(self) -> None:
        """Begin to count anew."""
        for counter in (self.api.requests, self.front.puts, self.front.stored, self.database.tries):
            counter.clear()

    def contents(self, loaded: set[str]) -> dict[str, list[tuple[Any, ...]]]:
        """Return what the database must hold once these items have their last version."""
        found: dict[str, list[tuple[Any, ...]]] = {"staging": [], "items": [], "tags": []}
        for name in sorted(self.items):
            answer = self.items.version(name, loaded=name in loaded)
            if answer is not None:
                record = normalize(answer)
                mark = content_hash(record)
                found["staging"].append((name, mark, raw_key(SOURCE, ENTITY, name, mark), mark, 1))
                found["items"].append((name, record["name"], record["price"]))
                found["tags"] += [(name, tag) for tag in record["tags"]]
        return found

    def held(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return what the database holds; databases sort names in their own ways."""
        return {name: sorted(rows) for name, rows in self.shop.contents().items()}

    def raw_keys(self, loaded: set[str]) -> set[str]:
        """Return what the raw store must hold: every version that was ever stored."""
        versions = [self.items.version(name, loaded=False) for name in self.items]
        versions += [self.items.version(name, loaded=True) for name in loaded]
        return {raw_key(SOURCE, ENTITY, each["itemCode"], content_hash(normalize(each))) for each in versions if each}


class Trouble:
    """A ledger whose transactions fail for chosen items, so many times each.

    Attributes:
        tries: Transactions by item.
        target: Its item, set by the thread that handles it.
    """

    def __init__(self, shop: Shop) -> None:
        self.tries, self.target = Counter[str](), threading.local()
        self._shop, self._repo = shop, shop.staging()
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._repo, name)

    def curse(self, times: dict[str, int]) -> None:
        raise NotImplementedError

    @contextmanager
    def transaction(self) -> Any:
        name = getattr(self.target, "name", "")
        with self._lock:
            self.tries[name] += 1
        with self._begun(name) as transaction:
            yield transaction

    def _begun(self, name: str) -> Any:
        return self._repo.transaction()


class SqliteTrouble(Trouble):
    """SQLITE_BUSY: another connection holds the file while an item wants to begin."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop)
        shop.run("PRAGMA journal_mode = WAL")  # a thousand commits wait less for the disk
        self._hasty = shop.staging(timeout=0.0)
        self._left: dict[str, int] = {}

    def curse(self, times: dict[str, int]) -> None:
        self._left = dict(times)

    @contextmanager
    def _begun(self, name: str) -> Any:
        left = self._left.get(name, 0)  # of one item, which one thread has at a time
        if left == 0:
            with self._repo.transaction() as transaction:
                yield transaction
            return
        self._left[name] = left - 1
        with closing(sqlite3.connect(self._shop.address, timeout=30, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with self._hasty.transaction() as transaction:
                yield transaction


class PostgresTrouble(Trouble):
    """SQLSTATE 40P01, raised by the server in the middle of a transaction; a sequence counts, as none is rolled back."""

    def curse(self, times: dict[str, int]) -> None:
        with closing(self._shop.connect()) as connection:
            connection.execute(
                "CREATE TABLE curses (id TEXT PRIMARY KEY, times INT NOT NULL, number INT GENERATED ALWAYS AS IDENTITY)"
            )
            for number, (name, most) in enumerate(times.items(), 1):
                connection.execute("INSERT INTO curses (id, times) VALUES (%s, %s)", (name, most))
                connection.execute(f"CREATE SEQUENCE curse_{number}")
            connection.execute(_CURSED)
            connection.execute("CREATE TRIGGER cursed BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION cursed()")
            connection.commit()


_CURSED = """
CREATE FUNCTION cursed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    curse curses;
BEGIN
    SELECT * INTO curse FROM curses WHERE id = NEW.id;
    IF FOUND AND nextval('curse_' || curse.number) <= curse.times THEN
        RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01';
    END IF;
    RETURN NEW;
END $$
"""
