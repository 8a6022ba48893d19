"""A collector of feeds: keeps what they publish in a table, and stops asking those that stay broken."""
