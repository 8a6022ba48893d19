"""Durable tasks: payloads, the children that run them, and what is made of their errors."""
