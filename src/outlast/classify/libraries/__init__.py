"""Categories of the exceptions of foreign libraries: one file per library, loaded when its first error occurs.

To add a library, write a file like the others, add its packages to `PACKAGES`, and add real cases to the corpus. Nothing
here imports the library itself.
"""

from functools import cache
from importlib import import_module

from outlast.classify.libraries import standard
from outlast.classify.libraries.library import ExceptionEntry, Library

PACKAGES = {
    "aiohttp": "aiohttp",
    "amqp": "amqp pika",
    "azure": "azure",
    "botocore": "boto3 botocore s3transfer",
    "celery": "billiard celery kombu",
    "dns": "dns",
    "elasticsearch": "elastic_transport elasticsearch opensearchpy",
    "feedparser": "feedparser",
    "ftplib": "ftplib",
    "google": "google googleapiclient",
    "grpc": "grpc",
    "httplib2": "httplib2",
    "httpx": "httpcore httpcore2 httpx httpx2",
    "kafka": "cimpl confluent_kafka kafka",
    "language_models": "anthropic openai",
    "mail": "imaplib poplib smtplib",
    "paramiko": "paramiko",
    "playwright": "playwright",
    "psycopg": "asyncpg psycopg psycopg2 psycopg_pool",
    "pymongo": "bson gridfs pymongo",
    "pymysql": "MySQLdb asyncmy mysql pymysql",
    "redis": "redis",
    "requests": "docker requests",
    "selenium": "selenium",
    "slack_sdk": "slack_sdk",
    "sql_services": "clickhouse_connect oracledb snowflake",
    "sqlalchemy": "sqlalchemy",
    "sqlite3": "sqlite3",
    "stripe": "stripe",
    "urllib3": "urllib3",
    "websockets": "websockets",
    "yt_dlp": "yt_dlp",
}
"""Top-level packages by file."""

FILES = {package: file for file, packages in PACKAGES.items() for package in packages.split()}
"""File by top-level package. Other packages are looked up in the standard library's file."""


@cache
def load(file: str) -> Library:
    """Return the library described by a file of this folder."""
    module = import_module(f"{__name__}.{file}")
    library: Library = module.LIBRARY
    return library


@cache
def _entries(file: str) -> dict[str, ExceptionEntry]:
    return load(file).entries()


_STANDARD = standard.LIBRARY.entries()


def entry_of(package: str, name: str) -> ExceptionEntry | None:
    """Return the description of a class, by its top-level package and its name; None if it has none.

    Raises:
        OSError: If the file cannot be read at the moment, for instance because too many files are open.
    """
    file = FILES.get(package)
    entries = _STANDARD if file is None else _entries(file)
    return entries.get(f"{package}.{name}")
