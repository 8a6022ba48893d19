"""Holdfast: failure handling for programs that depend on things that fail.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast import errors as errors
    from holdfast.classify import MAX_RETRY_AFTER_SECONDS as MAX_RETRY_AFTER_SECONDS
    from holdfast.classify import Classifier as Classifier
    from holdfast.classify import Reading as Reading
    from holdfast.classify import RetryHint as RetryHint
    from holdfast.classify.rules import Rule as Rule
    from holdfast.classify import Strength as Strength
    from holdfast.classify import classify as classify
    from holdfast.classify import default_classifier as default_classifier
    from holdfast.classify import parse_retry_after as parse_retry_after
    from holdfast.classify import rate_limit_hint as rate_limit_hint
    from holdfast.classify import use_classifier as use_classifier
    from holdfast.config import Config as Config
    from holdfast.config import configure as configure
    from holdfast.config import load_config as load_config
    from holdfast.decide.explain import Explanation as Explanation
    from holdfast.decide.explain import explain as explain
    from holdfast.decide.policy import RetryPolicy as RetryPolicy
    from holdfast.failure import RETRYABLE as RETRYABLE
    from holdfast.failure import Category as Category
    from holdfast.failure import Evidence as Evidence
    from holdfast.failure import Failure as Failure
    from holdfast.failure import Origin as Origin
    from holdfast.redact import Redactor as Redactor
    from holdfast.run.retry import retry as retry

__version__ = "0.1.0"

_HOMES = {
    "MAX_RETRY_AFTER_SECONDS": "holdfast.classify",
    "RETRYABLE": "holdfast.failure",
    "Category": "holdfast.failure",
    "Classifier": "holdfast.classify",
    "Config": "holdfast.config",
    "Evidence": "holdfast.failure",
    "Explanation": "holdfast.decide.explain",
    "Failure": "holdfast.failure",
    "Origin": "holdfast.failure",
    "Reading": "holdfast.classify",
    "Redactor": "holdfast.redact",
    "RetryHint": "holdfast.classify",
    "RetryPolicy": "holdfast.decide.policy",
    "Rule": "holdfast.classify.rules",
    "Strength": "holdfast.classify",
    "classify": "holdfast.classify",
    "configure": "holdfast.config",
    "default_classifier": "holdfast.classify",
    "errors": "holdfast.errors",
    "explain": "holdfast.decide.explain",
    "load_config": "holdfast.config",
    "parse_retry_after": "holdfast.classify",
    "rate_limit_hint": "holdfast.classify",
    "retry": "holdfast.run.retry",
    "use_classifier": "holdfast.classify",
}

__all__ = [
    "MAX_RETRY_AFTER_SECONDS",
    "RETRYABLE",
    "Category",
    "Classifier",
    "Config",
    "Evidence",
    "Explanation",
    "Failure",
    "Origin",
    "Reading",
    "Redactor",
    "RetryHint",
    "RetryPolicy",
    "Rule",
    "Strength",
    "classify",
    "configure",
    "default_classifier",
    "errors",
    "explain",
    "load_config",
    "parse_retry_after",
    "rate_limit_hint",
    "retry",
    "use_classifier",
]


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for."""
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'holdfast' has no attribute {name!r}"
        raise AttributeError(message)
    import importlib  # noqa: PLC0415  # part of what is put off

    module = importlib.import_module(home)
    value = module if home == f"holdfast.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
