"""The tasks of the container: replace them by yours."""

import os

import outlast

app = outlast.App(os.environ.get("OUTLAST_URL", "sqlite:///jobs.db"))


@app.task
def greet(name: str) -> str:
    """Simulate work."""
    return f"hello, {name}"
