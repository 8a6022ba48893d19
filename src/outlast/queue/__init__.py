"""Durable tasks: their definitions and payloads, the worker that runs them, and dead letters."""
