"""Several processes on one database: what they share, and what they outlive together."""
