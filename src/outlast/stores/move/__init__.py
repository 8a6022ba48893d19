"""From a SQLite file to PostgreSQL, with everything: a copy that can be resumed, and is checked at its end."""
