"""Texts that a page has to bear: markup, quotes, other scripts, no end, and secrets."""

SCRIPT = "<script>window.pwned=1</script>"
MARKUP = '"><img src=x onerror="window.pwned=1"><svg/onload=\'window.pwned=1\'>'
NASTY = f"{SCRIPT} {MARKUP} '\"`${{7*7}} {{{{7*7}}}} \u202egnirts desrever\u202c \x1b[31mred\x07 \u200bnothing\ufeff 日本語のエラー 🦊"
LONG = "W" * 900
JAPANESE = "商品の取得に失敗しました"
QUEUE = 'mails/für <b>"alle"</b>?x=1#top%2F&\''
"""A name that has to be quoted in a path, in a query and in markup."""
PAUSED = "night"
RESOURCE = 'api/<i>wetter</i>?a=1&b="2"#%2F\''

SECRETS = (
    "sk-live-4242424242424242SECRETKEY",
    "hunter2-pass-w0rd",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJzZWNyZXQifQ.c2VjcmV0LXNpZ25hdHVyZQ",
    "AKIASECRETSECRET1234",
)
"""None of them may stand on any page, in any answer."""
ADDRESS_WITH_SECRET = f"https://user:{SECRETS[1]}@shop.test/list?token={SECRETS[2]}&page=2"
ERROR_WITH_SECRET = (
    f"GET {ADDRESS_WITH_SECRET} answered 503; sent Authorization: Bearer {SECRETS[2]}, password={SECRETS[1]}"
)
