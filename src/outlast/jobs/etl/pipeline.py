"""The order in which an ETL reads and writes one record, so that no crash and no error can break it.

fetch → normalize → hash → known and applied? → put raw → BEGIN → staging → apply → COMMIT

The raw object is there before anything points to it, and what is applied is committed with the row that says so.
Whatever ends a load in between, the next one does what is missing.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from outlast.decide.policy import RetryPolicy
from outlast.decide.presets import preset
from outlast.errors import ConfigError, InvalidParametersError, PayloadError, ResourceNotFoundError
from outlast.jobs.etl.raw import RawStore, raw_key
from outlast.jobs.etl.staging import StagingRepo, StagingRow, utc_now
from outlast.run.logs import CONTEXT_LOG_KEYS
from outlast.run.retry import check_policy, is_coroutine_function, wrap

if TYPE_CHECKING:
    from contextvars import Token


# One text for one value: canonical JSON, and the hash by which a record is known.


def canonical_json(value: Any) -> bytes:
    """Return a value as JSON that is the same for equal values: keys sorted, no spaces, UTF-8.

    A date is written in ISO 8601, a datetime so in UTC with microseconds, a Decimal as text with all its digits, a
    tuple as a list. 1 and 1.0 are two values, and so are ``Decimal("1.0")`` and ``Decimal("1.00")``.

    Raises:
        PayloadError: If there is something in it that has no one form: NaN and infinities, a datetime without a time
            zone, keys that are no text, sets, bytes, objects. It names the place.
    """
    try:
        text = json.dumps(_plain(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except _NotSerializable as refused:
        place = "".join(f"[{each!r}]" for each in reversed(refused.path))
        message = f"the value{place[:200]} cannot be written as JSON: {refused}"
        raise PayloadError(message) from None
    except RecursionError:
        message = "the value is nested too deeply, or contains itself"
        raise PayloadError(message) from None
    return text.encode("utf-8", "backslashreplace")  # half a character becomes the escape that JSON has for it


def content_hash(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


class _NotSerializable(Exception):  # noqa: N818  # it says where, and never leaves this module
    """Something that has no one form; what it stands in is added on the way up."""

    def __init__(self, why: str) -> None:
        """Begin where it was found."""
        super().__init__(why)
        self.path: list[object] = []


def _plain(value: Any) -> Any:
    """Return a value made of what JSON knows."""
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
            why = "a datetime without a time zone means another moment on every machine"
            raise _NotSerializable(why)
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, date):
        return value.isoformat()
    why = f"{type(value).__name__} has no form in JSON; make it text, a number, a list or a dict"
    raise _NotSerializable(why)


def _plain_item(place: object, value: Any) -> Any:
    try:
        return _plain(value)
    except _NotSerializable as refused:
        refused.path.append(place)
        raise


def _plain_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    why = f"the key {key!r:.100} is no text"
    raise _NotSerializable(why)


def _require_finite(value: Any, is_finite: bool) -> Any:  # noqa: FBT001  # what was found
    if is_finite:
        return value
    why = f"{value} is no number that JSON knows"
    raise _NotSerializable(why)


# Where in a load something is: on an error the step it comes from, in the log the target.

StepName = Literal["fetch", "normalize", "put", "get", "db"]
"""``fetch`` and ``normalize`` are the user's; ``put`` and ``get`` the raw store's; ``db`` is all of the database, what
is applied included."""


class etl_step:  # noqa: N801  # a context manager is named like a function
    """Have what is raised in the block say where it comes from: ``error.__outlast_step__``, and a note for people.

    Args:
        name: The step.
        of: The target, for the note.
        failed: Called when something is raised.
    """

    def __init__(self, name: StepName, of: str, failed: Callable[[], Any] | None = None) -> None:
        """Keep what is to be said."""
        self._name = name
        self._of = of
        self._failed = failed

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        """Mark an error, which passes through."""
        if not isinstance(error, Exception):
            return
        with suppress(Exception):  # slots, or a class that guards its attributes; the error itself matters more
            error.__outlast_step__ = self._name  # type: ignore[attr-defined]  # an attribute of ours on a foreign object
            note = f"at the step {self._name!r} of {self._of}"
            if note not in getattr(error, "__notes__", ()):  # an object that is raised more than once
                error.add_note(note)
        if self._failed is not None:
            self._failed()


class target_log_keys:  # noqa: N801  # the same
    """Have the log records of retries in the block carry the keys of the context's target.

    Args:
        context: Of the job's target, or None.
    """

    def __init__(self, context: Any) -> None:
        """Keep it."""
        self._keys = getattr(context, "keys", None)
        self._token: Token[dict[str, Any] | None] | None = None

    def __enter__(self) -> None:
        """Set them."""
        if callable(self._keys):
            self._token = CONTEXT_LOG_KEYS.set(self._keys())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        """Put back what was there before."""
        if self._token is not None:
            CONTEXT_LOG_KEYS.reset(self._token)


LoadOutcome = Literal["new", "unchanged", "reapplied", "superseded"]


class Loaded(NamedTuple):
    """What a load has done, or in a dry run would do.

    Attributes:
        outcome: ``new``: this version of the record was not known, and is applied. ``unchanged``: there was nothing to
            do. ``reapplied``: the version was known, and had not been applied, or by an older version of the function.
            ``superseded``: a later fetch of the same record was quicker, so nothing was written.
        hash: Of the normalized record.
        raw_key: Where its raw object is.
        put: Whether that was written.
        upserted: Whether the database was.
        dry_run: Whether nothing was really done.
    """

    outcome: LoadOutcome
    hash: str
    raw_key: str
    put: bool = False
    upserted: bool = False
    dry_run: bool = False


class Etl:
    """Loads records of one kind, one at a time; a job's handler calls `load` for its target.

    Errors pass through as they are raised, with the step's name on them (``error.__outlast_step__``, and a note). The
    figures of the summary are counted on the context: ``diff_new_hash``, ``s3_put_success``, ``s3_put_fail``,
    ``db_upsert_success``, ``db_upsert_fail``. It may be shared by threads, as far as its parts may.

    Waits and retries in here belong to its own policies: a stop of the run does not cut them short, and the budget of
    the run does not pay for them.

    Args:
        source: Where the records come from, such as ``rakuten``.
        entity: What they are, such as ``item``.
        fetch: Gets the id of a record and returns it as it came: something that JSON can hold, or what `encode` takes.
            It is not retried here: the job around it does so, or `fetch_policy`. Async functions are not taken yet.
        normalize: Gets what was fetched, read back from its raw form, and returns the record as JSON can hold it,
            without what differs between two fetches of the same.
        raw: Where what was fetched is kept.
        staging: The ledger, in the database of what is applied.
        apply: Gets the connection, in its transaction, and the normalized record; upserts it and what belongs to it. It
            does not commit. It may be called again for the same record.
        apply_version: Raise it when `apply` or `normalize` change, to have known records applied anew.
        policy: Retries each step on its own: the put, and the whole transaction. By default `preset("etl")`.
        fetch_policy: Retries the fetch, where no job around it does.
        encode: Makes bytes of what was fetched.
        decode: Makes of them what `normalize` gets. For documents that are no JSON: ``encode=bytes, decode=bytes``.
    """

    def __init__(  # noqa: PLR0913  # it is made of its parts
        self,
        *,
        source: str,
        entity: str,
        fetch: Callable[[str], Any],
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
        """Check the parts.

        Raises:
            ConfigError: If one of them cannot be used.
        """
        for name, function in (("fetch", fetch), ("normalize", normalize), ("apply", apply)):
            if is_coroutine_function(function):
                message = f"{name} is an async function, which an Etl does not take yet; give a plain one"
                raise ConfigError(message)
        if type(apply_version) is not int or apply_version < 1:
            message = f"apply_version is {apply_version!r}; give a whole number, 1 or more"
            raise ConfigError(message)
        try:
            raw_key(source, entity, "id", "0" * 64)
        except InvalidParametersError as error:
            raise ConfigError(str(error)) from None
        self.source, self.entity, self.apply_version = source, entity, apply_version
        self.raw, self.staging = raw, staging
        self._normalize, self._apply, self._encode, self._decode = normalize, apply, encode, decode
        steps = preset("etl") if policy is None else check_policy(policy)
        self._users_fetch = fetch
        self._fetch = (
            self._timed if fetch_policy is None else self._retried("fetch", self._timed, check_policy(fetch_policy))
        )
        self._put = self._retried("put", raw.put, steps)
        self._get = self._retried("get", raw.get, steps)
        self._known = self._retried("known", self._look_up, steps)
        self._write = self._retried("write", self._transact, steps)
        self._write_again = self._retried("write", self._transact_again, steps)

    def load(self, source_id: str, context: Any = None, *, dry_run: bool | None = None) -> Loaded:
        """Fetch a record, and store and apply it where it is not what is there already.

        Args:
            source_id: Which record.
            context: Of the job's target; figures are counted on it, and its keys stand in the logs.
            dry_run: Fetch and compare, and write nothing anywhere; by default what the context says.
        """
        dry_run = _is_dry(context, dry_run)
        of = self._name(source_id)
        with target_log_keys(context):
            with etl_step("fetch", of):
                fetched_at, fetched = self._fetch(source_id)
            with etl_step("normalize", of):
                document = self._encode(fetched)
                record = self._normalize(self._decode(document))
                found = content_hash(record)
                key = raw_key(self.source, self.entity, source_id, found)
            with etl_step("db", of):
                is_done, stored = self._known(source_id, found)
            if is_done:
                return Loaded("unchanged", found, key, dry_run=dry_run)
            differs = stored is None or stored.hash != found
            outcome: LoadOutcome = "new" if differs else "reapplied"
            if differs:
                _count_figure(context, "diff_new_hash")
            if dry_run:
                return Loaded(outcome, found, key, put=differs, upserted=True, dry_run=True)
            if stored is not None and not differs:
                key = stored.raw_key
            else:
                with etl_step("put", of, lambda: _count_figure(context, "s3_put_fail")):
                    self._put(key, document)
                _count_figure(context, "s3_put_success")
            row = StagingRow(self.source, self.entity, source_id, found, key, fetched_at)
            if self._written(context, of, self._write, row, record):
                return Loaded(outcome, found, key, put=differs, upserted=True)
            return Loaded("superseded", found, key, put=differs)

    def load_from_raw(self, source_id: str, context: Any = None, *, dry_run: bool | None = None) -> Loaded:
        """Apply a record from its raw object, without fetching, where this version of `apply` has not done so.

        The row keeps its hash. Where `normalize` has changed, the next `load` finds another one and stores it.

        Args:
            source_id: Which record.
            context: As for `load`.
            dry_run: As for `load`.

        Raises:
            ResourceNotFoundError: If the record was never loaded.
        """
        dry_run = _is_dry(context, dry_run)
        of = self._name(source_id)
        with target_log_keys(context):
            with etl_step("db", of):
                _, stored = self._known(source_id, None)
                if stored is None:
                    message = f"{of} was never loaded, so there is no raw object of it"
                    raise ResourceNotFoundError(message)
            if stored.is_applied(self.apply_version):
                return Loaded("unchanged", stored.hash, stored.raw_key, dry_run=dry_run)
            with etl_step("get", of):
                document = self._get(stored.raw_key)
            with etl_step("normalize", of):
                record = self._normalize(self._decode(document))
            if dry_run:
                return Loaded("reapplied", stored.hash, stored.raw_key, upserted=True, dry_run=True)
            if self._written(context, of, self._write_again, stored, record):
                return Loaded("reapplied", stored.hash, stored.raw_key, upserted=True)
            return Loaded("superseded", stored.hash, stored.raw_key)

    def outdated(self) -> Iterator[str]:
        """Yield the ids of records for `load_from_raw`: not applied yet, or by an older version of `apply`."""
        return self.staging.outdated(self.source, self.entity, self.apply_version)

    def _timed(self, source_id: str) -> tuple[datetime, Any]:
        """Fetch a record; return when that began: what is fetched later is never older."""
        began = utc_now()
        return began, self._users_fetch(source_id)

    def _written(
        self, context: Any, of: str, write: Callable[[StagingRow, Any], bool], row: StagingRow, record: Any
    ) -> bool:
        with etl_step("db", of, lambda: _count_figure(context, "db_upsert_fail")):
            written = write(row, record)
        if written:
            _count_figure(context, "db_upsert_success")
        return written

    def _look_up(self, source_id: str, found: str | None) -> tuple[bool, StagingRow | None]:
        """Return whether a version of a record needs nothing more, and else its row."""
        name = (self.source, self.entity, source_id)
        if found is not None and self.staging.exists_hash(*name, found, apply_version=self.apply_version):
            return True, None
        return False, self.staging.get(*name)

    def _transact(self, row: StagingRow, record: Any) -> bool:
        """Write and apply a version in one transaction; False if a later fetch is there."""
        with self.staging.transaction() as transaction:
            if not transaction.upsert(row):
                return False
            self._apply(transaction.connection, record)
            transaction.mark_applied(row, self.apply_version)
        return True

    def _transact_again(self, row: StagingRow, record: Any) -> bool:
        """Apply a version that is stored; False if another one has taken its place, or somebody else has applied it."""
        with self.staging.transaction() as transaction:
            current = transaction.get(self.source, self.entity, row.source_id)
            if current is None or current.hash != row.hash or current.is_applied(self.apply_version):
                return False
            self._apply(transaction.connection, record)
            transaction.mark_applied(row, self.apply_version)
        return True

    def _retried(self, name: str, function: Callable[..., Any], policy: RetryPolicy) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            return function(*args)

        call.__qualname__ = f"{self.source}.{self.entity}.{name}"  # what logs and events call it
        return wrap(call, policy, None)

    def _name(self, source_id: str) -> str:
        return f"{self.source} {self.entity} {source_id}"


def _is_dry(context: Any, dry_run: bool | None) -> bool:  # noqa: FBT001  # as it was given
    return bool(getattr(context, "dry_run", False)) if dry_run is None else dry_run


def _count_figure(context: Any, name: str) -> None:
    count = getattr(context, "count", None)
    if count is not None:
        count(name)
