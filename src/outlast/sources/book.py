"""The source book: what is polled, how it is, and what may be done about it by hand."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.classify import classify
from outlast.decide.health import SourceState
from outlast.decide.profiles import PROFILES, Profile
from outlast.errors import ConfigError
from outlast.ports.source_rows import (
    Cycle,
    NewAlert,
    NewSource,
    Poll,
    Source,
    SourceAdded,
    SourceChange,
    SourceFilter,
    Transition,
)
from outlast.ports.store import Store
from outlast.sources import checking, opml, outcomes
from outlast.sources.telling import log, shown, tell

if TYPE_CHECKING:
    from outlast.ports.sources import Change

__all__ = ["SourceBook"]


class SourceBook:
    """The sources of an app; it is its ``app.sources``.

    Args:
        store: Where they are kept.
        profiles: Profiles by name, in which later ones are added.
    """

    def __init__(self, store: Store, profiles: dict[str, Profile] | None = None) -> None:
        """Begin with the profiles that everybody has."""
        self._store = store
        self.profiles = dict(PROFILES) if profiles is None else profiles

    def add(self, url: str, *, profile: str = "feed", name: str = "", selector: str | None = None) -> Source:
        """Add a source, due at once; one whose profile and URL are known is returned as it is.

        Args:
            url: What is polled.
            profile: Name of the profile that judges it.
            name: For people.
            selector: CSS selector of the part of a page that is watched.

        Raises:
            ConfigError: If the URL or the selector is none.
        """
        added = self.add_many([NewSource(url, profile, name, selector)])
        return self.get(added[0].id)

    def add_many(self, sources: Iterable[NewSource]) -> list[SourceAdded]:
        """Add sources, all or none; known ones are answered with ``created=False``.

        Raises:
            ConfigError: If some cannot be used; the message lists all of them.
        """
        given = [each._replace(url=checking.normal_url(each.url)) for each in sources]
        checking.check(given)
        for strange in {each.profile for each in given} - self.profiles.keys():
            known = ", ".join(sorted(self.profiles))
            log.warning("profile %r is none that this app has a monitor for yet; it knows: %s", strange, known)
        return self._store.add_sources(given)

    def import_file(self, path: str | Path, *, profile: str = "feed") -> list[SourceAdded]:
        """Add the sources of an OPML file, or of a list with one URL on each line.

        Raises:
            ConfigError: If the file cannot be read, or some of its sources cannot be used.
        """
        file = Path(path)
        try:
            content = file.read_bytes()
        except OSError as error:
            message = f"{file}: cannot be read: {error.strerror or error}"
            raise ConfigError(message) from error
        if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<", b"\xff\xfe", b"\xfe\xff")):  # also in UTF-16
            return self.add_many(opml.from_opml(content, profile))
        return self.add_many(opml.from_list(content.decode("utf-8", "replace"), profile))

    def get(self, source: int | str) -> Source:
        """Return a source by its number or its URL.

        Raises:
            ConfigError: If there is none, or several profiles have the URL.
        """
        found = self._find(source)
        if len(found) == 1:
            return found[0]
        if found:
            numbers = ", ".join(f"{each.id} ({each.profile})" for each in found)
            message = f"{len(found)} sources have that URL; choose one by its number: {numbers}"
            raise ConfigError(message)
        message = f"there is no source {source}" if isinstance(source, int) else "there is no source with that URL"
        raise ConfigError(message)

    def _find(self, source: int | str) -> list[Source]:
        if isinstance(source, int):
            found = self._store.source(source)
            return [] if found is None else [found]
        return self._store.sources(SourceFilter(url=checking.normal_url(source)))

    def list(
        self,
        *,
        state: SourceState | str | None = None,
        profile: str | None = None,
        text: str | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> list[Source]:
        """Return sources by number.

        Args:
            state: Only those in this state.
            profile: Only those of this profile.
            text: Only those with this text in URL or name.
            after: Only those with larger numbers, for the next page.
            limit: How many at most.
        """
        chosen = None if state is None else SourceState(state)
        return self._store.sources(SourceFilter(profile, chosen, None, text, after, limit))

    def health(self, profile: str | None = None) -> dict[SourceState, int]:
        """Return how many sources are in each state."""
        return self._store.source_counts(profile)

    def history(self, source: int | str, limit: int = 50) -> "Sequence[Poll]":
        """Return what happened to a source, newest first."""
        return self._store.polls(self.get(source).id, limit)

    def cycles(self, profile: str | None = None, limit: int = 20) -> "Sequence[Cycle]":
        """Return the last cycles, newest first."""
        return self._store.cycles(profile, limit)

    def remove(self, source: int | str) -> None:
        """Remove a source and its history; what was told of it is settled by that."""
        found = self.get(source)
        settled = NewAlert(f"source:{found.id}", None, f"{found.name or shown(found)}: removed")
        self._store.remove_sources([found.id], {found.id: settled})

    def enable(self, source: int | str) -> Transition | None:
        """Have a source polled again, its failures forgotten."""
        return self._change(self.get(source).id, outcomes.enabled)

    def disable(self, source: int | str, reason: str = "") -> Transition | None:
        """Have a source polled no more; only `enable` brings it back."""
        return self._change(self.get(source).id, outcomes.disabled(reason))

    def probe(self, source: int | str) -> bool:
        """Have a source polled in the next cycle, also one that a rule has disabled.

        Returns:
            False for one that was disabled by hand: it is not polled before it is enabled.
        """
        written: list[bool] = []

        def change(found: Source, now: object) -> SourceChange | None:
            result = outcomes.probed(found, now)  # type: ignore[arg-type]  # the store's clock
            written[:] = [result is not None]
            return result

        self._change(self.get(source).id, change)
        return written == [True]

    def record_success(self, source: int | str) -> Transition | None:
        """Tell that a source answered, from a program that polls by itself; return what it changed."""
        found = self.get(source)
        return self._change(found.id, outcomes.succeeded_at_once(self._profile(found).rules))

    def record_failure(self, source: int | str, error: BaseException) -> Transition | None:
        """Tell that a source failed, from a program that polls by itself; it counts at once.

        However many report at the same time, every failure is counted and each transition is returned to one of them.
        """
        found = self.get(source)
        return self._change(found.id, outcomes.failed_at_once(self._profile(found).rules, classify(error)))

    def _profile(self, source: Source) -> Profile:
        try:
            return self.profiles[source.profile]
        except KeyError:
            message = f"source {source.id} has the profile {source.profile!r}, which this app does not know"
            raise ConfigError(message) from None

    def _change(self, source_id: int, change: "Change | Callable[..., SourceChange | None]") -> Transition | None:
        transitions = self._store.change_sources({source_id: (None, change)})
        tell(transitions)
        return transitions[0] if transitions else None
