"""What a policy does in an outage that you describe, or would have done in one that the store has recorded.

The package is callable, as `outlast.classify` is: ``outlast.simulate(policy, scenario)`` calls `simulate`.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from outlast.simulate.history import HistoryReplay, replay_history
from outlast.simulate.result import Comparison, Simulation, Spread, compare, simulate, sweep
from outlast.simulate.scenario import OtherSide, Phase, Scenario

if TYPE_CHECKING:
    from outlast.decide.policy import RetryPolicy

__all__ = [
    "Comparison",
    "HistoryReplay",
    "OtherSide",
    "Phase",
    "Scenario",
    "Simulation",
    "Spread",
    "compare",
    "replay_history",
    "simulate",
    "sweep",
]


class _CallablePackage(ModuleType):
    def __call__(self, policy: "RetryPolicy | str", scenario: Scenario | None = None, **settings: Any) -> Simulation:
        """Simulate a policy; `simulate` describes the arguments."""
        return simulate(policy, scenario, **settings)


_package = _CallablePackage(__name__)
_package.__dict__.update(globals())
sys.modules[__name__] = _package
