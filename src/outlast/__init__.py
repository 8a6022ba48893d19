"""Outlast: failure handling for programs that depend on things that fail.

Names are imported on first access, so that ``import outlast`` takes almost no time.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast import errors as errors
    from outlast.app import App as App
    from outlast.classify import MAX_RETRY_AFTER_SECONDS as MAX_RETRY_AFTER_SECONDS
    from outlast.classify import Classifier as Classifier
    from outlast.classify import Reading as Reading
    from outlast.classify import RetryHint as RetryHint
    from outlast.classify import Strength as Strength
    from outlast.classify import classify as classify
    from outlast.classify import default_classifier as default_classifier
    from outlast.classify import evidence_of as evidence_of
    from outlast.classify import parse_retry_after as parse_retry_after
    from outlast.classify import rate_limit_hint as rate_limit_hint
    from outlast.classify import use_classifier as use_classifier
    from outlast.classify.rules import Rule as Rule
    from outlast.config import Config as Config
    from outlast.config import configure as configure
    from outlast.config import load_config as load_config
    from outlast.decide.breaker import BreakerSettings as BreakerSettings
    from outlast.decide.breaker import Budget as Budget
    from outlast.decide.explanation import Explanation as Explanation
    from outlast.decide.explanation import explain as explain
    from outlast.decide.gate import Gate as Gate
    from outlast.decide.policy import RetryPolicy as RetryPolicy
    from outlast.decide.presets import preset as preset
    from outlast.decide.schedule import Schedule as Schedule
    from outlast.decide.source_health import Profile as Profile
    from outlast.decide.source_health import SourceRules as SourceRules
    from outlast.decide.source_health import SourceState as SourceState
    from outlast.decide.source_health import profile as profile
    from outlast.failure import RETRYABLE as RETRYABLE
    from outlast.failure import Category as Category
    from outlast.failure import Evidence as Evidence
    from outlast.failure import Failure as Failure
    from outlast.failure import Origin as Origin
    from outlast.jobs.context import JobContext as JobContext
    from outlast.jobs.job import Job as Job
    from outlast.jobs.summary import Summary as Summary
    from outlast.observe.messages import Message as Message
    from outlast.ports.rows import Enqueued as Enqueued
    from outlast.ports.source_rows import NewSource as NewSource
    from outlast.ports.source_rows import Source as Source
    from outlast.ports.source_rows import Transition as Transition
    from outlast.queue.definition import TaskDefinition as TaskDefinition
    from outlast.queue.definition import current_task as current_task
    from outlast.queue.worker import Worker as Worker
    from outlast.record import events as events
    from outlast.record.bus import subscribe as subscribe
    from outlast.redact import Redactor as Redactor
    from outlast.run.block import Attempts as Attempts
    from outlast.run.block import attempts as attempts
    from outlast.run.pipelines import Trace as Trace
    from outlast.run.pipelines import node as node
    from outlast.run.pipelines import typed_async_pipeline as typed_async_pipeline
    from outlast.run.pipelines import typed_pipeline as typed_pipeline
    from outlast.run.points import point as point
    from outlast.run.report import Report as Report
    from outlast.run.report import report_of as report_of
    from outlast.run.resources import Resource as Resource
    from outlast.run.resources import resource as resource
    from outlast.run.retry import CurrentAttempt as CurrentAttempt
    from outlast.run.retry import call as call
    from outlast.run.retry import current_attempt as current_attempt
    from outlast.run.retry import no_retries as no_retries
    from outlast.run.retry import retry as retry
    from outlast.run.retry import with_policy as with_policy
    from outlast.sources.fetchers import Changed as Changed
    from outlast.sources.fetchers import Entry as Entry
    from outlast.sources.fetchers import Fetched as Fetched
    from outlast.sources.monitor import Monitor as Monitor

__version__ = "0.1.0"

_HOMES = {
    "App": "outlast.app",
    "Attempts": "outlast.run.block",
    "BreakerSettings": "outlast.decide.breaker",
    "Budget": "outlast.decide.breaker",
    "Category": "outlast.failure",
    "Changed": "outlast.sources.fetchers",
    "Classifier": "outlast.classify",
    "Config": "outlast.config",
    "CurrentAttempt": "outlast.run.retry",
    "Enqueued": "outlast.ports.rows",
    "Entry": "outlast.sources.fetchers",
    "Evidence": "outlast.failure",
    "Explanation": "outlast.decide.explanation",
    "Failure": "outlast.failure",
    "Fetched": "outlast.sources.fetchers",
    "Gate": "outlast.decide.gate",
    "Job": "outlast.jobs.job",
    "JobContext": "outlast.jobs.context",
    "MAX_RETRY_AFTER_SECONDS": "outlast.classify",
    "Message": "outlast.observe.messages",
    "Monitor": "outlast.sources.monitor",
    "NewSource": "outlast.ports.source_rows",
    "Origin": "outlast.failure",
    "Profile": "outlast.decide.source_health",
    "RETRYABLE": "outlast.failure",
    "Reading": "outlast.classify",
    "Redactor": "outlast.redact",
    "Report": "outlast.run.report",
    "Resource": "outlast.run.resources",
    "RetryHint": "outlast.classify",
    "RetryPolicy": "outlast.decide.policy",
    "Rule": "outlast.classify.rules",
    "Schedule": "outlast.decide.schedule",
    "Source": "outlast.ports.source_rows",
    "SourceRules": "outlast.decide.source_health",
    "SourceState": "outlast.decide.source_health",
    "Strength": "outlast.classify",
    "Summary": "outlast.jobs.summary",
    "TaskDefinition": "outlast.queue.definition",
    "Trace": "outlast.run.pipelines",
    "Transition": "outlast.ports.source_rows",
    "Worker": "outlast.queue.worker",
    "attempts": "outlast.run.block",
    "call": "outlast.run.retry",
    "classify": "outlast.classify",
    "configure": "outlast.config",
    "current_attempt": "outlast.run.retry",
    "current_task": "outlast.queue.definition",
    "default_classifier": "outlast.classify",
    "errors": "outlast.errors",
    "events": "outlast.record.events",
    "evidence_of": "outlast.classify",
    "explain": "outlast.decide.explanation",
    "load_config": "outlast.config",
    "no_retries": "outlast.run.retry",
    "node": "outlast.run.pipelines",
    "parse_retry_after": "outlast.classify",
    "point": "outlast.run.points",
    "preset": "outlast.decide.presets",
    "profile": "outlast.decide.source_health",
    "rate_limit_hint": "outlast.classify",
    "report_of": "outlast.run.report",
    "resource": "outlast.run.resources",
    "retry": "outlast.run.retry",
    "subscribe": "outlast.record.bus",
    "typed_async_pipeline": "outlast.run.pipelines",
    "typed_pipeline": "outlast.run.pipelines",
    "use_classifier": "outlast.classify",
    "with_policy": "outlast.run.retry",
}

__all__ = [
    "MAX_RETRY_AFTER_SECONDS",
    "RETRYABLE",
    "App",
    "Attempts",
    "BreakerSettings",
    "Budget",
    "Category",
    "Changed",
    "Classifier",
    "Config",
    "CurrentAttempt",
    "Enqueued",
    "Entry",
    "Evidence",
    "Explanation",
    "Failure",
    "Fetched",
    "Gate",
    "Job",
    "JobContext",
    "Message",
    "Monitor",
    "NewSource",
    "Origin",
    "Profile",
    "Reading",
    "Redactor",
    "Report",
    "Resource",
    "RetryHint",
    "RetryPolicy",
    "Rule",
    "Schedule",
    "Source",
    "SourceRules",
    "SourceState",
    "Strength",
    "Summary",
    "TaskDefinition",
    "Trace",
    "Transition",
    "Worker",
    "attempts",
    "call",
    "classify",
    "configure",
    "current_attempt",
    "current_task",
    "default_classifier",
    "errors",
    "events",
    "evidence_of",
    "explain",
    "load_config",
    "no_retries",
    "node",
    "parse_retry_after",
    "point",
    "preset",
    "profile",
    "rate_limit_hint",
    "report_of",
    "resource",
    "retry",
    "subscribe",
    "typed_async_pipeline",
    "typed_pipeline",
    "use_classifier",
    "with_policy",
]


def __getattr__(name: str) -> object:
    """Import a public name on first access."""
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'outlast' has no attribute {name!r}"
        raise AttributeError(message)
    import importlib  # noqa: PLC0415  # also loaded on first use

    module = importlib.import_module(home)
    value = module if home.endswith(f".{name}") and not hasattr(module, name) else getattr(module, name)
    if home == "outlast.classify" and name == "classify":
        value = module  # the module is callable: outlast.classify is the function in any import order
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, including those that are not imported yet."""
    return sorted({*globals(), *__all__})
