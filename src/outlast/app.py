"""`App`: a program's tasks, jobs and monitors, with their store and settings."""

from collections.abc import Callable, Sequence
from datetime import UTC, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, Unpack, overload

from outlast.decide.backoff import check_count
from outlast.decide.breaker import Budget
from outlast.decide.gate import Gate
from outlast.decide.limits import ResourceLimit, ResourceLimits, check_limit
from outlast.decide.policy import RetryPolicy
from outlast.decide.presets import preset
from outlast.decide.source_health import Profile
from outlast.decide.source_health import profile as preset_profile
from outlast.errors import ConfigError
from outlast.jobs.job import Job
from outlast.jobs.target_feed import target_key
from outlast.observe.alert_delivery import AlertTargets, Deliverer
from outlast.observe.channels import Channel, channel
from outlast.observe.messages import check_dashboard_url
from outlast.queue.dead_letters import DeadLetterBox
from outlast.queue.definition import (
    DEFAULT_QUEUE,
    TaskDefinition,
    TaskSettings,
    check_task_settings,
    define_task,
    required_seconds,
    seconds,
)
from outlast.queue.payload import PAYLOAD_LIMIT
from outlast.queue.periodic_tasks import PeriodicSchedule, PeriodicTask, next_time_function
from outlast.queue.settings import WorkerSettings, checked_lease, checked_memory
from outlast.queue.task_reader import TaskReader
from outlast.queue.worker import Worker
from outlast.run.observe_mode import checked_mode
from outlast.run.retry import check_policy
from outlast.sources.fetchers import choose_fetcher
from outlast.sources.monitor import Monitor, SharedCooldownTracker
from outlast.sources.poller import PollSettings as MonitorSettings
from outlast.sources.registry import SourceRegistry
from outlast.stores.urls import open_store, spool_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from outlast.jobs.context import JobContext
    from outlast.observe.messages import Message
    from outlast.ports.store import Store
    from outlast.sources.fetchers import Changed


P = ParamSpec("P")
R = TypeVar("R")
_SHORTEST_INTERVAL = 0.1  # seconds between two polls; 0 would poll a host in a busy loop


class App:
    """Durable tasks, batch jobs and monitors, stored in a SQLite file or in PostgreSQL.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``postgresql://…`` or ``memory://``; or a store.
        lease: Seconds without a heartbeat after which a worker's tasks go to other workers.
        heartbeat: Seconds between two heartbeats; a quarter of the lease by default.
        crash_limit: Processes that a task may crash, running alone, before it becomes a dead letter.
        grace: Seconds that running tasks have to finish when a worker stops.
        policy: Retry policy of tasks without their own; by default the preset ``worker``.
        payload_limit: Maximum size of a task's arguments, in bytes.
        keep_done: Seconds for which finished tasks are kept; None keeps them forever.
        keep_dead: Seconds for which dead letters are kept; None, the default, keeps them forever.
        keep_runs: Seconds for which finished job runs are kept; None keeps them forever.
        alert_age: Seconds after which an open dead letter raises an alert; None for never.
        suspect_memory: Bytes of memory for a task that runs isolated because its worker died; a number up to 1 is a
            share of the memory of the machine or its container. None for no limit.
        suspect_timeout: Seconds for such an isolated run if the task has no timeout. None for no limit.
        spool: Folder for outcomes that a worker could not store before it had to stop.
        notify: Where alerts go: Slack webhook URLs, ``json+https://…`` for a server that takes JSON, Apprise URLs
            (extra ``notify``), or functions that take a message. Without any, alerts are logged.
        notify_private: Whether webhooks may use private IP addresses.
        dashboard_url: Where people open the dashboard, such as ``https://ops.example.com/outlast``; alerts link to it.
    """

    def __init__(  # noqa: PLR0913  # its settings
        self,
        url: "str | Store" = "sqlite:///outlast.db",
        *,
        lease: float = 20.0,
        heartbeat: float | None = None,
        crash_limit: int = 3,
        grace: float = 30.0,
        policy: RetryPolicy | None = None,
        payload_limit: int = PAYLOAD_LIMIT,
        keep_done: float | timedelta | None = timedelta(days=7),
        keep_dead: float | timedelta | None = None,
        keep_runs: float | timedelta | None = timedelta(days=90),
        alert_age: float | timedelta | None = timedelta(days=1),
        suspect_memory: float | None = 0.5,
        suspect_timeout: float | timedelta | None = timedelta(hours=1),
        spool: str | Path | None = None,
        notify: "str | Callable[[Message], object] | Channel | Sequence[Any]" = (),
        notify_private: bool = False,
        dashboard_url: str = "",
    ) -> None:
        self.store, where = open_store(url) if isinstance(url, str) else (url, None)
        self.policy = preset("worker") if policy is None else check_policy(policy)
        self.payload_limit = payload_limit
        self.tasks_by_name: dict[str, TaskDefinition[Any, Any]] = {}
        self.jobs_by_name: dict[str, Job] = {}
        self.limits = ResourceLimits()
        self.engines: dict[str, str] = {}  # by name: the command that starts workers of that engine
        self.keep_runs = seconds("keep_runs", keep_runs)
        self.schedule = PeriodicSchedule()
        self.settings = WorkerSettings(
            Path(spool) if spool is not None else spool_folder(url, where),
            *checked_lease(lease, heartbeat),
            check_count("crash_limit", crash_limit, 1),
            required_seconds("grace", grace, 0.0),
            seconds("keep_done", keep_done),
            seconds("keep_dead", keep_dead),
            seconds("alert_age", alert_age),
            checked_memory(suspect_memory),
            seconds("suspect_timeout", suspect_timeout, least=0.001),
        )
        self.dead_letters = DeadLetterBox(self.store)
        self.tasks = TaskReader(self.store)
        self.sources = SourceRegistry(self.store)
        self.cooling = SharedCooldownTracker(self.store)
        targets = [notify] if isinstance(notify, str) or not isinstance(notify, Sequence) else list(notify)
        self.alert_targets = AlertTargets(
            tuple(channel(each, allow_private=notify_private) for each in targets), check_dashboard_url(dashboard_url)
        )

    @property
    def channels(self) -> "tuple[Channel, ...]":
        """Where alerts go."""
        return self.alert_targets.channels

    if TYPE_CHECKING:  # with and without brackets

        @overload
        def task(self, function: Callable[P, R], /) -> TaskDefinition[P, R]: ...
        @overload
        def task(
            self,
            **settings: Unpack[TaskSettings],
        ) -> Callable[[Callable[P, R]], TaskDefinition[P, R]]: ...

    def task(self, function: Any = None, /, **settings: Any) -> Any:  # type: ignore[misc]  # the overloads above
        """Make a function a task: ``@app.task``, or with settings ``@app.task(max_attempts=8, queue="mail")``.

        Args:
            function: The function or coroutine function, if used without brackets.
            settings: ``name`` (by default the function's), ``queue``, ``priority`` (0 is first, 9 last), ``timeout``,
                ``resource``, ``expires`` and ``keep_result``; `TaskDefinition` describes them. A function as
                ``resource`` gets the arguments of a call that have the names of its parameters, when the task is
                enqueued, and returns the resource of that call. ``policy``, or settings that differ from the policy of
                the app: ``max_attempts``, ``retry_on``, ``backoff``, ``base_delay``, ``max_delay``, ``jitter`` and
                ``overrides``.

        Raises:
            ConfigError: If a setting is not valid, or another task has the name.
        """
        check_task_settings(settings)
        if function is None:
            return lambda later: define_task(self, later, settings)
        return define_task(self, function, settings)

    def periodic(
        self,
        *,
        every: float | timedelta | None = None,
        cron: str | None = None,
        zone: tzinfo = UTC,
        overlap: Literal["allow", "skip", "queue"] = "allow",
        **settings: Unpack["TaskSettings"],
    ) -> Callable[[Callable[P, R]], TaskDefinition[P, R]]:
        """Make a function a task that is enqueued on a schedule, once across all workers.

        After downtime, missed runs are made up for with one run.

        Args:
            every: Seconds between two runs.
            cron: Five fields, such as ``*/15 * * * *``; needs the extra ``cron``.
            zone: Time zone of a cron expression.
            overlap: What happens when a run is due while the run before it is live (queued, running, waiting for a
                retry, deferred or parked): ``allow`` enqueues it, ``skip`` skips it, and ``queue`` enqueues it when the
                other has ended, so that at most one runs and at most one waits.
            settings: As for `task`.
        """
        check_task_settings(settings)
        following = next_time_function(every, cron, zone)

        def decorate(function: Callable[P, R]) -> TaskDefinition[P, R]:
            definition = define_task(self, function, settings)
            self.schedule.add(PeriodicTask(definition, following, overlap))
            return definition

        return decorate

    def limit(
        self,
        resource: str,
        *,
        rate: str | float | None = None,
        burst: int | None = None,
        concurrency: int | None = None,
        retries: str | float | None = None,
        retry_burst: int | None = None,
    ) -> ResourceLimit:
        """Limit a resource across all workers of the store: ``app.limit("example.com", rate="10/s")``.

        Tasks name it with ``resource=…``. A task that may not start yet is deferred; that uses no attempt.

        A name with ``*`` is a pattern, in which ``*`` stands for any characters: ``app.limit("*.example.com", …)``
        gives each matching resource its own limit. If several match, the resource's own name wins, then the
        longest pattern, then the one that was added first.

        Args:
            resource: The resource's name, or a pattern.
            rate: Task starts: ``"10/s"``, ``"600/m"``, ``"5000/h"``, ``"1000/d"``, or a number per second.
            burst: Starts allowed at once; by default the rate for a tenth of a second, at least 1.
            concurrency: Tasks that may run at once.
            retries: Rate of retries, in the same form as `rate`; retries above it wait, none is dropped.
            retry_burst: Retries allowed at once; by default the rate for one second, at least 1.

        Raises:
            ConfigError: If a setting is not valid, nothing is limited, or the resource already has a limit.
        """
        made = check_limit(
            resource, rate=rate, burst=burst, concurrency=concurrency, retries=retries, retry_burst=retry_burst
        )
        if resource in self.limits:
            raise ConfigError(f"{resource!r} already has a limit; give all its settings in one call")
        self.limits[resource] = made
        return made

    def worker(self, queues: Sequence[str] | None = None, *, concurrency: int = 10, name: str | None = None) -> Worker:
        """Return a worker. Its `run` works until it is stopped, its `drain` until no task is due.

        Args:
            queues: The queues it claims from; by default all queues that the app's tasks name.
            concurrency: Tasks that run at once.
            name: A display name.
        """
        known = dict.fromkeys([DEFAULT_QUEUE, *(each.queue for each in self.tasks_by_name.values())])
        where = [queues] if isinstance(queues, str) else queues or list(known)
        made = Worker(self.store, self.tasks_by_name, where, concurrency, self.settings, self.schedule, name)
        made.limits, made.delivery = self.limits, self.deliverer()
        return made

    def monitor(  # noqa: PLR0913  # its settings
        self,
        profile: str | Profile = "feed",
        *,
        fetch: "str | Callable[..., Any] | None" = None,
        on_change: "Callable[[Changed], Any] | None" = None,
        every: float | timedelta = timedelta(minutes=15),
        concurrency: int = 100,
        per_host: int = 2,
        timeout: float | timedelta = 30.0,
        on_change_timeout: float | timedelta = 300.0,
        lease: float | timedelta = 60.0,
        grace: float | timedelta = 10.0,
        client: "Callable[[], Any] | None" = None,
        user_agent: str | None = None,
        name: str | None = None,
        mode: str = "act",
        allow_private: bool = False,
    ) -> Monitor:
        """Return a monitor of the sources of one profile. Its `run` polls until it is stopped.

        Args:
            profile: ``blog``, ``feed``, or your own `Profile`; sources with its name are polled.
            fetch: ``feed``, ``page``, or a function that takes a source and returns `Fetched`, text or bytes; by
                default the profile's own.
            on_change: Called with a `Changed` when there is something new. If it raises, the error is logged, does not
                count against the source, and the next poll calls it again.
            every: Seconds between two polls of a source.
            concurrency: Fetches at once.
            per_host: Fetches from one host at once.
            timeout: Seconds for one fetch.
            on_change_timeout: Seconds for one call of `on_change`. A longer call counts as one that raised; a plain
                function cannot be stopped, so its thread keeps running.
            lease: Seconds after which other monitors take over the sources of a dead one.
            grace: Seconds that running fetches have to finish when it stops.
            client: Returns the HTTP client to use instead of the built-in one: an AsyncClient of httpx or httpx2.
            user_agent: Value of the User-Agent header.
            name: A display name.
            mode: ``act``, or ``observe``: sources keep their state, no alert is sent; events say what would happen.
            allow_private: Whether a redirect may lead to an address that is not public, such as one of your own
                network. Your own URLs may be private in any case. A `client` of yours decides for itself.

        Raises:
            ConfigError: If a setting is not valid.
        """
        chosen = preset_profile(profile) if isinstance(profile, str) else profile
        self.sources.profiles[chosen.name] = chosen
        self.sources.polled.add(chosen.name)
        for what, number in (("concurrency", concurrency), ("per_host", per_host)):
            check_count(what, number, 1)
        callback: object = on_change
        if callback is not None and not callable(callback):
            raise ConfigError(f"on_change is {callback!r}; give a function that takes a Changed, or None")
        settings = MonitorSettings(
            chosen,
            choose_fetcher(fetch, chosen.fetch),
            on_change,
            required_seconds("every", every, _SHORTEST_INTERVAL),
            required_seconds("timeout", timeout, 0.001),
            concurrency,
            per_host,
            required_seconds("on_change_timeout", on_change_timeout, 0.001),
            checked_mode(mode),
            allow_private,
        )
        return Monitor(
            self.store,
            self.cooling,
            settings,
            delivery=self.deliverer(),
            client=client,
            lease=required_seconds("lease", lease, 0.1),
            grace=required_seconds("grace", grace, 0.0),
            user_agent=user_agent,
            name=name,
        )

    def job(  # noqa: PLR0913  # its settings
        self,
        name: str,
        *,
        entity: str | None = None,
        max_failure_rate: float | None = None,
        min_sample: int = 0,
        max_failures: int | None = None,
        defer_ok: bool = False,
        policy: RetryPolicy | None = None,
        targets: "Callable[[], Iterable[Any]] | None" = None,
        key: "Callable[[Any], str | int]" = target_key,
        breakers: "Mapping[str, int] | None" = None,
        early_stop: bool = False,
        budget: Budget | None = None,
        hand_over: "TaskDefinition[Any, Any] | None" = None,
        ledger: bool = True,
        env: str | None = None,
        etl: Any = None,
        mode: str = "act",
    ) -> "Callable[[Callable[[JobContext, Any], Any]], Job]":
        """Make a function of a context and a target a batch job: ``@app.job("items", entity="item")``.

        Args:
            name: Name under which runs are recorded and locked.
            entity: What the targets are; ranking, genre, tag and item have a default failure rate.
            max_failure_rate: Share of the targets that may fail; above it the run fails.
            min_sample: Number of targets below which the rate is not checked.
            max_failures: Number of targets that may fail, independent of the rate.
            defer_ok: Whether deferred targets do not count as failed.
            policy: Attempts and waits for one target; by default the preset ``etl``.
            targets: Returns the targets when the job is run by name.
            key: Returns the key that identifies a target; by default the target itself, or its id.
            breakers: By origin, such as ``{"s3": 10}``: the number of failed targets in a row that stops the run.
            early_stop: Whether a run stops as soon as its result can no longer change.
            budget: Retry budget of a whole run.
            hand_over: A task that is enqueued for failed targets, instead of leaving them to the next run.
            ledger: Whether runs are recorded; resuming needs it.
            env: Name of the environment; by default the value of OUTLAST_ENV, else ``local``.
            etl: The `Etl` that the function uses, so that the job can also run from raw objects.
            mode: ``act``, or ``observe``: each target is called once, without a gate; events say what would happen.

        Raises:
            ConfigError: If a setting is not valid, or another job has the name.
        """
        job_name: object = name
        if not isinstance(job_name, str):
            raise ConfigError('a job needs a name and a failure rate: @app.job("items", max_failure_rate=0.05)')
        gate = Gate.for_entity(
            entity, max_failure_rate, min_sample=min_sample, max_failures=max_failures, defer_ok=defer_ok
        )

        def decorate(handler: "Callable[[JobContext, Any], Any]") -> Job:
            if name in self.jobs_by_name:
                raise ConfigError(f"a job {name!r} already exists; give one of them another name")
            self.jobs_by_name[name] = made = Job(
                self.store,
                handler,
                name=name,
                entity=entity,
                gate=gate,
                policy=policy or preset("etl"),
                targets=targets,
                key=key,
                breakers=breakers,
                early_stop=early_stop,
                budget=budget,
                hand_over=hand_over,
                ledger=ledger,
                env=env,
                etl=etl,
                mode=mode,
                keep=self.keep_runs,
                delivery=self.deliverer(),
            )
            return made

        return decorate

    def deliverer(self) -> Deliverer:
        """Return a deliverer of alerts to the app's channels; each worker and monitor has its own."""
        return Deliverer(self.store, self.channels, dashboard=self.alert_targets.dashboard)

    def create_schema(self) -> int:
        """Create or migrate the tables; return the schema version. A SQLite file does this by itself."""
        return self.store.create_schema()

    def close(self) -> None:
        """Close the store's connections."""
        self.cooling.close()
        self.store.close()
