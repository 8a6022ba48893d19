"""Record: what happened, told to whoever listens."""
