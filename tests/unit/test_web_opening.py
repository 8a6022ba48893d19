"""A link is opened by a file that nobody else can read."""

import stat
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

from outlast.web.server import Opening

LINK = "http://127.0.0.1:8787/enter?once=secret&x=1"


def test_the_browser_gets_a_file_that_only_this_user_can_read():
    started = []
    with Opening(lambda file: not started.append(file)) as opening:
        assert opening.open(LINK)
        file = Path(unquote(urlsplit(started[0]).path))
        assert "secret" not in started[0]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert f'content="0; url={LINK}"' in unescape(file.read_text("utf-8"))
        opening.forget()
        assert not file.parent.exists()
        assert opening.open(LINK)
        again = Path(unquote(urlsplit(started[1]).path))
        assert again.exists()
    assert not again.parent.exists()


def test_where_nothing_can_be_written_nothing_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    started = []
    assert not Opening(started.append).open(LINK)
    assert started == []
