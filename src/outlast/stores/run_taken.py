"""What is said of a run whose id is taken."""

from outlast.errors import ConfigError

__all__ = ["run_taken"]


def run_taken(run_id: str) -> ConfigError:
    """Return the error, to be raised."""
    return ConfigError(f"there is a run {run_id} already; every run has an id of its own")
