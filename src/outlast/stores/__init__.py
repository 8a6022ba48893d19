"""The stores for tasks and dead letters: a SQLite file or a PostgreSQL database."""
