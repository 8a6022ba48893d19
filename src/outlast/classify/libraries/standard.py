"""The standard library: built-in exceptions, sockets, TLS, HTTP and URLs, processes and futures, parsers."""

import sys
from functools import lru_cache

from outlast.classify.codes import name_of_errno, origin_of_errno, read_proxy_status
from outlast.classify.libraries.library import Found, Library, wrapped
from outlast.classify.safe_access import credentials_in, read_headers, safe_getattr, safe_int, status_of, text_of
from outlast.failure import Category, Evidence, Origin

_EX_TEMPFAIL = 75  # sysexits.h: 'temporary failure; user is invited to retry'
_OUTPUT_LIMIT = 2048


def read_os_error(error: OSError) -> Found:
    """The errno; for a proxy that refused, http.client has no errno, only the proxy's status in the text."""
    number: object = error.errno
    if type(number) is int:
        return _evidence_of_errno(number)
    return read_proxy_status(error, "Tunnel connection failed: ") if type(error) is OSError else None


@lru_cache(maxsize=512)
def _evidence_of_errno(number: int) -> Evidence | None:
    name = name_of_errno(number)
    return Evidence(errno=number, origin=origin_of_errno(name)) if name else None


def read_name_resolution(error: OSError) -> Found:
    """The resolver's error number, such as EAI_NONAME or EAI_AGAIN."""
    return Evidence(category=Category.NETWORK, code=_resolver_code(safe_int(error, "errno")))


def _resolver_code(number: int | None) -> str | None:
    socket = sys.modules.get("socket")  # always loaded if this error exists
    names = [name for name in dir(socket) if name.startswith("EAI_") and getattr(socket, name) == number]
    return names[0] if names else None


def read_tls(error: OSError) -> Found:
    """The TLS reason, such as CERTIFICATE_VERIFY_FAILED; its numbers are not errnos."""
    reason = safe_getattr(error, "reason")
    return Evidence(category=Category.NETWORK, code=reason if isinstance(reason, str) else None)


def read_end_of_file(error: object) -> Found:
    """Whether there is a text: a parser has one, a closed connection (ftplib, multiprocessing) has none."""
    return None if text_of(error) else Evidence(category=Category.NETWORK)


def read_unicode_error(error: object) -> Found:
    """Whether a host name could not be encoded, which is a bad URL and not bad data."""
    if safe_getattr(error, "encoding") == "idna" or "label empty or too long" in text_of(error):
        return Evidence(category=Category.CONFIGURATION)
    return None


def read_buffer_error(error: object) -> Found:
    """Whether confluent-kafka's local queue is full, which is temporary."""
    if text_of(error) == "Local: Queue full":
        return Evidence(category=Category.API_TEMPORARY, origin=Origin.MESSAGING, code="_QUEUE_FULL")
    return None


def read_http_error(error: object) -> Found:
    """Status, headers and URL of a urllib HTTPError; the body is not read."""
    return _read_status(error, "code")


def read_xmlrpc_status(error: object) -> Found:
    """Status, headers and URL of an XML-RPC call that failed with an HTTP error."""
    return _read_status(error, "errcode")


def _read_status(error: object, name: str) -> Evidence | None:
    status = status_of(safe_getattr(error, name))
    if status is None:
        return None
    headers = safe_getattr(error, "headers") or safe_getattr(error, "hdrs")
    sent = credentials_in(None, safe_getattr(error, "url"))
    return Evidence(origin=Origin.HTTP, http_status=status, headers=read_headers(headers), credentials_sent=sent)


def read_process_error(error: object) -> Found:
    """Exit status and output of the process: killed, temporary failure, or its own text."""
    returncode = safe_int(error, "returncode")
    if returncode == -9:  # SIGKILL comes from the kernel when out of memory, or from an operator
        return Evidence(category=Category.SYSTEM, code="SIGKILL")
    if returncode == _EX_TEMPFAIL:
        return Evidence(category=Category.API_TEMPORARY, code="EX_TEMPFAIL")
    output = safe_getattr(error, "stderr") or safe_getattr(error, "output")
    if isinstance(output, bytes):
        output = output[-_OUTPUT_LIMIT:].decode("utf-8", "replace")
    text = output[-_OUTPUT_LIMIT:] if isinstance(output, str) else ""
    return Evidence(body=text, message=f"exit status {returncode}")  # without the command line


LIBRARY = Library(
    title="Python's standard library",
    packages="builtins",
    origin=Origin.PROGRAM,
    origins={
        "http": Origin.HTTP,
        "socket": Origin.NETWORK,
        "ssl": Origin.NETWORK,
        "urllib": Origin.HTTP,
        "xmlrpc": Origin.HTTP,
    },
    categories={
        Category.NETWORK: (
            "ConnectionError TimeoutError asyncio.IncompleteReadError socket.gaierror socket.herror ssl.SSLError "
            "multiprocessing.TimeoutError http.BadStatusLine http.IncompleteRead http.LineTooLong http.NotConnected "
            "http.RemoteDisconnected http.UnknownProtocol http.UnknownTransferEncoding urllib.ContentTooShortError "
            "subprocess.TimeoutExpired BlockingIOError InterruptedError"
        ),
        Category.API_TEMPORARY: "mailbox.ExternalClashError",
        Category.SYSTEM: (
            "MemoryError concurrent.BrokenExecutor concurrent.BrokenProcessPool concurrent.BrokenThreadPool "
            "multiprocessing.ProcessError"
        ),
        Category.NOT_FOUND: "FileNotFoundError ProcessLookupError mailbox.NoSuchMailboxError",
        Category.ACCESS_DENIED: "PermissionError",
        Category.INVALID_PARAMETERS: (
            "FileExistsError IsADirectoryError NotADirectoryError asyncio.LimitOverrunError getopt.GetoptError "
            "argparse.ArgumentError argparse.ArgumentTypeError optparse.OptParseError shutil.SameFileError "
            "ipaddress.AddressValueError ipaddress.NetmaskValueError re.error re.PatternError "
            "calendar.IllegalMonthError calendar.IllegalWeekdayError ctypes.ArgumentError xml.DOMException "
            "mailbox.NotEmptyError"
        ),
        Category.CONFIGURATION: (
            "ImportError configparser.Error http.InvalidURL tomllib.TOMLDecodeError shutil.SpecialFileError "
            "shutil.RegistryError locale.Error zoneinfo.ZoneInfoNotFoundError netrc.NetrcParseError"
        ),
        Category.DATA: (
            "json.JSONDecodeError EOFError UnicodeError _csv.Error xml.ParseError xml.ExpatError xml.SAXException "
            "zlib.error gzip.BadGzipFile zipfile.BadZipFile zipfile.LargeZipFile tarfile.TarError _lzma.LZMAError "
            "binascii.Error binascii.Incomplete struct.error plistlib.InvalidFileException _pickle.PickleError "
            "email.MessageError email.MessageDefect http.CookieError http.UnimplementedFileMode shutil.ReadError "
            "decimal.DecimalException multiprocessing.BufferTooShort mailbox.FormatError statistics.StatisticsError "
            "xmlrpc.ResponseError"
        ),
        Category.AUTHENTICATION: "multiprocessing.AuthenticationError",
    },
    readers={
        "EOFError": read_end_of_file,
        "BufferError": read_buffer_error,
        "OSError": read_os_error,
        "UnicodeError": read_unicode_error,
        "socket.gaierror socket.herror": read_name_resolution,
        "ssl.SSLError": read_tls,
        "urllib.HTTPError": read_http_error,
        "urllib.URLError": wrapped("reason"),
        "subprocess.CalledProcessError": read_process_error,
        "xmlrpc.ProtocolError": read_xmlrpc_status,
    },
    says_nothing=(
        "Exception BaseException ArithmeticError AssertionError AttributeError BufferError BaseExceptionGroup "
        "ExceptionGroup FloatingPointError GeneratorExit IndentationError IndexError KeyError KeyboardInterrupt "
        "LookupError NameError OSError OverflowError RecursionError ReferenceError RuntimeError StopAsyncIteration "
        "StopIteration SyntaxError SystemError SystemExit TabError TypeError UnboundLocalError ValueError "
        "ZeroDivisionError ChildProcessError Warning asyncio.BrokenBarrierError asyncio.CancelledError "
        "asyncio.InvalidStateError concurrent.CancelledError concurrent.Error concurrent.InvalidStateError "
        "http.HTTPException http.CannotSendHeader http.CannotSendRequest http.ImproperConnectionState "
        "http.ResponseNotReady subprocess.SubprocessError subprocess.CalledProcessError urllib.URLError "
        "shutil.Error NotImplementedError _queue.Empty queue.Full asyncio.QueueEmpty asyncio.QueueFull "
        "asyncio.SendfileNotAvailableError asyncio.QueueShutDown queue.ShutDown threading.BrokenBarrierError "
        "PythonFinalizationError _IncompleteInputError pathlib.UnsupportedOperation copy.Error "
        "dataclasses.FrozenInstanceError graphlib.CycleError concurrent._RemoteTraceback "
        "multiprocessing.RemoteTraceback multiprocessing.RemoteError multiprocessing.MaybeEncodingError "
        "mailbox.Error xmlrpc.Error xmlrpc.Fault pickle._Stop shutil._GiveupOnFastCopy socket._GiveupOnSendfile"
    ),
)
