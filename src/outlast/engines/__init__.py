"""Integrations with other task engines, which run the tasks while Outlast decides what happens when they fail."""
