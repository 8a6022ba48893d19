"""Draw the charts of the documentation with `outlast.simulate`. Usage: python tools/charts.py [FOLDER].

Those of explanation/retry-storms.md are described here; tutorial/choose-a-policy.md shows the file for its own.

The same version always draws the same files; a test compares them.
"""

import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

from outlast import BreakerSettings, Budget, OtherSide, Phase, RetryPolicy, Scenario, simulate

DOCS = Path(__file__).resolve().parent.parent / "docs"
FOLDER = DOCS / "images"
SIDE = OtherSide(latency=0.05, timeout=1.0, capacity=60.0, phases=(Phase(start=60, length=30, down=True),))
STORM = Scenario(rate=50.0, duration=300.0, arrivals="constant", place="call", other_side=SIDE)
POLICY = RetryPolicy(max_attempts=4, base_delay=0.5, backoff="exponential", jitter="full")


def charts() -> dict[str, str]:
    """Return the SVG of each file."""
    protected = {
        "retry-storm-budget": ("with a retry budget", {"budget": Budget(20, 4)}),
        "retry-storm-breaker": ("with a circuit breaker", {"breaker": BreakerSettings(consecutive=5, open_for=10)}),
    }
    drawn = {"retry-storm.svg": _chart(STORM, "Four attempts, down for 30 s: the load stays after the outage")}
    for name, (what, settings) in protected.items():
        drawn[f"{name}.svg"] = _chart(replace(STORM, **settings), f"The same outage {what}")
    drawn["choose-a-policy.svg"] = _tutorial_chart()
    return drawn


def _tutorial_chart() -> str:
    """Return what `outlast simulate --scenario outage.toml --svg` draws for the file on the page."""
    page = (DOCS / "tutorial" / "choose-a-policy.md").read_text("utf-8")
    [text] = re.findall(r"^```toml outage.toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    settings = tomllib.loads(text)
    name = settings.pop("policy")
    return simulate(name, Scenario.from_settings(settings), name=name).svg()


def _chart(scenario: Scenario, title: str) -> str:
    return simulate(POLICY, scenario, runs=1, seed=1).svg(title)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in charts().items():
        (folder / name).write_text(text, "utf-8")
        print(folder / name)
