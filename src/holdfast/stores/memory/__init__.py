"""A store in memory: for tests, and for programs that need not survive their own end."""
