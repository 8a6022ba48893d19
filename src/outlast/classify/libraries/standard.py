"""The standard library: built-in exceptions, sockets, TLS, HTTP and URLs, processes and futures, parsers."""

import sys
from functools import lru_cache

from outlast.classify.codes import name_of_errno, origin_of_errno, read_proxy_status
from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import credentials_in, read_headers, safe_getattr, safe_int, status_of, text_of
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found

_EX_TEMPFAIL = 75  # sysexits.h: 'temporary failure; user is invited to retry'
_OUTPUT_LIMIT = 2048


def read_os_error(error: OSError) -> "Found":
    """The errno; for a proxy that refused, http.client has no errno, only the proxy's status in the text."""
    number: object = error.errno
    if type(number) is int:
        return _evidence_of_errno(number)
    return read_proxy_status(error, "Tunnel connection failed: ") if type(error) is OSError else None


@lru_cache(maxsize=512)
def _evidence_of_errno(number: int) -> Evidence | None:
    name = name_of_errno(number)
    return Evidence(errno=number, origin=origin_of_errno(name)) if name else None


def read_name_resolution(error: OSError) -> "Found":
    """The resolver's error number, such as EAI_NONAME or EAI_AGAIN."""
    return Evidence(category=Category.NETWORK, code=_resolver_code(safe_int(error, "errno")))


def _resolver_code(number: int | None) -> str | None:
    socket = sys.modules.get("socket")  # always loaded if this error exists
    names = [name for name in dir(socket) if name.startswith("EAI_") and getattr(socket, name) == number]
    return names[0] if names else None


def read_tls(error: OSError) -> "Found":
    """The TLS reason, such as CERTIFICATE_VERIFY_FAILED; its numbers are not errnos."""
    reason = safe_getattr(error, "reason")
    return Evidence(category=Category.NETWORK, code=reason if isinstance(reason, str) else None)


def read_end_of_file(error: object) -> "Found":
    """Whether there is a text: a parser has one, a closed connection (ftplib, multiprocessing) has none."""
    return None if text_of(error) else Evidence(category=Category.NETWORK)


def read_unicode_error(error: object) -> "Found":
    """Whether a host name could not be encoded, which is a bad URL and not bad data."""
    if safe_getattr(error, "encoding") == "idna" or "label empty or too long" in text_of(error):
        return Evidence(category=Category.CONFIGURATION)
    return None


def read_buffer_error(error: object) -> "Found":
    """Whether confluent-kafka's local queue is full, which is temporary."""
    if text_of(error) == "Local: Queue full":
        return Evidence(category=Category.API_TEMPORARY, origin=Origin.MESSAGING, code="_QUEUE_FULL")
    return None


def read_http_error(error: object) -> "Found":
    """Status, headers and URL of a urllib HTTPError; the body is not read."""
    status = status_of(safe_getattr(error, "code"))
    if status is None:
        return None
    headers = safe_getattr(error, "headers") or safe_getattr(error, "hdrs")
    return Evidence(
        http_status=status,
        headers=read_headers(headers),
        credentials_sent=credentials_in(None, safe_getattr(error, "url")),
    )


def read_xmlrpc_status(error: object) -> "Found":
    """Status, headers and URL of an XML-RPC call that failed with an HTTP error."""
    status = status_of(safe_getattr(error, "errcode"))
    if status is None:
        return None
    return Evidence(
        origin=Origin.HTTP,
        http_status=status,
        headers=read_headers(safe_getattr(error, "headers")),
        credentials_sent=credentials_in(None, safe_getattr(error, "url")),
    )


def read_url_error(error: object) -> "Found":
    """The reason of a URLError, if it is another error."""
    reason = safe_getattr(error, "reason")
    return reason if isinstance(reason, BaseException) else None


def read_process_error(error: object) -> "Found":
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
            "builtins.ConnectionError builtins.TimeoutError asyncio.IncompleteReadError "
            "socket.gaierror socket.herror ssl.SSLError multiprocessing.TimeoutError "
            "http.BadStatusLine http.IncompleteRead http.LineTooLong http.NotConnected http.RemoteDisconnected "
            "http.UnknownProtocol http.UnknownTransferEncoding urllib.ContentTooShortError subprocess.TimeoutExpired "
            "builtins.BlockingIOError builtins.InterruptedError"
        ),
        Category.API_TEMPORARY: "mailbox.ExternalClashError",
        Category.SYSTEM: (
            "builtins.MemoryError concurrent.BrokenExecutor concurrent.BrokenProcessPool concurrent.BrokenThreadPool "
            "multiprocessing.ProcessError"
        ),
        Category.NOT_FOUND: "builtins.FileNotFoundError builtins.ProcessLookupError mailbox.NoSuchMailboxError",
        Category.ACCESS_DENIED: "builtins.PermissionError",
        Category.INVALID_PARAMETERS: (
            "builtins.FileExistsError builtins.IsADirectoryError builtins.NotADirectoryError "
            "asyncio.LimitOverrunError getopt.GetoptError argparse.ArgumentError argparse.ArgumentTypeError "
            "optparse.OptParseError shutil.SameFileError ipaddress.AddressValueError ipaddress.NetmaskValueError re.error "
            "re.PatternError calendar.IllegalMonthError calendar.IllegalWeekdayError ctypes.ArgumentError xml.DOMException "
            "mailbox.NotEmptyError"
        ),
        Category.CONFIGURATION: (
            "builtins.ImportError configparser.Error http.InvalidURL tomllib.TOMLDecodeError "
            "shutil.SpecialFileError shutil.RegistryError locale.Error zoneinfo.ZoneInfoNotFoundError netrc.NetrcParseError"
        ),
        Category.DATA: (
            "json.JSONDecodeError builtins.EOFError builtins.UnicodeError _csv.Error xml.ParseError xml.ExpatError "
            "xml.SAXException zlib.error gzip.BadGzipFile zipfile.BadZipFile zipfile.LargeZipFile "
            "tarfile.TarError _lzma.LZMAError binascii.Error binascii.Incomplete struct.error "
            "plistlib.InvalidFileException _pickle.PickleError email.MessageError email.MessageDefect "
            "http.CookieError http.UnimplementedFileMode shutil.ReadError decimal.DecimalException "
            "multiprocessing.BufferTooShort mailbox.FormatError statistics.StatisticsError xmlrpc.ResponseError"
        ),
        Category.AUTHENTICATION: "multiprocessing.AuthenticationError",
    },
    readers={
        "builtins.EOFError": read_end_of_file,
        "builtins.BufferError": read_buffer_error,
        "builtins.OSError": read_os_error,
        "builtins.UnicodeError": read_unicode_error,
        "socket.gaierror": read_name_resolution,
        "socket.herror": read_name_resolution,
        "ssl.SSLError": read_tls,
        "urllib.HTTPError": read_http_error,
        "urllib.URLError": read_url_error,
        "subprocess.CalledProcessError": read_process_error,
        "xmlrpc.ProtocolError": read_xmlrpc_status,
    },
    says_nothing=(
        "builtins.Exception builtins.BaseException builtins.ArithmeticError builtins.AssertionError "
        "builtins.AttributeError builtins.BufferError builtins.BaseExceptionGroup builtins.ExceptionGroup "
        "builtins.FloatingPointError builtins.GeneratorExit builtins.IndentationError builtins.IndexError "
        "builtins.KeyError builtins.KeyboardInterrupt builtins.LookupError builtins.NameError builtins.OSError "
        "builtins.OverflowError builtins.RecursionError builtins.ReferenceError builtins.RuntimeError "
        "builtins.StopAsyncIteration builtins.StopIteration builtins.SyntaxError builtins.SystemError builtins.SystemExit "
        "builtins.TabError builtins.TypeError builtins.UnboundLocalError builtins.ValueError builtins.ZeroDivisionError "
        "builtins.ChildProcessError builtins.Warning "
        "asyncio.BrokenBarrierError asyncio.CancelledError asyncio.InvalidStateError concurrent.CancelledError "
        "concurrent.Error concurrent.InvalidStateError http.HTTPException http.CannotSendHeader http.CannotSendRequest "
        "http.ImproperConnectionState http.ResponseNotReady subprocess.SubprocessError subprocess.CalledProcessError "
        "urllib.URLError shutil.Error builtins.NotImplementedError _queue.Empty queue.Full asyncio.QueueEmpty "
        "asyncio.QueueFull asyncio.SendfileNotAvailableError asyncio.QueueShutDown queue.ShutDown threading.BrokenBarrierError "
        "builtins.PythonFinalizationError builtins._IncompleteInputError pathlib.UnsupportedOperation copy.Error "
        "dataclasses.FrozenInstanceError graphlib.CycleError concurrent._RemoteTraceback multiprocessing.RemoteTraceback "
        "multiprocessing.RemoteError multiprocessing.MaybeEncodingError mailbox.Error xmlrpc.Error xmlrpc.Fault "
        "pickle._Stop shutil._GiveupOnFastCopy socket._GiveupOnSendfile"
    ),
)
