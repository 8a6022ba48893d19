"""Categories of the exceptions of foreign libraries: one file per library, loaded when its first error occurs.

To add a library, write a file like the others, add its packages to `FILES`, and add real cases to the corpus. Nothing
here imports the library itself.
"""

from functools import cache
from importlib import import_module

from outlast.classify.libraries import standard
from outlast.classify.libraries.library import ExceptionEntry, Library

__all__ = ["FILES", "entry_of", "load"]

FILES: dict[str, str] = {
    "MySQLdb": "pymysql",
    "aiohttp": "aiohttp",
    "amqp": "amqp",
    "anthropic": "language_models",
    "asyncmy": "pymysql",
    "asyncpg": "asyncpg",
    "azure": "azure",
    "billiard": "celery",
    "boto3": "botocore",
    "botocore": "botocore",
    "bson": "pymongo",
    "celery": "celery",
    "cimpl": "confluent_kafka",
    "clickhouse_connect": "sql_services",
    "confluent_kafka": "confluent_kafka",
    "dns": "dns",
    "docker": "requests",
    "elastic_transport": "elasticsearch",
    "elasticsearch": "elasticsearch",
    "feedparser": "feedparser",
    "ftplib": "ftplib",
    "google": "google",
    "googleapiclient": "google",
    "gridfs": "pymongo",
    "grpc": "grpc",
    "httpcore": "httpx",
    "httpcore2": "httpx",
    "httplib2": "httplib2",
    "httpx": "httpx",
    "httpx2": "httpx",
    "imaplib": "mail",
    "kafka": "kafka",
    "kombu": "kombu",
    "mysql": "pymysql",
    "openai": "language_models",
    "opensearchpy": "elasticsearch",
    "oracledb": "sql_services",
    "paramiko": "paramiko",
    "pika": "amqp",
    "playwright": "playwright",
    "poplib": "mail",
    "psycopg": "psycopg",
    "psycopg2": "psycopg",
    "psycopg_pool": "psycopg",
    "pymongo": "pymongo",
    "pymysql": "pymysql",
    "redis": "redis",
    "requests": "requests",
    "s3transfer": "botocore",
    "selenium": "selenium",
    "slack_sdk": "slack_sdk",
    "smtplib": "mail",
    "snowflake": "sql_services",
    "sqlalchemy": "sqlalchemy",
    "sqlite3": "sqlite3",
    "stripe": "stripe",
    "urllib3": "urllib3",
    "websockets": "websockets",
    "yt_dlp": "yt_dlp",
}
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
