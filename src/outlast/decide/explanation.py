"""Explains in words how an error was classified, and what a policy does about it."""

from copy import copy
from dataclasses import dataclass
from typing import Any

from outlast.classify import Classifier, Reading, Strength, default_classifier
from outlast.classify.classifier import NOTHING_MATCHED
from outlast.classify.rules import as_classifier
from outlast.classify.safe_access import contain
from outlast.decide.decision import (
    Abort,
    Decision,
    DecisionReason,
    DecisionState,
    Defer,
    Fail,
    Place,
    Retry,
    Skip,
    decide,
)
from outlast.decide.policy import DEFAULT_POLICY, RetryPolicy, is_function
from outlast.failure import Category, Evidence, Failure, first_line
from outlast.redact import redact
from outlast.units import format_seconds

_STRENGTH_LABELS = {Strength.STRONG: "strong", Strength.WEAK: "weak", Strength.TEXT: "text only"}
_MAX_AGREEING = 3
_MAX_WAITS = 6
_LINE_LIMIT = 160


@dataclass(frozen=True)
class Explanation:
    """Why an error was classified as it was; `print` it.

    Attributes:
        failure: The classified failure.
        strength: How reliable the evidence is.
        others: The other readings that matched and did not decide.
        action: What the policy does about it, in words.
        decision: The same as the decider returned it.
    """

    failure: Failure
    strength: Strength
    others: tuple[Reading, ...]
    action: str
    decision: Decision

    def __str__(self) -> str:
        """Return the explanation as text."""
        failure = self.failure
        facts = [str(failure.origin)]
        if failure.http_status is not None:
            facts.append(f"HTTP {failure.http_status}")
        if failure.code:
            facts.append(failure.code)
        name = failure.exception_name or ("Response" if failure.http_status else "Code")
        retryable = "retryable" if failure.retryable else "not retryable"
        strength = "" if failure.rule == NOTHING_MATCHED else f"  [{_STRENGTH_LABELS[self.strength]}]"
        lines = [
            f"{name}: {first_line(failure.message, _LINE_LIMIT)}" if failure.message else name,
            f"  verdict   {failure.category.value}, {retryable}  ({', '.join(facts)})",
            f"  because   {failure.rule}{strength}",
        ]
        agreeing = [redact(other.rule) for other in self.others if other.category is failure.category]
        if agreeing:
            lines.append(f"  agrees    {'; '.join(agreeing[:_MAX_AGREEING])}")
        lines += [
            f"  differs   {other.category.value}, by {redact(other.rule)}"
            for other in self.others
            if other.category is not failure.category
        ]
        if failure.retry_after is not None:
            more = " (it asked for longer)" if failure.capped else ""
            lines.append(f"  asked     to wait {format_seconds(failure.retry_after)}{more}")
        lines.append(f"  policy    {self.action}")
        return "\n".join(lines)


def explain(
    subject: BaseException | Evidence,
    *,
    policy: RetryPolicy = DEFAULT_POLICY,
    classifier: Any = None,
    state: DecisionState | None = None,
) -> Explanation:
    """Explain how an error or a piece of evidence is classified, and what a policy does about it.

    Args:
        subject: Any exception, or an `Evidence`.
        policy: The policy; by default that of a bare ``@outlast.retry``.
        classifier: A `Classifier`, or an object with `is_retryable` and `get_error_category`; by default the classifier
            of the process.
        state: Where the attempt was made and what is left; by default the first attempt of a call.
    """
    used = default_classifier() if classifier is None else as_classifier(classifier)
    failure = used.classify(subject).settled()
    readings = _readings(used, subject)
    strength = readings[0].strength if readings else Strength.TEXT
    others: dict[tuple[Category, str], Reading] = {}
    for each in readings:
        others.setdefault((each.category, each.rule), each)
    others.pop((failure.category, failure.rule), None)
    if state is None:
        state = DecisionState(wanted=failure.retryable, time_left=policy.deadline, chance=lambda: 1.0)
        if isinstance(subject, BaseException):
            state.ask_policy(policy, subject, failure)
    decision = decide(failure, policy, state)
    action = _action(failure, policy, state, decision)
    if is_function(policy.retry_on) and state.wanted is not None:
        returned = format_seconds(state.wait) if state.wait is not None else f"{state.wanted}"
        action += f"; the retry_on function returned {returned}"
    return Explanation(failure, strength, tuple(others.values()), action, decision)


def _readings(classifier: Classifier, subject: BaseException | Evidence) -> list[Reading]:
    try:
        return list(classifier.readings(classifier.decisive(subject)))
    except BaseException as raised:  # noqa: BLE001  # a hostile error; its classification says so
        contain(raised)
        return []


def _action(  # noqa: PLR0911  # one for each kind of decision
    failure: Failure, policy: RetryPolicy, state: DecisionState, decision: Decision
) -> str:
    """Return a decision in words; for a retry, those that follow if every attempt fails in the same way."""
    match decision:
        case Retry():
            return _retries(failure, policy, state, decision)
        case Defer(delay):
            if state.place in {Place.POLL, Place.TASK}:
                return f"defer it for {format_seconds(delay)}, which uses no attempt"
            over = state.time_left is not None and delay >= state.time_left and not failure.capped
            why = _time_allowed(state) if over else "the wait is too long to sleep through"
            return f"raise it with retry_after: {why}"
        case Abort():
            return "stop the whole job"
        case Skip():
            return "skip the target"
        case Fail(DecisionReason.EXHAUSTED) if policy.for_category(failure.category).max_attempts == 1:
            return "raise it: the policy allows one attempt"
        case Fail(DecisionReason.DEADLINE):
            return f"raise it: {_time_allowed(state)}"
        case Fail(DecisionReason.PERMANENT):
            return "raise it at once"
        case Fail(reason):
            return f"raise it ({reason})"


def _retries(failure: Failure, policy: RetryPolicy, state: DecisionState, decision: Decision) -> str:
    following, waits = copy(state), list[float]()
    while isinstance(decision, Retry):
        waits.append(decision.delay)
        following.attempt += 1
        following.previous = decision.delay
        if following.time_left is not None:
            following.time_left = max(0.0, following.time_left - decision.delay)
        decision = decide(failure, policy, following)
    shown = ", ".join(f"{wait:g}" for wait in waits[:_MAX_WAITS]) + (", …" if len(waits) > _MAX_WAITS else "")
    at_most = "at most " if state.wait is None and _varies(policy, failure) else ""
    total = policy.for_category(failure.category).max_attempts - state.attempt
    scope = "in all"
    if len(waits) < total:
        limit = state.time_left
        scope = "before it expires" if limit is None else f"in the {format_seconds(limit)} the policy allows"
    return f"retry, {len(waits) + state.attempt} attempts {scope}, waiting {at_most}{shown} s between them"


def _time_allowed(state: DecisionState) -> str:
    return f"the policy allows {format_seconds(state.time_left or 0.0)} in all"


def _varies(policy: RetryPolicy, failure: Failure) -> bool:
    """Return whether chance has a say in the waits."""
    jitter = policy.for_category(failure.category).jitter
    if jitter is None:
        return failure.category is Category.RATE_LIMIT and failure.retry_after is None
    return bool(jitter) and jitter != "none"
