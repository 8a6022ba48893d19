"""How a process ended, in words."""

import signal

__all__ = ["how_it_ended"]

_MEANINGS = {
    "SIGKILL": "somebody killed it, or the system did for want of memory",
    "SIGSEGV": "a fault in C code",
    "SIGBUS": "a fault in C code, or a mapped file that got shorter",
    "SIGFPE": "a fault in C code",
    "SIGILL": "a fault in C code, or a library built for another processor",
    "SIGABRT": "C code gave up, perhaps for want of memory",
    "SIGXCPU": "it used up its time on the processor",
    "SIGXFSZ": "it wrote a file that is larger than it may",
    "SIGTERM": "somebody asked it to end",
}


def how_it_ended(code: int | None) -> str:
    """Return what an exit code says, such as ``was ended by SIGSEGV (a fault in C code)``.

    Args:
        code: As `subprocess` tells it: a signal is a negative number. None where it is not known.
    """
    if code is None:
        return "ended"
    if code >= 0:
        return f"ended by itself, with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"was ended by signal {-code}"
    return f"was ended by {name} ({_MEANINGS[name]})" if name in _MEANINGS else f"was ended by {name}"
