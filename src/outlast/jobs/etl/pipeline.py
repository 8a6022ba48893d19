"""The steps in which an ETL loads one record, in an order that survives crashes and errors.

fetch → normalize → hash → already applied? → put raw → BEGIN → staging → apply → COMMIT

The raw object exists before any row refers to it, and the applied record is committed together with the row that says
so. If a load ends in between, the next one does what is missing.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Literal, NamedTuple

from outlast.classify.safe_access import contained
from outlast.decide.backoff import check_count
from outlast.decide.policy import RetryPolicy
from outlast.decide.presets import preset
from outlast.errors import ConfigError, InvalidParametersError, PayloadError, ResourceNotFoundError
from outlast.jobs.etl.raw import RawStore, raw_key
from outlast.jobs.etl.staging import StagingRepo, StagingRow, utc_now
from outlast.jobs.target_feed import id_text
from outlast.run.logs import CONTEXT_LOG_KEYS
from outlast.run.retry import check_policy, is_coroutine_function, wrap


def canonical_json(value: Any) -> bytes:
    """Return a value as JSON that is the same for equal values: keys sorted, no spaces, UTF-8.

    Dates are written in ISO 8601, datetimes in UTC with microseconds, a Decimal as text with all its digits, a tuple
    as a list. 1 and 1.0 are different values, and so are ``Decimal("1.0")`` and ``Decimal("1.00")``.

    Raises:
        PayloadError: If it contains something without a canonical form: NaN, infinities, datetimes without a time
            zone, keys that are not text, sets, bytes, other objects. The message says where.
    """
    try:
        text = json.dumps(_plain(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except _NotSerializable as error:
        place = "".join(f"[{each!r}]" for each in reversed(error.path))
        raise PayloadError(f"the value{place[:200]} cannot be written as JSON: {error}") from None
    except RecursionError:
        raise PayloadError("the value is nested too deeply, or contains itself") from None
    return text.encode("utf-8", "backslashreplace")  # a lone surrogate becomes its JSON escape


def content_hash(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


class _NotSerializable(Exception):  # noqa: N818  # it never leaves this module
    """A value without a canonical form; each container adds its key to the path."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.path: list[object] = []


def _plain(value: Any) -> Any:
    """Return the value as JSON types."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict):
        return {_plain_key(key): _plain_item(key, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_item(number, each) for number, each in enumerate(value)]
    if isinstance(value, float):
        return _require_finite(value, math.isfinite(value))
    if isinstance(value, Decimal):
        return str(_require_finite(value, value.is_finite()))
    if isinstance(value, datetime):
        if value.tzinfo is None:
            why = "a datetime without a time zone is ambiguous; add one, such as datetime.now(UTC)"
            raise _NotSerializable(why)
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, date):
        return value.isoformat()
    why = f"{type(value).__name__} is not a JSON type; convert it to text, a number, a list or a dict"
    raise _NotSerializable(why)


def _plain_item(place: object, value: Any) -> Any:
    try:
        return _plain(value)
    except _NotSerializable as error:
        error.path.append(place)
        raise


def _plain_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    why = f"the key {key!r:.100} is not text"
    raise _NotSerializable(why)


def _require_finite(value: Any, is_finite: bool) -> Any:  # noqa: FBT001  # a private helper
    if is_finite:
        return value
    why = f"{value} is not a number in JSON"
    raise _NotSerializable(why)


StepName = Literal["fetch", "normalize", "put", "get", "db"]
"""``fetch`` and ``normalize`` call the user's functions, ``put`` and ``get`` the raw store; ``db`` is the database,
including `apply`."""


# Classes, because a context manager made from a generator sets the traceback of an error, which some errors refuse.


class etl_step(NamedTuple):  # noqa: N801  # a context manager is named like a function
    """Add the step to errors that are raised in the block: as ``error.__outlast_step__`` and as a note.

    Attributes:
        name: The step.
        record: The record, for the note.
        on_error: Called when an error is raised.
    """

    name: StepName
    record: str
    on_error: Callable[[], Any] | None = None

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Mark the error, and let it propagate."""
        if error is None or not issubclass(type(error), Exception):
            return
        contained(None, self._mark, error)  # the class may not allow new attributes
        if self.on_error is not None:
            self.on_error()

    def _mark(self, error: BaseException) -> None:
        error.__outlast_step__ = self.name  # type: ignore[attr-defined]  # our attribute on a foreign object
        note = f"at the step {self.name!r} of {self.record}"
        if note not in getattr(error, "__notes__", ()):  # the same object may be raised again
            error.add_note(note)


class target_log_keys:  # noqa: N801  # the same
    """Add the keys of the target to log records of retries in the block.

    Args:
        context: The job context, or None.
    """

    def __init__(self, context: Any) -> None:
        self._keys = getattr(context, "keys", CONTEXT_LOG_KEYS.get)

    def __enter__(self) -> None:
        """Set the keys."""
        self._token = CONTEXT_LOG_KEYS.set(self._keys())

    def __exit__(self, *_: object) -> None:
        """Restore the previous keys."""
        CONTEXT_LOG_KEYS.reset(self._token)


LoadOutcome = Literal["new", "unchanged", "reapplied", "superseded"]


class Loaded(NamedTuple):
    """What a load did, or would do in a dry run.

    Attributes:
        outcome: ``new``: this version of the record was unknown, and was applied. ``unchanged``: there was nothing to
            do. ``reapplied``: the version was known, but not applied, or applied by an older `apply_version`.
            ``superseded``: a later fetch of the same record was faster, so nothing was written.
        hash: Hash of the normalized record.
        raw_key: Key of its raw object.
        put: Whether the raw object was written.
        upserted: Whether the database was written.
        dry_run: Whether it was a dry run, in which nothing is written.
    """

    outcome: LoadOutcome
    hash: str
    raw_key: str
    put: bool = False
    upserted: bool = False
    dry_run: bool = False


class Etl:
    """Loads records of one kind, one at a time; a job handler calls `load` for its target.

    Errors propagate unchanged, marked with the step (``error.__outlast_step__``, and a note). An error of the step
    ``db``, also a bug in `apply`, makes the exit code of a job 1, however few targets fail. The context counts
    ``diff_new_hash``, ``s3_put_success``, ``s3_put_fail``, ``db_upsert_success`` and ``db_upsert_fail`` for the
    summary. Threads may share an `Etl` if they may share its parts.

    It waits and retries by its own policies: stopping the run does not cut its waits short, and its retries do not
    count against the budget of the run.

    Args:
        source: Where the records come from, such as ``rakuten``.
        entity: What they are, such as ``item``.
        fetch: Takes the id of a record and returns the document: a JSON value, or a value that `encode` accepts. It is
            retried by the job, or by `fetch_policy`. It must not be async.
        normalize: Takes the document, decoded from its raw form, and returns the record as a JSON value. Leave out
            what differs between two fetches of the same record.
        raw: Keeps the raw documents.
        staging: The ledger, in the same database that `apply` writes to.
        apply: Takes the connection, in a transaction, and the normalized record, and upserts it. It must not commit.
            It may be called again for the same record.
        apply_version: Increase it when `apply` or `normalize` changes, so that known records are applied again.
        policy: Retries each step on its own: the put, and the whole transaction. By default `preset("etl")`.
        fetch_policy: Retries the fetch, if no job does.
        encode: Turns the document into bytes.
        decode: Turns the bytes into what `normalize` takes. For documents that are not JSON:
            ``encode=bytes, decode=bytes``.

    Raises:
        ConfigError: If an argument is not valid.
    """

    def __init__(  # noqa: PLR0913  # its parts
        self,
        *,
        source: str,
        entity: str,
        fetch: Callable[[Any], Any],
        normalize: Callable[[Any], Any],
        raw: RawStore,
        staging: StagingRepo,
        apply: Callable[[Any, Any], object],
        apply_version: int = 1,
        policy: RetryPolicy | None = None,
        fetch_policy: RetryPolicy | None = None,
        encode: Callable[[Any], bytes] = canonical_json,
        decode: Callable[[bytes], Any] = json.loads,
    ) -> None:
        for name, function in (("fetch", fetch), ("normalize", normalize), ("apply", apply)):
            if is_coroutine_function(function):
                raise ConfigError(f"{name} is an async function, which Etl does not support; pass a plain function")
        try:
            raw_key(source, entity, "id", "0" * 64)
        except InvalidParametersError as error:
            raise ConfigError(str(error)) from None
        self.source, self.entity, self.apply_version = source, entity, check_count("apply_version", apply_version, 1)
        self.raw, self.staging = raw, staging
        self._apply, self._encode = apply, encode
        self._record: Callable[[bytes], Any] = lambda document: normalize(decode(document))
        steps = preset("etl") if policy is None else check_policy(policy)

        def timed_fetch(source_id: Any) -> tuple[datetime, Any]:
            """Return when the fetch started, and the document."""
            started_at = utc_now()  # before the fetch: a document fetched later is never older
            return started_at, fetch(source_id)

        self._fetch: Callable[..., Any] = timed_fetch
        if fetch_policy is not None:
            self._fetch = self._with_retries("fetch", timed_fetch, check_policy(fetch_policy))
        self._put = self._with_retries("put", raw.put, steps)
        self._get = self._with_retries("get", raw.get, steps)
        self._known = self._with_retries("known", self._look_up, steps)
        self._write = self._with_retries("write", self._write_and_apply, steps)
        self._write_again = self._with_retries("write", partial(self._write_and_apply, stored=True), steps)

    def load(self, source_id: str | int, context: Any = None, *, dry_run: bool | None = None) -> Loaded:
        """Fetch a record, and store and apply it if it has changed.

        Args:
            source_id: Id of the record, which `fetch` gets unchanged. A whole number is stored as decimal text.
            context: The job context. It counts the results, and its keys are added to log records.
            dry_run: Whether to fetch and compare only, without writing; by default that of the context.
        """
        dry_run = _is_dry(context, dry_run)
        name, key_id = self._name(source_id), id_text(source_id)
        with target_log_keys(context):
            with etl_step("fetch", name):
                fetched_at, fetched = self._fetch(source_id)
            with etl_step("normalize", name):
                document = self._encode(fetched)
                record = self._record(document)
                version = content_hash(record)
                key = raw_key(self.source, self.entity, key_id, version)
            with etl_step("db", name):
                is_done, stored = self._known(key_id, version)
            if is_done:
                return Loaded("unchanged", version, key, dry_run=dry_run)
            known = stored if stored is not None and stored.hash == version else None
            outcome: LoadOutcome = "new" if known is None else "reapplied"
            if known is None:
                _count_figure(context, "diff_new_hash")
            if dry_run:
                return Loaded(outcome, version, key, put=known is None, upserted=True, dry_run=True)
            if known is not None:
                key = known.raw_key
            else:
                with etl_step("put", name, lambda: _count_figure(context, "s3_put_fail")):
                    self._put(key, document)
                _count_figure(context, "s3_put_success")
            row = StagingRow(self.source, self.entity, key_id, version, key, fetched_at)
            if self._write_counted(context, name, self._write, row, record):
                return Loaded(outcome, version, key, put=known is None, upserted=True)
            return Loaded("superseded", version, key, put=known is None)

    def load_from_raw(self, source_id: str | int, context: Any = None, *, dry_run: bool | None = None) -> Loaded:
        """Apply a record from its raw object, without fetching, unless this `apply_version` has applied it.

        The row keeps its hash. If `normalize` has changed, the next `load` finds another hash and stores it.

        Args:
            source_id: Id of the record.
            context: As for `load`.
            dry_run: As for `load`.

        Raises:
            ResourceNotFoundError: If the record was never loaded.
        """
        dry_run = _is_dry(context, dry_run)
        name = self._name(source_id)
        with target_log_keys(context):
            with etl_step("db", name):
                _, stored = self._known(id_text(source_id), None)
            if stored is None:
                raise ResourceNotFoundError(f"{name} was never loaded, so it has no raw object; load it first")
            if stored.is_applied(self.apply_version):
                return Loaded("unchanged", stored.hash, stored.raw_key, dry_run=dry_run)
            with etl_step("get", name):
                document = self._get(stored.raw_key)
            with etl_step("normalize", name):
                record = self._record(document)
            if dry_run:
                return Loaded("reapplied", stored.hash, stored.raw_key, upserted=True, dry_run=True)
            if self._write_counted(context, name, self._write_again, stored, record):
                return Loaded("reapplied", stored.hash, stored.raw_key, upserted=True)
            return Loaded("superseded", stored.hash, stored.raw_key)

    def outdated(self) -> Iterator[str]:
        """Yield the ids of records for `load_from_raw`: not applied yet, or applied by an older `apply_version`."""
        return self.staging.outdated(self.source, self.entity, self.apply_version)

    def _write_counted(
        self, context: Any, name: str, write: Callable[[StagingRow, Any], bool], row: StagingRow, record: Any
    ) -> bool:
        with etl_step("db", name, lambda: _count_figure(context, "db_upsert_fail")):
            written = write(row, record)
        if written:
            _count_figure(context, "db_upsert_success")
        return written

    def _look_up(self, source_id: str, version: str | None) -> tuple[bool, StagingRow | None]:
        """Return whether this version of a record is already applied; if not, also the stored row."""
        key = (self.source, self.entity, source_id)
        if version is not None and self.staging.exists_hash(*key, version, apply_version=self.apply_version):
            return True, None
        return False, self.staging.get(*key)

    def _write_and_apply(self, row: StagingRow, record: Any, *, stored: bool = False) -> bool:
        """Apply a version in one transaction; return False if another version has replaced it.

        Args:
            row: The version.
            record: The normalized record.
            stored: Whether the version is stored already. Then it is not applied twice.
        """
        with self.staging.transaction() as transaction:
            if stored:
                current = transaction.get(self.source, self.entity, row.source_id)
                if current is None or current.hash != row.hash or current.is_applied(self.apply_version):
                    return False
            elif not transaction.upsert(row):
                return False
            self._apply(transaction.connection, record)
            transaction.mark_applied(row, self.apply_version)
        return True

    def _with_retries(self, name: str, function: Callable[..., Any], policy: RetryPolicy) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            return function(*args)

        call.__qualname__ = f"{self.source}.{self.entity}.{name}"  # the name in logs and events
        return wrap(call, policy, None)

    def _name(self, source_id: str | int) -> str:
        return f"{self.source} {self.entity} {source_id}"


def _is_dry(context: Any, dry_run: bool | None) -> bool:  # noqa: FBT001  # the caller's argument
    return bool(getattr(context, "dry_run", False)) if dry_run is None else dry_run


def _count_figure(context: Any, name: str) -> None:
    count = getattr(context, "count", None)
    if count is not None:
        count(name)
