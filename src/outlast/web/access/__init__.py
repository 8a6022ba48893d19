"""Access control: the middleware before every request, and the ways to authenticate."""
