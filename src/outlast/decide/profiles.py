"""Profiles: a policy for one poll and the rules for a source's health, under one name."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from outlast.decide.health import SourceRules
from outlast.decide.policy import RetryPolicy
from outlast.decide.presets import preset
from outlast.errors import ConfigError

__all__ = ["PROFILES", "Profile", "profile"]

_OWN = ("name", "policy", "rules", "fetch")
_RULES = frozenset(each.name for each in fields(SourceRules))


@dataclass(frozen=True)
class Profile:
    """How sources of one kind are polled and judged.

    Attributes:
        name: Sources are kept under it; each profile has cycles of its own.
        policy: Retries within one poll.
        rules: What becomes of a source that fails poll after poll.
        fetch: What its sources are where nothing else is said: ``feed`` or ``page``.
    """

    name: str
    policy: RetryPolicy
    rules: SourceRules = field(default_factory=SourceRules)
    fetch: str = "feed"

    def __post_init__(self) -> None:
        """Refuse what cannot be fetched."""
        if self.fetch not in {"feed", "page"}:
            message = f"fetch is {self.fetch!r}; choose feed or page"
            raise ConfigError(message)

    def replace(self, **changes: Any) -> "Profile":
        """Return another profile: ``outlast.profile("feed").replace(name="news", threshold=3)``.

        Args:
            changes: ``name``, ``policy``, ``rules``, ``fetch``, or settings of `SourceRules`.

        Raises:
            ConfigError: If a setting does not exist or cannot be used.
        """
        own = {name: changes.pop(name) for name in _OWN if name in changes}
        unknown = changes.keys() - _RULES
        if unknown:
            choices = ", ".join((*_OWN, *sorted(_RULES)))
            message = f"{min(unknown)!r} is no setting of a profile; choose from: {choices}"
            raise ConfigError(message)
        return replace(replace(self, **own), rules=own.get("rules", self.rules).replace(**changes))


PROFILES = {
    "blog": Profile("blog", preset("blog"), SourceRules(disables=False), "page"),
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
