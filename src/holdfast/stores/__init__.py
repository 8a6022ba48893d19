"""Where tasks and dead letters are kept: in memory, in a SQLite file, in PostgreSQL."""
