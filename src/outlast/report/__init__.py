"""Read models: what pages, commands and health checks tell people, made from a store's rows by pure functions."""
