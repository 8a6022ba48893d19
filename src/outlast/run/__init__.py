"""Retries in this process: the attempt loops, resources, cooldowns and pipelines."""
