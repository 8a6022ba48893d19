"""SQL from named files: one folder per database, one file per query."""

from functools import cache
from importlib.resources import files

__all__ = ["migrations", "queries"]


@cache
def queries(package: str) -> dict[str, str]:
    """Return the queries of a store by the names of their files."""
    return _texts(package, "queries")


@cache
def migrations(package: str) -> dict[int, str]:
    """Return the migrations of a store by their numbers, which are the versions that they lead to."""
    return {int(name.partition("_")[0]): text for name, text in sorted(_texts(package, "migrations").items())}


def _texts(package: str, folder: str) -> dict[str, str]:
    found = files(package).joinpath(folder)
    return {
        entry.name.removesuffix(".sql"): entry.read_text("utf-8")
        for entry in found.iterdir()
        if entry.name.endswith(".sql")
    }
