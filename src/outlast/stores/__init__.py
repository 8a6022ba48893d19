"""Where tasks and dead letters are kept: in a SQLite file or in PostgreSQL."""
