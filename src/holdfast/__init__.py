"""Holdfast: failure handling for programs that depend on things that fail.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast import errors as errors
    from holdfast.app import App as App
    from holdfast.classify import MAX_RETRY_AFTER_SECONDS as MAX_RETRY_AFTER_SECONDS
    from holdfast.classify import Classifier as Classifier
    from holdfast.classify import Reading as Reading
    from holdfast.classify import RetryHint as RetryHint
    from holdfast.classify import Strength as Strength
    from holdfast.classify import classify as classify
    from holdfast.classify import default_classifier as default_classifier
    from holdfast.classify import evidence_of as evidence_of
    from holdfast.classify import parse_retry_after as parse_retry_after
    from holdfast.classify import rate_limit_hint as rate_limit_hint
    from holdfast.classify import use_classifier as use_classifier
    from holdfast.classify.rules import Rule as Rule
    from holdfast.config import Config as Config
    from holdfast.config import configure as configure
    from holdfast.config import load_config as load_config
    from holdfast.decide.breaker import BreakerSettings as BreakerSettings
    from holdfast.decide.budget import Budget as Budget
    from holdfast.decide.explain import Explanation as Explanation
    from holdfast.decide.explain import explain as explain
    from holdfast.decide.gate import Gate as Gate
    from holdfast.decide.health import SourceRules as SourceRules
    from holdfast.decide.health import SourceState as SourceState
    from holdfast.decide.policy import RetryPolicy as RetryPolicy
    from holdfast.decide.presets import preset as preset
    from holdfast.decide.preview import Schedule as Schedule
    from holdfast.decide.profiles import Profile as Profile
    from holdfast.decide.profiles import profile as profile
    from holdfast.failure import RETRYABLE as RETRYABLE
    from holdfast.failure import Category as Category
    from holdfast.failure import Evidence as Evidence
    from holdfast.failure import Failure as Failure
    from holdfast.failure import Origin as Origin
    from holdfast.jobs.context import JobContext as JobContext
    from holdfast.jobs.job import Job as Job
    from holdfast.jobs.summary import Summary as Summary
    from holdfast.observe.messages import Message as Message
    from holdfast.ports.rows import Enqueued as Enqueued
    from holdfast.ports.source_rows import NewSource as NewSource
    from holdfast.ports.source_rows import Source as Source
    from holdfast.ports.source_rows import Transition as Transition
    from holdfast.queue.current import current_task as current_task
    from holdfast.queue.definition import TaskDefinition as TaskDefinition
    from holdfast.queue.worker import Worker as Worker
    from holdfast.record import events as events
    from holdfast.record.bus import subscribe as subscribe
    from holdfast.redact import Redactor as Redactor
    from holdfast.run.block import Attempts as Attempts
    from holdfast.run.block import attempts as attempts
    from holdfast.run.nodes import node as node
    from holdfast.run.pipelines import Trace as Trace
    from holdfast.run.pipelines import typed_async_pipeline as typed_async_pipeline
    from holdfast.run.pipelines import typed_pipeline as typed_pipeline
    from holdfast.run.points import point as point
    from holdfast.run.report import Report as Report
    from holdfast.run.report import report_of as report_of
    from holdfast.run.resources import Resource as Resource
    from holdfast.run.resources import resource as resource
    from holdfast.run.retry import CurrentAttempt as CurrentAttempt
    from holdfast.run.retry import call as call
    from holdfast.run.retry import current_attempt as current_attempt
    from holdfast.run.retry import no_retries as no_retries
    from holdfast.run.retry import retry as retry
    from holdfast.run.retry import with_policy as with_policy
    from holdfast.sources.fetched import Changed as Changed
    from holdfast.sources.fetched import Entry as Entry
    from holdfast.sources.fetched import Fetched as Fetched
    from holdfast.sources.monitor import Monitor as Monitor

__version__ = "0.1.0"

_HOMES = {
    "App": "holdfast.app",
    "Attempts": "holdfast.run.block",
    "BreakerSettings": "holdfast.decide.breaker",
    "Budget": "holdfast.decide.budget",
    "Category": "holdfast.failure",
    "Changed": "holdfast.sources.fetched",
    "Classifier": "holdfast.classify",
    "Config": "holdfast.config",
    "CurrentAttempt": "holdfast.run.retry",
    "Enqueued": "holdfast.ports.rows",
    "Entry": "holdfast.sources.fetched",
    "Evidence": "holdfast.failure",
    "Explanation": "holdfast.decide.explain",
    "Failure": "holdfast.failure",
    "Fetched": "holdfast.sources.fetched",
    "Gate": "holdfast.decide.gate",
    "Job": "holdfast.jobs.job",
    "JobContext": "holdfast.jobs.context",
    "MAX_RETRY_AFTER_SECONDS": "holdfast.classify",
    "Message": "holdfast.observe.messages",
    "Monitor": "holdfast.sources.monitor",
    "NewSource": "holdfast.ports.source_rows",
    "Origin": "holdfast.failure",
    "Profile": "holdfast.decide.profiles",
    "RETRYABLE": "holdfast.failure",
    "Reading": "holdfast.classify",
    "Redactor": "holdfast.redact",
    "Report": "holdfast.run.report",
    "Resource": "holdfast.run.resources",
    "RetryHint": "holdfast.classify",
    "RetryPolicy": "holdfast.decide.policy",
    "Rule": "holdfast.classify.rules",
    "Schedule": "holdfast.decide.preview",
    "Source": "holdfast.ports.source_rows",
    "SourceRules": "holdfast.decide.health",
    "SourceState": "holdfast.decide.health",
    "Strength": "holdfast.classify",
    "Summary": "holdfast.jobs.summary",
    "TaskDefinition": "holdfast.queue.definition",
    "Trace": "holdfast.run.pipelines",
    "Transition": "holdfast.ports.source_rows",
    "Worker": "holdfast.queue.worker",
    "attempts": "holdfast.run.block",
    "call": "holdfast.run.retry",
    "classify": "holdfast.classify",
    "configure": "holdfast.config",
    "current_attempt": "holdfast.run.retry",
    "current_task": "holdfast.queue.current",
    "default_classifier": "holdfast.classify",
    "errors": "holdfast.errors",
    "events": "holdfast.record.events",
    "evidence_of": "holdfast.classify",
    "explain": "holdfast.decide.explain",
    "load_config": "holdfast.config",
    "no_retries": "holdfast.run.retry",
    "node": "holdfast.run.nodes",
    "parse_retry_after": "holdfast.classify",
    "point": "holdfast.run.points",
    "preset": "holdfast.decide.presets",
    "profile": "holdfast.decide.profiles",
    "rate_limit_hint": "holdfast.classify",
    "report_of": "holdfast.run.report",
    "resource": "holdfast.run.resources",
    "retry": "holdfast.run.retry",
    "subscribe": "holdfast.record.bus",
    "typed_async_pipeline": "holdfast.run.pipelines",
    "typed_pipeline": "holdfast.run.pipelines",
    "use_classifier": "holdfast.classify",
    "with_policy": "holdfast.run.retry",
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
    """Load a public name when it is first asked for."""
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'holdfast' has no attribute {name!r}"
        raise AttributeError(message)
    import importlib  # noqa: PLC0415  # part of what is put off

    module = importlib.import_module(home)
    value = module if home.endswith(f".{name}") and not hasattr(module, name) else getattr(module, name)
    if home == "holdfast.classify" and name == "classify":
        value = module  # the package is the function, whatever the order of imports
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
