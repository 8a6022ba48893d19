"""smtplib and ftplib against servers that reply with the codes that mail and file servers really use."""

from __future__ import annotations

import ftplib
import io
import smtplib
from functools import partial
from typing import Any

from corpus.case import Case, World, caught
from outlast import Category as C
from outlast import Origin
from servers.replies import replying

_SMTP = {
    "EHLO": "250-mail.test\n250 AUTH PLAIN",
    "MAIL": "250 ok",
    "RCPT": "250 ok",
    "DATA": "354 go on",
    ".": "250 queued",
    "AUTH": "235 welcome",
    "QUIT": "221 bye",
}
_FTP = {"USER": "331 password", "PASS": "230 in", "TYPE": "200 ok", "QUIT": "221 bye", "RETR": "150 opening"}


def send(replies: dict[str, str], greeting: str, world: World) -> BaseException:
    with replying(greeting, {**_SMTP, **replies}, "250 ok") as address:
        return caught(_deliver, address)


def _deliver(address: tuple[str, int]) -> None:
    with smtplib.SMTP(*address, local_hostname="client.test", timeout=5) as mail:
        mail.login("user", "password")
        mail.sendmail("a@client.test", ["b@mail.test"], "Subject: x\r\n\r\nhello\r\n")


def send_to_many(world: World) -> BaseException:
    """Every recipient is refused, one for now and one for good."""

    def deliver(address: tuple[str, int]) -> None:
        with smtplib.SMTP(*address, local_hostname="client.test", timeout=5) as mail:
            mail.sendmail("a@client.test", ["busy@mail.test", "nobody@mail.test"], "Subject: x\r\n\r\nhello\r\n")

    mixed = {"RCPT": "450 4.2.1 busy", "RCPT TO:<NOBODY@MAIL.TEST>": "550 5.1.1 user unknown"}
    with replying("220 mail.test", _SMTP | mixed, "250 ok") as address:
        return caught(deliver, address)


def retrieve(replies: dict[str, str], greeting: str, world: World) -> BaseException:
    with replying(greeting, {**_FTP, **replies}, "502 not implemented") as address:
        return caught(_fetch, address)


def _fetch(address: tuple[str, int]) -> None:
    with ftplib.FTP(timeout=5) as files:
        files.connect(*address)
        files.login("user", "password")
        files.retrbinary("RETR file.csv", io.BytesIO().write)


# Command and reply, category, code.
SMTP: dict[str, tuple[dict[str, str], C, str | None]] = {
    "421 at MAIL": ({"MAIL": "421 4.3.2 service not available, closing channel"}, C.API_TEMPORARY, "421"),
    "450 mailbox busy": ({"RCPT": "450 4.2.1 mailbox busy, try again later"}, C.API_TEMPORARY, "450"),
    "451 greylisted": ({"RCPT": "451 4.7.1 greylisted, try again in 5 minutes"}, C.API_TEMPORARY, "451"),
    "452 no room": ({"DATA": "452 4.3.1 insufficient system storage"}, C.API_TEMPORARY, "452"),
    "454 authentication down": ({"AUTH": "454 4.7.0 temporary authentication failure"}, C.API_TEMPORARY, "454"),
    "530 authentication required": ({"MAIL": "530 5.7.0 authentication required"}, C.AUTHENTICATION, "530"),
    "535 wrong password": ({"AUTH": "535 5.7.8 authentication credentials invalid"}, C.AUTHENTICATION, "535"),
    "550 no such user": ({"RCPT": "550 5.1.1 user unknown"}, C.NOT_FOUND, "550"),
    "550 refused by policy": ({"RCPT": "550 5.7.1 relaying denied"}, C.ACCESS_DENIED, "550"),
    "550 mailbox disabled": ({"RCPT": "550 5.2.1 mailbox disabled"}, C.NOT_FOUND, "550"),
    "551 not local": ({"RCPT": "551 user not local"}, C.NOT_FOUND, "551"),
    "552 message too big": ({".": "552 5.3.4 message size exceeds fixed maximum"}, C.INVALID_PARAMETERS, "552"),
    "552 too big, in words": ({".": "552 message size exceeds maximum"}, C.INVALID_PARAMETERS, "552"),
    "552 storage used up": ({".": "552 exceeded storage allocation"}, C.QUOTA_EXHAUSTED, "552"),
    "552 mailbox full": ({"RCPT": "552 5.2.2 mailbox full"}, C.QUOTA_EXHAUSTED, "552"),
    "553 bad address": ({"RCPT": "553 5.1.3 bad recipient address syntax"}, C.INVALID_PARAMETERS, "553"),
    "554 spam": ({".": "554 5.7.1 message refused as spam"}, C.ACCESS_DENIED, "554"),
    "554 no such recipient": ({".": "554 5.1.1 no valid recipients"}, C.NOT_FOUND, "554"),
    "421 too many connections": ({"MAIL": "421 4.7.0 too many connections from your IP"}, C.RATE_LIMIT, "421"),
    "450 too fast": ({"RCPT": "450 4.2.1 receiving mail too quickly"}, C.RATE_LIMIT, "450"),
    "451 local error": ({".": "451 4.3.0 local error in processing"}, C.API_TEMPORARY, "451"),
    "452 mailbox full for now": ({"RCPT": "452 4.2.2 over quota"}, C.API_TEMPORARY, "452"),
    "500 not understood": ({"MAIL": "500 5.5.2 syntax error"}, C.INVALID_PARAMETERS, "500"),
    "503 out of order": ({"RCPT": "503 5.5.1 need MAIL first"}, C.INVALID_PARAMETERS, "503"),
    "534 stronger authentication": ({"AUTH": "534 5.7.9 mechanism too weak"}, C.AUTHENTICATION, "534"),
    "501 bad sender": ({"MAIL": "501 5.1.7 bad sender address syntax"}, C.INVALID_PARAMETERS, "501"),
    "hangs up": ({"MAIL": ""}, C.NETWORK, None),
}
SMTP_RETRIED = {C.API_TEMPORARY, C.NETWORK, C.RATE_LIMIT}

FTP: dict[str, tuple[dict[str, str], C, str | None]] = {
    "421 too many users": ({"USER": "421 too many users, try again later"}, C.API_TEMPORARY, "421"),
    "425 no data connection": ({"EPSV": "425 can't open data connection", "PASV": "425 no"}, C.NETWORK, "425"),
    "450 file busy": (
        {"EPSV": "450 file unavailable, busy", "PASV": "450 file unavailable, busy"},
        C.API_TEMPORARY,
        "450",
    ),
    "530 wrong password": ({"PASS": "530 login incorrect"}, C.AUTHENTICATION, "530"),
    "550 no such file": ({"TYPE": "550 file.csv: no such file or directory"}, C.NOT_FOUND, "550"),
    "550 permission denied": ({"TYPE": "550 file.csv: permission denied"}, C.ACCESS_DENIED, "550"),
    "500 syntax": ({"TYPE": "500 what?"}, C.INVALID_PARAMETERS, "500"),
    "nonsense": ({"TYPE": "999 ???"}, C.DATA, None),
    "hangs up": ({"USER": ""}, C.NETWORK, None),
}


def _case(library: str, name: str, make: Any, category: C, code: str | None, origin: Origin | None) -> Case:
    wait = 300 if name == "451 greylisted" else None
    return Case(
        f"standard-{library}/{name}",
        make,
        category,
        category in SMTP_RETRIED,
        retry_after=wait,
        code=code,
        origin=origin,
    )


CASES: list[Case] = [
    *(
        _case("smtplib", name, partial(send, replies, "220 mail.test"), category, code, Origin.MAIL)
        for name, (replies, category, code) in SMTP.items()
    ),
    _case("smtplib", "recipients refused, one for good", send_to_many, C.NOT_FOUND, "550", Origin.MAIL),
    _case("smtplib", "421 at once", partial(send, {}, "421 too busy"), C.API_TEMPORARY, "421", Origin.MAIL),
    _case("smtplib", "554 at once", partial(send, {}, "554 no SMTP here"), C.ACCESS_DENIED, "554", Origin.MAIL),
    *(
        _case("ftplib", name, partial(retrieve, replies, "220 files.test"), category, code, None)
        for name, (replies, category, code) in FTP.items()
    ),
]
