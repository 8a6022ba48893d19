"""A store in one SQLite file, which many processes of one machine can share."""
