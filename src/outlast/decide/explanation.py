"""Explains in words how an error was classified, and what a policy does about it."""

from dataclasses import dataclass

from outlast.classify import MAX_RETRY_AFTER_SECONDS, Classifier, Reading, Strength, default_classifier
from outlast.classify.classifier import NOTHING_MATCHED
from outlast.decide.policy import DEFAULT_POLICY, RetryPolicy
from outlast.failure import Category, Evidence, Failure
from outlast.redact import redact

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
    """

    failure: Failure
    strength: Strength
    others: tuple[Reading, ...]
    action: str

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
            f"{name}: {_first_line(failure.message)}" if failure.message else name,
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
            lines.append(f"  asked     to wait {failure.retry_after:g} s{more}")
        lines.append(f"  policy    {self.action}")
        return "\n".join(lines)


def _first_line(message: str) -> str:
    line, _, more = message.partition("\n")
    return f"{line[:_LINE_LIMIT]} …" if more.strip() or len(line) > _LINE_LIMIT else line


def explain(
    subject: BaseException | Evidence, *, policy: RetryPolicy = DEFAULT_POLICY, classifier: Classifier | None = None
) -> Explanation:
    """Explain how an error or a piece of evidence is classified, and what a policy does about it.

    Args:
        subject: Any exception, or an `Evidence`.
        policy: The policy; by default that of a bare ``@outlast.retry``.
        classifier: The classifier; by default the one of the process.
    """
    used = classifier or default_classifier()
    failure = used.classify(subject)
    readings = _readings(used, subject)
    winner = next(iter(readings), None)
    strength = winner.strength if winner else Strength.TEXT
    seen = {(failure.category, failure.rule)}
    others = []
    for each in readings:
        if (each.category, each.rule) not in seen:
            seen.add((each.category, each.rule))
            others.append(each)
    return Explanation(failure, strength, tuple(others), _action(failure, subject, policy))


def _readings(classifier: Classifier, subject: BaseException | Evidence) -> list[Reading]:
    try:
        return list(classifier.readings(classifier.decisive(subject)))
    except Exception:  # noqa: BLE001  # a hostile error; its classification says so
        return []


def _action(failure: Failure, subject: BaseException | Evidence, policy: RetryPolicy) -> str:
    wanted = policy.retries(subject) if isinstance(subject, BaseException) else failure.retryable
    chosen = policy.for_category(failure.category)
    if not wanted:
        return "raise it at once"
    if chosen.max_attempts == 1:
        return "raise it: the policy allows one attempt"
    if failure.capped or (failure.retry_after or 0.0) > MAX_RETRY_AFTER_SECONDS:
        return "raise it with retry_after: the wait is too long to sleep through"
    waits: list[float] = []
    for attempt in range(1, chosen.max_attempts):
        wait = policy.delay_after(failure, attempt, previous=waits[-1] if waits else None, chance=lambda: 1.0)
        if policy.deadline is not None and sum(waits) + wait >= policy.deadline:
            break  # as in a call, a wait that would end at the deadline is not started
        waits.append(wait)
    if not waits:
        has_time = failure.retry_after is not None or failure.category is Category.RATE_LIMIT
        when = " with retry_after" if has_time and policy.deadline else ""
        return f"raise it{when}: the policy allows {policy.deadline:g} s in all"
    shown = ", ".join(f"{wait:g}" for wait in waits[:_MAX_WAITS]) + (", …" if len(waits) > _MAX_WAITS else "")
    at_most = "at most " if policy.jitter and policy.jitter != "none" else ""
    scope = "in all" if len(waits) == chosen.max_attempts - 1 else f"in the {policy.deadline:g} s the policy allows"
    return f"retry, {len(waits) + 1} attempts {scope}, waiting {at_most}{shown} s between them"
