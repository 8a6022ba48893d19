"""A store in one SQLite file: nothing to install, and many processes of one machine may share it."""
