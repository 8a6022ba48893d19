"""feedparser: what it found wrong with a feed, kept as `bozo_exception`; trouble on the way there is urllib's or SAX's."""

from outlast.classify.libraries.library import Library
from outlast.failure import Category, Origin

LIBRARY = Library(
    title="feedparser",
    origin=Origin.HTTP,
    says={Category.DATA: "feedparser.ThingsNobodyCaresAboutButMe feedparser.UndeclaredNamespace"},
)
