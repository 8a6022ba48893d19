"""How much a page weighs with all that it loads."""

import re

MOST_BYTES = 100_000


def weight(client, path):
    """Return the bytes of a page and of its files, as a browser gets them for the first time."""
    page = client.get(path)
    assert page.status_code == 200, path
    files = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text))
    assert files
    return len(page.content) + sum(len(client.get(file).content) for file in files)
