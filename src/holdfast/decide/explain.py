"""Why an error was judged as it was, in words."""

from dataclasses import dataclass

from holdfast.classify import Classifier, Reading, Strength, default_classifier
from holdfast.decide.policy import DEFAULT_POLICY, RetryPolicy
from holdfast.failure import Evidence, Failure

__all__ = ["Explanation", "explain"]

_SURE = {
    Strength.STRONG: "strong: a type, a status or a code says so",
    Strength.WEAK: "weak: only a name or an attribute that nobody described says so",
    Strength.TEXT: "text only: nothing but the words of the message say so",
}


@dataclass(frozen=True)
class Explanation:
    """Why a failure was judged as it was; `print` it.

    Attributes:
        failure: The verdict.
        strength: How sure it is.
        others: The other readings that matched and did not decide.
        action: What the policy does about it, in words.
    """

    failure: Failure
    strength: Strength
    others: tuple[Reading, ...]
    action: str

    def __str__(self) -> str:
        """Return the explanation for people."""
        failure = self.failure
        facts = [failure.category.value, "retryable" if failure.retryable else "not retryable", f"origin {failure.origin}"]
        if failure.http_status is not None:
            facts.append(f"HTTP {failure.http_status}")
        if failure.code:
            facts.append(failure.code)
        lines = [
            f"{failure.exception_name or 'Response'}: {failure.message}" if failure.message else failure.exception_name,
            f"  verdict   {', '.join(facts)}",
            f"  because   {failure.rule}  ({_SURE[self.strength]})",
        ]
        if failure.retry_after is not None:
            more = ", though it asked for longer" if failure.capped else ""
            lines.append(f"  asked     to wait {failure.retry_after:g} s{more}")
        lines += [f"  also      {other.category.value}, by {other.rule}" for other in self.others]
        lines.append(f"  policy    {self.action}")
        return "\n".join(lines)


def explain(
    subject: BaseException | Evidence, *, policy: RetryPolicy = DEFAULT_POLICY, classifier: Classifier | None = None
) -> Explanation:
    """Explain the verdict on an error or a piece of evidence, and what a policy makes of it.

    Args:
        subject: Any exception, or an `Evidence`.
        policy: The policy to try on it; by default that of a bare ``@hf.retry``.
        classifier: The classifier to ask; by default the process's.
    """
    asked = classifier or default_classifier()
    failure = asked.classify(subject)
    readings = list(asked.readings(subject))
    winner = next((each for each in readings if each.rule == failure.rule), None)
    strength = winner.strength if winner else Strength.TEXT
    seen = {(failure.category, failure.rule)}
    others = []
    for each in readings:
        if (each.category, each.rule) not in seen:
            seen.add((each.category, each.rule))
            others.append(each)
    return Explanation(failure, strength, tuple(others), _action(failure, subject, policy))


def _action(failure: Failure, subject: BaseException | Evidence, policy: RetryPolicy) -> str:
    wanted = policy.retries(subject) if isinstance(subject, BaseException) else failure.retryable
    if not wanted:
        return "raise it at once"
    if policy.max_attempts == 1:
        return "raise it: the policy allows one attempt"
    waits = [f"{policy.delay_after(failure, attempt):g}" for attempt in range(1, policy.max_attempts)]
    shown = ", ".join(waits[:6]) + (", …" if len(waits) > 6 else "")  # noqa: PLR2004  # so many fit on a line
    return f"retry, {policy.max_attempts} attempts in all, waiting {shown} s between them"
