"""The words of the documentation: per folder and in total, with and without code blocks.

Generated reference, decisions and the changelog are not counted. `make docs` prints it.
"""

import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
GENERATED = "Made by tools/reference.py"
NOT_COUNTED = ("CHANGELOG.md", "README.ja.md", "docs/decisions/", "docs/reference/cli.md", "docs/reference/api/")


def counted() -> dict[str, str]:
    """Return the text of each page that is counted, by its path."""
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    texts = {str(file.relative_to(ROOT)): file.read_text("utf-8") for file in sorted(files)}
    return {
        name: text for name, text in texts.items() if not name.startswith(NOT_COUNTED) and GENERATED not in text[:400]
    }


def main() -> int:
    """Print a line for each folder, then the total."""
    words: Counter[str] = Counter()
    prose: Counter[str] = Counter()
    for name, text in counted().items():
        folder = name.rpartition("/")[0] or "."
        words[folder] += len(text.split())
        prose[folder] += len(FENCE.sub("", text).split())
    for folder, count in sorted(words.items()):
        print(f"{folder:<18} {count:>7,} words, {prose[folder]:>7,} without code blocks")
    print(f"{'total':<18} {words.total():>7,} words, {prose.total():>7,} without code blocks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
