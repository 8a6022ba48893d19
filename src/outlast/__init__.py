"""Outlast: failure handling for programs that depend on things that fail.

Names are imported on first access, so that ``import outlast`` takes almost no time.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast import errors
    from outlast.app import App
    from outlast.classify import (
        MAX_RETRY_AFTER_SECONDS,
        Classifier,
        Reading,
        RetryHint,
        Strength,
        classify,
        default_classifier,
        evidence_of,
        parse_retry_after,
        rate_limit_hint,
        use_classifier,
    )
    from outlast.classify.rules import Rule
    from outlast.config import Config, configure, load_config
    from outlast.decide.breaker import BreakerSettings, Budget
    from outlast.decide.explanation import Explanation, explain
    from outlast.decide.gate import Gate
    from outlast.decide.policy import RetryPolicy
    from outlast.decide.presets import preset
    from outlast.decide.schedule import Schedule
    from outlast.decide.source_health import Profile, SourceRules, SourceState, profile
    from outlast.failure import RETRYABLE, Category, Evidence, Failure, Origin
    from outlast.jobs.context import JobContext
    from outlast.jobs.job import Job
    from outlast.jobs.summary import Summary
    from outlast.observe.messages import Message
    from outlast.ports.rows import Enqueued
    from outlast.ports.source_rows import NewSource, Source, Transition
    from outlast.queue.definition import TaskDefinition, TaskOptions, Ticket, current_task
    from outlast.queue.worker import Worker
    from outlast.record import events
    from outlast.record.bus import subscribe
    from outlast.redact import Redactor
    from outlast.run.block import Attempts, attempts
    from outlast.run.call_state import CurrentAttempt, current_attempt
    from outlast.run.pipelines import Trace, node, typed_async_pipeline, typed_pipeline
    from outlast.run.points import point
    from outlast.run.report import Report, report_of
    from outlast.run.resources import Resource, resource
    from outlast.run.retry import call, no_retries, retry, with_policy
    from outlast.simulate import OtherSide, Phase, Scenario, Simulation, simulate
    from outlast.sources.fetchers import Changed, Entry, Fetched
    from outlast.sources.monitor import Monitor

__version__ = "0.1.0"

_NAMES = {
    "outlast.app": "App",
    "outlast.classify": (
        "Classifier MAX_RETRY_AFTER_SECONDS Reading RetryHint Strength "
        "classify default_classifier evidence_of parse_retry_after rate_limit_hint use_classifier"
    ),
    "outlast.classify.rules": "Rule",
    "outlast.config": "Config configure load_config",
    "outlast.decide.breaker": "BreakerSettings Budget",
    "outlast.decide.explanation": "Explanation explain",
    "outlast.decide.gate": "Gate",
    "outlast.decide.policy": "RetryPolicy",
    "outlast.decide.presets": "preset",
    "outlast.decide.schedule": "Schedule",
    "outlast.decide.source_health": "Profile SourceRules SourceState profile",
    "outlast.errors": "errors",
    "outlast.failure": "Category Evidence Failure Origin RETRYABLE",
    "outlast.jobs.context": "JobContext",
    "outlast.jobs.job": "Job",
    "outlast.jobs.summary": "Summary",
    "outlast.observe.messages": "Message",
    "outlast.ports.rows": "Enqueued",
    "outlast.ports.source_rows": "NewSource Source Transition",
    "outlast.queue.definition": "TaskDefinition TaskOptions Ticket current_task",
    "outlast.queue.worker": "Worker",
    "outlast.record.bus": "subscribe",
    "outlast.record.events": "events",
    "outlast.redact": "Redactor",
    "outlast.run.block": "Attempts attempts",
    "outlast.run.call_state": "CurrentAttempt current_attempt",
    "outlast.run.pipelines": "Trace node typed_async_pipeline typed_pipeline",
    "outlast.run.points": "point",
    "outlast.run.report": "Report report_of",
    "outlast.run.resources": "Resource resource",
    "outlast.run.retry": "call no_retries retry with_policy",
    "outlast.simulate": "OtherSide Phase Scenario Simulation simulate",
    "outlast.sources.fetchers": "Changed Entry Fetched",
    "outlast.sources.monitor": "Monitor",
}
"""The public names of each module."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

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
    "OtherSide",
    "Phase",
    "Profile",
    "Reading",
    "Redactor",
    "Report",
    "Resource",
    "RetryHint",
    "RetryPolicy",
    "Rule",
    "Scenario",
    "Schedule",
    "Simulation",
    "Source",
    "SourceRules",
    "SourceState",
    "Strength",
    "Summary",
    "TaskDefinition",
    "TaskOptions",
    "Ticket",
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
    "simulate",
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
        raise AttributeError(f"module 'outlast' has no attribute {name!r}")
    import importlib  # noqa: PLC0415  # also loaded on first use

    module = importlib.import_module(home)
    value = module if home.endswith(f".{name}") and not hasattr(module, name) else getattr(module, name)
    if home == f"{__name__}.{name}":
        value = module  # a callable package: outlast.classify is the function in any import order
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, including those that are not imported yet."""
    return sorted({*globals(), *__all__})
