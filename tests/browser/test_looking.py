"""The audit that all pages pass finds out a page that should not."""

from __future__ import annotations

import pytest

from browser.looking import audit

BAD = """<html lang=en><title>x</title><style>
  body { background: #fff; color: #000; transition: none }
  .grey { color: #777 } .enough { color: #767676 } .half { opacity: .5 } .far { width: 600px }
  .glass { background: rgb(0 0 0 / 50%); color: #888 } input::placeholder { color: #ccc }
  .thin { width: 24px; height: 24px } .short { width: 60px; height: 24px } input.short::placeholder { color: #000 }
</style><body><header></header><nav></nav><main><h1>One</h1><h3>Three</h3>
<p class=grey>grey</p><p class=enough>enough</p><p class=half>half</p><div class=glass>glass</div><div class=far>far</div>
<input class=field placeholder=words><input type=search aria-label=named><p id=a></p><p id=a></p><label for=gone>label</label>
<svg><rect width=100 height=100 fill="#000"></rect><text class=drawn x=10 y=20 fill="#222">drawn</text><text x=12 y=20 fill="#fff">on it</text></svg>
<button class=thin>Pause</button><input class=short aria-label=named placeholder="as long as can be">
<button></button><a href=x></a><table><tr><td>cell</table><img src=data:,><p style="top:0" onclick="1">inline</p></main>"""


pytestmark = pytest.mark.needs("chromium")


def test_an_audit_finds_what_is_wrong(chromium):
    page = chromium.new_page(viewport={"width": 390, "height": 800})
    page.set_content(BAD)
    found = audit(page)
    page.close()
    assert set(found) == {"targets", "contrast", "labels", "ids", "headings", "images", "inline", "outside", "cut"}
    assert [line.split(" ", 2)[1] for line in found["contrast"]] == [
        "p.grey",
        "p.half",
        "div.glass",
        "text.drawn",
        "input.field",
    ]
    assert found["contrast"][0].startswith("4.48:1")
    assert [line.split()[1] for line in found["targets"]] == ["input.field", "input", "button"]
    assert len(found["labels"]) == 5
    assert found["ids"] == ["twice: #a", "for=gone leads nowhere"]
    assert found["headings"] == ["h3 “Three” follows a heading of level 1"]
    assert len(found["images"]) == 3
    assert len(found["inline"]) == 2
    assert found["outside"] == ["the page is 608 wide in a window of 390", "div.far “far” ends at 608"]
    assert [line.split()[0] for line in found["cut"]] == ["button.thin", "placeholder", "text.drawn"]
