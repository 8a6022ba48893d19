"""A monitor of blogs: says what is new, and tells a Slack channel of blogs that stay broken."""
