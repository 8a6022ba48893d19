"""feedparser: errors in a feed, kept as `bozo_exception`; other errors come from urllib or SAX."""

from outlast.classify.libraries.library import Library
from outlast.failure import Category, Origin

LIBRARY = Library(
    title="feedparser",
    packages="feedparser",
    origin=Origin.HTTP,
    categories={
        Category.DATA: "ThingsNobodyCaresAboutButMe UndeclaredNamespace",
    },
)
