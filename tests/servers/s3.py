"""S3 for tests: moto's server in a thread of this process, on a free port of 127.0.0.1."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any


class S3Server:
    """Answers like S3, keeps everything in memory, and asks nobody else."""

    def __init__(self) -> None:
        self._server: Any = None
        self.endpoint = ""

    def start(self) -> None:
        """Start the server and wait until it answers."""
        from moto import backends
        from moto.server import ThreadedMotoServer

        backends.list_of_moto_modules = _modules  # it looks into all its folders at each request
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.endpoint = f"http://{host}:{port}"

    def stop(self) -> None:
        """End the server and its thread."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def client(self, **config: Any) -> Any:
        """Return a boto3 client for this server; see `s3_client`."""
        return s3_client(self.endpoint, **config)


@cache
def _modules() -> frozenset[str]:
    """Return the names of moto's modules."""
    import moto

    return frozenset(each.name for each in Path(moto.__file__).parent.iterdir() if each.is_dir())


@cache
def _session() -> Any:
    """One session for all clients: the description of the service takes long to load."""
    import boto3

    return boto3.session.Session(
        aws_access_key_id="AKIDEXAMPLE", aws_secret_access_key="secret", region_name="us-east-1"
    )


def s3_client(endpoint: str, **config: Any) -> Any:
    """Return a boto3 S3 client that tries once, with dummy credentials.

    Args:
        endpoint: Address of the server.
        config: More settings for botocore's Config. `credentials=False` leaves the client without any.
    """
    from botocore.config import Config

    credentials = config.pop("credentials", True)
    settings = {"retries": {"total_max_attempts": 1}, "s3": {"addressing_style": "path"}, **config}
    client = _session().client("s3", endpoint_url=endpoint, config=Config(**settings))
    if not credentials:
        client._request_signer._credentials = None
    return client


def aws_client(service: str, endpoint: str) -> Any:
    """Return a boto3 client of any service that tries once, with dummy credentials; moto's server answers for all of them."""
    from botocore.config import Config

    return _session().client(service, endpoint_url=endpoint, config=Config(retries={"total_max_attempts": 1}))
