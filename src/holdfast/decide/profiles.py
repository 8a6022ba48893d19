"""Profiles: a policy for one poll and the rules for a source's health, under one name."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from holdfast.decide.health import SourceRules
from holdfast.decide.policy import RetryPolicy
from holdfast.decide.presets import preset
from holdfast.errors import ConfigError

__all__ = ["PROFILES", "Profile", "profile"]

_RULES = frozenset(each.name for each in fields(SourceRules))


@dataclass(frozen=True)
class Profile:
    """How sources of one kind are polled and judged.

    Attributes:
        name: Sources are kept under it; each profile has cycles of its own.
        policy: Retries within one poll.
        rules: What becomes of a source that fails poll after poll.
    """

    name: str
    policy: RetryPolicy
    rules: SourceRules = field(default_factory=SourceRules)

    def replace(self, **changes: Any) -> "Profile":
        """Return another profile: ``hf.profile("feed").replace(name="news", threshold=3)``.

        Args:
            changes: ``name``, ``policy``, ``rules``, or settings of `SourceRules`.

        Raises:
            ConfigError: If a setting does not exist or cannot be used.
        """
        own = {name: changes.pop(name) for name in ("name", "policy", "rules") if name in changes}
        unknown = changes.keys() - _RULES
        if unknown:
            choices = ", ".join(("name", "policy", "rules", *sorted(_RULES)))
            message = f"{min(unknown)!r} is no setting of a profile; choose from: {choices}"
            raise ConfigError(message)
        return replace(replace(self, **own), rules=own.get("rules", self.rules).replace(**changes))


PROFILES = {
    "blog": Profile("blog", preset("blog"), SourceRules(disables=False)),
    "feed": Profile("feed", preset("feed")),
}
"""`blog`: counts, tells at the fifth failure in a row, never disables. `feed`: disables at the fifth."""


def profile(name: str) -> Profile:
    """Return the profile of that name, to use as it is or with ``replace``.

    Raises:
        ConfigError: If there is none; the message lists the valid names.
    """
    try:
        return PROFILES[name]
    except (KeyError, TypeError):
        message = f"{name!r} is no profile; choose one of: {', '.join(PROFILES)}"
        raise ConfigError(message) from None
