"""The tasks of the container: replace them by yours."""

import os

import holdfast as hf

app = hf.App(os.environ.get("HOLDFAST_URL", "sqlite:///jobs.db"))


@app.task
def greet(name: str) -> str:
    """Stand in for work."""
    return f"hello, {name}"
