"""dnspython against a name server that fails in every way, and names that cannot be asked for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from corpus.case import Case, World, caught
from outlast import Category as C
from outlast import Origin
from servers.dns_stub import name_server

if TYPE_CHECKING:
    from collections.abc import Callable

RETRIED = {C.NETWORK, C.API_TEMPORARY}


def patience(name: str) -> float:
    """Return the seconds to wait for an answer: few for a name without a proper one, many for the others."""
    return 0.1 if name in {"silent.test", "garbage.test"} else 5.0


def resolve(name: str, port: int) -> object:
    import dns.resolver

    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers, resolver.port = ["127.0.0.1"], port
    resolver.timeout = resolver.lifetime = patience(name)
    return resolver.resolve(name, "A")


def asked(name: str, _: World) -> BaseException:
    with name_server() as port:
        return caught(resolve, name, port)


def asked_directly(name: str, _: World) -> BaseException:
    """Send one question without a resolver, which would go on to the next server."""
    import dns.message
    import dns.query

    with name_server() as port:
        return caught(dns.query.udp, dns.message.make_query(name, "A"), "127.0.0.1", patience(name), port)


def refused(world: World) -> BaseException:
    import dns.message
    import dns.query

    port = int(world.faults.refused_url.rstrip("/").rpartition(":")[2])
    return caught(dns.query.tcp, dns.message.make_query("x.test", "A"), "127.0.0.1", 0.5, port)


def unconfigured(world: World) -> BaseException:
    import dns.resolver

    path = world.folder / "resolv.conf"
    path.write_text("# nobody to ask\n")
    return caught(dns.resolver.Resolver, filename=str(path))


def no_configuration_file(world: World) -> BaseException:
    import dns.resolver

    return caught(dns.resolver.Resolver, filename=str(world.folder / "nothing"))


def named(text: str, _: World) -> BaseException:
    import dns.name

    return caught(dns.name.from_text, text)


def no_such_type(_: World) -> BaseException:
    import dns.rdatatype

    return caught(dns.rdatatype.from_text, "NONSENSE")


ASKED: dict[str, tuple[Callable[[World], BaseException], C, str | None]] = {
    "no such name": (partial(asked, "nxdomain.test"), C.NETWORK, None),
    "no such record": (partial(asked, "empty.test"), C.NOT_FOUND, None),
    "server fails": (partial(asked, "servfail.test"), C.API_TEMPORARY, "SERVFAIL"),
    "server refuses": (partial(asked, "refused.test"), C.ACCESS_DENIED, "REFUSED"),
    "server cannot": (partial(asked, "notimp.test"), C.CONFIGURATION, "NOTIMP"),
    "server does not understand": (partial(asked, "formerr.test"), C.INVALID_PARAMETERS, "FORMERR"),
    "no answer": (partial(asked, "silent.test"), C.NETWORK, None),
    "no answer to one question": (partial(asked_directly, "silent.test"), C.NETWORK, None),
    "only garbage for an answer": (
        partial(asked, "garbage.test"),
        C.NETWORK,
        None,
    ),  # taken for a forgery and passed over
    "answer to one question is garbage": (partial(asked_directly, "garbage.test"), C.DATA, None),
    "refused": (refused, C.NETWORK, "ECONNREFUSED"),
    "no server configured": (unconfigured, C.CONFIGURATION, None),
    "no configuration": (no_configuration_file, C.CONFIGURATION, None),
    "label too long": (partial(named, "x" * 64 + ".test"), C.INVALID_PARAMETERS, None),
    "label empty": (partial(named, "a..test"), C.INVALID_PARAMETERS, None),
    "name too long": (partial(named, "abcdefgh." * 40), C.INVALID_PARAMETERS, None),
    "escape": (partial(named, "a\\999.test"), C.INVALID_PARAMETERS, None),
    "unknown type": (no_such_type, C.INVALID_PARAMETERS, None),
}

CASES: list[Case] = [
    Case(f"dnspython/{name}", make, category, category in RETRIED, code=code, origin=Origin.NETWORK)
    for name, (make, category, code) in ASKED.items()
]
